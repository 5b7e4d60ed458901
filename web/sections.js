// What the pages of runs and of recordings share: verdict, losses, roofline, collectives.
import { brief, bytes, element, known, ms, percent, shortName, spaced } from "./words.js";
import { chart, tip } from "./charts.js";
import { palette } from "./theme.js";
import { table } from "./tables.js";

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

export function losses(verdict, prefix) {
  const most = Math.max(1e-12, ...verdict.map((one) => one.gain_share ?? one.share ?? 0));
  return element("ol", { class: "losses" }, ...verdict.map((finding, i) => {
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
        finding.advice ? element("div", { class: "advice" }, `try: ${finding.advice}`) : null));
  }));
}

// ---- roofline ----

const classRows = (roofline) => Object.entries(roofline?.classes ?? {}).map(([name, row]) => ({ name, ...row }));

export function rooflineTable(roofline) {
  const rows = classRows(roofline);
  if (!rows.length) return null;
  return table("Compute by class of kernel", [
    { title: "class", value: (row) => row.name },
    { title: "kernels a step", value: (row) => row.kernels },
    { title: "ms a step", value: (row) => row.ms },
    { title: "TFLOP/s", value: (row) => row.tflops },
    { title: "GB/s", value: (row) => row.gbytes_per_s },
    { title: "of peak", value: (row) => row.share_of_peak, show: (row) => percent(row.share_of_peak) },
    { title: "limited by", value: (row) => row.bound },
    { title: "ms at the peak", value: (row) => row.bound_ms },
  ], rows);
}

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
    xAxis: { type: "category", data: rows.map((row) => row.name) },
    yAxis: { type: "value", name: "ms a step", nameLocation: "end", nameGap: 8 },
    series: [{ type: "bar", name: "measured", data: rows.map((row) => row.ms) },
      { type: "bar", name: "at the peak", data: rows.map((row) => row.bound_ms ?? null) }],
  }));
}

export function roofline(one) {
  if (!one) return [];
  const lost = one.largest_losses ?? [];
  return [
    one.peaks ? note(`Peaks of ${one.peaks.device}: ${one.peaks.source}.${one.rates_are_lower_bounds ? " Rates are lower bounds." : ""}`)
      : one.peaks_reason ? note(`No peaks: ${one.peaks_reason}.`) : null,
    pair(rooflineChart(one), classChart(one)), rooflineTable(one),
    lost.length ? table("Operations that lose most against their bound", [
      { title: "operation", value: (row) => row.operation },
      { title: "shape", value: (row) => row.dims },
      { title: "kernel", value: (row) => row.kernel, show: (row) => shortName(row.kernel), tip: (row) => row.kernel },
      { title: "runs a step", value: (row) => row.runs },
      { title: "ms a step", value: (row) => row.ms },
      { title: "lost ms", value: (row) => row.lost_ms },
      { title: "TFLOP/s", value: (row) => row.tflops },
      { title: "GB/s", value: (row) => row.gbytes_per_s },
      { title: "of its bound", value: (row) => row.share_of_peak, show: (row) => percent(row.share_of_peak) },
      { title: "bound", value: (row) => row.bound },
    ], lost) : null,
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

export function sizesTable(rows) {
  return rows.length ? table("Collectives by size", [
    { title: "collective", value: collectiveName },
    { title: "bytes", value: (row) => row.bytes_each, show: (row) => bytes(row.bytes_each) },
    { title: "type", value: (row) => row.dtype },
    { title: "channels", value: (row) => row.channels },
    { title: "count", value: (row) => row.count },
    { title: "mean ms", value: (row) => row.mean_ms },
    { title: "shortest ms", value: (row) => row.min_ms },
    { title: "waits ms", value: (row) => row.wait_ms },
    { title: "bus GB/s", value: (row) => row.rate },
    { title: "of the link", value: (row) => row.link_share, show: (row) => percent(row.link_share) },
  ].filter((column) => rows.some((row) => column.value(row) !== undefined && column.value(row) !== null)), rows) : null;
}
