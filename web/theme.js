// Light and dark, and colours that all eyes can distinguish (Okabe and Ito, 2008).
export const palette = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8c7a00", "#7f7f7f"];

// By the numbers of enum aorta_page_kind (src/report/page_recordings.h).
export const kinds = [
  ["compute", "#0072b2"], ["all-gather", "#009e73"], ["reduce-scatter", "#e69f00"], ["all-reduce", "#d55e00"],
  ["other collective", "#cc79a7"], ["copy", "#7f7f7f"], ["fill", "#a9a9a9"], ["exposed", "#f0b090"],
  ["launch", "#56b4e9"], ["host waits", "#8c7a00"], ["other call", "#b0b0d0"],
];

const listeners = [];
const wanted = () => {
  try { return localStorage.getItem("aorta-theme"); } catch { return null; }
};
export const dark = () => document.documentElement.dataset.theme === "dark";
export const onTheme = (call) => listeners.push(call);

export function setTheme(name) {
  document.documentElement.dataset.theme = name;
  for (const call of listeners) call();
}

export function startTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)");
  setTheme(wanted() ?? (system.matches ? "dark" : "light"));
  system.addEventListener("change", () => { if (!wanted()) setTheme(system.matches ? "dark" : "light"); });
  window.addEventListener("beforeprint", () => { document.documentElement.dataset.before = document.documentElement.dataset.theme; setTheme("light"); });
  window.addEventListener("afterprint", () => setTheme(document.documentElement.dataset.before ?? "light"));
}

export function toggleTheme() {
  const next = dark() ? "light" : "dark";
  try { localStorage.setItem("aorta-theme", next); } catch { /* a file may not store anything */ }
  setTheme(next);
}

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
