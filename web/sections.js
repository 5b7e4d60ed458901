// What pages share: sections, figures, charts of several kinds, the roofline, collectives.
import { brief, bytes, counted, element, known, ms, percent, shortName, spaced } from "./words.js";
import { chart, tip } from "./charts.js";
import { palette } from "./theme.js";
import { dataTable, table } from "./tables.js";

export const section = (id, title, ...content) => {
  const shown = content.filter(Boolean);
  return shown.length ? Object.assign(element("section", { id }, element("h2", {}, title), ...shown), { heading: title }) : null;
};
export const note = (text) => element("p", { class: "quiet" }, text);
export const pair = (...charts) => (charts.some(Boolean) ? element("div", { class: "pair" }, ...charts.filter(Boolean)) : null);

// Boxes of [title, text]; unknown figures have none.
export const figures = (rows) => element("div", { class: "figures" }, ...rows.filter(([, text]) => text && text !== "–")
  .map(([title, text]) => element("div", { class: "figure" }, element("b", {}, text), element("span", {}, title))));

// A relative change as "+12.3%".
export const sign = (by) => (by >= 9 ? `${brief(1 + by)}x` : known(by) ? `${by > 0 ? "+" : ""}${brief(100 * by)}%` : "–");

// The option of a matrix of colours. value(x, y): of a cell, NaN: none; show(value): its text; colours from low to high,
// of `symmetric` around 0. `range`: [low, high] of several matrices with one scale.
export function heat({ xs, ys, names, value, show, colours, symmetric, range }) {
  const cells = xs.flatMap((x, i) => ys.map((y, j) => [i, j, value(x, y)])).filter((cell) => known(cell[2]));
  if (!cells.length) return null;
  const numbers = cells.map((cell) => cell[2]), most = Math.max(...numbers.map(Math.abs), 1e-9);
  const [low, high] = range ?? (symmetric ? [-most, most] : [Math.min(...numbers), Math.max(...numbers)]);
  return { xAxis: { type: "category", data: xs, name: names[0] }, yAxis: { type: "category", data: ys, name: names[1], nameLocation: "end", nameGap: 10, nameTextStyle: { align: "left" } },
    grid: { top: 36 }, below: 44,
    visualMap: { min: low, max: high > low ? high : low + 1, calculable: false, orient: "horizontal", left: "center", bottom: 0, itemHeight: 150, inRange: { color: colours } },
    tooltip: { trigger: "item", formatter: ({ data }) => tip(show(data[2], xs[data[0]], ys[data[1]]), `${names[0]}: ${xs[data[0]]}`, `${names[1]}: ${ys[data[1]]}`) },
    series: [{ type: "heatmap", data: cells, label: { show: cells.length <= 150, formatter: ({ data }) => show(data[2], xs[data[0]], ys[data[1]]),
      fontSize: 13, fontWeight: 600, color: "#ffffff", textBorderColor: "#222222", textBorderWidth: 2 } }] };
}

// A figure over a growing number; null if it is always 0. rows: [{ name, data: [[x, y], …] }].
export function lines(title, unit, rows, option = {}) {
  const drawn = rows.filter((row) => row.data.some(([, y]) => known(y)));
  if (!drawn.some((row) => row.data.some(([, y]) => y))) return null;
  const most = Math.max(...drawn.map((row) => row.data.length)), ends = most <= 6 ? { axisLabel: { showMinLabel: true, showMaxLabel: true } } : {};
  return chart(title, () => ({ zoom: most > 20, xAxis: { type: "value", min: "dataMin", max: "dataMax", minInterval: 1, ...ends, ...option.xAxis },
    yAxis: { type: "value", name: unit, nameLocation: "end", nameGap: 8, ...option.yAxis }, series: drawn.map((row) => ({ type: "line", ...row })) }));
}

// A figure over a few numbers such as 1, 2, 4, 8 streams. rows: [{ name, data: [[number, y], …] }].
export function overCounts(title, unit, what, rows, yAxis = {}) {
  const counts = [...new Set(rows.flatMap((row) => row.data.map(([count]) => count)))].sort((a, b) => a - b);
  const drawn = rows.filter((row) => row.data.filter(([, y]) => known(y)).length > 1);
  if (!drawn.length) return null;
  return chart(title, () => ({ xAxis: { type: "category", name: what, boundaryGap: false, data: counts.map(String) }, yAxis: { type: "value", min: 0, name: unit, nameLocation: "end", nameGap: 8, ...yAxis },
    series: drawn.map((row) => ({ type: "line", showSymbol: true, symbolSize: 8, sampling: undefined, ...row, data: row.data.map(([count, y]) => [counts.indexOf(count), y]) })) }));
}

// The distribution of values. rows: [{ name, values }]; the last bar counts all larger values, too.
export function histogram(title, unit, rows, bins = 40) {
  const flat = rows.flatMap((row) => row.values).filter(known).sort((a, b) => a - b);
  if (flat.length < 20) return null;
  const low = flat[0], high = flat[Math.min(flat.length - 1, Math.ceil(flat.length * 0.99))], width = (high - low) / bins || 1;
  const series = rows.map((row) => {
    const counts = new Array(bins).fill(0);
    for (const value of row.values) if (known(value)) counts[Math.min(bins - 1, Math.max(0, Math.floor((value - low) / width)))]++;
    return { type: "bar", name: row.name, data: counts, barCategoryGap: "4%", barGap: "-100%", itemStyle: { opacity: rows.length > 1 ? 0.6 : 1 } };
  });
  return chart(`${title}: distribution (the last bar counts all larger values)`, () => ({
    xAxis: { type: "category", name: unit, data: series[0].data.map((_, i) => brief(low + (i + 0.5) * width)) },
    yAxis: { type: "value", name: "iterations", minInterval: 1, nameLocation: "end", nameGap: 8 }, series }));
}

// The cumulative distribution. rows: [{ name, values }], in ms.
export function cumulative(title, rows) {
  const drawn = rows.filter((row) => row.values.length > 3);
  if (!drawn.length) return null;
  const data = (values) => {
    const sorted = [...values].filter(known).sort((a, b) => a - b), each = Math.max(1, Math.floor(sorted.length / 500));
    return sorted.map((value, i) => [value, (i + 1) / sorted.length]).filter((_, i) => i % each === 0 || i === sorted.length - 1);
  };
  const all = drawn.flatMap((row) => row.values).filter((value) => value > 0), wide = Math.max(...all) > 20 * Math.min(...all);
  return chart(`${title}: cumulative distribution`, () => ({
    tooltip: { trigger: "item", formatter: ({ data: point, seriesName }) => tip(seriesName, `${percent(point[1])} of the iterations take at most ${ms(point[0])}`) },
    zoom: true, xAxis: { name: "ms", type: wide ? "log" : "value", min: "dataMin", max: "dataMax", minorSplitLine: { show: false } }, yAxis: { type: "value", max: 1, name: "share", nameLocation: "end", nameGap: 8, axisLabel: { formatter: (value) => percent(value) } },
    series: drawn.map((row) => ({ type: "line", name: row.name, step: "end", showSymbol: true, symbolSize: 4, sampling: undefined, data: data(row.values) })) }));
}

// [key, text] of nested objects.
export const flatten = (value, key = "") => (value && typeof value === "object" && !Array.isArray(value)
  ? Object.entries(value).flatMap(([name, inner]) => flatten(inner, key ? `${key}.${name}` : name)) : [[key, JSON.stringify(value)]]);
// maps: one Map or null per label. Different keys come first.
export function settingsTables(caption, labels, maps) {
  const keys = [...new Set(maps.flatMap((one) => [...(one?.keys() ?? [])]))], differs = (key) => maps.some((one) => one?.get(key) !== maps[0]?.get(key));
  const columns = [{ title: "setting", value: (key) => key }, ...labels.map((label, i) => ({ title: label, value: (key) => maps[i]?.get(key) ?? "" }))];
  const different = keys.filter(differs);
  return [labels.length > 1 ? (different.length ? table("Different settings", columns, different) : note("All settings are equal.")) : null, table(caption, columns, keys)];
}

// Settings that differ between two sides.
export const differences = ({ differences: rows = [] }) => (rows.length ? note(`Different settings: ${rows.slice(0, 8).map((row) =>
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
      `${ms(data.row.ms)} per step, ${ms(data.row.lost_ms)} of it above the bound; ${shortName(data.row.kernel)}`) : "") },
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
  return chart("Compute by class, measured and at the peak", () => ({
    xAxis: { type: "category", data: rows.map((row) => row.class) },
    yAxis: { type: "value", name: "ms per step", nameLocation: "end", nameGap: 8 },
    series: [{ type: "bar", name: "measured", data: rows.map((row) => row.ms) },
      { type: "bar", name: "at the peak", data: rows.map((row) => row.bound_ms ?? null) }],
  }));
}

// tables: the columns, from the data.
export function roofline(one, tables) {
  if (!one) return [];
  const shown = (key, rows) => dataTable(tables.find((table) => table.key === key), rows);
  return [
    one.peaks ? note(`Peak rates of ${one.peaks.device}: ${one.peaks.source}.${one.rates_are_lower_bounds ? " Rates are lower bounds." : ""}`)
      : one.peaks_reason ? note(`Peak rates are unknown: ${one.peaks_reason}.`) : null,
    pair(rooflineChart(one), classChart(one)), shown("roofline_classes", classRows(one)), shown("largest_losses", one.largest_losses ?? []),
  ];
}

// ---- where a step goes ----

// Parts of a step have one colour and order everywhere.
const PARTS = { compute: "#0072b2", "whole step": "#0072b2", busy: "#0072b2", "compute, copies and waiting": "#0072b2", communication: "#009e73", hidden: "#009e73", "hidden communication": "#009e73",
  exposed: "#d55e00", "exposed communication": "#d55e00", copies: "#56b4e9", "exposed copies": "#56b4e9", "host work": "#e69f00", idle: "#a9a9a9", waiting: "#a9a9a9" };

// rows: [{ name, parts: { key: ms } }]; one bar per row, stacked by part.
export function stack(title, rows, unit = "ms per step") {
  const sums = {};
  for (const row of rows) for (const [key, value] of Object.entries(row.parts)) sums[key] = (sums[key] ?? 0) + (known(value) ? value : 0);
  const place = (key) => (key in PARTS ? Object.keys(PARTS).indexOf(key) : Infinity);
  const keys = Object.keys(sums).filter((key) => sums[key] > 0).sort((a, b) => place(a) - place(b) || sums[b] - sums[a]);
  if (!keys.length) return null;
  const free = palette.filter((hue) => !keys.some((key) => PARTS[key] === hue)), unnamed = keys.filter((key) => !(key in PARTS));
  return chart(title, () => ({
    tooltip: { trigger: "axis", axisPointer: { type: "shadow" } },
    xAxis: { type: "value", name: unit }, yAxis: { type: "category", inverse: true, data: rows.map((row) => row.name) },
    legend: {},
    series: keys.map((key) => ({ type: "bar", name: spaced(key), stack: "all", barMaxWidth: 34, itemStyle: { color: PARTS[key] ?? free[unnamed.indexOf(key) % free.length] }, data: rows.map((row) => row.parts[key] ?? 0) })),
  }), 130 + 34 * Math.min(16, rows.length));
}

// ---- collectives ----

const collectiveName = (row) => `${spaced(row.kind)}${row.group_size ? `, ${row.group_size} ranks` : ""}`;

// points: [{ kind, group_size, bytes_each, rate, best?, link? }] with bus bandwidths in GB/s.
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
      `${bytes(data.row.bytes_each)}: bus bandwidth ${brief(data.value[1])} GB/s, ${counted(data.row.count, "run")}`) : "") },
    xAxis: { type: "log", logBase: 4, name: "bytes per rank", axisLabel: { formatter: (value) => bytes(value) } },
    yAxis: { type: "log", name: "GB/s", nameLocation: "end", nameGap: 8, max: known(link) ? (range) => 1.3 * Math.max(link, range.max) : undefined },
    series,
  }));
}
