// The page of runs: one, or several side by side.
import { brief, element, known, ms, percent, spaced } from "./words.js";
import { bandwidth, differences, figures, flatten, histogram, lines, losses, note, pair, roofline, section, settingsTables, sign, sizesTable, stack } from "./sections.js";
import { chart } from "./charts.js";
import { table } from "./tables.js";
import { timeline } from "./timeline.js";

const units = { samples_per_s: "samples/s", sm_clock_mhz: "MHz", power_w: "W", temperature_c: "°C", overlap_ratio: "", loss: "" };
const unitOf = (key) => units[key] ?? (key.endsWith("_ms") ? "ms" : "");
const titles = { step_ms: "Time of a step", exposed_comm_ms: "Exposed communication", overlap_ratio: "Hidden share of communication", compute_ms: "Compute",
  comm_ms: "Communication", idle_ms: "Idle", loss: "Loss", samples_per_s: "Throughput", sm_clock_mhz: "Clock of the device", power_w: "Power",
  temperature_c: "Temperature", lead_ms: "Between steps", data_wait_ms: "Waiting for data", memcpy_ms: "Copies", span_ms: "Work of a step",
  overlap_ms: "Hidden communication", compute_overlap_ratio: "Share of compute beside communication",
  compute_allreduce_ms: "Compute beside all-reduce", compute_reducescatter_ms: "Compute beside reduce-scatter" };
const titleOf = (key) => titles[key] ?? spaced(key);

// A figure over the steps, a line for each rank of each run.
function overSteps(runs, key) {
  const several = runs.length > 1;
  return lines(titleOf(key), unitOf(key), runs.flatMap((run) => run.ranks.filter((rank) => rank[key]).map((rank) => ({
    name: `${several ? `${run.label}, ` : ""}rank ${rank.rank}`, data: rank[key].map((value, i) => [rank.step[i], value]) }))),
  { yAxis: { scale: key !== "overlap_ratio" } });
}

const spread = (runs, key) => histogram(titleOf(key), unitOf(key), runs.map((run) => ({ name: run.label, values: run.ranks.flatMap((rank) => rank[key] ?? []) })));

function verdictOf(label, result, run, several) {
  const first = result.ranks?.[0]?.roofline;
  return [
    several ? element("h3", {}, label) : null,
    run.headline ? element("p", { class: "headline" }, run.headline) : null,
    result.machine?.disturbed ? note(`${result.machine.disturbed}.`) : null,
    result.verdict ? null : note(`No verdict: ${result.verdict_reason ?? "nothing was recorded"}.`),
    figures([
      ["step to step, mean", ms(result.step_ms?.mean)], ["its median", ms(result.step_ms?.p50)], ["floor: without all losses", ms(result.floor_ms)],
      ["of communication hidden", percent(result.overlap_ratio_total)], ["exposed a step", ms(result.exposed_comm_ms?.mean)],
      ["idle a step", ms(result.idle_ms?.mean)], ["samples/s of a rank", brief(result.samples_per_s?.mean)],
      ["of peak arithmetic (MFU)", percent(first?.mfu)],
      ["GEMMs beside communication", known(result.gemm_slowdown?.ratio) ? `× ${brief(result.gemm_slowdown.ratio)}` : "–"],
    ]),
    result.verdict ? losses(result.verdict, several ? `loss-${label}-` : "loss-") : null,
    note(`${result.world_size} ranks on ${result.device ?? "an unknown device"}, ${brief(result.iterations)} iterations ` +
      `(${result.warmup_per_rank} a rank left out as warm-up). Written by ${result.written_by}; ${result.directory}`),
  ];
}

function ranksTable(result) {
  return table("Ranks", [
    { title: "rank", value: (row) => row.rank },
    { title: "iterations", value: (row) => row.iterations },
    ...["step_ms", "compute_ms", "comm_ms", "exposed_comm_ms", "idle_ms", "lead_ms"].map((key) => ({ title: `${titleOf(key).toLowerCase()}, mean ms`, value: (row) => row[key]?.mean })),
    { title: "step p50", value: (row) => row.step_ms?.p50 }, { title: "p99", value: (row) => row.step_ms?.p99 },
    { title: "waits for the last rank", value: (row) => row.causes_ms?.straggler },
    { title: "hidden", value: (row) => row.overlap_ratio?.mean, show: (row) => percent(row.overlap_ratio?.mean) },
  ], result.ranks);
}

function skew(result) {
  if (result.ranks.length < 2) return null;
  const names = result.ranks.map((rank) => `rank ${rank.rank}`);
  return chart("Rank skew: compute, and waiting for the last rank", () => ({
    xAxis: { type: "category", data: names }, yAxis: { type: "value", name: "ms a step", nameLocation: "end", nameGap: 8 },
    series: [{ type: "bar", name: "compute", data: result.ranks.map((rank) => rank.compute_ms?.mean ?? null) },
      { type: "bar", name: "waits for the last rank", data: result.ranks.map((rank) => rank.causes_ms?.straggler ?? null) }],
  }));
}

const points = (run) => run.collective_sizes.map((row) => ({ ...row, rate: row.busbw_gbps, best: row.best_busbw_gbps }));

function collectivesOf(label, result, run, several) {
  const rows = Object.entries(result.collectives ?? {});
  if (!rows.length) return [];
  return [several ? element("h3", {}, label) : null, pair(
    stack("Collectives: hidden and exposed", rows.map(([kind, row]) => ({ name: spaced(kind), parts: { hidden: row.overlap_ms, exposed: row.exposed_ms } }))),
    bandwidth(points(run), "Bandwidth against size (with waiting for other ranks)")), sizesTable(points(run))];
}

const configurationOf = (run) => {
  try { return new Map(flatten(JSON.parse(run.configuration))); } catch { return null; }
};

// Configuration and environment of each run.
function configuration(runs, results) {
  const all = runs.map((run, i) => new Map([...configurationOf(run) ?? [], ...Object.entries(results[i].environment ?? {})]));
  if (!all.some((one) => one.size)) return [note("The run directories hold no config.json.")];
  return settingsTables("Configuration and environment", runs.map((run) => run.label), all);
}

// ---- several ----

// What was compared says how: the page counts nothing anew.
function comparison(data, labels) {
  const { results, comparisons } = data;
  if (!comparisons.length) return null;
  const reference = comparisons[0].reference;
  const titled = (label, count) => (count > 1 ? `${label} (${count} runs)` : label);
  const columns = [{ title: "figure, mean", value: (key) => key, show: (key) => `${titleOf(key)} ${unitOf(key)}` },
    { title: titled(reference, comparisons[0].reference_runs), value: (key) => comparisons[0].metrics[key].reference },
    ...comparisons.flatMap((one) => [
      { title: titled(one.candidate, one.candidate_runs), value: (key) => one.metrics[key].candidate },
      { title: `against ${reference}`, value: (key) => one.metrics[key].delta_percent,
        class: (key) => (["better", "worse"].includes(one.metrics[key].change) ? one.metrics[key].change : ""),
        show: (key) => { const { delta_percent: by, change } = one.metrics[key]; return known(by) ? `${sign(by / 100)}, ${change}` : "–"; },
        tip: (key) => { const row = one.metrics[key];
          return `p = ${brief(row.p_value)}; difference ${brief(row.ci[0])} to ${brief(row.ci[1])}; equal runs differ by ${percent(row.between_runs_percent / 100)}`; } },
    ])];
  return section("comparison", "Comparison", ...comparisons.flatMap((one) => [differences(one), element("p", { class: "headline" }, one.largest_change),
    one.between_runs ? note(one.between_runs) : null]), table("Figures side by side", columns, Object.keys(comparisons[0].metrics)),
    stack("Where a step goes", labels.map((label) => ({ name: label, parts: causes(results.labels[label]) }))));
}

// Means over ranks.
const causes = (result) => {
  const sums = {};
  for (const rank of result.ranks)
    for (const [key, value] of Object.entries(rank.causes_ms ?? {})) sums[key] = (sums[key] ?? 0) + value / result.ranks.length;
  return sums;
};

export function runPage(data) {
  const labels = data.runs.map((run) => run.label), several = labels.length > 1;
  const results = labels.map((label) => data.results.labels[label]);
  const each = (make) => labels.flatMap((label, i) => make(label, results[i], data.runs[i], several));
  const clocks = ["sm_clock_mhz", "power_w", "temperature_c"].map((key) => overSteps(data.runs, key));
  const stride = data.runs[0]?.iterations_per_point;
  return {
    title: labels.join(", "),
    subtitle: several ? `${labels.length} runs` : `run of ${results[0].world_size} ranks on ${results[0].device ?? "an unknown device"}`,
    sections: [
      comparison(data, labels),
      section("verdict", "Verdict", ...each(verdictOf)),
      section("timeline", "Streams and hosts over time", ...labels.flatMap((label, i) => (data.timelines[i].lanes.length
        ? [several ? element("h3", {}, label) : null, timeline(data.timelines[i])] : [note(`${label}: no ranges were recorded.`)]))),
      section("steps", "Over the steps", stride > 1 ? note(`Each point is the mean of ${stride} iterations.`) : null,
        overSteps(data.runs, "step_ms"), pair(overSteps(data.runs, "exposed_comm_ms"), overSteps(data.runs, "overlap_ratio")),
        pair(overSteps(data.runs, "compute_ms"), overSteps(data.runs, "loss")), pair(spread(data.runs, "step_ms"), spread(data.runs, "exposed_comm_ms"))),
      section("causes", "Where a step goes", ...each((label, result) => [result.verdict ? stack(several ? label : "Causes by rank",
        result.ranks.map((rank) => ({ name: `rank ${rank.rank}`, parts: rank.causes_ms ?? {} }))) : null])),
      section("collectives", "Collectives", ...each(collectivesOf)),
      section("roofline", "Compute against the roofline", ...each((label, result) => {
        const shown = roofline(result.ranks[0]?.roofline);
        return shown.length ? [element("h3", {}, `${several ? `${label}, ` : ""}rank ${result.ranks[0].rank}`), ...shown] : [];
      })),
      section("ranks", "Ranks", ...each((label, result) => [several ? element("h3", {}, label) : null, skew(result), ranksTable(result)])),
      section("clocks", "Clocks and power", ...(clocks.some(Boolean) ? [pair(...clocks)] : [note(results[0].clocks_reason ?? "Not measured.")])),
      section("configuration", "Configuration", ...configuration(data.runs, results)),
    ],
  };
}
