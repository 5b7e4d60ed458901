// Elements and numbers. Strings of files are only inserted as text.
export function element(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(options)) {
    if (value === undefined || value === null) continue;
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "style") Object.assign(made.style, value);
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export const known = (value) => typeof value === "number" && Number.isFinite(value);

// Three significant digits, or all before the point.
export function brief(value) {
  if (!known(value)) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 100) return Math.round(value).toLocaleString("en-US").replaceAll(",", "\u202f");
  if (size < 1e-4) return value.toExponential(2);
  return String(Number(value.toPrecision(3)));
}

// The number of a tick of an axis. Ticks are round, and neighbours may differ in the fourth digit.
export const tick = (value) => (Number.isInteger(value) || Math.abs(value) < 1e-4 ? brief(value) : String(Number(value.toPrecision(6))));

export const ms = (value) => (known(value) ? `${brief(value)} ms` : "–");
export const percent = (share) => (known(share) ? `${brief(100 * share)}%` : "–");

// The relative change; NaN where there is none to speak of.
export const change = (value, before) => (known(value) && known(before) && before !== 0 ? (value - before) / Math.abs(before) : NaN);

const scaled = (value, factor, units) => {
  let unit = 0;
  while (value >= factor && unit + 1 < units.length) { value /= factor; unit++; }
  return `${brief(value)} ${units[unit]}`;
};
export const bytes = (value) => (known(value) ? scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]) : "–");
export const duration = (ns) => (known(ns) ? scaled(ns, 1000, ["ns", "µs", "ms", "s"]) : "–");

export const spaced = (key) => String(key).replaceAll("_", " ");

// Names of causes, from the page's data.
let causeNames = {};
export const useCauseNames = (names) => { causeNames = names ?? {}; };
export const causeName = (key) => causeNames[key] ?? spaced(key);
export const byCauseName = (parts) => Object.fromEntries(Object.entries(parts ?? {}).map(([key, value]) => [causeName(key), value]));

export const counted = (count, what) => `${brief(count)} ${what}${count === 1 ? "" : "s"}`;

// Paths by their last names, with as many folders as it takes to distinguish them.
export function fileNames(paths) {
  const parts = paths.map((path) => String(path).split("/").filter(Boolean));
  for (let last = 1; ; last++) {
    const names = parts.map((part, i) => part.slice(-last).join("/") || String(paths[i]));
    if (new Set(names).size === new Set(paths).size || parts.every((part) => part.length <= last)) return names;
  }
}

// Names of kernels for a line, from the page's data.
let shortNames = {};
export const useShortNames = (names) => { shortNames = names ?? {}; };
// "[8,64,768]x[8,64,1]" of "[[8, 64, 768], [8, 64, 1], []]".
export const shapeText = (dims) => String(dims ?? "").replace(/\[\[.*\]\]/, (lists) => [...lists.matchAll(/\[([\d, ]+)\]/g)].map(([, list]) => `[${list.replaceAll(" ", "")}]`).join("x"));
// Names with shapes and types, "aten::mm [[8, 4], [4, 2]] ["float", "float"]", lose the types.
export const shortName = (name) => shortNames[name] ?? shapeText(String(name ?? "").replace(/ \["[^\]]*"\]$/, ""));
