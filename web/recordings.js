// The page of recordings: runs of ours and files of others, one or several side by side.
import { brief, bytes, element, known, ms, percent, spaced } from "./words.js";
import { bandwidth, figures, heat, histogram, lines, losses, note, pair, roofline, section, stack } from "./sections.js";
import { comparedSection, comparison, settings, sideLabels } from "./compared.js";
import { chart } from "./charts.js";
import { dataTable, table } from "./tables.js";
import { flame } from "./flame.js";
import { timeline } from "./timeline.js";
import { titleOf, unitOf } from "./figures.js";

const rankName = (rank) => `rank ${rank.rank}`;
// Rows of all ranks in one table, the rank in front where there are several.
const joined = (ranks, key) => ranks.flatMap((rank) => (rank[key] ?? []).map((row) => ({ ...row, rank_: rank.rank })));
const rankColumn = (ranks) => (ranks.length > 1 ? [{ title: "rank", value: (row) => row.rank_ }] : []);
const plain = (title, key) => ({ title, value: (row) => row[key] });

// The tables of a section, with the columns that the data names: those of each rank, and those of all.
const tablesOf = ({ results, tables }, place) => (results ? tables.filter((one) => one.section === place).map((one) => (results[one.key]
  ? dataTable(one, results[one.key]) : dataTable(one, joined(results.ranks, one.key), rankColumn(results.ranks)))) : []);
// Of a table with a line for each step or collective a page may have every n-th.
const everyNote = (results, key, what) => (results?.[`${key}_every`] ? note(`Every ${results[`${key}_every`]}th ${what} is shown.`) : null);
const sumOf = (ranks, key) => ranks.reduce((sum, rank) => sum + (rank[key] ?? NaN), 0);

// ---- one recording; results: of its analysis as a trace, summary: of a run's lines ----

function verdictOf({ results, summary, headline }, prefix) {
  const ranks = results?.ranks ?? [], { verdict, machine } = results ?? summary;
  return [
    headline ? element("p", { class: "headline" }, headline) : null,
    machine?.disturbed ? note(`${machine.disturbed}.`) : null,
    verdict ? null : note(`No verdict: ${summary?.verdict_reason ?? "nothing was recorded"}.`),
    results?.remark ? note(results.remark) : null,
    figures([
      ...(summary ? [["step to step, mean", ms(summary.step_ms?.mean)], ["its median", ms(summary.step_ms?.p50)]]
        : [[`${results.judged === "steps" ? "step to step" : "recording"}, mean`, ms(results.judged_ms_mean)], ["without its recording", ms(results.replay?.unrecorded_ms)]]),
      ["floor: without all losses", ms((summary ?? results).floor_ms)],
      ["of communication hidden", percent(summary ? summary.overlap_ratio_total : results.step_overlap_ratio)],
      ["exposed a step", ms(summary ? summary.exposed_comm_ms?.mean : results.step_exposed_comm_ms)], ["idle a step", ms(summary?.idle_ms?.mean)],
      ["device busy", percent(summary ? sumOf(ranks, "busy_ms") / sumOf(ranks, "span_ms") : results.step_busy_ms / results.judged_ms_mean)], ["samples/s of a rank", brief(summary?.samples_per_s?.mean)],
      ["of peak arithmetic (MFU)", percent(ranks[0]?.roofline?.mfu)],
      ["GEMMs beside communication", known(results?.gemm_slowdown?.ratio) ? `× ${brief(results.gemm_slowdown.ratio)}` : "–"],
    ]),
    verdict ? losses(verdict, prefix) : null,
    summary ? note(`${summary.world_size} ranks on ${summary.device ?? "an unknown device"}, ${brief(summary.iterations)} iterations ` +
      `(${summary.warmup_per_rank} a rank left out as warm-up). Written by ${summary.written_by}; ${summary.directory}`) : null,
  ];
}

const timelineOf = ({ label, timeline: data, summary }) => (data.lanes.length ? timeline(data) : note(summary ? `${label}: no ranges were recorded.` : "No device work."));

function causesOf(one) {
  const { results, summary } = one;
  const ranks = results?.ranks ?? [];
  return [
    summary?.verdict ? stack("Causes by rank", summary.ranks.map((rank) => ({ name: rankName(rank), parts: rank.causes_ms ?? {} }))) : null,
    pair(
      stack(`Devices: work and idle time ${results?.judged === "steps" ? "of all steps" : "in the recording"}`, ranks.map((rank) => ({ name: rankName(rank), parts: {
        compute: rank.compute_ms - rank.overlap_ms, "hidden communication": rank.overlap_ms, "exposed communication": rank.exposed_comm_ms,
        "exposed copies": rank.exposed_copy_ms, idle: rank.idle_ms } })), "ms"),
      stack("Idle time by cause", ranks.map((rank) => ({ name: rankName(rank), parts: rank.idle_causes_ms ?? {} })), "ms")),
    ...tablesOf(one, "causes"),
  ];
}

function collectivesOf(one) {
  const { results, summary } = one, ranks = results?.ranks ?? [], [first] = ranks, sizes = joined(ranks, "collective_sizes");
  const rows = summary ? Object.entries(summary.collectives ?? {}).map(([kind, row]) => ({ kind, ...row })) : first?.collectives ?? [];
  const bars = stack("Collectives: hidden and exposed", rows.map((row) => ({ name: spaced(row.kind), parts: { hidden: row.overlap_ms, exposed: row.exposed_ms } })),
    summary ? "ms a step" : `ms on ${first ? rankName(first) : ""}`);
  return [
    pair(bars, bandwidth(sizes.map((row) => ({ ...row, rate: row.transfer_busbw_gbps, link: row.link_gbps })), "Bandwidth against size (waiting left out)")),
    bandwidth(sizes.map((row) => ({ ...row, rate: row.busbw_gbps, best: row.best_busbw_gbps })), "Bandwidth against size (with waiting for other ranks)"),
    pairMap(results?.rank_pairs ?? []),
    ...tablesOf(one, "collectives"),
  ];
}

function gemmChart(rank) {
  const { gemms = [], roofline } = rank ?? {};
  const drawn = gemms.filter((row) => row.tflops_p50 > 0).sort((a, b) => b.total_ms - a.total_ms).slice(0, 20);
  if (!drawn.length) return null;
  const peak = roofline?.peaks?.tflops, type = roofline?.classes?.gemm && (roofline.largest_losses ?? []).find((row) => row.class === "gemm")?.arithmetic;
  const rate = (row, time) => (known(time) && time > 0 ? row.flops / time / 1e9 : null);
  const series = [{ type: "bar", name: "alone", data: drawn.map((row) => rate(row, row.alone_p50_ms)) },
    { type: "bar", name: "beside collectives", data: drawn.map((row) => rate(row, row.beside_comm_p50_ms)) }];
  if (type && known(peak?.[type])) series[0].markLine = { silent: true, symbol: "none", data: [{ yAxis: peak[type] }], lineStyle: { type: "dashed" },
    label: { formatter: `peak ${type}: ${brief(peak[type])}`, position: "insideEndTop" } };
  return chart("GEMMs: rate alone and beside collectives, those of most time first", () => ({
    xAxis: { type: "category", data: drawn.map((row) => `${row.m}×${row.n}×${row.k}`), axisLabel: { rotate: 35 } },
    yAxis: { type: "value", name: "TFLOP/s", nameLocation: "end", nameGap: 8, max: type && known(peak?.[type]) ? peak[type] : undefined },
    grid: { bottom: 84 }, series }));
}

function skewCharts(data) {
  const ranks = data?.ranks ?? [];
  if (ranks.length < 2) return null;
  const shared = data.shared_collectives ?? [];
  return pair(
    chart("How late each rank was, over all collectives", () => ({ xAxis: { type: "category", data: ranks.map(rankName) },
      yAxis: { type: "value", name: "ms", nameLocation: "end", nameGap: 8 },
      series: [{ type: "bar", name: "late", data: ranks.map((rank) => rank.clock?.late_ms ?? 0) }] })),
    shared.length ? chart("Skew of each collective: last start after the first", () => ({ zoom: shared.length > 40,
      xAxis: { type: "value", name: shared.length > 40 ? "" : "ms into the recording" }, yAxis: { type: "value", name: "ms", nameLocation: "end", nameGap: 8 },
      tooltip: { trigger: "item" },
      series: [...new Set(shared.map((one) => one.last_rank))].map((rank) => ({ type: "scatter", name: `last: rank ${rank}`, symbolSize: 6,
        data: shared.filter((one) => one.last_rank === rank).map((one) => [one.last_start_ms, one.skew_ms]) })) })) : null);
}

function ranksTable(result) {
  return table("Ranks, mean ms a step", [
    { title: "rank", value: (row) => row.rank },
    { title: "iterations", value: (row) => row.iterations },
    ...["step_ms", "compute_ms", "comm_ms", "exposed_comm_ms", "idle_ms", "lead_ms"].map((key) => ({ title: `${titleOf(key).toLowerCase()}`, value: (row) => row[key]?.mean })),
    { title: "step p50", value: (row) => row.step_ms?.p50 }, { title: "p99", value: (row) => row.step_ms?.p99 },
    { title: "waits for the last rank", value: (row) => row.causes_ms?.straggler },
    { title: "hidden", value: (row) => row.overlap_ratio?.mean, show: (row) => percent(row.overlap_ratio?.mean) },
  ], result.ranks);
}

function skew(result) {
  if (result.ranks.length < 2) return null;
  const names = result.ranks.map(rankName);
  return chart("Rank skew: compute, and waiting for the last rank", () => ({
    xAxis: { type: "category", data: names }, yAxis: { type: "value", name: "ms a step", nameLocation: "end", nameGap: 8 },
    series: [{ type: "bar", name: "compute", data: result.ranks.map((rank) => rank.compute_ms?.mean ?? null) },
      { type: "bar", name: "waits for the last rank", data: result.ranks.map((rank) => rank.causes_ms?.straggler ?? null) }],
  }));
}

function ranksOf(one) {
  const { results, summary } = one;
  return [summary ? skew(summary) : null, skewCharts(results), everyNote(results, "shared_collectives", "collective"), summary ? ranksTable(summary) : null,
    ...((results?.ranks ?? []).length > 1 ? tablesOf(one, "ranks") : [])];
}

// All-to-alls with unequal parts: who sends how much to whom.
function pairMap(pairs) {
  if (!pairs.length) return null;
  const of = new Map(pairs.map((one) => [`${one.from} ${one.to}`, one.bytes]));
  const ranksOf = (key) => [...new Set(pairs.map((one) => one[key]))].sort((a, b) => a - b);
  return chart("All-to-alls with unequal parts: bytes from rank to rank", () => heat({ xs: ranksOf("to"), ys: ranksOf("from"), names: ["to rank", "from rank"],
    value: (to, from) => of.get(`${from} ${to}`) ?? NaN, show: bytes, colours: ["#deebf7", "#6baed6", "#08519c"] }), 160 + 26 * Math.min(24, ranksOf("from").length));
}

// Parts of the recording: { title: value of a part } as lines of the busiest rank.
function overTime({ results }) {
  const ranks = results?.ranks ?? [];
  const rank = ranks.filter((one) => one.by_time?.length).sort((a, b) => b.busy_ms - a.busy_ms)[0];
  if (!rank) return [];
  const drawn = (title, unit, values) => lines(`${title}${ranks.length > 1 ? `, ${rankName(rank)}` : ""}`, unit,
    Object.entries(values).map(([name, value]) => ({ name, data: rank.by_time.map((part) => [part.start_ms, value(part)]) })).filter((one) => one.data.some(([, value]) => value > 0)), { xAxis: { name: "ms into the recording", minInterval: 0 } });
  const copied = Object.fromEntries(Object.keys(rank.by_time[0].copied_gbps ?? {}).map((key) => [`copies ${spaced(key)}`, (part) => part.copied_gbps[key]]));
  return [pair(drawn("Busy with, share of each hundredth", "", { compute: (part) => part.compute, communication: (part) => part.comm, overlap: (part) => part.overlap, idle: (part) => part.idle }),
    drawn("Launched and not started", "", { mean: (part) => part.queue_mean, most: (part) => part.queue_max })),
  pair(drawn("From launch to start", "ms", { mean: (part) => part.delay_mean_ms, longest: (part) => part.delay_max_ms }),
    drawn("Bytes a second", "GB/s", { collectives: (part) => part.comm_gbps, ...copied }))];
}

// Stacked by use, with what stood at the peak; of the rank with the highest.
function memory(of) {
  const ranks = of.results?.ranks ?? [];
  const rank = ranks.filter((one) => one.memory_peak).sort((a, b) => b.memory_peak.bytes - a.memory_peak.bytes)[0];
  if (!rank) return [];
  const uses = Object.keys(rank.memory_peak.use_bytes).filter((use) => (rank.by_time ?? []).some((part) => part.use_bytes?.[use] > 0));
  return [note(`Peak: ${bytes(rank.memory_peak.bytes)} allocated${ranks.length > 1 ? ` on ${rankName(rank)}` : ""}, ${known(rank.memory_peak.at_ms) ? `${ms(rank.memory_peak.at_ms)} after the first work` : "before the recording"}${
    known(rank.memory_peak.reserved_bytes) ? `, of ${bytes(rank.memory_peak.reserved_bytes)} that the allocator holds` : ""}. What stood before the recording is an estimate.`),
  uses.length ? chart("Memory of the device by use", () => ({ zoom: true, xAxis: { type: "value", name: "ms into the recording", min: "dataMin", max: "dataMax" },
    yAxis: { type: "value", axisLabel: { formatter: (value) => bytes(value) } }, tooltip: { valueFormatter: bytes },
    series: uses.map((use) => ({ type: "line", name: use, stack: "all", step: "end", areaStyle: {}, symbol: "none", sampling: undefined,
      data: rank.by_time.map((part) => [part.start_ms, part.use_bytes[use]]) })) }), 360) : null,
  ...tablesOf(of, "memory")];
}

function queuesOf(one) {
  const ranks = one.results?.ranks ?? [];
  const bars = ranks.flatMap((rank) => rank.streams.slice(0, 12).map((row) => ({ name: `${ranks.length > 1 ? `r${rank.rank} ` : ""}stream ${row.stream}`,
    parts: { compute: row.compute_ms, communication: row.comm_ms, copies: row.memcpy_ms } }))).slice(0, 24);
  return ranks.length ? [stack("What streams do", bars, "ms"), ...tablesOf(one, "queues"), ranks.some((rank) => rank.queues.length) ? null : note("The file names no hardware queues.")] : [];
}

const filesOf = (one) => (one.results ? [table("Files", [plain("rank", "rank"), plain("file", "file"), plain("format", "format"), plain("device", "device_name"),
  plain("span ms", "span_ms"), { title: "clock shift", value: (row) => row.clock?.shift_ns }, plain("steps by", "steps_by")], one.results.ranks), ...tablesOf(one, "configuration")] : []);

// ---- figures by step: of a run as its lines have them, else as the steps were cut ----

function seriesOf({ iterations, results }) {
  if (iterations) return iterations.ranks;
  return (results?.ranks ?? []).filter((rank) => rank.steps.length > 1).map((rank) => ({ rank: rank.rank, step: rank.steps.map((step) => step.step), step_ms: rank.steps.map((step) => step.span_ms),
    ...Object.fromEntries(["compute_ms", "exposed_comm_ms", "overlap_ratio"].map((key) => [key, rank.steps.map((step) => step[key])])) }));
}

// A figure over the steps, a line for each rank of each recording.
const overSteps = (all, key) => lines(titleOf(key), unitOf(key), all.flatMap((one) => one.series.filter((rank) => rank[key]).map((rank) => ({
  name: `${all.length > 1 ? `${one.label}, ` : ""}${rankName(rank)}`, data: rank[key].map((value, i) => [rank.step[i], value]) }))), { yAxis: { scale: key !== "overlap_ratio" } });
const spread = (all, key) => histogram(titleOf(key), unitOf(key), all.map((one) => ({ name: one.label, values: one.series.flatMap((rank) => rank[key] ?? []) })));

function stepsSection(all) {
  const stride = all[0].iterations?.per_point;
  return section("steps", "Over the steps", stride > 1 ? note(`Each point is the mean of ${stride} iterations.`) : null, all[0].iterations ? null : everyNote(all[0].results?.ranks[0], "steps", "step"),
    overSteps(all, "step_ms"), pair(overSteps(all, "exposed_comm_ms"), overSteps(all, "overlap_ratio")), pair(overSteps(all, "compute_ms"), overSteps(all, "loss")),
    pair(spread(all, "step_ms"), spread(all, "exposed_comm_ms")));
}

function clocksSection(all) {
  if (!all.some((one) => one.summary)) return null;
  const clocks = ["sm_clock_mhz", "power_w", "temperature_c"].map((key) => overSteps(all, key));
  return section("clocks", "Clocks and power", ...(clocks.some(Boolean) ? [pair(...clocks)] : [note(all.find((one) => one.summary).summary.clocks_reason ?? "Not measured.")]));
}

// ---- the page ----

function heads(all, comparison) {
  const [{ label, results, summary }] = all, ranks = results?.ranks ?? [];
  if (all.length > 1) return { title: all.map((one) => one.label).join(", "), subtitle: comparison ? `${all.length} recordings side by side, in ms per ${comparison.per}` : `${all.length} runs` };
  if (summary) return { title: label, subtitle: `run of ${summary.world_size} ranks on ${summary.device ?? "an unknown device"}` };
  return { title: ranks.length > 1 ? `${ranks.length} recorded ranks` : (ranks[0]?.file ?? "recording"), subtitle: `${ranks[0]?.device_name ?? "unknown device"}, ${ranks[0]?.format ?? ""}` };
}

export function recordingsPage(data) {
  const labels = sideLabels(data.comparison), several = data.recordings.length > 1;
  const all = data.recordings.map((one) => ({ ...one, tables: data.tables, series: seriesOf(one) }));
  // A section with what each recording has for it, below its label where there are several.
  const each = (make) => all.flatMap((one, i) => {
    const shown = make(one, several ? `loss-${one.summary ? one.label : i}-` : "loss-").filter(Boolean);
    return several && shown.length ? [element("h3", {}, one.label), ...shown] : shown;
  });
  const compared = (key) => comparedSection(data.comparison, key, labels);
  const rankOne = ({ results, summary }) => results?.ranks[0] ?? summary?.ranks[0];
  return {
    ...heads(all, data.comparison),
    sections: [
      comparison(data, all),
      section("categories", "Work by what it does", ...compared("categories")),
      section("operations", "Operations of the framework", ...compared("operations")),
      section("subtrees", "Same module, different operations", ...compared("subtrees")),
      section("verdict", several ? "Verdict of each" : "Verdict", ...each(verdictOf)),
      section("timeline", "Streams and hosts over time", ...each((one) => [timelineOf(one)])),
      stepsSection(all),
      section("time", "Over the recording", ...each((one) => [...overTime(one), ...tablesOf(one, "time")])),
      section("memory", "Memory of the device", ...each(memory)),
      section("causes", "Where the time goes", ...each(causesOf)),
      section("collectives", "Collectives", ...compared("collectives"), ...each(collectivesOf)),
      section("roofline", "Compute against the roofline", ...each((one) => roofline(rankOne(one)?.roofline, data.tables))),
      section("gemms", "GEMMs", ...compared("gemms"), ...each((one) => [gemmChart(one.results?.ranks[0]), ...tablesOf(one, "gemms")])),
      section("ranks", "Ranks", ...each(ranksOf)),
      section("queues", "Streams and queues", ...each(queuesOf)),
      section("flame", "Modules and operations", ...each((one) => [flame(one.flame)])),
      section("kernels", "Kernels and copies", ...compared("kernels"), ...each((one) => tablesOf(one, "kernels"))),
      clocksSection(all),
      section("configuration", "Configuration", ...settings(all), ...each(filesOf)),
    ],
  };
}
