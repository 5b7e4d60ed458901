// The verdict as the terminal prints it: headline, rows, one block per cause. Figures behind a block unfold.
import { brief, causeName, element, known, ms, percent, shapeText, shortName } from "./words.js";

const line = (label, ...content) => element("div", { class: label }, element("span", { class: "label" }, label), element("div", {}, ...content));

const range = ([low, high]) => `${brief(low)} to ${brief(high)} ms`;
const units = { ms, "GB/s": (value) => `${brief(value)} GB/s`, GiB: (value) => `${brief(value)} GiB`, us: (value) => `${brief(value)} µs`, share: percent };

function placeOf({ name, after, shape, host, count, rank, step, stream }) {
  return [name && shortName(name), shape && shapeText(shape), known(count) && `${brief(count)} per step`, after && `after ${shortName(after)}`, host && `host in ${host}`,
    known(rank) && `rank ${rank}`, known(step) && `step ${step}`, known(stream) && `stream ${stream}`].filter(Boolean).join(", ");
}

// [name, value, place] of what is known about a finding. The gain and its range are those that the block shows.
function detailsOf({ gain_ms: gain, gain_range_ms: [low, high] = [] }, finding, facts, nameOf) {
  const row = (name, value, place = "") => [name, value, place];
  return [
    known(gain) && row(known(finding.at_best_ms) ? "gain at best" : gain === finding.alone_ms ? "gain alone" : "gain", ms(gain)),
    low !== high && row("range of the gain", range([low, high])),
    known(gain) && finding.gain_ms > 0 && finding.gain_ms !== gain && row("gain after all larger gains", ms(finding.gain_ms)),
    known(finding.then_ms) && row("gain after the other fixes of compute", ms(finding.then_ms)),
    known(finding.together_ms) && row(`gain together with ${nameOf(finding.together_with)}`, ms(finding.together_ms)),
    ...finding.shares_with.map((one) => row(`shared with ${nameOf(one.cause)}`, ms(one.ms))),
    finding.cost_ms > 0 && row("cost per step", `${ms(finding.cost_ms)} (${percent(finding.share)})`, known(finding.rank) ? `rank ${finding.rank}` : ""),
    ...finding.facts.map(({ key, value, unit, text, place }) => row(facts[key].help,
      facts[key].flag ? "yes" : (units[unit] ?? brief)(value), [text, placeOf(place)].filter(Boolean).join("; "))),
  ].filter(Boolean);
}

const detailsTable = (rows) => element("table", { class: "facts" }, element("tbody", {}, ...rows.map((row) =>
  element("tr", {}, ...row.map((text) => element("td", {}, text))))));

const hue = (share) => (share >= 0.2 ? "#d55e00" : share >= 0.1 ? "#e69f00" : "#56b4e9");

function block(one, finding, id, options) {
  const { facts, nameOf, amongGains } = options;
  const measured = [one.measured, one.mark && `(${one.mark})`].filter(Boolean).join(" ");
  return element("li", { id },
    element("div", { class: "bar", "aria-hidden": "true" }, element("i", { style: { width: `${Math.max(0, Math.min(1, one.share)) * 100}%`, background: hue(one.share) } })),
    element("span", { class: "share" }, `${Math.round(100 * one.share)}%`),
    element("b", { class: "gain" }, `${one.figure} ms`),
    element("div", { class: "what" },
      element("div", {}, element("a", { class: "name", href: `#${id}`, title: "link to this cause" }, one.name), ` (${one.cause})`,
        amongGains && !one.gains ? ", cost" : "", one.suffix ? `, ${one.suffix}` : ""),
      measured ? element("div", { class: "measured" }, measured) : null,
      one.worst ? line("worst", one.worst) : null,
      one.fix.length ? line("fix", ...one.fix.flatMap((text, i) => (i ? [element("br"), text] : [text]))) : null,
      finding ? element("details", {}, element("summary", {}, "facts"), detailsTable(detailsOf(one, finding, facts, nameOf))) : null));
}

// view: verdict_view of the data; findings: its verdict[]; facts: { help, flag } of each key of a fact.
export function verdictView(view, findings, facts, prefix) {
  const names = new Map(view.blocks.map((one) => [one.cause, one.name]));
  const options = { facts, nameOf: (cause) => names.get(cause) ?? causeName(cause), amongGains: view.blocks[0]?.gains };
  const ids = view.blocks.map((one, i) => {
    const before = view.blocks.slice(0, i).filter((earlier) => earlier.cause === one.cause).length;
    return `${prefix}${one.cause}${before ? `-${before + 1}` : ""}`;
  });
  return element("div", { class: "verdict" },
    element("p", { class: "headline" }, view.headline),
    element("dl", { class: "rows" }, ...view.rows.flatMap((row) => [element("dt", {}, row.name), element("dd", {}, row.text)])),
    view.blocks.length ? element("div", { class: "heads quiet" }, element("span", {}, "share of step"), element("span", { class: "gain" }, view.blocks[0].gains ? "gain alone" : "cost")) : null,
    view.blocks.length ? element("ol", { class: "blocks" }, ...view.blocks.map((one, i) => block(one, findings[one.finding], ids[i], options))) : null,
    view.minor ? element("p", { class: "minor" }, view.minor) : null);
}
