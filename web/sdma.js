// The page of `aorta sdma`: a GEMM during copies.
import { brief, bytes, element, percent } from "./words.js";
import { cumulative, figures, lines, section } from "./sections.js";
import { chart } from "./charts.js";
import { colour, palette } from "./theme.js";
import { dataTable, table, tableNamed } from "./tables.js";

const KINDS = [["GEMM alone", "gemm_alone_ms"], ["copy alone", "copy_alone_ms"], ["one after the other", "serial_ms"], ["concurrent", "together_ms"], ["GEMM while concurrent", "gemm_together_ms"], ["copy while concurrent", "copy_together_ms"]];

// Faster than the ideal is noise.
const share = (hidden) => Math.max(0, Math.min(1, hidden));

export function sdmaPage(data) {
  const { results } = data, rows = KINDS.map(([name, key]) => ({ run: name, name, ...results[key] })), whole = rows.slice(0, 4);
  const settings = ["device_name", "device_index", "peer_index", "peer_direct", "direction", "dtype", "matrix_size", "copy_bytes", "iterations", "warmup", "copy_together_source", "verified_bytes", "gemm_error_of_allowed"];
  return {
    title: `GEMM during copies, ${results.direction}`, subtitle: `sdma on ${results.device_name}: ${results.dtype} GEMM of ${results.matrix_size} × ${results.matrix_size}, copies of ${bytes(results.copy_bytes)}`,
    sections: [
      section("verdict", "Verdict", element("p", { class: "headline" }, results.verdict), figures([["of the shorter one hidden", percent(share(results.hidden_share))], ["of the ideal speed", percent(results.share_of_ideal)],
        ["saved by running concurrently", percent(results.savings_percent / 100)], ["GEMM alone", `${brief(results.gemm_tflops)} TFLOP/s`], ["copy alone", `${brief(results.copy_alone_gbps)} GB/s`], ["copy while concurrent", `${brief(results.copy_together_gbps)} GB/s`]])),
      section("times", "Time of each run", chart("Medians, and the ideal: the longer of the two alone", () => ({ xAxis: { type: "value", name: "ms" }, yAxis: { type: "category", inverse: true, data: rows.map((row) => row.name) }, legend: {},
        series: [{ type: "bar", name: "median", data: rows.map((row) => row.p50), barMaxWidth: 26, markLine: { silent: true, symbol: "none",
          data: [{ xAxis: results.ideal_ms }], lineStyle: { type: "dashed", color: palette[3] }, label: { formatter: `ideal ${brief(results.ideal_ms)} ms`, position: "start", color: colour("text") } } },
        { type: "scatter", name: "95th percentile", symbolSize: 9, data: rows.map((row) => row.p95) }] }), 310),
      dataTable(tableNamed(data, "times"), rows, [], [{ title: "runs", value: (row) => row.samples.length }], rows)),
      section("samples", "All runs", cumulative("Time", whole.map((row) => ({ name: row.name, values: row.samples }))), lines("Time, in order", "ms", whole.map((row) => ({ name: row.name, data: row.samples.map((value, i) => [i, value]) })))),
      section("configuration", "Configuration", table("Settings", [{ title: "setting", value: (key) => key }, { title: "value", value: (key) => String(results[key] ?? "–") }], settings)),
    ],
  };
}
