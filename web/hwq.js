// The pages of `aorta hwq`: results of run, sweep and run-priority; a comparison of two; the map of queues.
import { brief, bytes, change, counted, element, fileNames, known, ms, percent, spaced } from "./words.js";
import { cumulative, figures, flatten, heat, histogram, lines, note, overCounts, pair, section, settingsTables, sign, stack } from "./sections.js";
import { chart, tip } from "./charts.js";
import { palette } from "./theme.js";
import { dataTable, table, tableNamed } from "./tables.js";

const us = (value) => (known(value) ? `${brief(1e3 * value)} µs` : "–");
const streamsOf = (count) => counted(count, "stream");
const upper = { nameLocation: "end", nameGap: 8, nameTextStyle: { align: "left" } };

const overStreams = (title, unit, rows, yAxis) => overCounts(title, unit, "streams", rows, yAxis);
// Times that differ by more than a factor of 50 need a logarithmic axis.
const timeAxis = (rows) => {
  const values = rows.flatMap((row) => row.data.map(([, y]) => y)).filter((value) => value > 0);
  return Math.max(...values) > 50 * Math.min(...values) ? { type: "log", min: null } : {};
};

// ---- results ----

const isSweep = (data) => Boolean(data.analysis);
const nameOf = (results) => {
  const several = new Set(results.map((one) => one.workload_name)).size > 1;
  return (one) => (several ? `${one.workload_name}, ${streamsOf(one.stream_count)}` : streamsOf(one.stream_count));
};

function verdict(data, results) {
  const [one] = results;
  if (isSweep(data)) {
    const peak = results.find((row) => row.stream_count === data.analysis.peak_stream_count) ?? one;
    return [element("p", { class: "headline" }, `${data.headline}.`), note(`Limit with ${streamsOf(peak.stream_count)}: ${peak.limit.text ?? "not known"}.`)];
  }
  if (results.length > 1) {
    const limits = data.facts.filter(({ finding, text }) => finding === "limits" && text);
    return [element("p", { class: "headline" }, `${data.headline}.`), limits.length ? note(`Limits, most frequent first: ${limits.map(({ text }) => spaced(text)).join(", ")}.`) : null];
  }
  return [element("p", { class: "headline" }, `${one.headline}.`),
    figures([["iteration, median", ms(one.latency_ms.p50)], ["iteration, p95", ms(one.latency_ms.p95)], ["iteration, p99", ms(one.latency_ms.p99)],
      ["throughput", `${brief(one.throughput)} ${one.throughput_unit}`], ["launches per second", brief(one.figures.launches_per_second?.value)],
      ["switch to another stream", us(one.switch_latency.estimated_switch_overhead_ms)], ["busy", percent(one.limit.busy_share)], ["verification", one.verified ?? "–"]]),
    ...one.findings.filter((text) => !one.headline.endsWith(text)).map((text) => note(`${text}.`))];
}

const summaryTable = (data, results) => dataTable(tableNamed(data, "results"), results, [], [{ title: "iterations", value: (row) => row.iteration_times_ms.length },
  { title: "limit", value: (row) => row.limit.by && spaced(row.limit.by) }, { title: "simulated", value: (row) => (row.simulated ? "yes" : "") }]);

function scaling(data) {
  if (!isSweep(data)) return [];
  const { results, analysis } = data, [one] = results;
  // The line of linear scaling leaves the chart where it is far above the measured one, which would look flat below it.
  const most = 1.25 * Math.max(...results.map((row) => row.throughput).filter(known));
  const linear = results.map((row) => [row.stream_count, (one.throughput / one.stream_count) * row.stream_count]);
  const times = ["p50", "p95", "p99"].map((key) => ({ name: key, data: results.map((row) => [row.stream_count, row.latency_ms[key]]) }));
  return [pair(
    overStreams("Throughput", one.throughput_unit, [{ name: "measured", data: results.map((row) => [row.stream_count, row.throughput]) },
      { name: "linear scaling", data: linear, lineStyle: { type: "dashed", width: 1 }, symbolSize: 4 }], { max: Number(most.toPrecision(2)), axisLabel: { showMaxLabel: false }, ...upper }),
    overStreams("Efficiency: throughput per stream, relative to the first count", "share", [{ name: "efficiency", data: analysis.stream_counts.map((count, i) => [count, analysis.efficiencies[i]]) }],
      { ...upper, axisLabel: { formatter: (value) => percent(value) } }),
    overStreams("Iteration time", "ms", times, { ...timeAxis(times), ...upper }),
    overStreams("Switch to another stream, and gap on one stream", "µs", [
      { name: "switch (probe)", data: results.map((row) => [row.stream_count, 1e3 * row.switch_latency.estimated_switch_overhead_ms]) },
      { name: "gap on one stream", data: results.map((row) => [row.stream_count, 1e3 * row.switch_latency.intra_stream_gap_ms]) }]))];
}

const gapsTable = (results) => table("Gaps and switches, µs", [{ title: "workload", value: (row) => row.workload_name }, { title: "streams", value: (row) => row.stream_count, id: true },
  ...[["on one stream", "intra_stream_gap_ms"], ["between streams", "inter_stream_gap_ms"], ["switch", "estimated_switch_overhead_ms"], ["probe on one stream", "probe_intra_stream_gap_ms"],
    ["probe over streams", "probe_inter_stream_gap_ms"]].map(([title, key]) => ({ title, value: (row) => (known(row.switch_latency[key]) ? 1e3 * row.switch_latency[key] : null) })),
  { title: "gaps waiting for the host", value: (row) => (row.switch_latency.host_gaps?.inter_stream_samples ?? 0) + (row.switch_latency.host_gaps?.intra_stream_samples ?? 0) },
  { title: "reason", value: (row) => row.switch_latency.reason }], results);

function verification(results) {
  const asked = results.filter((row) => row.verified);
  if (!asked.length) return [note("Not verified. --verify compares the results with a plain computation.")];
  return [table("Verification", [{ title: "workload", value: (row) => row.workload_name }, { title: "streams", value: (row) => row.stream_count, id: true },
    { title: "result", value: (row) => row.verified, class: (row) => (row.verified === "passed" ? "better" : "worse") }, { title: "values", value: (row) => row.figures.verified_values?.value },
    { title: "largest error / tolerance", value: (row) => row.figures.verified_worst?.value }, { title: "at", value: (row) => row.metadata?.verification?.worst_at },
    { title: "got", value: (row) => row.metadata?.verification?.worst_got }, { title: "expected", value: (row) => row.metadata?.verification?.worst_expected }], asked)];
}

function figuresTable(results, name) {
  const keys = [...new Set(results.flatMap((row) => Object.keys(row.figures)))];
  return table("Figures", [{ title: "figure", value: (key) => key, show: spaced }, ...results.map((row) => ({ title: name(row), value: (key) => row.figures[key]?.value, tip: (key) => row.figures[key]?.reason })),
    { title: "unit", id: true, value: (key) => results.find((row) => row.figures[key])?.figures[key].unit }], keys);
}

export function hwqPage(data) {
  const results = data.results.results ?? [data.results], name = nameOf(results), [one] = results;
  const shown = results.slice(0, 12), workloads = [...new Set(results.map((row) => row.workload_name))];
  const values = shown.map((row) => ({ name: name(row), values: row.iteration_times_ms }));
  return {
    title: workloads.length > 1 ? `${workloads.length} workloads` : isSweep(data.results) ? `${one.workload_name}: scaling` : `${one.workload_name} on ${streamsOf(one.stream_count)}`,
    subtitle: `hwq on ${one.metadata?.device_info?.name ?? "an unknown device"}${results.some((row) => row.simulated) ? "; collectives are simulated by copies" : ""}, ${one.timestamp}`,
    sections: [
      section("verdict", "Verdict", ...verdict(data.results, results), summaryTable(data, results)),
      section("scaling", "Scaling", ...scaling(data.results)),
      section("latency", "Iteration time", pair(cumulative("Iteration time", values), histogram("Iteration time", "ms", values)),
        lines("Iteration time, in order", "ms", shown.map((row) => ({ name: name(row), data: row.iteration_times_ms.map((value, i) => [i, value]) }))),
        lines("Host time to queue an iteration, in order", "ms", shown.map((row) => ({ name: name(row), data: (row.host_launch_ms ?? []).map((value, i) => [i, value]) })))),
      section("limit", "Limits", stack("Iteration: busy, host work, waiting", results.map((row) => ({ name: name(row), parts: {
        busy: row.limit.busy_share, "host work": row.limit.host_work_share, waiting: row.limit.waiting_share } })), "share of the median iteration"),
      table("Limits", [{ title: "workload", value: (row) => row.workload_name }, { title: "streams", value: (row) => row.stream_count, id: true }, { title: "limited by", value: (row) => row.limit.by && spaced(row.limit.by) },
        { title: "reason", value: (row) => row.limit.text }, { title: "streams at once", value: (row) => row.limit.streams_at_once }, { title: "kernel, mean µs", value: (row) => 1e3 * row.limit.kernel_mean_ms }], results)),
      section("gaps", "Gaps and switches", gapsTable(results)),
      section("verification", "Verification", ...verification(results)),
      section("figures", "Figures", figuresTable(results, name)),
      section("configuration", "Configuration and environment", ...settingsTables("Settings", results.map(name), results.map((row) => new Map(flatten({ ...row.metadata, verification: undefined }).filter(([key]) => key !== "verification"))))),
    ],
  };
}

// ---- two results ----

const sizeOf = (row) => Math.abs(Math.log(row.judged.ratio));

// The change of each pair with its interval.
function changes(results, pairName) {
  const rows = [...results.pairs].sort((a, b) => sizeOf(a) - sizeOf(b)).slice(-40);
  const hue = { regression: palette[3], improvement: palette[2], unchanged: palette[0], uncertain: palette[1] };
  const reach = Math.max(2 * results.threshold, ...rows.map((row) => 1.3 * Math.min(Math.max(row.judged.high - 1, 1 - row.judged.low), 3 * Math.abs(row.judged.ratio - 1) + results.threshold)));
  return chart("Change of the median, with its interval", () => ({
    tooltip: { trigger: "item", formatter: ({ data }) => tip(pairName(data.row), `${sign(data.row.judged.ratio - 1)} (${sign(data.row.judged.low - 1)} to ${sign(data.row.judged.high - 1)}): ${data.row.change}`,
      `${ms(data.row.baseline.p50_ms)}, then ${ms(data.row.test.p50_ms)}`) },
    legend: {}, xAxis: { type: "value", name: "change from the baseline", min: -reach, max: reach, axisLabel: { formatter: sign } },
    yAxis: { type: "category", data: rows.map(pairName) },
    series: [...Object.keys(hue)].filter((key) => rows.some((row) => row.change === key)).flatMap((key) => {
      const some = rows.map((row, y) => ({ row, y })).filter(({ row }) => row.change === key);
      return [{ type: "scatter", name: key, symbolSize: 10, itemStyle: { color: hue[key] }, data: some.map(({ row, y }) => ({ value: [row.judged.ratio - 1, y], row })),
        markLine: { silent: true, symbol: ["none", "none"], label: { show: false }, lineStyle: { type: "solid", width: 2.5, color: hue[key], opacity: 0.6 },
          data: some.map(({ row, y }) => [{ coord: [Math.max(-reach, row.judged.low - 1), y] }, { coord: [Math.min(reach, row.judged.high - 1), y] }]) } }];
    }) }), 130 + 26 * rows.length);
}

export function hwqComparisonPage(data) {
  const { results, parts } = data, labels = fileNames([results.baseline, results.test]), { pairs } = results;
  const several = new Set(pairs.map((row) => row.workload)).size > 1;
  const pairName = (row) => (several ? `${row.workload}, ${streamsOf(row.stream_count)}` : streamsOf(row.stream_count));
  const measured = (row, side) => parts[side].find((one) => one.workload === row.workload && one.stream_count === row.stream_count);
  const ranked = [...pairs].sort((a, b) => sizeOf(b) - sizeOf(a));
  const both = (row) => labels.map((label, i) => ({ name: label, values: measured(row, i)?.times_ms ?? [] }));
  const verdictClass = (row) => ({ regression: "worse", improvement: "better" })[row.change] ?? "";
  const workloads = [...new Set(pairs.map((row) => row.workload))];
  const settings = parts.map((side) => new Map(side.flatMap((one) => Object.entries(one.settings).map(([key, value]) => [parts[0].length > 1 ? `${one.workload}, ${streamsOf(one.stream_count)}: ${key}` : key, value]))));
  return {
    title: labels.join(", "), subtitle: `hwq compare: ${counted(pairs.length, "pair")} of workload and stream count`,
    sections: [
      section("comparison", "Comparison", element("p", { class: "headline" }, results.largest_change), figures([
        ...["regression", "improvement", "uncertain", "unchanged"].map((key) => [key, String(results.changes[key])]), ["threshold", percent(results.threshold)]]),
      changes(results, pairName), table("Pairs, the largest change first", [{ title: "workload", value: (row) => row.workload }, { title: "streams", value: (row) => row.stream_count, id: true },
        ...["p50_ms", "mean_ms", "p95_ms"].flatMap((key) => [...["baseline", "test"].map((side, i) => ({ title: `${spaced(key)}, ${labels[i]}`, value: (row) => row[side][key] })),
          { title: "change, %", value: (row) => change(row.test[key], row.baseline[key]), show: (row) => sign(change(row.test[key], row.baseline[key])), class: key === "p50_ms" ? verdictClass : undefined }]),
        { title: "result", value: (row) => row.change, class: verdictClass, tip: (row) => row.reason }, { title: "slower tail", value: (row) => (row.slower_tail ? "yes" : "") },
        { title: "iterations needed", value: (row) => row.iterations_wanted }], ranked)),
      section("scaling", "Scaling", pair(...workloads.map((workload) => {
        const rows = labels.map((label, i) => ({ name: label, data: pairs.filter((row) => row.workload === workload).map((row) => [row.stream_count, row[i ? "test" : "baseline"].p50_ms]) }));
        return overStreams(`${workload}: median iteration time`, "ms", rows, { ...timeAxis(rows), ...upper });
      }))),
      section("latency", "Iteration time", ...ranked.slice(0, 6).map((row) => pair(cumulative(pairName(row), both(row)), histogram(pairName(row), "ms", both(row)))),
        ranked.length > 6 ? note("The six largest changes are shown.") : null),
      section("configuration", "Settings", ...results.warnings.map((text) => note(text)), ...settingsTables("Settings", labels, settings)),
    ],
  };
}

// ---- the map of queues ----

export function hwqMapPage(data) {
  const { results } = data, names = results.streams.map((one) => one.name), copies = results.copies?.pairs ?? [];
  const meaning = { "#": "waits for", ".": "runs concurrently with", "~": "was late once during" };
  const cell = (column, row) => ({ "#": 1, "~": 0.5, ".": 0 })[letter(column, row)] ?? NaN; // none on the diagonal
  const letter = (column, row) => results.matrix[names.indexOf(row)][names.indexOf(column)];
  const matrix = heat({ xs: names, ys: names, names: ["a kernel on", "a long kernel runs on"], value: cell, colours: ["#56b4e9", "#e69f00", "#d55e00"],
    show: (_, column, row) => ({ "#": "waits", "~": "late once" })[letter(column, row)] ?? "" });
  return {
    title: `${streamsOf(results.stream_count)} on ${counted(results.queue_count, "queue")}`, subtitle: `hwq map of ${results.device_info.name}`,
    sections: [
      section("verdict", "Verdict", element("p", { class: "headline" }, `${results.headline}.`),
      note(results.blocking ? `A queue is blocked ${spaced(results.blocking)}.` : "No queue blocks another stream."), results.stable ? null : note(`${counted(results.unsettled_pairs, "pair")} gave no stable result.`),
      figures([["queues", String(results.queue_count)], ["streams", String(results.stream_count)], ["rounds of probes", String(results.rounds)], ["pairs probed separately", String(results.pairs_asked_alone)]])),
      section("map", "Streams that share a queue", chart("Short kernel on one stream (x) while a long kernel runs on another (y): red waits, blue does not", () => ({ ...matrix, tooltip: { trigger: "item",
        formatter: ({ data: [x, y] }) => tip(`a kernel on ${names[x]} ${meaning[letter(names[x], names[y])]} one on ${names[y]}`, `queues ${results.streams[x].queue} and ${results.streams[y].queue}`) } }), Math.min(760, 200 + 26 * names.length)),
      dataTable(tableNamed(data, "streams"), results.streams.map((row) => ({ ...row, stream: row.name }))),
      table("Roles", [{ title: "role", value: (row) => row.role }, { title: "priority", value: (row) => row.priority }, { title: "streams", value: (row) => row.streams }, { title: "queues", value: (row) => row.queues },
        { title: "most streams on one queue", value: (row) => row.most_streams_on_one }], results.parts)),
      copies.length ? section("copies", "Copies on two streams", chart(`Two copies of ${bytes(results.copies.bytes)}, one after the other and concurrent`, () => ({ xAxis: { type: "category", data: copies.map((row) => `${row.first} + ${row.second}`) },
        yAxis: { type: "value", name: "ms", ...upper }, series: [{ type: "bar", name: "first alone", stack: "alone", data: copies.map((row) => row.first_alone_ms) },
          { type: "bar", name: "second alone", stack: "alone", data: copies.map((row) => row.second_alone_ms) }, { type: "bar", name: "concurrent", data: copies.map((row) => row.together_ms) }] })),
      dataTable(tableNamed(data, "copies"), copies, [], [{ title: "first ends after ms", value: (row) => row.first_end_ms }])) : null,
      section("configuration", "Environment", ...settingsTables("Settings", ["value"], [new Map(flatten({ device: results.device_info, environment: results.environment, collectives: results.comm_backend }))])),
    ],
  };
}
