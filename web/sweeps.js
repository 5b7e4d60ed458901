// The page of `aorta sweep --compare`: two sweeps or more, each compared with the first.
import { brief, bytes, change, element, fileNames, known, percent, spaced } from "./words.js";
import { figures, heat, lines, note, pair, section, settingsTables, sign, stack } from "./sections.js";
import { chart, tip } from "./charts.js";
import { titleOf } from "./figures.js";
import { importanceOf, knobsTable, matrix, parallel, pointText, samePoint, shades, valueAxis, wholePoints } from "./sweep.js";
import { table } from "./tables.js";
import { colour, palette } from "./theme.js";
import { timeline } from "./timeline.js";

const colourOf = (side) => palette[side % palette.length];
const SHARES = new Set(["overlap_ratio", "idle_share", "launch_share", "mfu"]);
const mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : NaN);

// What the comparisons of the data say of a figure, by side and point; point null: over all points.
function reader(data) {
  const { results, parts } = data;
  const maps = results.comparisons.map((one) => new Map(one.rows.map((row) => [`${row.point}|${row.figure}`, row])));
  const row = (side, point, figure) => maps[side - 1].get(`${point}|${figure}`);
  const trials = (side, point, figure) => parts[side].points[point].trials.map((trial) => trial.figures[figure]).filter(known);
  const value = (side, point, figure) => {
    const found = side ? row(side, point, figure)?.candidate : row(1, point, figure)?.reference;
    return known(found) || point === null ? found : mean(trials(side, point, figure));
  };
  return { row, trials, value };
}

const shown = (figure, value) => {
  if (!known(value)) return "–";
  return SHARES.has(figure.name) ? percent(value) : `${brief(value)}${figure.unit ? ` ${figure.unit}` : ""}`;
};
const changeOf = (row) => (row ? row.delta_percent / 100 : NaN);
const wordOf = (row) => {
  if (!row || !known(row.p_corrected)) return "not known";
  if (!row.counts) return "within the noise";
  return row.delta > 0 === row.higher_is_better ? "better" : "worse";
};
const classOf = (row) => (row?.counts ? wordOf(row) : "");
const chanceOf = (row) => (row && known(row.p_value) ? `p = ${brief(row.p_value)}, corrected ${brief(row.p_corrected)}; 95%: ${brief(row.ci[0])} to ${brief(row.ci[1])}; ` +
  `equal sweeps differ by ${percent(row.between_runs_percent / 100)}` : "noise not known: nothing was repeated");

// Columns of a figure on all sides: its values, and each change.
const sideColumns = (labels, value, row, figureOf) => [...labels.map((label, side) => ({ title: label, value: (one) => value(one, side), show: (one) => shown(figureOf(one), value(one, side)) })),
  ...labels.slice(1).flatMap((label, i) => {
    const of = labels.length > 2 ? `, ${label}` : "";
    return [{ title: `change${of}`, value: (one) => changeOf(row(one, i + 1)), show: (one) => sign(changeOf(row(one, i + 1))), class: (one) => classOf(row(one, i + 1)), tip: (one) => chanceOf(row(one, i + 1)) },
      { title: `result${of}`, value: (one) => wordOf(row(one, i + 1)), class: (one) => classOf(row(one, i + 1)) },
      { title: `p${of}`, value: (one) => row(one, i + 1)?.p_corrected, tip: (one) => chanceOf(row(one, i + 1)) }];
  })];

// ---- the answer ----

function differencesTable({ comparisons }, labels) {
  const keys = [...new Set(comparisons.flatMap((one) => one.differences.map((row) => row.key)))];
  const find = (key) => comparisons.map((one) => one.differences.find((row) => row.key === key));
  const text = (key, side) => {
    const rows = find(key), first = rows.find(Boolean);
    return (side && rows[side - 1] ? rows[side - 1].candidate : first.reference) ?? "not set";
  };
  return keys.length ? table("What differs between the sweeps", [{ title: "key", value: (key) => key.replace(/^environment\./, "") }, ...labels.map((label, side) => ({ title: label, value: (key) => text(key, side) }))], keys)
    : note("Command, configuration, libraries and environment are equal.");
}

function openPoint(point) {
  const found = document.getElementById(`point-${point}`);
  if (!found) return;
  found.open = true;
  found.scrollIntoView();
}
const pointLink = (points, point) => element("a", { href: `#point-${point}`, onclick: (event) => { event.preventDefault(); openPoint(point); } }, points[point].name);

function changesTable(one, results, labels) {
  if (!one.changes.length) return note(`No figure of ${one.candidate} differs from ${one.reference} beyond the noise.`);
  const figure = (row) => results.figures.find((other) => other.name === row.figure);
  const of = (row) => one.rows.find((other) => other.point === row.point && other.figure === row.figure);
  const unit = (row) => (figure(row).unit ? `, ${figure(row).unit}` : "");
  return table(`Regressions and improvements${labels.length > 2 ? `, ${one.candidate}` : ""}`, [
    { title: "figure", value: (row) => row.figure, show: (row) => `${titleOf(row.figure)}${unit(row)}` },
    { title: "at", value: (row) => results.points[row.point]?.name ?? "", show: (row) => (results.points[row.point] ? pointLink(results.points, row.point) : "all configurations") },
    { title: one.reference, value: (row) => of(row).reference, show: (row) => shown(figure(row), of(row).reference) },
    { title: one.candidate, value: (row) => of(row).candidate, show: (row) => shown(figure(row), of(row).candidate) },
    { title: "change", value: (row) => changeOf(of(row)), show: (row) => sign(changeOf(of(row))), class: (row) => row.change, tip: (row) => chanceOf(of(row)) },
    { title: "result", value: (row) => row.change, class: (row) => row.change }, { title: "cause", value: (row) => row.cause ?? "" }], one.changes);
}

function answer(data, labels, read) {
  const { results } = data, { objective } = results, main = results.figures.find((one) => one.name === objective);
  const boxes = results.comparisons.flatMap((one, i) => {
    const row = read.row(i + 1, null, objective), at = results.points.map((_, point) => classOf(read.row(i + 1, point, objective)));
    return [[`${spaced(objective)}, ${one.reference}`, shown(main, row?.reference)], [`${one.candidate}`, shown(main, row?.candidate)], ["change", sign(changeOf(row))],
      ["95% interval", row && known(row.ci[0]) ? `${sign(row.ci[0] / Math.abs(row.reference))} to ${sign(row.ci[1] / Math.abs(row.reference))}` : "–"],
      ["configurations worse", String(at.filter((word) => word === "worse").length)], ["configurations better", String(at.filter((word) => word === "better").length)],
      ["configurations within the noise", String(at.filter((word) => !word).length)]];
  });
  return section("comparison", "Answer", ...results.comparisons.map((one) => element("p", { class: "headline" }, one.headline ?? "The sweeps have no configuration in common.")),
    figures(boxes), differencesTable(results, labels),
    results.points.length ? table("Figures over all configurations", [{ title: "figure", value: (one) => one.name, show: (one) => titleOf(one.name) },
      ...sideColumns(labels, (one, side) => read.value(side, null, one.name), (one, side) => read.row(side, null, one.name), (one) => one)],
    results.figures.filter((one) => read.row(1, null, one.name))) : null,
    note("Times and rates are geometric means over the configurations. p is corrected for the number of comparisons (Holm). The noise is that of repeats and of equal sweeps."));
}

// ---- configurations side by side ----

// A choice of figure, and what is drawn of it.
function byFigure(all, draw) {
  const choice = element("select", { "aria-label": "figure" }, ...all.map((one) => element("option", { value: one.name }, titleOf(one.name))));
  const place = element("div");
  const fill = () => place.replaceChildren(...draw(all.find((one) => one.name === choice.value)).filter(Boolean));
  choice.addEventListener("change", fill);
  fill();
  return [element("div", { class: "controls" }, "figure", choice), place];
}

const shortName = (point) => Object.values(point.values).filter(known).length || Object.values(point.values).length ? Object.values(point.values).join(", ") : point.name;

function sideBySide(results, labels, read, figure) {
  const points = results.points, names = points.map(shortName);
  const item = (side) => points.flatMap((_, point) => read.trials(side, point, figure.name).map((value) => ({ value: [names[point], value] })));
  return chart(`${titleOf(figure.name)} of each configuration (${Object.keys(points[0].values).join(", ")}); circles are runs`, (width) => {
    const wide = Math.min(40, 0.7 * (width - 80) / points.length / labels.length);
    return {
    tooltip: { trigger: "axis", axisPointer: { type: "shadow" }, valueFormatter: (value) => shown(figure, Array.isArray(value) ? value[1] : value) },
    xAxis: { type: "category", data: names },
    yAxis: { ...valueAxis(figure.name), name: `${titleOf(figure.name)}${figure.unit ? `, ${figure.unit}` : ""}`, scale: false }, legend: { data: labels },
    series: [...labels.map((label, side) => ({ type: "bar", name: label, barWidth: wide, barGap: 0, itemStyle: { color: colourOf(side), opacity: 0.85 }, data: points.map((_, point) => read.value(side, point, figure.name)) })),
      ...labels.map((label, side) => ({ type: "scatter", name: `${label}: runs`, symbolSize: 5, symbolOffset: [(side - (labels.length - 1) / 2) * wide, 0], z: 4,
        itemStyle: { color: colour("paper"), borderColor: colour("text"), borderWidth: 1 }, data: item(side) }))] };
  }, 320);
}

const pointsTable = (results, labels, read, figure) => table(`${titleOf(figure.name)}, each configuration`, [
  { title: "configuration", value: (point) => results.points[point].name, show: (point) => pointLink(results.points, point) },
  ...sideColumns(labels, (point, side) => read.value(side, point, figure.name), (point, side) => read.row(side, point, figure.name), () => figure),
  { title: "runs", value: (point) => results.points[point].runs.join(", ") }], results.points.map((_, point) => point));

function allChanges(results, labels, read, list) {
  return results.comparisons.map((one, i) => table(`Changes of all figures${labels.length > 2 ? `, ${one.candidate}` : ""}`, [
    { title: "configuration", value: (point) => results.points[point].name, show: (point) => pointLink(results.points, point) },
    ...list.map((figure) => ({ title: titleOf(figure.name), value: (point) => changeOf(read.row(i + 1, point, figure.name)), show: (point) => sign(changeOf(read.row(i + 1, point, figure.name))),
      class: (point) => classOf(read.row(i + 1, point, figure.name)), tip: (point) => `${shown(figure, read.value(0, point, figure.name))}, then ${shown(figure, read.value(i + 1, point, figure.name))}; ${chanceOf(read.row(i + 1, point, figure.name))}` }))],
  results.points.map((_, point) => point)));
}

// ---- two knobs ----

// All sides in one scale of colours; the changes have one of their own.
function matrices(data, labels, read) {
  const { results, parts } = data, knobs = parts[0].sweep.knobs.filter((knob) => knob.values.length > 1);
  if (knobs.length < 2 || !results.points.length) return [];
  let figure = results.figures.find((one) => one.name === results.objective);
  const titles = [...labels, ...labels.slice(1).map((label) => `Change, ${label} against ${labels[0]}`)];
  const cell = (x, y, of) => (a, b) => mean(results.points.map((point, i) => (point.values[x] === a && point.values[y] === b ? of(i) : NaN)).filter(known));
  const [controls, charts] = matrix(knobs, titles, (x, y) => {
    const names = (knob) => knobs.find((one) => one.name === knob).values.map((row) => row.value).filter((value) => results.points.some((point) => point.values[knob] === value));
    const xs = names(x), ys = names(y), at = labels.map((_, side) => cell(x, y, (point) => read.value(side, point, figure.name)));
    const all = at.flatMap((of) => xs.flatMap((a) => ys.map((b) => of(a, b)))).filter(known);
    const both = { xs, ys, names: [x, y], colours: shades(figure.higher_is_better), range: [Math.min(...all), Math.max(...all)] };
    return [...at.map((value) => heat({ ...both, value, show: (number) => shown(figure, number) })),
      ...at.slice(1).map((value) => heat({ ...both, range: undefined, value: (a, b) => change(value(a, b), at[0](a, b)), show: sign, symmetric: true }))];
  });
  const choice = element("select", { "aria-label": "figure of the matrices" }, ...results.figures.filter((one) => read.row(1, null, one.name)).map((one) => element("option", { value: one.name }, titleOf(one.name))));
  choice.value = figure.name;
  choice.addEventListener("change", () => {
    figure = results.figures.find((one) => one.name === choice.value);
    for (const one of charts.querySelectorAll(":scope > div")) one.refill?.();
  });
  controls.prepend("figure", choice);
  return [controls, charts];
}

// ---- one configuration ----

function bandwidths(details, labels) {
  const series = details.flatMap((detail, side) => {
    const kinds = [...new Set((detail?.collectives ?? []).map((row) => row.kind))];
    return kinds.map((kind, i) => ({ type: "scatter", name: `${spaced(kind)}, ${labels[side]}`, symbol: ["circle", "rect", "triangle", "diamond"][i % 4], symbolSize: 11, itemStyle: { color: colourOf(side), opacity: 0.8 },
      data: detail.collectives.filter((row) => row.kind === kind && row.rate > 0).map((row) => ({ value: [row.bytes_each, row.rate], row })) }));
  }).filter((one) => one.data.length);
  return series.length ? chart("Collectives: bus bandwidth by size", () => ({
    tooltip: { trigger: "item", formatter: ({ data, seriesName }) => tip(seriesName, `${bytes(data.row.bytes_each)}: ${brief(data.row.rate)} GB/s of the bus, ${brief(data.row.count)} times`) },
    xAxis: { type: "log", logBase: 4, name: "bytes of one rank", axisLabel: { formatter: (value) => bytes(value) } }, yAxis: { type: "log", name: "GB/s", nameLocation: "end", nameGap: 8 }, legend: {}, series })) : null;
}

const overSteps = (title, unit, key, details, labels) => lines(title, unit, details.map((detail, side) => ({ name: labels[side], itemStyle: { color: colourOf(side) }, lineStyle: { color: colourOf(side), width: 1.4 },
  data: (detail?.[key] ?? []).map((value, i) => [detail.step[i], value]) })));

function shares(details, labels, read, point) {
  const rows = labels.map((label, side) => ({ name: label, parts: Object.fromEntries(["launch_share", "idle_share"].map((key) => [key === "launch_share" ? "late launches" : "all idle time", 100 * read.value(side, point, key)])) }));
  const drawn = rows.filter((row) => Object.values(row.parts).some(known));
  return drawn.length ? chart("Late launches and idle time, percent of the step", () => ({ tooltip: { trigger: "axis", axisPointer: { type: "shadow" } }, xAxis: { type: "category", data: Object.keys(drawn[0].parts) },
    yAxis: { type: "value", name: "percent", nameLocation: "end", nameGap: 8 }, legend: {},
    series: drawn.map((row) => ({ type: "bar", name: row.name, itemStyle: { color: colourOf(labels.indexOf(row.name)) }, barMaxWidth: 60, data: Object.values(row.parts) })) })) : null;
}

const address = (path) => path.split("/").map(encodeURIComponent).join("/");

function trialLinks(part, label) {
  return element("p", {}, `${label}: `, ...part.trials.flatMap((trial, i) => [i ? ", " : "", trial.page ? element("a", { href: address(trial.page) }, `trial ${trial.trial}`) : `trial ${trial.trial}`,
    trial.trial === part.median ? " (median)" : ""]));
}

function configuration(data, labels, read, point) {
  const { results, parts } = data, sides = parts.map((part) => part.points[point]), details = sides.map((side) => side.detail);
  const list = results.figures.filter((figure) => labels.some((_, side) => known(read.value(side, point, figure.name))));
  return [...sides.map((side, i) => trialLinks(side, labels[i])),
    table("Figures", [{ title: "figure", value: (figure) => figure.name, show: (figure) => titleOf(figure.name) },
      ...sideColumns(labels, (figure, side) => read.value(side, point, figure.name), (figure, side) => read.row(side, point, figure.name), (figure) => figure)], list),
    pair(details.some(Boolean) ? stack("Compute and communication of the mean step, median trial", details.map((detail, side) => ({ name: labels[side], parts: detail?.parts ?? {} }))) : null, shares(details, labels, read, point)),
    pair(overSteps("Hidden share of communication over steps, median trial", "share", "overlap_ratio", details, labels), overSteps("Time of a step, median trial", "ms", "step_ms", details, labels)),
    bandwidths(details, labels),
    ...details.flatMap((detail, side) => (detail?.timeline ? [element("h3", {}, `Streams of the median step, ${labels[side]}`), timeline(detail.timeline, 1 + point * labels.length + side)] : []))].filter(Boolean);
}

// Each is made when it is opened.
function configurations(data, labels, read) {
  const { results } = data, most = results.comparisons[0]?.changes.find((row) => known(row.point))?.point ?? 0;
  return results.points.map((point, i) => {
    const row = read.row(1, i, results.objective), figure = results.figures.find((one) => one.name === results.objective);
    const box = element("details", { class: "point", id: `point-${i}` }, element("summary", {}, `${point.name}: ${titleOf(figure.name)} ${labels.map((_, side) => shown(figure, read.value(side, i, figure.name))).join(", ")} `,
      element("span", { class: classOf(row) }, `(${sign(changeOf(row))}, ${wordOf(row)})`)));
    const fill = () => { if (box.children.length === 1) box.append(...configuration(data, labels, read, i)); };
    box.addEventListener("toggle", () => { if (box.open) fill(); });
    box.open = i === most;
    if (box.open) fill();
    return box;
  });
}

// ---- the sweeps themselves ----

function sweepsTable(labels, sweeps) {
  const facts = (sweep) => ({ target: sweep.target, search: sweep.search, steps: sweep.steps, repeats: sweep.repeats, trials: sweep.trials.length,
    failures: sweep.trials.filter((trial) => trial.state !== "done").length, "noise, std": sweep.noise.std, best: sweep.best ? pointText(sweep.best.values) : null,
    "best figure": sweep.best?.[sweep.objective] });
  const all = sweeps.map(facts), text = (value) => (known(value) ? brief(value) : value || "–");
  return table("The sweeps", [{ title: "", value: (key) => key }, ...labels.map((label, i) => ({ title: label, value: (key) => text(all[i][key]) }))], Object.keys(all[0]));
}

export function sweepComparisonPage(data) {
  const { results, parts } = data, labels = results.sweeps.map((one) => one.label), sweeps = parts.map((part) => part.sweep), read = reader(data);
  const list = results.figures.filter((one) => results.points.some((_, point) => read.row(1, point, one.name)));
  const objectiveFirst = [...list].sort((a, b) => (b.name === results.objective) - (a.name === results.objective));
  const varied = parts.map(({ sweep }) => ({ ...sweep, knobs: sweep.knobs.filter((knob) => knob.values.length > 1) }));
  const common = (sweep) => ({ ...sweep, points: wholePoints(sweep).filter((point) => results.points.some((row) => samePoint(row.values, point.values))) });
  const several = results.points.length > 0;
  return {
    title: (results.sweeps.every((one) => one.label === one.directory) ? fileNames(labels) : labels).join(", "), subtitle: `${labels.length} sweeps, ${results.points.length} configurations in common, ${spaced(results.objective)}`,
    sections: [
      answer(data, labels, read),
      several ? section("changes", "Regressions and improvements", ...results.comparisons.map((one) => changesTable(one, results, labels))) : null,
      several ? section("configurations", "Configurations side by side", ...byFigure(objectiveFirst, (figure) => [sideBySide(results, labels, read, figure), pointsTable(results, labels, read, figure)]), ...allChanges(results, labels, read, list)) : null,
      section("matrix", "Two knobs", ...matrices(data, labels, read)),
      several ? section("points", "Each configuration", ...configurations(data, labels, read)) : null,
      several ? section("parallel", "All points", parallel(varied.map((sweep, i) => ({ sweep: common(sweep), name: labels[i] })))) : null,
      section("importance", "What each knob is worth", pair(...varied.map((sweep, i) => importanceOf(sweep, `${labels[i]}: `))), ...varied.map((sweep, i) => element("div", {}, element("h3", {}, labels[i]), knobsTable(sweep)))),
      section("sweeps", "The sweeps", sweepsTable(labels, sweeps), ...settingsTables("Versions and environment", labels, parts.map((part) => new Map(Object.entries(part.environment)))).filter((one) => one?.matches("details"))),
    ],
  };
}
