// The page of `aorta sdma`: a matrix product beside copies.
import { brief, bytes, element, percent } from "./words.js";
import { cumulative, figures, lines, section } from "./sections.js";
import { chart } from "./charts.js";
import { palette } from "./theme.js";
import { dataTable, table, tableNamed } from "./tables.js";

const KINDS = [["product alone", "gemm_alone_ms"], ["copy alone", "copy_alone_ms"], ["one after the other", "serial_ms"], ["together", "together_ms"], ["the product then", "gemm_together_ms"], ["the copy then", "copy_together_ms"]];

export function sdmaPage(data) {
  const { results } = data, rows = KINDS.map(([name, key]) => ({ run: name, name, ...results[key] })), whole = rows.slice(0, 4);
  const settings = ["device_name", "device_index", "peer_index", "peer_direct", "direction", "dtype", "matrix_size", "copy_bytes", "iterations", "warmup", "copy_together_source", "verified_bytes", "gemm_error_of_allowed"];
  return {
    title: `A product beside copies, ${results.direction}`, subtitle: `sdma on ${results.device_name}: ${results.dtype} product of ${results.matrix_size} × ${results.matrix_size}, copies of ${bytes(results.copy_bytes)}`,
    sections: [
      section("verdict", "Verdict", element("p", { class: "headline" }, results.verdict), figures([["of the shorter one is hidden", percent(results.hidden_share)], ["of the ideal", percent(results.share_of_ideal)],
        ["saved against one after the other", percent(results.savings_percent / 100)], ["product alone", `${brief(results.gemm_tflops)} TFLOP/s`], ["copy alone", `${brief(results.copy_alone_gbps)} GB/s`], ["copy beside the product", `${brief(results.copy_together_gbps)} GB/s`]])),
      section("times", "What each kind of run takes", chart("Medians, and the ideal: the longer of the two alone", () => ({ xAxis: { type: "category", data: rows.map((row) => row.name), axisLabel: { interval: 0, width: 90, overflow: "break" } },
        yAxis: { type: "value", name: "ms", nameLocation: "end", nameGap: 8 }, legend: {}, series: [{ type: "bar", name: "median", data: rows.map((row) => row.p50), barMaxWidth: 70, markLine: { silent: true, symbol: "none",
          data: [{ yAxis: results.ideal_ms }], lineStyle: { type: "dashed", color: palette[3] }, label: { formatter: `ideal ${brief(results.ideal_ms)} ms`, position: "insideEndTop" } } },
        { type: "scatter", name: "95th percentile", symbolSize: 9, data: rows.map((row) => row.p95) }] })),
      dataTable(tableNamed(data, "times"), rows, [], [{ title: "runs", value: (row) => row.samples.length }], rows)),
      section("samples", "Every run", cumulative("Time", whole.map((row) => ({ name: row.name, values: row.samples }))), lines("In their order", "ms", whole.map((row) => ({ name: row.name, data: row.samples.map((value, i) => [i, value]) })))),
      section("configuration", "Configuration", table("Settings", [{ title: "key", value: (key) => key }, { title: "value", value: (key) => String(results[key] ?? "–") }], settings)),
    ],
  };
}
