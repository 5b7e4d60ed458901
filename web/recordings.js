// The page of recordings: runs of aorta train and traces of any program, one or several side by side.
import { brief, byCauseName, bytes, counted, element, fileNames, known, ms, percent, spaced } from "./words.js";
import { bandwidth, heat, histogram, lines, note, pair, roofline, section, stack } from "./sections.js";
import { SECTIONS, comparedSection, comparison, settings, sideLabels } from "./compared.js";
import { chart } from "./charts.js";
import { dataTable, table } from "./tables.js";
import { flame } from "./flame.js";
import { timeline } from "./timeline.js";
import { titleOf, unitOf } from "./figures.js";
import { verdictView } from "./verdict.js";

const rankName = (rank) => `rank ${rank.rank}`;
const rankOne = ({ results, summary }) => results?.ranks[0] ?? summary?.ranks[0];
// Rows of all ranks in one table; several ranks have a column.
const joined = (ranks, key) => ranks.flatMap((rank) => (rank[key] ?? []).map((row) => ({ ...row, rank_: rank.rank })));
const rankColumn = (ranks) => (ranks.length > 1 ? [{ title: "rank", value: (row) => row.rank_, id: true }] : []);
const plain = (title, key) => ({ title, value: (row) => row[key] });

// The tables of a section: of each rank, and of all ranks together.
const tablesOf = ({ results, tables }, place) => (results ? tables.filter((one) => one.section === place).map((one) => (results[one.key]
  ? dataTable(one, results[one.key]) : dataTable(one, joined(results.ranks, one.key), rankColumn(results.ranks)))) : []);
// A page has at most 4000 steps and collectives.
const everyNote = (results, key, what) => (results?.[`${key}_every`] ? note(`The page has every ${results[`${key}_every`]}th ${what}.`) : null);

// ---- one recording; results: its analysis as a trace, summary: the lines of a run ----

function verdictOf({ results, summary, facts }, prefix) {
  const { verdict, verdict_view: view } = results ?? summary, mfu = rankOne({ results, summary })?.roofline?.mfu;
  return [
    view ? verdictView(view, verdict, facts, prefix) : note(`No verdict: ${summary?.verdict_reason ?? "nothing was recorded"}.`),
    known(mfu) ? note(`Model FLOP utilization (MFU): ${percent(mfu)} of the peak rate.`) : null,
    summary ? note(`${counted(summary.world_size, "rank")} on ${summary.device ?? "an unknown device"}, ${counted(summary.iterations, "iteration")}; ` +
      `warm-up: ${summary.warmup_per_rank} per rank; ${brief(summary.samples_per_s?.mean)} samples/s per rank. Written by ${summary.written_by} to ${summary.directory}.`) : null,
  ];
}

const timelineOf = ({ label, timeline: data, summary, number }) => (data.lanes.length ? timeline(data, number) : note(summary ? `${label}: no ranges were recorded.` : "No device work was recorded."));

function causesOf(one) {
  const { results, summary } = one;
  const ranks = results?.ranks ?? [];
  return [
    summary?.verdict ? stack("Causes by rank, per step", summary.ranks.map((rank) => ({ name: rankName(rank), parts: byCauseName(rank.causes_ms) }))) : null,
    pair(
      stack("Device time by rank, whole recording", ranks.map((rank) => ({ name: rankName(rank), parts: {
        compute: rank.compute_ms - rank.overlap_ms, "hidden communication": rank.overlap_ms, "exposed communication": rank.exposed_comm_ms,
        "exposed copies": rank.exposed_copy_ms, idle: rank.idle_ms } })), "ms"),
      stack("Idle time by cause, whole recording", ranks.map((rank) => ({ name: rankName(rank), parts: byCauseName(rank.idle_causes_ms) })), "ms")),
    ...tablesOf(one, "causes"),
  ];
}

function collectivesOf(one) {
  const { results, summary } = one, ranks = results?.ranks ?? [], [first] = ranks, sizes = joined(ranks, "collective_sizes");
  const rows = summary ? Object.entries(summary.collectives ?? {}).map(([kind, row]) => ({ kind, ...row })) : first?.collectives ?? [];
  const bars = stack(`Hidden and exposed collectives, ${summary ? "per step" : `whole recording${ranks.length > 1 ? `, ${rankName(first)}` : ""}`}`, rows.map((row) => ({ name: spaced(row.kind), parts: { hidden: row.overlap_ms, exposed: row.exposed_ms } })),
    summary ? "ms per step" : "ms");
  return [
    pair(bars, bandwidth(sizes.map((row) => ({ ...row, rate: row.transfer_busbw_gbps, link: row.link_gbps })), "Bandwidth by size, without waiting")),
    bandwidth(sizes.map((row) => ({ ...row, rate: row.busbw_gbps, best: row.best_busbw_gbps })), "Bandwidth by size, with waiting for other ranks"),
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
    { type: "bar", name: "during collectives", data: drawn.map((row) => rate(row, row.beside_comm_p50_ms)) }];
  if (type && known(peak?.[type])) series[0].markLine = { silent: true, symbol: "none", data: [{ yAxis: peak[type] }], lineStyle: { type: "dashed" },
    label: { formatter: `peak ${type}: ${brief(peak[type])}`, position: "insideEndTop" } };
  return chart("GEMMs with most time: rate alone and during collectives", () => ({
    xAxis: { type: "category", data: drawn.map((row) => `${row.m}×${row.n}×${row.k}`) },
    yAxis: { type: "value", name: "TFLOP/s", nameLocation: "end", nameGap: 8, max: type && known(peak?.[type]) ? peak[type] : undefined },
    series }));
}

function skewCharts(data) {
  const ranks = data?.ranks ?? [];
  if (ranks.length < 2) return null;
  const shared = data.shared_collectives ?? [];
  return pair(
    chart("Lateness of each rank, all collectives of the recording", () => ({ xAxis: { type: "category", data: ranks.map(rankName) },
      yAxis: { type: "value", name: "ms", nameLocation: "end", nameGap: 8 },
      series: [{ type: "bar", name: "late", data: ranks.map((rank) => rank.clock?.late_ms ?? 0) }] })),
    shared.length ? chart("Skew of each collective: last start minus first start", () => ({ zoom: shared.length > 40,
      xAxis: { type: "value", name: "ms into the recording" }, yAxis: { type: "value", name: "ms", nameLocation: "end", nameGap: 8 },
      tooltip: { trigger: "item" },
      series: [...new Set(shared.map((one) => one.last_rank))].map((rank) => ({ type: "scatter", name: `last: rank ${rank}`, symbolSize: 6,
        data: shared.filter((one) => one.last_rank === rank).map((one) => [one.last_start_ms, one.skew_ms]) })) })) : null);
}

function ranksTable(result) {
  return table("Ranks, mean ms per step", [
    { title: "rank", value: (row) => row.rank, id: true },
    { title: "iterations", value: (row) => row.iterations },
    ...["step_ms", "compute_ms", "comm_ms", "exposed_comm_ms", "idle_ms", "lead_ms"].map((key) => ({ title: `${titleOf(key).toLowerCase()}`, value: (row) => row[key]?.mean })),
    { title: "step p50", value: (row) => row.step_ms?.p50 }, { title: "p99", value: (row) => row.step_ms?.p99 },
    { title: "waiting for the last rank", value: (row) => row.causes_ms?.straggler },
    { title: "hidden", value: (row) => row.overlap_ratio?.mean, show: (row) => percent(row.overlap_ratio?.mean) },
  ], result.ranks);
}

function skew(result) {
  if (result.ranks.length < 2) return null;
  const names = result.ranks.map(rankName);
  return chart("Ranks: compute, and waiting for the last rank", () => ({
    xAxis: { type: "category", data: names }, yAxis: { type: "value", name: "ms per step", nameLocation: "end", nameGap: 8 },
    series: [{ type: "bar", name: "compute", data: result.ranks.map((rank) => rank.compute_ms?.mean ?? null) },
      { type: "bar", name: "waiting for the last rank", data: result.ranks.map((rank) => rank.causes_ms?.straggler ?? null) }],
  }));
}

function ranksOf(one) {
  const { results, summary } = one;
  return [summary ? skew(summary) : null, skewCharts(results), everyNote(results, "shared_collectives", "collective"), summary ? ranksTable(summary) : null,
    ...((results?.ranks ?? []).length > 1 ? tablesOf(one, "ranks") : [])];
}

// Bytes of all-to-alls with unequal parts, from rank to rank.
function pairMap(pairs) {
  if (!pairs.length) return null;
  const of = new Map(pairs.map((one) => [`${one.from} ${one.to}`, one.bytes]));
  const ranksOf = (key) => [...new Set(pairs.map((one) => one[key]))].sort((a, b) => a - b);
  return chart("All-to-alls with unequal parts, bytes from rank to rank", () => heat({ xs: ranksOf("to"), ys: ranksOf("from"), names: ["to rank", "from rank"],
    value: (to, from) => of.get(`${from} ${to}`) ?? NaN, show: bytes, colours: ["#deebf7", "#6baed6", "#08519c"] }), 160 + 26 * Math.min(24, ranksOf("from").length));
}

// Lines over the hundred parts of the recording, for the busiest rank.
function overTime({ results }) {
  const ranks = results?.ranks ?? [];
  const rank = ranks.filter((one) => one.by_time?.length).sort((a, b) => b.busy_ms - a.busy_ms)[0];
  if (!rank) return [];
  const drawn = (title, unit, values) => lines(`${title}${ranks.length > 1 ? `, ${rankName(rank)}` : ""}`, unit,
    Object.entries(values).map(([name, value]) => ({ name, data: rank.by_time.map((part) => [part.start_ms, value(part)]) })).filter((one) => one.data.some(([, value]) => value > 0)), { xAxis: { name: "ms into the recording", minInterval: 0 } });
  const copied = Object.fromEntries(Object.keys(rank.by_time[0].copied_gbps ?? {}).map((key) => [`copies ${spaced(key)}`, (part) => part.copied_gbps[key]]));
  return [pair(drawn("Utilization over time", "share", { compute: (part) => part.compute, communication: (part) => part.comm, overlap: (part) => part.overlap, idle: (part) => part.idle }),
    drawn("Launch queue depth", "launches", { mean: (part) => part.queue_mean, most: (part) => part.queue_max })),
  pair(drawn("Delay from launch to start", "ms", { mean: (part) => part.delay_mean_ms, longest: (part) => part.delay_max_ms }),
    drawn("Bandwidth", "GB/s", { collectives: (part) => part.comm_gbps, ...copied }))];
}

// Allocated memory by use, for the rank with the highest peak.
function memory(one) {
  const ranks = one.results?.ranks ?? [];
  const rank = ranks.filter((each) => each.memory_peak).sort((a, b) => b.memory_peak.bytes - a.memory_peak.bytes)[0];
  if (!rank) return [];
  const uses = Object.keys(rank.memory_peak.use_bytes).filter((use) => (rank.by_time ?? []).some((part) => part.use_bytes?.[use] > 0));
  return [note(`Peak: ${bytes(rank.memory_peak.bytes)} allocated${ranks.length > 1 ? ` on ${rankName(rank)}` : ""}, ${known(rank.memory_peak.at_ms) ? `${ms(rank.memory_peak.at_ms)} after the first work` : "before the recording"}${
    known(rank.memory_peak.reserved_bytes) ? `; the allocator reserved ${bytes(rank.memory_peak.reserved_bytes)}` : ""}. Memory from before the recording is estimated.`),
  uses.length ? chart("Device memory by use", () => ({ zoom: true, xAxis: { type: "value", name: "ms into the recording", min: "dataMin", max: "dataMax" },
    yAxis: { type: "value", axisLabel: { formatter: (value) => bytes(value) } }, tooltip: { valueFormatter: bytes },
    series: uses.map((use) => ({ type: "line", name: use, stack: "all", step: "end", areaStyle: {}, symbol: "none", sampling: undefined,
      data: rank.by_time.map((part) => [part.start_ms, part.use_bytes[use]]) })) }), 360) : null,
  ...tablesOf(one, "memory")];
}

function queuesOf(one) {
  const ranks = one.results?.ranks ?? [];
  const bars = ranks.flatMap((rank) => rank.streams.slice(0, 12).map((row) => ({ name: `${ranks.length > 1 ? `r${rank.rank} ` : ""}stream ${row.stream}`,
    parts: { compute: row.compute_ms, communication: row.comm_ms, copies: row.memcpy_ms } }))).slice(0, 24);
  return ranks.length ? [stack("Work of streams, whole recording", bars, "ms"), ...tablesOf(one, "queues"), ranks.some((rank) => rank.queues.length) ? null : note("The file names no hardware queues.")] : [];
}

const filesOf = (one) => (one.results ? [table("Files", [plain("rank", "rank"), { title: "file", value: (row) => fileNames([row.file ?? ""])[0], tip: (row) => row.file }, plain("format", "format"), plain("device", "device_name"),
  plain("span ms", "span_ms"), { title: "clock shift ns", value: (row) => row.clock?.shift_ns }, plain("steps found by", "steps_by")], one.results.ranks), ...tablesOf(one, "configuration")] : []);

// ---- figures by step: from the lines of a run, else from the steps of the trace ----

function seriesOf({ iterations, results }) {
  if (iterations) return iterations.ranks;
  return (results?.ranks ?? []).filter((rank) => rank.steps.length > 1).map((rank) => ({ rank: rank.rank, step: rank.steps.map((step) => step.step), step_ms: rank.steps.map((step) => step.span_ms),
    ...Object.fromEntries(["compute_ms", "exposed_comm_ms", "overlap_ratio"].map((key) => [key, rank.steps.map((step) => step[key])])) }));
}

// A figure over the steps; one line per rank.
const overSteps = (all, key) => lines(titleOf(key), unitOf(key), all.flatMap((one) => one.series.filter((rank) => rank[key]).map((rank) => ({
  name: `${all.length > 1 ? `${one.label}, ` : ""}${rankName(rank)}`, data: rank[key].map((value, i) => [rank.step[i], value]) }))), { yAxis: { scale: key !== "overlap_ratio" } });
const spread = (all, key) => histogram(titleOf(key), unitOf(key), all.map((one) => ({ name: one.label, values: one.series.flatMap((rank) => rank[key] ?? []) })));

const stepsTable = ({ results }) => table("Steps", [...rankColumn(results?.ranks ?? []), { title: "step", value: (row) => row.step, id: true }, plain("ms", "span_ms"),
  plain("compute ms", "compute_ms"), plain("exposed communication ms", "exposed_comm_ms"), plain("idle ms", "idle_ms")], joined(results?.ranks ?? [], "steps"));

// Fewer steps are a table.
const isLong = (all) => all.some((one) => one.series.some((rank) => rank.step.length > 2));

function stepsSection(all) {
  const stride = all[0].iterations?.per_point;
  if (!isLong(all)) return null;
  return section("steps", "Steps", stride > 1 ? note(`Each point is the mean of ${counted(stride, "iteration")}.`) : null, all[0].iterations ? null : everyNote(all[0].results?.ranks[0], "steps", "step"),
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
  if (all.length > 1) return { title: all.map((one) => one.label).join(", "), subtitle: comparison ? `${counted(all.length, "recording")}, ms per ${comparison.per}` : counted(all.length, "run") };
  if (summary) return { title: label, subtitle: `run of ${counted(summary.world_size, "rank")} on ${summary.device ?? "an unknown device"}` };
  const folder = (ranks[0]?.file ?? "").split("/").slice(0, -1).join("/");
  return { title: ranks.length === 1 ? fileNames([ranks[0].file])[0] : fileNames([folder || "recording"])[0],
    subtitle: `${counted(ranks.length, "rank")}, ${ranks[0]?.device_name ?? "unknown device"}, ${ranks[0]?.format ?? ""}` };
}

export function recordingsPage(data) {
  const labels = sideLabels(data.comparison), several = data.recordings.length > 1;
  const names = fileNames(data.recordings.map((one) => one.label));
  const all = data.recordings.map((one, i) => ({ ...one, label: names[i], number: i, tables: data.tables, facts: data.facts, series: seriesOf(one) }));
  // The parts of a section from each recording; several recordings have headings.
  const each = (make) => all.flatMap((one) => {
    const shown = make(one, several ? `cause-${one.number}-` : "cause-").filter(Boolean);
    return several && shown.length ? [element("h3", {}, one.label), ...shown] : shown;
  });
  const compared = (key) => comparedSection(data.comparison, key, labels);
  return {
    ...heads(all, data.comparison),
    sections: [
      comparison(data, all),
      section("verdict", several ? "Verdict of each recording" : "Verdict", ...each(verdictOf)),
      section("timeline", "Timeline", ...each((one) => [timelineOf(one)])),
      section("categories", SECTIONS.categories, ...compared("categories")),
      section("operations", SECTIONS.operations, ...compared("operations")),
      section("subtrees", SECTIONS.subtrees, ...compared("subtrees")),
      stepsSection(all),
      section("time", "Utilization", ...each((one) => [...overTime(one), ...tablesOf(one, "time"), isLong(all) ? null : stepsTable(one)])),
      section("memory", "Device memory", ...each(memory)),
      section("causes", "Idle time and critical path", ...each(causesOf)),
      section("collectives", "Collectives", ...compared("collectives"), ...each(collectivesOf)),
      section("roofline", "Roofline", ...each((one) => roofline(rankOne(one)?.roofline, data.tables))),
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
