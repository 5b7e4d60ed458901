// The pages of recordings: `aorta trace analyze --html`, and `compare --html`.
import { brief, bytes, element, known, ms, percent, shortName, spaced } from "./words.js";
import { bandwidth, differences, figures, heat, lines, losses, note, pair, roofline, section, settingsTables, sign, stack } from "./sections.js";
import { chart, tip } from "./charts.js";
import { dataTable, table } from "./tables.js";
import { timeline } from "./timeline.js";
import { flame } from "./flame.js";

const rankName = (rank) => `rank ${rank.rank}`;
// Rows of all ranks in one table, the rank in front where there are several.
const joined = (ranks, key) => ranks.flatMap((rank) => (rank[key] ?? []).map((row) => ({ ...row, rank_: rank.rank })));
const rankColumn = (ranks) => (ranks.length > 1 ? [{ title: "rank", value: (row) => row.rank_ }] : []);
const plain = (title, key) => ({ title, value: (row) => row[key] });

// The tables of a section, with the columns that the data names: those of each rank, and those of all.
const tablesOf = (data, ranks, section) => data.tables.filter((one) => one.section === section).map((one) => (data.results[one.key]
  ? dataTable(one, data.results[one.key]) : dataTable(one, joined(ranks, one.key), rankColumn(ranks))));

const overSteps = (ranks, key, title, unit) => lines(title, unit, ranks.filter((rank) => rank.steps.length > 1)
  .map((rank) => ({ name: rankName(rank), data: rank.steps.map((step) => [step.step, step[key]]) })));

function gemmChart(rows, roofline) {
  const drawn = rows.filter((row) => row.tflops_p50 > 0).sort((a, b) => b.total_ms - a.total_ms).slice(0, 20);
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

function skewCharts(data, ranks) {
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

// All-to-alls with unequal parts: who sends how much to whom.
function pairMap(pairs) {
  if (!pairs.length) return null;
  const of = new Map(pairs.map((one) => [`${one.from} ${one.to}`, one.bytes]));
  const ranksOf = (key) => [...new Set(pairs.map((one) => one[key]))].sort((a, b) => a - b);
  return chart("All-to-alls with unequal parts: bytes from rank to rank", () => heat({ xs: ranksOf("to"), ys: ranksOf("from"), names: ["to rank", "from rank"],
    value: (to, from) => of.get(`${from} ${to}`) ?? NaN, show: bytes, colours: ["#deebf7", "#6baed6", "#08519c"] }), 160 + 26 * Math.min(24, ranksOf("from").length));
}

// Parts of the recording: { title: value of a part } as lines of the busiest rank.
function overTime(ranks) {
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
function memory(data, ranks) {
  const rank = ranks.filter((one) => one.memory_peak).sort((a, b) => b.memory_peak.bytes - a.memory_peak.bytes)[0];
  if (!rank) return [];
  const uses = Object.keys(rank.memory_peak.use_bytes).filter((use) => (rank.by_time ?? []).some((part) => part.use_bytes?.[use] > 0));
  return [note(`Peak: ${bytes(rank.memory_peak.bytes)} allocated${ranks.length > 1 ? ` on ${rankName(rank)}` : ""}, ${ms(rank.memory_peak.at_ms)} after the first work${
    known(rank.memory_peak.reserved_bytes) ? `, of ${bytes(rank.memory_peak.reserved_bytes)} that the allocator holds` : ""}. What stood before the recording is an estimate.`),
  uses.length ? chart("Memory of the device by use", () => ({ zoom: true, xAxis: { type: "value", name: "ms into the recording", min: "dataMin", max: "dataMax" },
    yAxis: { type: "value", axisLabel: { formatter: (value) => bytes(value) } }, tooltip: { valueFormatter: bytes },
    series: uses.map((use) => ({ type: "line", name: use, stack: "all", step: "end", areaStyle: {}, symbol: "none", sampling: undefined,
      data: rank.by_time.map((part) => [part.start_ms, part.use_bytes[use]]) })) }), 360) : null,
  ...tablesOf(data, ranks, "memory")];
}

function queueMap(data, ranks) {
  const bars = ranks.flatMap((rank) => rank.streams.slice(0, 12).map((row) => ({ name: `${ranks.length > 1 ? `r${rank.rank} ` : ""}stream ${row.stream}`,
    parts: { compute: row.compute_ms, communication: row.comm_ms, copies: row.memcpy_ms } }))).slice(0, 24);
  return [stack("What streams do", bars, "ms"), ...tablesOf(data, ranks, "queues"), ranks.some((rank) => rank.queues.length) ? null : note("The file names no hardware queues.")];
}

export function tracePage(data) {
  const results = data.results, ranks = results.ranks, one = ranks[0];
  const unit = results.judged === "steps" ? "a step" : "in the recording";
  const sizes = joined(ranks, "collective_sizes").map((row) => ({ ...row, rate: row.transfer_busbw_gbps ?? row.busbw_gbps, link: row.link_gbps }));
  const mean = (key) => ranks.reduce((sum, rank) => sum + (rank[key] ?? NaN), 0) / ranks.length;
  const hidden = ranks.reduce((sum, rank) => sum + rank.overlap_ms, 0) / ranks.reduce((sum, rank) => sum + rank.comm_ms, 0);
  return {
    title: ranks.length > 1 ? `${ranks.length} recorded ranks` : (one?.file ?? "recording"),
    subtitle: `${one?.device_name ?? "unknown device"}, ${one?.format ?? ""}`,
    sections: [
      section("verdict", "Verdict", data.headline ? element("p", { class: "headline" }, data.headline) : null,
        results.machine?.disturbed ? note(`${results.machine.disturbed}.`) : null,
        results.remark ? note(results.remark) : null,
        figures([[`${results.judged === "steps" ? "step" : "recording"}, mean`, ms(results.judged_ms_mean)], ["floor: without all losses", ms(results.floor_ms)],
          ["of communication hidden", percent(hidden)], ["device busy", percent(mean("busy_ms") / mean("span_ms"))],
          ["of peak arithmetic (MFU)", percent(one?.roofline?.mfu)],
          ["GEMMs beside communication", known(results.gemm_slowdown?.ratio) ? `× ${brief(results.gemm_slowdown.ratio)}` : "–"]]),
        losses(results.verdict, "loss-")),
      section("timeline", "Streams and hosts over time", data.timelines[0].lanes.length ? timeline(data.timelines[0]) : note("No device work.")),
      section("steps", "Over the steps", overSteps(ranks, "span_ms", "Time of a step", "ms"),
        pair(overSteps(ranks, "exposed_comm_ms", "Exposed communication", "ms"), overSteps(ranks, "overlap_ratio", "Hidden share of communication", ""))),
      section("time", "Over the recording", ...overTime(ranks), ...tablesOf(data, ranks, "time")),
      section("memory", "Memory of the device", ...memory(data, ranks)),
      section("causes", "Where the time goes", pair(
        stack(`Devices: work and idle time ${results.judged === "steps" ? "of all steps" : unit}`, ranks.map((rank) => ({ name: rankName(rank),
          parts: { compute: rank.compute_ms - rank.overlap_ms, "hidden communication": rank.overlap_ms, "exposed communication": rank.exposed_comm_ms,
            "exposed copies": rank.exposed_copy_ms, idle: rank.idle_ms } })), "ms"),
        stack("Idle time by cause", ranks.map((rank) => ({ name: rankName(rank), parts: rank.idle_causes_ms ?? {} })), "ms")),
        ...tablesOf(data, ranks, "causes")),
      section("collectives", "Collectives", pair(
        stack("Collectives: hidden and exposed", (one?.collectives ?? []).map((row) => ({ name: spaced(row.kind), parts: { hidden: row.overlap_ms, exposed: row.exposed_ms } })), `ms on ${one ? rankName(one) : ""}`),
        bandwidth(sizes, "Bandwidth against size (waiting left out)")), pairMap(results.rank_pairs ?? []), ...tablesOf(data, ranks, "collectives")),
      section("roofline", "Compute against the roofline", ...(one?.roofline ? roofline(one.roofline) : [])),
      section("gemms", "GEMMs", gemmChart(one?.gemms ?? [], one?.roofline), ...tablesOf(data, ranks, "gemms")),
      section("ranks", "Rank skew", skewCharts(results, ranks), ...(ranks.length > 1 ? tablesOf(data, ranks, "ranks") : [])),
      section("queues", "Streams and queues", ...queueMap(data, ranks)),
      section("flame", "Modules and operations", flame(data.flame)),
      section("kernels", "Kernels and copies", ...tablesOf(data, ranks, "kernels")),
      section("configuration", "Files and environment", table("Files", [plain("rank", "rank"), plain("file", "file"), plain("format", "format"),
        plain("device", "device_name"), plain("span ms", "span_ms"), { title: "clock shift", value: (row) => row.clock?.shift_ns },
        plain("steps by", "steps_by")], ranks), ...tablesOf(data, ranks, "configuration")),
    ],
  };
}

// ---- several recordings ----

const SECTIONS = { timeline: "Timeline", categories: "Work by what it does", operations: "Operations of the framework", subtrees: "Lowest operation or module in common, where others do its work", kernels: "Kernels and copies", gemms: "Matrix products by shape", collectives: "Collectives" };
// Of a row's test: more than chance, or not known to be.
const beyond = (value) => value.p === null || value.p < 0.05;
const chance = (value) => (value.p === null ? value.p_reason ?? "not known" : `p = ${brief(value.p)}${beyond(value) ? "" : ": within the noise"}`);

function comparedTable(key, rows, labels) {
  const cell = (value) => (value.present ? ms(value.ms) : "–");
  return rows.length ? table(`${SECTIONS[key]}, ms`, [{ title: key === "timeline" ? "figure" : "name", value: (row) => row.name, show: (row) => shortName(row.name), tip: (row) => row.name },
    { title: labels[0], value: (row) => (row.base.present ? row.base.ms : null), show: (row) => cell(row.base) },
    ...labels.slice(1).flatMap((label, i) => [{ title: label, value: (row) => (row.tests[i].present ? row.tests[i].ms : null), show: (row) => cell(row.tests[i]) },
      { title: "change, ms", value: (row) => row.tests[i].change_ms, show: (row) => `${row.tests[i].change_ms > 0 ? "+" : ""}${brief(row.tests[i].change_ms)}`, tip: (row) => chance(row.tests[i]) },
      { title: "change", value: (row) => row.tests[i].percent, show: (row) => (known(row.tests[i].percent) ? sign(row.tests[i].percent / 100) : row.tests[i].present && !row.base.present ? "new" : "–") },
      { title: "p", value: (row) => row.tests[i].p, tip: (row) => chance(row.tests[i]) }]),
    ...(key === "subtrees" ? labels.map((label, i) => ({ title: `by, in ${label}`, value: (row) => (i ? row.tests[i - 1] : row.base).below ?? "nothing" })) : []),
    ...(key === "timeline" ? [] : [{ title: `count, ${labels[0]}`, value: (row) => row.base.count }, ...labels.slice(1).map((label, i) => ({ title: `count, ${label}`, value: (row) => row.tests[i].count }))])], rows) : null;
}

// What takes longer and what less, the largest change below the title.
function changeChart(key, rows, labels, per) {
  const most = (row) => Math.max(...row.tests.map((value) => Math.abs(value.change_ms)));
  const drawn = rows.filter((row) => most(row) > 0).sort((a, b) => most(b) - most(a)).slice(0, 14);
  if (!drawn.length) return null;
  return chart(`${SECTIONS[key]}: what changed most`, () => ({
    tooltip: { trigger: "item", formatter: ({ data, seriesName }) => tip(`${data.row.name}`, `${seriesName}: ${data.value > 0 ? "+" : ""}${ms(data.value)} (${ms(data.row.base.ms)} before)`, chance(data.test)) },
    grid: { left: 250 }, legend: {}, xAxis: { type: "value", name: `ms per ${per}, against ${labels[0]}` },
    yAxis: { type: "category", inverse: true, data: drawn.map((row) => shortName(row.name)), axisLabel: { width: 235, overflow: "truncate" } },
    series: labels.slice(1).map((label, i) => ({ type: "bar", name: label, barMaxWidth: 24, data: drawn.map((row) => ({ value: row.tests[i].change_ms, row, test: row.tests[i],
      itemStyle: { opacity: beyond(row.tests[i]) ? 1 : 0.4 } })) })) }), 120 + 30 * drawn.length);
}

const environment = (one) => {
  const [rank] = one.results.ranks;
  return new Map(Object.entries({ ranks: one.results.ranks.length, device: rank?.device_name, format: rank?.format, "steps of rank 0": rank?.steps.length, "steps by": rank?.steps_by,
    streams: rank?.streams.length, "hardware queues": rank?.queues.length, "collective kernels": rank?.collective_sizes?.reduce((sum, row) => sum + row.count, 0),
    "channels of collectives": [...new Set((rank?.collective_sizes ?? []).map((row) => row.channels).filter(known))].join(", ") }).map(([key, value]) => [key, value ?? ""]));
};

// Of subtrees those in which recordings differ: the others are operations.
const shownRows = (key, rows) => (key === "subtrees" ? rows.filter((row) => row.base.below !== undefined) : rows);

export function traceComparisonPage(data) {
  const { results, recordings } = data, labels = recordings.map((one) => one.label);
  const sum = (one, key) => one.results.ranks.reduce((total, rank) => total + (rank[key] ?? 0), 0) / one.results.ranks.length;
  const steps = [results.base, ...results.tests].map((one) => one.steps ?? 1);
  const part = (one, i, keys) => Object.fromEntries(Object.entries(keys).map(([name, value]) => [name, value(one) / steps[i]]));
  const unsure = results.timeline[0]?.tests[0]?.p_reason;
  return {
    title: labels.join(", "), subtitle: `${labels.length} recordings side by side, in ms per ${results.per}`,
    sections: [
      section("comparison", "Comparison", ...results.tests.flatMap((test) => [differences(test), element("p", { class: "headline" }, test.largest_change), test.bandwidth_change ? note(test.bandwidth_change) : null]), unsure ? note(`No p: ${unsure}.`) : null,
        changeChart("timeline", results.timeline, labels, results.per), comparedTable("timeline", results.timeline, labels),
        stack(`Devices: work and idle time, ms per ${results.per}`, recordings.map((one, i) => ({ name: labels[i], parts: part(one, i, {
          compute: (all) => sum(all, "compute_ms") - sum(all, "overlap_ms"), "hidden communication": (all) => sum(all, "overlap_ms"), "exposed communication": (all) => sum(all, "exposed_comm_ms"),
          "exposed copies": (all) => sum(all, "exposed_copy_ms"), idle: (all) => sum(all, "idle_ms") }) })), "ms")),
      ...["categories", "operations", "subtrees", "kernels", "gemms", "collectives"].map((key) => section(key, SECTIONS[key], changeChart(key, shownRows(key, results[key]), labels, results.per), comparedTable(key, shownRows(key, results[key]), labels))),
      section("verdict", "Verdict of each", ...recordings.flatMap((one, i) => [element("h3", {}, labels[i]), one.headline ? element("p", { class: "headline" }, one.headline) : null,
        one.results.verdict ? losses(one.results.verdict, `loss-${i}-`) : null])),
      section("timeline", "Streams and hosts over time", ...recordings.flatMap((one, i) => [element("h3", {}, labels[i]), data.timelines[i].lanes.length ? timeline(data.timelines[i]) : note("No device work.")])),
      section("configuration", "What differs", ...settingsTables("Recordings", labels, recordings.map(environment))),
    ],
  };
}
