// Charts of ECharts in the colours of the page; each is made when it comes into view, and for print.
import * as echarts from "echarts/core";
import { BarChart, HeatmapChart, LineChart, ParallelChart, ScatterChart } from "echarts/charts";
import { DataZoomInsideComponent, GridComponent, LegendScrollComponent, MarkLineComponent, ParallelComponent, TooltipComponent,
  VisualMapContinuousComponent } from "echarts/components";
import { SVGRenderer } from "echarts/renderers";
import { brief, element, tick } from "./words.js";
import { colour, dark, onTheme, palette } from "./theme.js";

echarts.use([BarChart, HeatmapChart, LineChart, ParallelChart, ScatterChart, DataZoomInsideComponent, GridComponent, LegendScrollComponent,
  MarkLineComponent, ParallelComponent, TooltipComponent, VisualMapContinuousComponent, SVGRenderer]);

const LETTER = 8; // px of a label's letter, on average
const waiting = new Set();
const observer = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) entry.target.makeChart?.();
}, { rootMargin: "400px" });

const axis = (given) => {
  const toData = given.min === "dataMin"; // labels at the ends would touch those of round numbers
  return {
    nameGap: 26, nameLocation: "middle",
    axisLine: { show: given.type !== "value", lineStyle: { color: colour("line") } }, axisTick: { show: false },
    splitLine: { show: given.type !== "category", lineStyle: { color: colour("line"), opacity: 0.6 } }, ...given,
    nameTextStyle: { color: colour("quiet"), ...given.nameTextStyle },
    axisLabel: { color: colour("quiet"), hideOverlap: true, ...(toData ? { showMinLabel: false, showMaxLabel: false } : {}),
      ...(given.type === "category" ? {} : { formatter: (value) => tick(value) }), ...given.axisLabel },
  };
};

const longest = (names) => LETTER * Math.max(...names.map((name) => String(name).length));

// Names left of the chart take at most two fifths of its width; names below it that do not fit are turned. `below`: px
// that the option needs under the axis.
function placed({ xAxis, yAxis, grid, below = 0 }, width) {
  let left = 56, turned = 0;
  if (yAxis.type === "category") {
    left = Math.round(Math.max(64, Math.min(0.4 * width, 18 + longest(yAxis.data))));
    yAxis = { ...yAxis, axisLabel: { width: left - 12, overflow: "truncate", ...yAxis.axisLabel } };
  }
  const columns = xAxis.type === "category" ? xAxis.data.length : 0;
  if (columns && columns <= 30 && longest(xAxis.data) > (width - left - 24) / columns - 8) {
    const high = Math.min(120, longest(xAxis.data));
    turned = Math.round(0.6 * high);
    xAxis = { nameGap: 24 + turned, ...xAxis, axisLabel: { rotate: 35, interval: 0, width: high + 24, overflow: "truncate", ...xAxis.axisLabel } };
  }
  return { xAxis: axis(xAxis), yAxis: axis(yAxis), grid: { left, right: 24, bottom: 26 + turned + (xAxis.name ? 20 : 0) + below, ...grid } };
}

// Parallel coordinates have an axis for each dimension, other charts x and y.
function axesOf(option, width) {
  const letters = (width / (option.parallelAxis?.length ?? 1) - 46) / LETTER, cut = (text) => (text.length > letters ? `${text.slice(0, Math.max(1, letters - 1))}…` : text);
  if (option.parallelAxis) return { parallel: option.parallel, parallelAxis: option.parallelAxis.map((one) => ({
    nameTextStyle: { color: colour("text") }, axisLabel: { color: colour("text"), backgroundColor: colour("paper"), padding: [1, 3], formatter: one.type === "value" ? (value) => brief(value) : cut }, z: 5,
    axisLine: { lineStyle: { color: colour("quiet") } }, ...one })) };
  return placed(option, width);
}

// What all charts share; `option` has the axes and series, and `zoom` where x can be zoomed.
function whole(option, width) {
  const series = [option.series].flat();
  const many = option.legend || series.filter((one) => one.name).length > 1;
  return {
    color: palette, backgroundColor: "transparent", animation: false, textStyle: { fontFamily: "system-ui, sans-serif" }, darkMode: dark(),
    tooltip: { trigger: "axis", confine: true, backgroundColor: colour("panel"), borderColor: colour("line"),
      textStyle: { color: colour("text"), fontSize: 13 }, valueFormatter: (value) => (typeof value === "number" ? brief(value) : value ?? "–"),
      // ECharts escapes texts of files; our formatters return elements.
      ...option.tooltip },
    legend: many ? { type: "scroll", top: 0, itemWidth: 16, itemHeight: 10, itemGap: 9, textStyle: { color: colour("text") }, pageTextStyle: { color: colour("text") }, ...option.legend } : undefined,
    dataZoom: option.zoom ? [{ type: "inside", zoomOnMouseWheel: "ctrl" }] : undefined,
    visualMap: option.visualMap,
    ...axesOf({ ...option, grid: { top: many ? 44 : 24, ...option.grid } }, width),
    series: series.map((one) => (one.type === "bar" ? { barMaxWidth: 60, ...one } : one.type === "line" ? { showSymbol: one.data.length < 3, lineStyle: { width: 1.4 }, sampling: "lttb", ...one } : one)),
  };
}

// make(width): the option, asked anew for each theme and width.
export function chart(title, make, height = 300) {
  const box = element("div", { class: "chart", style: { height: `${height}px` }, role: "img", "aria-label": title });
  const heading = element("h3", {}, title);
  let drawn = null, width = 0;
  const fill = () => {
    if (!drawn) return;
    const option = make(width);
    box.dataset.zooms = option.zoom ? "yes" : "no";
    heading.title = option.zoom ? "Ctrl and the wheel zoom; dragging moves" : "";
    drawn.setOption(whole(option, width), { notMerge: true });
  };
  box.makeChart = () => {
    if (drawn || !box.clientWidth) return;
    waiting.delete(box);
    observer.unobserve(box);
    width = box.clientWidth;
    drawn = echarts.init(box, null, { renderer: "svg" });
    fill();
    new ResizeObserver(() => {
      if (!box.clientWidth || box.clientWidth === width) return; // 0 while a page is photographed
      width = box.clientWidth;
      drawn.resize();
      fill();
    }).observe(box);
  };
  waiting.add(box);
  observer.observe(box);
  onTheme(fill);
  heading.append(saveButtons(title, { SVG: () => svgOf(box), PNG: () => pngOf(box) }));
  const outer = element("div", {}, heading, box);
  outer.refill = fill;
  return outer;
}

// ---- downloads ----

function svgOf(box) {
  box.makeChart();
  const picture = box.querySelector("svg").cloneNode(true), back = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [key, value] of Object.entries({ width: "100%", height: "100%", fill: colour("paper") })) back.setAttribute(key, value);
  picture.setAttribute("width", box.clientWidth);
  picture.setAttribute("height", box.clientHeight);
  picture.prepend(back);
  return new Blob([new XMLSerializer().serializeToString(picture)], { type: "image/svg+xml" });
}

// Twice as fine as the screen.
async function pngOf(box) {
  const image = new Image(), canvas = document.createElement("canvas");
  const text = await svgOf(box).text();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  canvas.width = 2 * box.clientWidth;
  canvas.height = 2 * box.clientHeight;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvasBlob(canvas);
}

export const canvasBlob = (canvas) => new Promise((done) => { canvas.toBlob(done, "image/png"); });

// makers: { SVG: () => Blob, PNG: () => Promise of one }; a button each.
export function saveButtons(title, makers) {
  const save = async (kind) => {
    const address = URL.createObjectURL(await makers[kind]()), link = element("a", { href: address, download: `${title.replace(/[^\p{L}\p{N}]+/gu, "_").slice(0, 80)}.${kind.toLowerCase()}` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  };
  return element("span", { class: "save" }, ...Object.keys(makers).map((kind) =>
    element("button", { type: "button", title: `download as ${kind}`, onclick: () => save(kind) }, kind)));
}

window.addEventListener("beforeprint", () => { for (const box of [...waiting]) box.makeChart(); });

export const tip = (...lines) => element("div", {}, ...lines.flatMap((line, i) => (i ? [element("br"), line] : [element("b", {}, line)])));
