// Differences between the recordings of a page: figures of runs, and work by name of recordings.
import { brief, element, known, ms, percent, shortName } from "./words.js";
import { differences, flatten, note, section, settingsTables, sign, stack } from "./sections.js";
import { chart, tip } from "./charts.js";
import { table } from "./tables.js";
import { titleOf, unitOf } from "./figures.js";

// ---- runs: figures of an iteration ----

// Means over ranks.
const causes = (result) => {
  const sums = {};
  for (const rank of result?.ranks ?? [])
    for (const [key, value] of Object.entries(rank.causes_ms ?? {})) sums[key] = (sums[key] ?? 0) + value / result.ranks.length;
  return sums;
};

// The data says how runs were compared: the page counts nothing anew.
function runsCompared(comparisons, all) {
  if (!comparisons?.length) return [];
  const reference = comparisons[0].reference;
  const titled = (label, count) => (count > 1 ? `${label} (${count} runs)` : label);
  const columns = [{ title: "figure, mean", value: (key) => key, show: (key) => `${titleOf(key)} ${unitOf(key)}` },
    { title: titled(reference, comparisons[0].reference_runs), value: (key) => comparisons[0].metrics[key].reference },
    ...comparisons.flatMap((one) => [
      { title: titled(one.candidate, one.candidate_runs), value: (key) => one.metrics[key].candidate },
      { title: `against ${reference}`, value: (key) => one.metrics[key].delta_percent,
        class: (key) => (["better", "worse"].includes(one.metrics[key].change) ? one.metrics[key].change : ""),
        show: (key) => { const { delta_percent: by, change } = one.metrics[key]; return known(by) ? `${sign(by / 100)}, ${change}` : "–"; },
        tip: (key) => { const row = one.metrics[key];
          return `p = ${brief(row.p_value)}; difference ${brief(row.ci[0])} to ${brief(row.ci[1])}; equal runs differ by ${percent(row.between_runs_percent / 100)}`; } },
    ])];
  return [...comparisons.flatMap((one) => [differences(one), element("p", { class: "headline" }, one.step_change), note(one.largest_change),
    one.between_runs ? note(one.between_runs) : null]), table("Figures side by side", columns, Object.keys(comparisons[0].metrics)),
    stack("Where a step goes", all.map((one) => ({ name: one.label, parts: causes(one.summary) })))];
}

// ---- recordings: their timeline, and work by name ----

const SECTIONS = { timeline: "Timeline", categories: "Work by what it does", operations: "Operations of the framework", subtrees: "Lowest operation or module in common, where others do its work", kernels: "Kernels and copies", gemms: "Matrix products by shape", collectives: "Collectives" };
// A row's test: more than chance, or not known to be.
const beyond = (value) => value.p === null || value.p < 0.05;
const chance = (value) => (value.p === null ? value.p_reason ?? "not known" : `p = ${brief(value.p)}${beyond(value) ? "" : ": within the noise"}`);

function comparedTable(key, rows, labels) {
  const cell = (value) => (value.present ? ms(value.ms) : "–");
  return rows.length ? table(`${SECTIONS[key]}, ms`, [{ title: key === "timeline" ? "figure" : "name", value: (row) => row.name, show: (row) => shortName(row.name), tip: (row) => row.name },
    { title: labels[0], value: (row) => (row.base.present ? row.base.ms : null), show: (row) => cell(row.base) },
    ...labels.slice(1).flatMap((label, i) => [{ title: label, value: (row) => (row.tests[i].present ? row.tests[i].ms : null), show: (row) => cell(row.tests[i]) },
      { title: "change, ms", value: (row) => row.tests[i].change_ms, show: (row) => `${row.tests[i].change_ms > 0 ? "+" : ""}${brief(row.tests[i].change_ms)}`, tip: (row) => chance(row.tests[i]) },
      { title: "change", value: (row) => row.tests[i].percent, show: (row) => (known(row.tests[i].percent) ? sign(row.tests[i].percent / 100) : row.tests[i].present && !row.base.present ? "new" : "–") },
      { title: "p", value: (row) => row.tests[i].p, tip: (row) => chance(row.tests[i]) }]),
    ...(key === "subtrees" ? labels.map((label, i) => ({ title: `by, in ${label}`, value: (row) => (i ? row.tests[i - 1] : row.base).below ?? "nothing" })) : []),
    ...(key === "timeline" ? [] : [{ title: `count, ${labels[0]}`, value: (row) => row.base.count }, ...labels.slice(1).map((label, i) => ({ title: `count, ${label}`, value: (row) => row.tests[i].count }))])], rows) : null;
}

// Longer and shorter work, the largest change below the title.
function changeChart(key, rows, labels, per) {
  const most = (row) => Math.max(...row.tests.map((value) => Math.abs(value.change_ms)));
  const drawn = rows.filter((row) => most(row) > 0).sort((a, b) => most(b) - most(a)).slice(0, 14);
  if (!drawn.length) return null;
  return chart(`${SECTIONS[key]}: what changed most`, () => ({
    tooltip: { trigger: "item", formatter: ({ data, seriesName }) => tip(`${data.row.name}`, `${seriesName}: ${data.value > 0 ? "+" : ""}${ms(data.value)} (${ms(data.row.base.ms)} before)`, chance(data.test)) },
    grid: { left: 250 }, legend: {}, xAxis: { type: "value", name: `ms per ${per}, against ${labels[0]}` },
    yAxis: { type: "category", inverse: true, data: drawn.map((row) => shortName(row.name)), axisLabel: { width: 235, overflow: "truncate" } },
    series: labels.slice(1).map((label, i) => ({ type: "bar", name: label, barMaxWidth: 24, data: drawn.map((row) => ({ value: row.tests[i].change_ms, row, test: row.tests[i],
      itemStyle: { opacity: beyond(row.tests[i]) ? 1 : 0.4 } })) })) }), 120 + 30 * drawn.length);
}

// Of subtrees only differing ones are shown, as equal ones are listed by operation.
const shownRows = (key, rows) => (key === "subtrees" ? rows.filter((row) => row.base.below !== undefined) : rows);
export const comparedSection = (compared, key, labels) => (compared?.[key] ? [changeChart(key, shownRows(key, compared[key]), labels, compared.per), comparedTable(key, shownRows(key, compared[key]), labels)] : []);

// A side is one recording or several of one label; `all` are the recordings of all sides in their order.
const sidesOf = (compared) => [compared.base, ...compared.tests];
export const sideLabels = (compared) => (compared ? sidesOf(compared).map((side) => side.label) : []);

function recordingsCompared(compared, all) {
  if (!compared) return [];
  const labels = sideLabels(compared), steps = sidesOf(compared).flatMap((side) => side.recordings.map((one) => one.steps ?? 1));
  const mean = (one, i, key) => one.results.ranks.reduce((total, rank) => total + (rank[key] ?? 0), 0) / one.results.ranks.length / steps[i];
  const unsure = compared.timeline[0]?.tests[0]?.p_reason;
  return [...compared.tests.flatMap((test) => [differences(test), element("p", { class: "headline" }, test.largest_change), test.bandwidth_change ? note(test.bandwidth_change) : null]), unsure ? note(`No p: ${unsure}.`) : null,
    ...comparedSection(compared, "timeline", labels),
    stack(`Devices: work and idle time, ms per ${compared.per}`, all.map((one, i) => ({ name: one.label, parts: {
      compute: mean(one, i, "compute_ms") - mean(one, i, "overlap_ms"), "hidden communication": mean(one, i, "overlap_ms"), "exposed communication": mean(one, i, "exposed_comm_ms"),
      "exposed copies": mean(one, i, "exposed_copy_ms"), idle: mean(one, i, "idle_ms") } })), "ms")];
}

export const comparison = (data, all) => section("comparison", "Comparison", ...runsCompared(data.comparisons, all), ...recordingsCompared(data.comparison, all));

// ---- what was set ----

const configurationOf = (text) => {
  try { return flatten(JSON.parse(text)); } catch { return []; }
};

// The facts of a file that has little about its environment.
const factsOf = (one) => {
  const [rank] = one.results.ranks;
  return new Map(Object.entries({ ranks: one.results.ranks.length, device: rank?.device_name, format: rank?.format, "steps of rank 0": rank?.steps.length, "steps by": rank?.steps_by,
    streams: rank?.streams.length, "hardware queues": rank?.queues.length, "collective kernels": rank?.collective_sizes?.reduce((sum, row) => sum + row.count, 0),
    "channels of collectives": [...new Set((rank?.collective_sizes ?? []).map((row) => row.channels).filter(known))].join(", ") }).map(([key, value]) => [key, value ?? ""]));
};

// For runs the configuration and environment, for several recordings their visible settings.
export function settings(all) {
  const labels = all.map((one) => one.label);
  if (!all.every((one) => one.summary)) return all.length > 1 ? settingsTables("Recordings", labels, all.map(factsOf)) : [];
  const maps = all.map((one) => new Map([...configurationOf(one.configuration), ...Object.entries(one.summary.environment ?? {})]));
  return maps.some((one) => one.size) ? settingsTables("Configuration and environment", labels, maps) : [note("The run directories hold no config.json.")];
}
