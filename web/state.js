// The view in the address: #SECTION&KEY=VALUE&…, so that a copied address opens the same view.
const values = new Map();
const listeners = [];
let place = "", waiting = 0;

function read() {
  const [first = "", ...pairs] = location.hash.slice(1).split("&");
  const parts = first.includes("=") ? [first, ...pairs] : pairs;
  place = first.includes("=") ? "" : decodeURIComponent(first);
  if (!parts.length) return false;
  values.clear();
  for (const part of parts) {
    const [key, value = ""] = part.split("=");
    values.set(key, decodeURIComponent(value));
  }
  return true;
}

function write() {
  waiting = 0;
  const parts = [...values].map(([key, value]) => `${key}=${encodeURIComponent(value)}`);
  const hash = [place && encodeURIComponent(place), ...parts].filter(Boolean).join("&");
  if (hash !== location.hash.slice(1)) history.replaceState(null, "", `#${hash}`);
}

// Browsers limit how often the address may change.
const writeSoon = () => { waiting ||= setTimeout(write, 250); };

export const viewed = (key) => values.get(key);

// An empty value removes the key.
export function setViewed(key, value) {
  if (value) values.set(key, String(value));
  else values.delete(key);
  writeSoon();
}

export const onAddress = (call) => listeners.push(call);

export function showPlace() {
  const target = place && document.getElementById(place);
  for (const marked of document.querySelectorAll(".target")) marked.classList.remove("target");
  if (!target) return;
  for (let folded = target.closest("details"); folded; folded = folded.parentElement.closest("details")) folded.open = true;
  target.classList.add("target");
  target.scrollIntoView();
}

export function startState() {
  read();
  window.addEventListener("hashchange", () => {
    if (read()) for (const call of listeners) call();
    else writeSoon(); // a link to a section replaces the whole address
    showPlace();
  });
}

// Tables and details that the reader opened or closed, by their number in their section.
export function startFolds(main) {
  const folds = new Map();
  for (const section of main.querySelectorAll("section"))
    section.querySelectorAll("details:not(.sums *)").forEach((fold, i) => folds.set(`${section.id}.${i}`, { fold, open: fold.open }));
  const apply = () => {
    const changed = new Set((viewed("o") ?? "").split(","));
    for (const [key, { fold, open }] of folds) fold.open = changed.has(key) ? !open : open;
  };
  const save = () => setViewed("o", [...folds].filter(([, { fold, open }]) => fold.open !== open).map(([key]) => key).join(","));
  apply();
  onAddress(apply);
  for (const { fold } of folds.values()) fold.addEventListener("toggle", save);
}
