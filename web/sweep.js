// The page of `aorta sweep`, and what it shares with the page of several sweeps (sweeps.js).
import { brief, change, counted, duration, element, known, percent, spaced } from "./words.js";
import { figures, heat, note, pair, section, sign } from "./sections.js";
import { chart, tip } from "./charts.js";
import { palette } from "./theme.js";
import { table } from "./tables.js";

const FIGURES = ["step_ms", "overlap_ratio", "exposed_comm_ms", "throughput"];
const unitOf = (key) => (key.endsWith("_ms") ? "ms" : "");
const withUnit = (value, key) => (known(value) ? `${brief(value)}${unitOf(key) ? ` ${unitOf(key)}` : ""}` : "–");
// From good to bad, for all eyes and both themes.
const GOOD_TO_BAD = ["#0072b2", "#56b4e9", "#9a9a9a", "#e69f00", "#d55e00"];
export const shades = (higher) => (higher ? [...GOOD_TO_BAD].reverse() : GOOD_TO_BAD);

export const pointText = (values) => Object.entries(values).map(([name, value]) => `${name}=${value}`).join(" ");
// The baseline sets no knob that has several values.
const isBaseline = (trial) => trial.cell === null;
const trialText = (trial) => (isBaseline(trial) ? "baseline" : pointText(trial.values));
export const samePoint = (a, b) => Object.keys(a).every((name) => a[name] === b[name]);
// Points that ran with all steps; halving also has shorter ones.
export const wholePoints = (sweep) => sweep.points.filter((point) => point.steps === sweep.steps && known(point[sweep.objective]));
export const byImportance = (knobs) => [...knobs].sort((a, b) => (b.importance ?? 0) - (a.importance ?? 0));
export const valueAxis = (key) => ({ type: "value", name: `${key}${unitOf(key) ? ", ms" : ""}`, nameLocation: "end", nameGap: 8, nameTextStyle: { align: "left" }, scale: true });

const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length ? sorted[sorted.length >> 1] : NaN;
};

function headline(sweep) {
  if (!sweep.best) return `No trial measured ${sweep.objective}.`;
  const all = wholePoints(sweep).map((point) => point[sweep.objective]), best = sweep.best[sweep.objective];
  const by = change(best, sweep.baseline?.[sweep.objective] ?? median(all)), strong = byImportance(sweep.knobs).filter((knob) => knob.beats_noise);
  const worth = strong.slice(0, 2).map((knob) => `${knob.name} (${percent(Math.min(1, knob.importance))} of the variance)`).join(" and ");
  if (!sweep.best.beats_noise) return `No winner: all ${counted(all.length, "point")} are within the noise of ±${percent(sweep.noise.std / Math.abs(best))}.`;
  return `Best: ${pointText(sweep.best.values)}, ${sweep.objective} ${brief(best)}` +
    `${known(by) && by !== 0 ? `, ${percent(Math.abs(by))} ${by < 0 ? "below" : "above"} the ${sweep.baseline ? "baseline" : "median"}${sweep.baseline?.within_noise ? ", which is within the noise" : ""}` : ""}. ` +
    (strong.length ? `Above the noise: ${worth}.` : "No knob changes it by more than the noise.");
}

// ---- importance ----

// rows: [{ name, alone, together }] as shares.
export function importanceOf(sweep, label = "") {
  const knobs = byImportance(sweep.knobs).filter((knob) => known(knob.importance));
  if (!knobs.length) return null;
  if (knobs.every((knob) => knob.importance < 0.005)) return note(`${label}no knob explains 0.5% of the variance.`);
  const alone = (knob) => Math.max(0, knob.alone.share ?? 0);
  return chart(`${label}Importance: share of the variance`, () => ({
    tooltip: { trigger: "axis", axisPointer: { type: "shadow" }, valueFormatter: percent },
    xAxis: { type: "value", name: "share of the variance", axisLabel: { formatter: (value) => percent(value) } },
    yAxis: { type: "category", inverse: true, data: knobs.map((knob) => `${knob.name}${knob.beats_noise ? "" : " (within the noise)"}`) }, legend: {},
    series: [{ type: "bar", name: "alone", stack: "all", barMaxWidth: 30, data: knobs.map(alone) },
      { type: "bar", name: "with other knobs", stack: "all", barMaxWidth: 30, data: knobs.map((knob) => Math.max(0, knob.importance - alone(knob))) }],
  }), 140 + 34 * Math.min(16, knobs.length));
}

export const knobsTable = (sweep) => table("Knobs", [
  { title: "knob", value: (knob) => knob.name }, { title: "type", value: (knob) => (knob.environment ? "variable" : "key") },
  { title: "importance", value: (knob) => knob.importance, show: (knob) => percent(knob.importance) },
  { title: "against the noise", value: (knob) => (knob.beats_noise ? "more than noise" : "within the noise"), class: (knob) => (knob.beats_noise ? "better" : "") },
  { title: "alone", value: (knob) => knob.alone.share, show: (knob) => percent(knob.alone.share) },
  { title: "p", value: (knob) => knob.alone.p_value },
  { title: "best value", value: (knob) => bestValue(sweep, knob)?.value },
  { title: "failures", value: (knob) => knob.values.reduce((sum, row) => sum + row.failures, 0) },
], sweep.knobs);

const bestValue = (sweep, knob) => knob.values.filter((row) => known(row.mean))
  .sort((a, b) => (sweep.higher_is_better ? b.mean - a.mean : a.mean - b.mean))[0];

const pairsTable = (sweep) => (sweep.interactions.length ? table("Pairs of knobs", [
  { title: "knobs", value: (row) => row.knobs.join(" × ") }, { title: "share", value: (row) => row.share, show: (row) => percent(row.share) },
  { title: "p", value: (row) => row.p_value }, { title: "against the noise", value: (row) => (row.counts ? "more than noise" : "within the noise") }], sweep.interactions) : null);

// ---- results of each value ----

function valuesOf(sweep, knob) {
  const names = knob.values.map((row) => row.value);
  const done = sweep.trials.filter((trial) => !isBaseline(trial) && known(trial[sweep.objective]) && trial.steps === sweep.steps);
  if (!done.length) return null;
  return chart(`${knob.name}${knob.beats_noise ? "" : ": within the noise"}`, () => ({
    tooltip: { trigger: "item", formatter: ({ data, seriesName }) => tip(`${knob.name}=${names[data.value?.[0] ?? data[0]]}`,
      `${seriesName}: ${withUnit(data.value?.[1] ?? data[1], sweep.objective)}`, ...(data.trial ? [`trial ${data.trial.trial}: ${trialText(data.trial)}`] : [])) },
    xAxis: { type: "category", data: names }, yAxis: valueAxis(sweep.objective),
    series: [{ type: "scatter", name: "trials", symbolSize: 7, itemStyle: { color: palette[5], opacity: 0.55 },
      data: done.map((trial) => ({ value: [names.indexOf(trial.values[knob.name]), trial[sweep.objective]], trial })) },
    { type: "line", name: "mean", symbolSize: 9, showSymbol: true, itemStyle: { color: palette[3] }, lineStyle: { color: palette[3], width: knob.beats_noise ? 2 : 1, type: knob.beats_noise ? "solid" : "dashed" },
      data: knob.values.map((row, i) => [i, row.mean]).filter(([, mean]) => known(mean)) }],
  }), 260);
}

// ---- parallel coordinates ----

// sweeps: [{ sweep, name }]; one line per point.
export function parallel(sweeps) {
  const { objective, higher_is_better: higher, knobs } = sweeps[0].sweep, several = sweeps.length > 1;
  const values = knobs.map((knob) => [...new Set([...knob.values.map((row) => row.value), ...sweeps.flatMap(({ sweep }) => sweep.points.map((point) => point.values[knob.name]))])]);
  const rows = ({ sweep }) => wholePoints(sweep).map((point) => ({ value: [...knobs.map((knob) => point.values[knob.name]), point[objective]], point }));
  const all = sweeps.flatMap((one) => rows(one).map((row) => row.value[knobs.length]));
  if (all.length < 2) return null;
  return chart("Parallel coordinates: one line per point; drag along an axis to filter", (width) => ({
    parallel: { left: Math.max(60, Math.min(110, 0.08 * width)), right: 60, top: several ? 60 : 46, bottom: 30 },
    parallelAxis: [...knobs.map((knob, i) => ({ dim: i, name: knob.name.length > 26 ? `…${knob.name.slice(-25)}` : knob.name, type: "category", data: values[i] })),
      { dim: knobs.length, name: objective, type: "value", scale: true, inverse: !higher }],
    tooltip: { trigger: "item", formatter: ({ data, seriesName }) => tip(withUnit(data.value[knobs.length], objective), pointText(data.point.values),
      several ? seriesName : `${data.point.runs} runs`) },
    legend: several ? {} : undefined,
    visualMap: several ? undefined : { show: false, dimension: knobs.length, min: Math.min(...all), max: Math.max(...all), inRange: { color: shades(higher) } },
    series: sweeps.map((one, i) => ({ type: "parallel", name: one.name, lineStyle: { width: 2, opacity: 0.75, ...(several ? { color: palette[i % palette.length] } : {}) },
      emphasis: { lineStyle: { width: 4, opacity: 1 } }, data: rows(one) })),
  }), 380);
}

// ---- the matrix of two knobs ----

const mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : NaN);

// charts(x, y): the options of one or several charts, for the two knobs that are chosen.
export function matrix(knobs, titles, options) {
  const names = byImportance(knobs).map((knob) => knob.name);
  if (names.length < 2) return [];
  const chosen = { x: names[0], y: names[1] };
  const made = titles.map((title, i) => chart(title, () => options(chosen.x, chosen.y)[i] ?? { xAxis: { type: "category", data: [] }, yAxis: { type: "value" }, series: [] }, 340));
  const choose = (side) => {
    const choice = element("select", { "aria-label": `knob of the ${side} axis` }, ...names.map((name) => element("option", { value: name }, name)));
    choice.value = chosen[side];
    choice.addEventListener("change", () => {
      chosen[side] = choice.value;
      for (const one of made) one.refill();
    });
    return choice;
  };
  return [element("div", { class: "controls" }, "across", choose("x"), "up", choose("y"),
    element("span", { class: "quiet" }, "Cells are means over all other knobs.")), made.length > 1 ? pair(...made) : made[0]];
}

const valuesNamed = (sweep, name) => sweep.knobs.find((knob) => knob.name === name).values.map((row) => row.value);
const cellOf = (sweep, names, points = wholePoints(sweep)) => {
  return (x, y) => mean(points.filter((point) => point.values[names[0]] === x && point.values[names[1]] === y).map((point) => point[sweep.objective]));
};

// ---- history and tables ----

function history(sweep) {
  const trials = sweep.trials.filter((trial) => known(trial[sweep.objective])), failed = sweep.trials.filter((trial) => !known(trial[sweep.objective]));
  if (!trials.length) return null;
  const better = (a, b) => (sweep.higher_is_better ? a > b : a < b);
  let best = null;
  const line = trials.filter((trial) => trial.steps === sweep.steps && !isBaseline(trial)).map((trial) => {
    if (best === null || better(trial[sweep.objective], best)) best = trial[sweep.objective];
    return [trial.trial, best];
  });
  const worst = trials.reduce((value, trial) => (better(value, trial[sweep.objective]) ? trial[sweep.objective] : value), trials[0][sweep.objective]);
  const explain = ({ data, seriesName }) => (data.trial ? tip(`trial ${data.trial.trial}, ${spaced(data.trial.state)}`, known(data.trial[sweep.objective]) ? withUnit(data.trial[sweep.objective], sweep.objective) : data.trial.reason ?? "",
    trialText(data.trial), duration(1e9 * data.trial.seconds)) : tip(seriesName, withUnit(data[1], sweep.objective)));
  const item = (trial, value) => ({ value: [trial.trial, value], trial });
  return chart("Trials, in order of completion", () => ({
    zoom: true, tooltip: { trigger: "item", formatter: explain }, xAxis: { type: "value", min: 0, max: "dataMax", minInterval: 1 }, yAxis: valueAxis(sweep.objective), legend: {},
    series: [{ type: "scatter", name: "trials", symbolSize: 8, itemStyle: { color: palette[0] }, data: trials.filter((trial) => !isBaseline(trial)).map((trial) => item(trial, trial[sweep.objective])) },
      { type: "line", name: "best so far", step: "end", showSymbol: false, sampling: undefined, itemStyle: { color: palette[2] }, lineStyle: { color: palette[2], width: 2 }, data: line },
      ...(sweep.baseline ? [{ type: "scatter", name: "baseline", symbolSize: 8, itemStyle: { color: palette[4] }, data: trials.filter(isBaseline).map((trial) => item(trial, trial[sweep.objective])) }] : []),
      ...(failed.length ? [{ type: "scatter", name: "no result", symbol: "triangle", symbolSize: 11, itemStyle: { color: palette[3] }, data: failed.map((trial) => item(trial, worst)) }] : [])],
  }));
}

const numberOf = (text) => (text && Number.isFinite(Number(text)) ? Number(text) : text);
const knobColumns = (sweep) => sweep.knobs.map((knob) => ({ title: knob.name, value: (row) => numberOf(row.values[knob.name]), show: (row) => row.values[knob.name] ?? "–" }));
const figureColumns = (sweep) => FIGURES.filter((key) => sweep.points.some((point) => known(point[key]))).map((key) => ({ title: spaced(key), value: (row) => row[key] }));

function pointsTable(sweep) {
  const best = sweep.best?.[sweep.objective];
  return table("Points, best first", [...knobColumns(sweep), ...figureColumns(sweep), { title: "difference from the best", value: (row) => change(row[sweep.objective], best),
    show: (row) => sign(change(row[sweep.objective], best)) },
  { title: "runs", value: (row) => row.runs }, ...(sweep.points.some((point) => point.steps !== sweep.steps) ? [{ title: "steps", value: (row) => row.steps }] : [])], sweep.points);
}

const trialsTable = (sweep) => table("Trials", [{ title: "trial", value: (row) => row.trial, show: (row) => `${row.trial}${isBaseline(row) ? " (baseline)" : ""}` }, ...knobColumns(sweep), { title: "run", value: (row) => row.repeat },
  { title: "state", value: (row) => spaced(row.state), class: (row) => (row.state === "done" ? "" : "worse") }, ...figureColumns(sweep),
  { title: "seconds", value: (row) => row.seconds }, { title: "reason", value: (row) => row.reason }], sweep.trials);

const settings = (sweep) => note(`${spaced(sweep.search)} search, ${counted(sweep.repeats, "run")} per point${sweep.steps ? `, ${counted(sweep.steps, "step")} per trial` : ""}, seed ${sweep.seed}. ` +
  `The noise is the standard deviation of ${sweep.noise.from === "repeats" ? `equal runs (${sweep.noise.degrees_of_freedom} degrees of freedom)` : "the differences that no single knob explains, as no run was repeated"}.`);

export function sweepPage(data) {
  const sweep = data.results, all = wholePoints(sweep).map((point) => point[sweep.objective]), best = sweep.best?.[sweep.objective];
  const states = Object.entries(sweep.states).filter(([, count]) => count > 0).map(([state, count]) => `${count} ${spaced(state)}`).join(", ");
  const worst = all.length ? (sweep.higher_is_better ? Math.min(...all) : Math.max(...all)) : NaN;
  return {
    title: `Sweep of ${sweep.target}`,
    subtitle: `${sweep.objective} (${sweep.higher_is_better ? "higher" : "lower"} is better), ${states}, ${duration(1e9 * sweep.seconds)}`,
    sections: [
      section("verdict", "Verdict", element("p", { class: "headline" }, headline(sweep)), figures([
        [`${sweep.objective}, best`, withUnit(best, sweep.objective)], ["baseline", withUnit(sweep.baseline?.[sweep.objective], sweep.objective)], ["median of the points", withUnit(median(all), sweep.objective)], ["worst", withUnit(worst, sweep.objective)],
        ["noise", withUnit(sweep.noise.std, sweep.objective)], ["points", String(all.length)],
        ["points equal to the best within the noise", sweep.best ? String(sweep.best.points_alike) : "–"]]), settings(sweep)),
      section("importance", "Importance of the knobs", importanceOf(sweep), knobsTable(sweep), pairsTable(sweep)),
      section("values", "Results by value", pair(...byImportance(sweep.knobs).map((knob) => valuesOf(sweep, knob)))),
      section("parallel", "All points", parallel([{ sweep, name: "points" }]), pointsTable(sweep)),
      all.length ? section("matrix", "Two knobs", ...matrix(sweep.knobs, [`${spaced(sweep.objective)} of two knobs`], (x, y) => [heat({ xs: valuesNamed(sweep, x), ys: valuesNamed(sweep, y), names: [x, y],
        value: cellOf(sweep, [x, y]), show: brief, colours: shades(sweep.higher_is_better) })])) : null,
      section("history", "Trials", history(sweep), trialsTable(sweep)),
    ],
  };
}
