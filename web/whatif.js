// The page of `aorta whatif`: the recorded step with other resources.
import { brief, element, known, ms, percent, spaced } from "./words.js";
import { figures, note, overCounts, pair, section, stack } from "./sections.js";
import { dataTable, table, tableNamed } from "./tables.js";

const link = (one) => (one ? `${brief(one.latency_us)} µs, ${known(one.bandwidth_gbytes_per_s) ? `${brief(one.bandwidth_gbytes_per_s)} GB/s` : "unlimited bandwidth"}` : "–");

function headline(results) {
  const { limit, steps, recorded_ranks: recorded } = results, same = steps.find((row) => row.ranks === recorded), most = steps[steps.length - 1];
  const changed = same && Math.abs(same.step_ms / results.replayed_ms - 1) > 1e-6 ? `${ms(results.replayed_ms)} per step${results.unrecorded_ms ? " without the profiler" : ""} -> ${ms(same.step_ms)} with these resources. ` : "";
  if (steps.length < 2) return changed || `${ms(results.replayed_ms)} per step${results.unrecorded_ms ? " without the profiler" : ""}; nothing was changed.`;
  const cost = limit.collective ? `; ${spaced(limit.collective)} costs most: ${ms(limit.more_ms)} more, mainly from ${limit.by}` : "";
  const at = steps.find((row) => row.ranks === limit.ranks) ?? most;
  return `${changed}${limit.scales ? `It scales to ${limit.ranks} ranks: efficiency is ${percent(at.efficiency)}` : `Scaling stops at ${limit.ranks} ranks: efficiency is ${percent(at.efficiency)}`}${cost}.`;
}

export function whatifPage(data) {
  const { results } = data, { resources, steps } = results, first = steps.find((row) => row.ranks === results.recorded_ranks);
  const over = (title, unit, rows, yAxis) => overCounts(title, unit, "ranks", rows.map(([name, key]) => ({ name, data: steps.map((row) => [row.ranks, row[key]]) })), yAxis);
  const settings = [["ranks recorded", results.recorded_ranks], ["step as recorded", ms(results.measured_ms)], ["step as replayed, nothing changed", ms(results.replayed_ms)],
    ["recorded link", results.recorded_link ? link(results.recorded_link) : "none was recorded"], ["fit of the link", results.fit ? `${results.fit.collectives} collectives of ${results.fit.sizes} sizes, median error ${percent(results.fit.error)}` : "–"],
    ["link between nodes", link(resources.between_nodes)], ["ranks per node", resources.ranks_per_node], ["speed of kernels", `${brief(resources.compute)} ×`], ["speed of copies", `${brief(resources.copies)} ×`],
    ["removed causes", resources.without.map(spaced).join(", ") || "–"], ["unexplained part of the critical path", percent(results.unexplained_share)], ["inferred part of the critical path", percent(results.inferred_share)]];
  return {
    title: "The recorded step with other resources", subtitle: `whatif, ${results.recorded_ranks} recorded ranks`,
    sections: [
      section("verdict", "Verdict", element("p", { class: "headline" }, headline(results)), figures([[results.unrecorded_ms ? "step without the profiler" : "recorded step", ms(results.replayed_ms)], ["step with these resources", ms(first?.step_ms)],
        ...(steps.length > 1 ? [[`step on ${steps[steps.length - 1].ranks} ranks`, ms(steps[steps.length - 1].step_ms)], [`efficiency on ${steps[steps.length - 1].ranks} ranks`, percent(steps[steps.length - 1].efficiency)]] : []),
        ["of the critical path is unexplained", percent(results.unexplained_share)]])),
      section("steps", "Step by ranks", stack("Step: exposed communication and the rest of the step", [
        { name: results.unrecorded_ms ? "now" : "recorded", parts: { "whole step": results.replayed_ms } },
        ...steps.map((row) => ({ name: `${row.ranks} ranks`, parts: { "compute, copies and waiting": row.step_ms - row.exposed_comm_ms, "exposed communication": row.exposed_comm_ms } }))]),
      pair(over("Efficiency: step of the recorded ranks / this step (limit 80%)", "share", [["efficiency", "efficiency"]], { max: 1, axisLabel: { formatter: (value) => percent(value) } }),
        over("Communication per step", "ms", [["all", "comm_ms"], ["exposed", "exposed_comm_ms"]])),
      dataTable(tableNamed(data, "steps"), steps, [], [{ title: "relative to the replay", value: (row) => row.step_ms / results.replayed_ms, show: (row) => percent(row.step_ms / results.replayed_ms) },
        { title: "requested", value: (row) => (row.asked ? "yes" : "") }], steps)),
      section("assumptions", "Assumptions", ...results.assumptions.map((text) => note(text))),
      section("configuration", "Resources", table("Resources", [{ title: "resource", value: (row) => row[0] }, { title: "value", value: (row) => String(row[1]) }], settings)),
    ],
  };
}
