// Differences between the recordings of a page: figures of runs, and work by name of recordings.
import { brief, byCauseName, element, fileNames, known, ms, percent, shortName } from "./words.js";
import { differences, flatten, note, section, settingsTables, sign, stack } from "./sections.js";
import { chart, tip } from "./charts.js";
import { palette } from "./theme.js";
import { table } from "./tables.js";
import { titleOf, unitOf } from "./figures.js";

// ---- runs: figures per iteration ----

// Means over ranks.
const causes = (result) => {
  const sums = {};
  for (const rank of result?.ranks ?? [])
    for (const [key, value] of Object.entries(rank.causes_ms ?? {})) sums[key] = (sums[key] ?? 0) + value / result.ranks.length;
  return sums;
};

// The comparison comes with the data: the page computes nothing.
function runsCompared(comparisons, all) {
  if (!comparisons?.length) return [];
  const reference = comparisons[0].reference;
  const titled = (label, count) => (count > 1 ? `${label} (${count} runs)` : label);
  const columns = [{ title: "figure, mean", value: (key) => `${titleOf(key)} ${unitOf(key)}` },
    { title: titled(reference, comparisons[0].reference_runs), value: (key) => comparisons[0].metrics[key].reference },
    ...comparisons.flatMap((one) => [
      { title: titled(one.candidate, one.candidate_runs), value: (key) => one.metrics[key].candidate },
      { title: `change from ${reference}`, value: (key) => one.metrics[key].delta_percent,
        class: (key) => (["better", "worse"].includes(one.metrics[key].change) ? one.metrics[key].change : ""),
        show: (key) => { const { delta_percent: by, change } = one.metrics[key]; return known(by) ? `${sign(by / 100)}, ${change}` : "–"; },
        tip: (key) => { const row = one.metrics[key];
          return `p = ${brief(row.p_value)}; 95% interval ${brief(row.ci[0])} to ${brief(row.ci[1])}; equal runs differ by ${percent(row.between_runs_percent / 100)}`; } },
    ])];
  return [...comparisons.flatMap((one) => [differences(one), element("p", { class: "headline" }, one.step_change),
    one.step_change.includes(one.largest_change.split(", ")[0]) ? null : note(`Largest change: ${one.largest_change}.`),
    one.between_runs ? note(one.between_runs) : null]), table("Figures of each run", columns, Object.keys(comparisons[0].metrics), "compared"),
    stack("Causes, per step", all.map((one) => ({ name: one.label, parts: byCauseName(causes(one.summary)) })))];
}

// ---- recordings: their timeline, and work by name ----

export const SECTIONS = { timeline: "Time", categories: "Work by category", operations: "Work by operation", subtrees: "Same module, different operations", kernels: "Kernels and copies", gemms: "GEMMs by shape", collectives: "Collectives" };
// Significant, or not tested.
const beyond = (value) => value.p === null || value.p < 0.05;
const chance = (value) => (value.p === null ? value.p_reason ?? "not known" : `p = ${brief(value.p)}${beyond(value) ? "" : ": not significant"}`);

// Less time is better, but for hidden communication.
const effect = (row, value) => (!value.change_ms || row.name === "overlap" || !beyond(value) ? "" : value.change_ms < 0 ? "better" : "worse");

function comparedTable(key, rows, labels, per) {
  const cell = (value) => (value.present ? ms(value.ms) : "–");
  return rows.length ? table(`${SECTIONS[key]}, ms per ${per}`, [{ title: key === "timeline" ? "figure" : "name", value: (row) => row.name, show: (row) => shortName(row.name), tip: (row) => row.name },
    { title: labels[0], value: (row) => (row.base.present ? row.base.ms : null), show: (row) => cell(row.base) },
    ...labels.slice(1).flatMap((label, i) => [{ title: label, value: (row) => (row.tests[i].present ? row.tests[i].ms : null), show: (row) => cell(row.tests[i]) },
      { title: "change, ms", value: (row) => row.tests[i].change_ms, show: (row) => `${row.tests[i].change_ms > 0 ? "+" : ""}${brief(row.tests[i].change_ms)}`, class: (row) => effect(row, row.tests[i]), tip: (row) => chance(row.tests[i]) },
      { title: "change, %", value: (row) => row.tests[i].percent, show: (row) => (known(row.tests[i].percent) ? sign(row.tests[i].percent / 100) : row.tests[i].present && !row.base.present ? "new" : "–") },
      { title: "p", value: (row) => row.tests[i].p, tip: (row) => chance(row.tests[i]) }]),
    ...(key === "subtrees" ? labels.map((label, i) => ({ title: `operations of ${label}`, value: (row) => (i ? row.tests[i - 1] : row.base).below ?? "nothing" })) : []),
    ...(key === "timeline" ? [] : [{ title: `count, ${labels[0]}`, value: (row) => row.base.count }, ...labels.slice(1).map((label, i) => ({ title: `count, ${label}`, value: (row) => row.tests[i].count }))])], rows, key === "timeline" ? "compared" : `compared_${key}`) : null;
}

const hues = { better: palette[2], worse: palette[3], "": palette[7] };

// The largest changes, the largest first.
function changeChart(key, rows, labels, per) {
  const most = (row) => Math.max(...row.tests.map((value) => Math.abs(value.change_ms)));
  const drawn = rows.filter((row) => most(row) > 0).sort((a, b) => most(b) - most(a)).slice(0, 14);
  if (!drawn.length) return null;
  return chart(`${SECTIONS[key]}: largest changes`, () => ({
    tooltip: { trigger: "item", formatter: ({ data, seriesName }) => tip(shortName(data.row.name), `${seriesName}: ${data.value > 0 ? "+" : ""}${ms(data.value)} (${ms(data.row.base.ms)} before)`, chance(data.test)) },
    legend: labels.length > 2 ? {} : undefined, xAxis: { type: "value", name: `change from ${labels[0]}, ms per ${per}` },
    yAxis: { type: "category", inverse: true, data: drawn.map((row) => shortName(row.name)) },
    series: labels.slice(1).map((label, i) => ({ type: "bar", name: label, barMaxWidth: 24, data: drawn.map((row) => ({ value: row.tests[i].change_ms, row, test: row.tests[i],
      itemStyle: { ...(labels.length === 2 ? { color: hues[effect(row, row.tests[i])] } : {}), opacity: beyond(row.tests[i]) ? 1 : 0.4 } })) })) }), 120 + 30 * drawn.length);
}

// Subtrees without `below` are single operations, which have their own section.
const shownRows = (key, rows) => (key === "subtrees" ? rows.filter((row) => row.base.below !== undefined) : rows);
export const comparedSection = (compared, key, labels) => (compared?.[key] ? [changeChart(key, shownRows(key, compared[key]), labels, compared.per), comparedTable(key, shownRows(key, compared[key]), labels, compared.per)] : []);

// A side is one recording, or several of one label.
export const sideLabels = (compared) => (compared ? fileNames([compared.base, ...compared.tests].map((side) => side.label)) : []);

// Parts that add up to the step, from the rows of the table.
function stepParts(compared, side) {
  const rows = new Map(compared.timeline.map((row) => [row.name, (side ? row.tests[side - 1] : row.base).ms ?? 0]));
  return { compute: rows.get("compute") - rows.get("overlap"), "hidden communication": rows.get("overlap"), "exposed communication": rows.get("exposed communication"),
    "exposed copies": rows.get("exposed copies"), idle: rows.get("idle") };
}

function recordingsCompared(compared) {
  if (!compared) return [];
  const labels = sideLabels(compared), unsure = compared.timeline[0]?.tests[0]?.p_reason;
  return [...compared.tests.flatMap((test) => [differences(test), element("p", { class: "headline" }, test.largest_change), test.bandwidth_change ? note(test.bandwidth_change) : null]), unsure ? note(`No significance test: ${unsure}.`) : null,
    ...comparedSection(compared, "timeline", labels),
    stack(`Device time per ${compared.per}`, labels.map((label, i) => ({ name: label, parts: stepParts(compared, i) })), `ms per ${compared.per}`)];
}

export const comparison = (data, all) => section("comparison", "Comparison", ...runsCompared(data.comparisons, all), ...recordingsCompared(data.comparison));

// ---- settings ----

const configurationOf = (text) => {
  try { return flatten(JSON.parse(text)); } catch { return []; }
};

// A trace records few settings.
const factsOf = (one) => {
  const [rank] = one.results.ranks;
  return new Map(Object.entries({ ranks: one.results.ranks.length, device: rank?.device_name, format: rank?.format, "steps of rank 0": rank?.steps.length, "steps found by": rank?.steps_by,
    streams: rank?.streams.length, "hardware queues": rank?.queues.length, "collective kernels": rank?.collective_sizes?.reduce((sum, row) => sum + row.count, 0),
    "channels of collectives": [...new Set((rank?.collective_sizes ?? []).map((row) => row.channels).filter(known))].join(", ") }).map(([key, value]) => [key, value ?? ""]));
};

// The configuration and environment of runs; what several traces show of theirs.
export function settings(all) {
  const labels = all.map((one) => one.label);
  if (!all.every((one) => one.summary)) return all.length > 1 ? settingsTables("Recordings", labels, all.map(factsOf)) : [];
  const maps = all.map((one) => new Map([...configurationOf(one.configuration), ...Object.entries(one.summary.environment ?? {})]));
  return maps.some((one) => one.size) ? settingsTables("Configuration and environment", labels, maps) : [note("The run directories hold no config.json.")];
}
