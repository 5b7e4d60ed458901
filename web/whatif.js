// The page of `aorta whatif`: the recorded step with other resources.
import { brief, element, known, ms, percent, spaced } from "./words.js";
import { figures, lines, note, pair, section, stack } from "./sections.js";
import { dataTable, table, tableNamed } from "./tables.js";

const link = (one) => (one ? `${brief(one.latency_us)} µs, ${known(one.bandwidth_gbytes_per_s) ? `${brief(one.bandwidth_gbytes_per_s)} GB/s` : "no limit of bandwidth"}` : "–");

function headline(results) {
  const { limit, steps, recorded_ranks: recorded } = results, same = steps.find((row) => row.ranks === recorded), most = steps[steps.length - 1];
  const changed = same && Math.abs(same.step_ms / results.replayed_ms - 1) > 1e-6 ? `The step of ${ms(results.replayed_ms)}${results.unrecorded_ms ? " without its recording" : ""} takes ${ms(same.step_ms)} with these resources. ` : "";
  if (steps.length < 2) return changed || `The step takes ${ms(results.replayed_ms)}${results.unrecorded_ms ? " without its recording" : ""}, and nothing was changed.`;
  const cost = limit.collective ? `; ${spaced(limit.collective)} costs most there: ${ms(limit.more_ms)} more, most of it by ${limit.by}` : "";
  const at = steps.find((row) => row.ranks === limit.ranks) ?? most;
  return `${changed}${limit.scales ? `It scales to ${limit.ranks} ranks: efficiency is ${percent(at.efficiency)} there` : `Scaling stops at ${limit.ranks} ranks: efficiency is ${percent(at.efficiency)}`}${cost}.`;
}

export function whatifPage(data) {
  const { results } = data, { resources, steps } = results, first = steps.find((row) => row.ranks === results.recorded_ranks);
  const x = { xAxis: { type: "log", logBase: 2, min: "dataMin", max: "dataMax", axisLabel: { formatter: (value) => `${value} ${value === 1 ? "rank" : "ranks"}` } } };
  const over = (title, unit, rows, option = {}) => (steps.length > 1 ? lines(title, unit, rows.map(([name, key]) => ({ name, showSymbol: true, symbolSize: 8, data: steps.map((row) => [row.ranks, row[key]]) })), { ...x, ...option }) : null);
  const settings = [["ranks recorded", results.recorded_ranks], ["measured step", ms(results.measured_ms)], ["replayed step, nothing changed", ms(results.replayed_ms)],
    ["link, recorded", results.recorded_link ? link(results.recorded_link) : "none was recorded"], ["fit of the link", results.fit ? `${results.fit.collectives} collectives of ${results.fit.sizes} sizes, median error ${percent(results.fit.error)}` : "–"],
    ["link between nodes", link(resources.between_nodes)], ["ranks of a node", resources.ranks_per_node], ["speed of kernels", `${brief(resources.compute)} ×`], ["speed of copies", `${brief(resources.copies)} ×`],
    ["without", resources.without.map(spaced).join(", ") || "–"], ["critical path without an explanation", percent(results.unexplained_share)], ["critical path that was inferred", percent(results.inferred_share)]];
  return {
    title: "The recorded step with other resources", subtitle: `whatif, ${results.recorded_ranks} recorded ranks`,
    sections: [
      section("verdict", "Verdict", element("p", { class: "headline" }, headline(results)), figures([[results.unrecorded_ms ? "step without its recording" : "recorded step", ms(results.replayed_ms)], ["step with these resources", ms(first?.step_ms)],
        ...(steps.length > 1 ? [[`step of ${steps[steps.length - 1].ranks} ranks`, ms(steps[steps.length - 1].step_ms)], ["its efficiency", percent(steps[steps.length - 1].efficiency)]] : []),
        ["of the critical path unexplained", percent(results.unexplained_share)]])),
      section("steps", "What a step takes", stack("Step: exposed communication, and all else", [
        { name: results.unrecorded_ms ? "now" : "recorded", parts: { "all of it": results.replayed_ms } },
        ...steps.map((row) => ({ name: `${row.ranks} ranks`, parts: { "compute, copies and waiting": row.step_ms - row.exposed_comm_ms, "exposed communication": row.exposed_comm_ms } }))]),
      pair(over("Efficiency: step of the recorded ranks over this step; below 80% scaling stops", "share", [["efficiency", "efficiency"]], { yAxis: { min: 0, max: 1, axisLabel: { formatter: (value) => percent(value) } } }),
        over("Communication of a step", "ms", [["all", "comm_ms"], ["exposed", "exposed_comm_ms"]])),
      dataTable(tableNamed(data, "steps"), steps, [], [{ title: "of replayed", value: (row) => row.step_ms / results.replayed_ms, show: (row) => percent(row.step_ms / results.replayed_ms) },
        { title: "asked for", value: (row) => (row.asked ? "yes" : "") }], steps)),
      section("assumptions", "Assumed", ...results.assumptions.map((text) => note(text))),
      section("configuration", "Resources", table("Resources", [{ title: "", value: (row) => row[0] }, { title: "value", value: (row) => String(row[1]) }], settings)),
    ],
  };
}
