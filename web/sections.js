// What the pages of runs and of recordings share: verdict, losses, roofline, collectives.
import { brief, bytes, element, known, ms, percent, shortName, spaced } from "./words.js";
import { chart, tip } from "./charts.js";
import { palette } from "./theme.js";
import { dataTable, table } from "./tables.js";

export const section = (id, title, ...content) => {
  const shown = content.filter(Boolean);
  return shown.length ? Object.assign(element("section", { id }, element("h2", {}, title), ...shown), { heading: title }) : null;
};
export const note = (text) => element("p", { class: "quiet" }, text);
export const pair = (...charts) => (charts.some(Boolean) ? element("div", { class: "pair" }, ...charts.filter(Boolean)) : null);

const causeOf = (finding) => `${spaced(finding.cause)}${finding.collective ? ` ${spaced(finding.collective)}` : ""}`;

// Figures in boxes; [title, text] each, those that are not known left out.
export const figures = (rows) => element("div", { class: "figures" }, ...rows.filter(([, text]) => text && text !== "–")
  .map(([title, text]) => element("div", { class: "figure" }, element("b", {}, text), element("span", {}, title))));

// What gains next to nothing is folded, and nothing is advised on it, as on the terminal.
export function losses(verdict, prefix) {
  const most = Math.max(1e-12, ...verdict.map((one) => one.gain_share ?? one.share ?? 0));
  const best = Math.max(0, ...verdict.map((one) => one.gain_share ?? 0));
  const matters = (one, least) => !known(one.gain_ms) || one.gain_share >= least || (one.cause === "compute" && best < 0.05);
  const list = (findings) => element("ol", { class: "losses" }, ...findings.map((finding) => {
    const i = verdict.indexOf(finding);
    const id = `${prefix}${finding.cause}${finding.collective ? `-${finding.collective}` : ""}${verdict.findIndex((one) => causeOf(one) === causeOf(finding)) === i ? "" : `-${i}`}`;
    const gains = known(finding.gain_ms);
    const share = gains ? finding.gain_share : finding.share;
    return element("li", { id },
      element("div", {},
        element("span", { class: "gain" }, gains ? `saves ${ms(finding.gain_ms)}` : `costs ${ms(finding.cost_ms)}`),
        element("div", { class: "bar", "aria-hidden": "true" }, element("i", { style: { width: `${Math.max(0, (100 * (share ?? 0)) / most)}%` } })),
        element("span", { class: "quiet" }, `${percent(share)}${gains && finding.cost_ms > 0 ? `; costs ${ms(finding.cost_ms)}` : ""}`)),
      element("div", {},
        element("a", { class: "name", href: `#${id}`, title: "link to this loss" }, causeOf(finding)),
        ` ${finding.evidence ?? ""}`,
        finding.kernel ? element("div", { class: "quiet" }, `kernel ${shortName(finding.kernel)}`) : null,
        finding.advice && matters(finding, 0.02) ? element("div", { class: "advice" }, `try: ${finding.advice}`) : null));
  }));
  const folded = verdict.filter((one) => !matters(one, 0.01));
  return element("div", {}, list(verdict.filter((one) => matters(one, 0.01))), folded.length
    ? element("details", {}, element("summary", {}, `${folded.length} without gain: symptoms, or small`), list(folded)) : null);
}

// A relative change as "+12.3%".
export const sign = (by) => (known(by) ? `${by > 0 ? "+" : ""}${brief(100 * by)}%` : "–");

// The option of a matrix of colours. value(x, y): of a cell, NaN: none; show(value): its text; colours from low to high,
// of `symmetric` around 0.
export function heat({ xs, ys, names, value, show, colours, symmetric }) {
  const cells = xs.flatMap((x, i) => ys.map((y, j) => [i, j, value(x, y)])).filter((cell) => known(cell[2]));
  if (!cells.length) return null;
  const numbers = cells.map((cell) => cell[2]), most = Math.max(...numbers.map(Math.abs), 1e-9);
  const low = symmetric ? -most : Math.min(...numbers), high = symmetric ? most : Math.max(...numbers);
  return { xAxis: { type: "category", data: xs, name: names[0] }, yAxis: { type: "category", data: ys, name: names[1], nameLocation: "end", nameGap: 10, nameTextStyle: { align: "left" } },
    grid: { left: 80, top: 36, right: 30, bottom: 84 },
    visualMap: { min: low, max: high > low ? high : low + 1, calculable: false, orient: "horizontal", left: "center", bottom: 0, itemHeight: 150, inRange: { color: colours } },
    tooltip: { trigger: "item", formatter: ({ data }) => tip(show(data[2], xs[data[0]], ys[data[1]]), `${names[0]}: ${xs[data[0]]}`, `${names[1]}: ${ys[data[1]]}`) },
    series: [{ type: "heatmap", data: cells, label: { show: cells.length <= 150, formatter: ({ data }) => show(data[2], xs[data[0]], ys[data[1]]),
      fontSize: 13, fontWeight: 600, color: "#ffffff", textBorderColor: "#222222", textBorderWidth: 2 } }] };
}

// A figure over a number that grows. rows: [{ name, data: [[x, y], …] }].
export function lines(title, unit, rows, option = {}) {
  const drawn = rows.filter((row) => row.data.some(([, y]) => known(y)));
  if (!drawn.length) return null;
  return chart(title, () => ({ zoom: true, xAxis: { type: "value", min: "dataMin", max: "dataMax", minInterval: 1, ...option.xAxis },
    yAxis: { type: "value", name: unit, nameLocation: "end", nameGap: 8, ...option.yAxis }, series: drawn.map((row) => ({ type: "line", ...row })) }));
}

// How often values lie where. rows: [{ name, values }]; the last bar has all above it.
export function histogram(title, unit, rows, bins = 40) {
  const flat = rows.flatMap((row) => row.values).filter(known).sort((a, b) => a - b);
  if (flat.length < 4) return null;
  const low = flat[0], high = flat[Math.min(flat.length - 1, Math.ceil(flat.length * 0.99))], width = (high - low) / bins || 1;
  const series = rows.map((row) => {
    const counts = new Array(bins).fill(0);
    for (const value of row.values) if (known(value)) counts[Math.min(bins - 1, Math.max(0, Math.floor((value - low) / width)))]++;
    return { type: "bar", name: row.name, data: counts, barCategoryGap: "4%", barGap: "-100%", itemStyle: { opacity: rows.length > 1 ? 0.6 : 1 } };
  });
  return chart(`${title}: distribution (the last bar has all above it)`, () => ({
    xAxis: { type: "category", name: unit, data: series[0].data.map((_, i) => brief(low + (i + 0.5) * width)) },
    yAxis: { type: "value", name: "iterations", nameLocation: "end", nameGap: 8 }, series }));
}

// The share of iterations that take no longer. rows: [{ name, values }], in ms.
export function cumulative(title, rows) {
  const drawn = rows.filter((row) => row.values.length > 3);
  if (!drawn.length) return null;
  const data = (values) => {
    const sorted = [...values].filter(known).sort((a, b) => a - b), each = Math.max(1, Math.floor(sorted.length / 500));
    return sorted.map((value, i) => [value, (i + 1) / sorted.length]).filter((_, i) => i % each === 0 || i === sorted.length - 1);
  };
  return chart(`${title}: share of iterations that take no longer`, () => ({
    tooltip: { trigger: "item", formatter: ({ data: point, seriesName }) => tip(seriesName, `${percent(point[1])} take at most ${ms(point[0])}`) },
    zoom: true, xAxis: { type: "log", min: "dataMin", max: "dataMax", minorSplitLine: { show: false } }, yAxis: { type: "value", max: 1, name: "share", nameLocation: "end", nameGap: 8, axisLabel: { formatter: (value) => percent(value) } },
    series: drawn.map((row) => ({ type: "line", name: row.name, step: "end", showSymbol: true, symbolSize: 4, sampling: undefined, data: data(row.values) })) }));
}

// Keys and texts of nested objects, as a table: what differs between them first.
export const flatten = (value, key = "") => (value && typeof value === "object" && !Array.isArray(value)
  ? Object.entries(value).flatMap(([name, inner]) => flatten(inner, key ? `${key}.${name}` : name)) : [[key, JSON.stringify(value)]]);
// maps: of each label a Map, or null.
export function settingsTables(caption, labels, maps) {
  const keys = [...new Set(maps.flatMap((one) => [...(one?.keys() ?? [])]))], differs = (key) => maps.some((one) => one?.get(key) !== maps[0]?.get(key));
  const columns = [{ title: "key", value: (key) => key }, ...labels.map((label, i) => ({ title: label, value: (key) => maps[i]?.get(key) ?? "" }))];
  const different = keys.filter(differs);
  return [labels.length > 1 ? (different.length ? table("What differs", columns, different) : note("Nothing differs.")) : null, table(caption, columns, keys)];
}

// What else differs between two sides, before any figure.
export const differences = ({ differences: rows = [] }) => (rows.length ? note(`Different: ${rows.slice(0, 8).map((row) =>
  `${row.key.replace(/^environment\./, "")} is ${row.candidate ?? "not set"}, was ${row.reference ?? "not set"}`).join("; ")}${rows.length > 8 ? "; …" : "."}`) : null);

// ---- roofline ----

const classRows = (roofline) => Object.entries(roofline?.classes ?? {}).map(([name, row]) => ({ class: name, ...row }));

function rooflineChart(roofline) {
  const peaks = roofline.peaks;
  const rows = (roofline.largest_losses ?? []).filter((row) => known(row.tflops) && known(row.gbytes_per_s) && row.gbytes_per_s > 0);
  if (!peaks || !known(peaks.gbytes_per_s) || !rows.length) return null;
  const intensity = (row) => (1000 * row.tflops) / row.gbytes_per_s;
  const types = [...new Set(rows.map((row) => row.arithmetic))].filter((type) => known(peaks.tflops?.[type]));
  const xs = rows.map(intensity), ridge = types.map((type) => (1000 * peaks.tflops[type]) / peaks.gbytes_per_s);
  const from = 10 ** Math.floor(Math.log10(Math.min(...xs, ...ridge) / 2)), to = 10 ** Math.ceil(Math.log10(Math.max(...xs, ...ridge) * 2));
  const roof = (type) => {
    const corner = (1000 * peaks.tflops[type]) / peaks.gbytes_per_s;
    return [[from, (from * peaks.gbytes_per_s) / 1000], [corner, peaks.tflops[type]], [to, peaks.tflops[type]]];
  };
  return chart("Operations against the roofline", () => ({
    tooltip: { trigger: "item", formatter: ({ data }) => (data.row ? tip(`${data.row.operation} ${data.row.dims ?? ""}`,
      `${brief(data.row.tflops)} TFLOP/s, ${brief(data.row.gbytes_per_s)} GB/s: ${percent(data.row.share_of_peak)} of its bound`,
      `${ms(data.row.ms)} a step, of which ${ms(data.row.lost_ms)} is lost; ${shortName(data.row.kernel)}`) : "") },
    xAxis: { type: "log", name: "FLOP per byte", min: from, max: to },
    yAxis: { type: "log", name: "TFLOP/s", nameLocation: "end", nameGap: 8 },
    series: [...types.map((type, i) => ({ type: "line", name: `peak ${type}`, data: roof(type), symbol: "none", silent: true, sampling: undefined,
      lineStyle: { width: 1.5, color: palette[(i + 4) % palette.length] }, itemStyle: { color: palette[(i + 4) % palette.length] } })),
    { type: "scatter", name: "operations", symbolSize: (value, { data }) => 7 + 22 * Math.sqrt(data.row.ms / Math.max(...rows.map((row) => row.ms))),
      itemStyle: { color: palette[0], opacity: 0.8 }, data: rows.map((row) => ({ value: [intensity(row), row.tflops], row })) }],
  }));
}

function classChart(roofline) {
  const rows = classRows(roofline).filter((row) => known(row.ms));
  if (!rows.length) return null;
  return chart("Compute by class, and what it takes at the peak", () => ({
    xAxis: { type: "category", data: rows.map((row) => row.class) },
    yAxis: { type: "value", name: "ms a step", nameLocation: "end", nameGap: 8 },
    series: [{ type: "bar", name: "measured", data: rows.map((row) => row.ms) },
      { type: "bar", name: "at the peak", data: rows.map((row) => row.bound_ms ?? null) }],
  }));
}

// tables: what the data says of their columns.
export function roofline(one, tables) {
  if (!one) return [];
  const shown = (key, rows) => dataTable(tables.find((table) => table.key === key), rows);
  return [
    one.peaks ? note(`Peaks of ${one.peaks.device}: ${one.peaks.source}.${one.rates_are_lower_bounds ? " Rates are lower bounds." : ""}`)
      : one.peaks_reason ? note(`No peaks: ${one.peaks_reason}.`) : null,
    pair(rooflineChart(one), classChart(one)), shown("roofline_classes", classRows(one)), shown("largest_losses", one.largest_losses ?? []),
  ];
}

// ---- where a step goes ----

// rows: [{ name, parts: { key: ms } }]; a bar each, stacked by part.
export function stack(title, rows, unit = "ms a step") {
  const sums = {};
  for (const row of rows) for (const [key, value] of Object.entries(row.parts)) sums[key] = (sums[key] ?? 0) + (known(value) ? value : 0);
  const keys = Object.keys(sums).filter((key) => sums[key] > 0).sort((a, b) => sums[b] - sums[a]);
  if (!keys.length) return null;
  return chart(title, () => ({
    tooltip: { trigger: "axis", axisPointer: { type: "shadow" } },
    xAxis: { type: "value", name: unit }, yAxis: { type: "category", inverse: true, data: rows.map((row) => row.name) },
    grid: { left: 86 }, legend: {},
    series: keys.map((key) => ({ type: "bar", name: spaced(key), stack: "all", barMaxWidth: 34, data: rows.map((row) => row.parts[key] ?? 0) })),
  }), 130 + 34 * Math.min(16, rows.length));
}

// ---- collectives ----

const collectiveName = (row) => `${spaced(row.kind)}${row.group_size ? `, ${row.group_size} ranks` : ""}`;

// points: [{ kind, group_size, bytes_each, rate, best?, link? }] with rates in GB/s of the bus.
export function bandwidth(points, title) {
  const drawn = points.filter((row) => row.bytes_each > 0 && row.rate > 0);
  if (!drawn.length) return null;
  const names = [...new Set(drawn.map(collectiveName))], link = drawn.find((row) => known(row.link))?.link;
  const series = names.flatMap((name, i) => {
    const rows = drawn.filter((row) => collectiveName(row) === name).sort((a, b) => a.bytes_each - b.bytes_each);
    const item = (row, rate) => ({ value: [row.bytes_each, rate], row });
    return [
      { type: "scatter", name, symbolSize: 11, itemStyle: { color: palette[i % palette.length] }, data: rows.map((row) => item(row, row.rate)) },
      ...(rows.some((row) => row.best > 0) ? [{ type: "scatter", name: `${name}: fastest`, symbol: "triangle", symbolSize: 11,
        itemStyle: { color: "transparent", borderColor: palette[i % palette.length], borderWidth: 1.5 },
        data: rows.filter((row) => row.best > 0).map((row) => item(row, row.best)) }] : []),
    ];
  });
  if (known(link)) series[0].markLine = { silent: true, symbol: "none", data: [{ yAxis: link }], label: { formatter: `link ${brief(link)} GB/s`, position: "insideEndTop" },
    lineStyle: { type: "dashed" } };
  return chart(title, () => ({
    tooltip: { trigger: "item", formatter: ({ data, seriesName }) => (data.row ? tip(seriesName,
      `${bytes(data.row.bytes_each)}: ${brief(data.value[1])} GB/s of the bus, ${brief(data.row.count)} times`) : "") },
    xAxis: { type: "log", logBase: 4, name: "bytes of one rank", axisLabel: { formatter: (value) => bytes(value) } },
    yAxis: { type: "log", name: "GB/s", nameLocation: "end", nameGap: 8, max: known(link) ? (range) => 1.3 * Math.max(link, range.max) : undefined },
    series,
  }));
}
