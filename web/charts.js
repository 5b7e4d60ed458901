// Charts of ECharts in the colours of the page; each is made when it comes into view, and for print.
import * as echarts from "echarts/core";
import { BarChart, HeatmapChart, LineChart, ParallelChart, ScatterChart } from "echarts/charts";
import { AriaComponent, DataZoomComponent, GridComponent, LegendComponent, MarkLineComponent, ParallelComponent,
  TooltipComponent, VisualMapComponent } from "echarts/components";
import { SVGRenderer } from "echarts/renderers";
import { brief, element } from "./words.js";
import { colour, dark, onTheme, palette } from "./theme.js";

echarts.use([BarChart, HeatmapChart, LineChart, ParallelChart, ScatterChart, AriaComponent, DataZoomComponent, GridComponent,
  LegendComponent, MarkLineComponent, ParallelComponent, TooltipComponent, VisualMapComponent, SVGRenderer]);

const waiting = new Set();
const observer = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) entry.target.makeChart?.();
}, { rootMargin: "400px" });

const axis = (given) => ({
  nameGap: 26, nameLocation: "middle",
  axisLabel: { color: colour("quiet"), formatter: given.type === "value" || given.type === "log" ? (value) => brief(value) : undefined, hideOverlap: true },
  axisLine: { show: given.type !== "value", lineStyle: { color: colour("line") } }, axisTick: { show: false },
  splitLine: { show: given.type !== "category", lineStyle: { color: colour("line"), opacity: 0.6 } }, ...given,
  nameTextStyle: { color: colour("quiet"), ...given.nameTextStyle },
  ...(given.axisLabel ? { axisLabel: { color: colour("quiet"), hideOverlap: true, ...given.axisLabel } } : {}),
});

// The axes: of parallel coordinates one for each dimension, else x and y.
const axesOf = (option) => (option.parallelAxis ? { parallel: option.parallel, parallelAxis: option.parallelAxis.map((one) => ({
  nameTextStyle: { color: colour("text") }, axisLabel: { color: colour("text"), backgroundColor: colour("paper"), padding: [1, 3], formatter: one.type === "value" ? (value) => brief(value) : undefined }, z: 5,
  axisLine: { lineStyle: { color: colour("quiet") } }, ...one })) }
  : { grid: option.grid, xAxis: axis(option.xAxis), yAxis: Array.isArray(option.yAxis) ? option.yAxis.map(axis) : axis(option.yAxis) });

// Common parts of all charts; `option` has its axes and series, and whether one can zoom along x.
function whole(option) {
  const series = [option.series].flat();
  const many = option.legend || series.filter((one) => one.name).length > 1;
  return {
    color: palette, backgroundColor: "transparent", animation: false, textStyle: { fontFamily: "system-ui, sans-serif" },
    aria: { enabled: true }, darkMode: dark(),
    tooltip: { trigger: "axis", confine: true, backgroundColor: colour("panel"), borderColor: colour("line"),
      textStyle: { color: colour("text"), fontSize: 13 }, valueFormatter: (value) => (typeof value === "number" ? brief(value) : value ?? "–"),
      // Text of files goes through ECharts's own escaping; formatters of our own return elements.
      ...option.tooltip },
    legend: many ? { type: "scroll", top: 0, textStyle: { color: colour("text") }, pageTextStyle: { color: colour("text") }, ...option.legend } : undefined,
    dataZoom: option.zoom ? [{ type: "inside", zoomOnMouseWheel: "ctrl" }, { type: "slider", height: 20, bottom: 8, borderColor: colour("line"),
      textStyle: { color: colour("quiet") } }] : undefined,
    visualMap: option.visualMap,
    ...axesOf({ ...option, grid: { left: 56, right: 24, top: many ? 40 : 20, bottom: option.zoom ? 76 : 46, ...option.grid } }),
    series: series.map((one) => (one.type === "line" ? { showSymbol: one.data.length < 3, lineStyle: { width: 1.4 }, sampling: "lttb", ...one } : one)),
  };
}

// make(): the option, asked anew for each theme.
export function chart(title, make, height = 320) {
  const box = element("div", { class: "chart", style: { height: `${height}px` }, role: "img", "aria-label": title });
  let drawn = null;
  const fill = () => {
    if (!drawn) return;
    const option = make();
    box.dataset.zooms = option.zoom ? "yes" : "no";
    drawn.setOption(whole(option), { notMerge: true });
  };
  box.makeChart = () => {
    if (drawn || !box.clientWidth) return;
    waiting.delete(box);
    observer.unobserve(box);
    drawn = echarts.init(box, null, { renderer: "svg" });
    fill();
    new ResizeObserver(() => { if (box.clientWidth) drawn.resize(); }).observe(box); // 0 while a page is photographed
  };
  waiting.add(box);
  observer.observe(box);
  onTheme(fill);
  const outer = element("div", {}, element("h3", {}, title), box);
  outer.refill = fill;
  return outer;
}

window.addEventListener("beforeprint", () => { for (const box of [...waiting]) box.makeChart(); });

export const tip = (...lines) => element("div", {}, ...lines.flatMap((line, i) => (i ? [element("br"), line] : [element("b", {}, line)])));
