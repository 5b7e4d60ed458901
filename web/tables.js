// Tables that fold, sort by each column and copy as CSV.
import { brief, bytes, causeName, counted, element, known, percent, shapeText, shortName, spaced } from "./words.js";

const quoted = (value) => (/[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);

export function csvOf(columns, rows) {
  const lines = [columns.map((column) => quoted(column.title))];
  for (const row of rows) lines.push(columns.map((column) => quoted(String(column.value(row) ?? ""))));
  return lines.map((line) => line.join(",")).join("\n");
}

function copy(text, button) {
  const done = () => { button.textContent = "copied"; setTimeout(() => { button.textContent = "copy as CSV"; }, 1500); };
  const byHand = () => {
    const area = element("textarea", { "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    done();
  };
  if (navigator.clipboard && window.isSecureContext) navigator.clipboard.writeText(text).then(done, byHand);
  else byHand();
}

const missing = (value) => value === null || value === undefined || value === "";

// A row that measured nothing: all is zero or unknown but what names the row, in its first column and those with `id`.
const isEmpty = (columns, row) => columns.length > 1 && columns.every((column, i) => i === 0 || column.id || missing(column.value(row)) || column.value(row) === 0);

// The body of a table, with its headings; made when it is first seen.
function grid(caption, columns, rows) {
  const body = element("tbody"), numeric = columns.map((column) => rows.some((row) => known(column.value(row))));
  const wide = columns.map((column) => rows.some((row) => String(column.value(row)).length > 24 && !known(column.value(row))));
  let sorted = null, down = true;
  const cell = (column, index, row) => {
    const value = column.value(row);
    const content = column.show ? column.show(row) : known(value) ? brief(value) : missing(value) ? "–" : value;
    const made = element("td", { class: `${numeric[index] ? "number " : wide[index] ? "wide " : ""}${column.class?.(row) ?? ""}`, title: column.tip?.(row) });
    made.append(content instanceof Node ? content : String(content));
    return made;
  };
  const fill = () => body.replaceChildren(...rows.map((row) => element("tr", {}, ...columns.map((column, index) => cell(column, index, row)))));
  const compare = (column, a, b) => {
    const x = column.value(a), y = column.value(b);
    if (known(x) || known(y)) return (known(x) ? x : -Infinity) - (known(y) ? y : -Infinity);
    return String(x ?? "").localeCompare(String(y ?? ""));
  };
  const heads = columns.map((column, index) => {
    const head = element("th", { scope: "col", class: numeric[index] ? "number" : "" });
    const sort = () => {
      down = sorted === column ? !down : numeric[index];
      sorted = column;
      rows.sort((a, b) => (down ? -1 : 1) * compare(column, a, b));
      for (const each of heads) each.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      fill();
    };
    head.append(element("button", { type: "button", onclick: sort, title: "sort by this column" }, column.title));
    return head;
  });
  fill();
  return element("div", { class: "table", tabindex: "0", role: "region", "aria-label": caption },
    element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body));
}

// columns: [{ title, value(row), show(row)?, tip(row)?, class(row)?, id? }]. Columns without values and rows that
// measured nothing are hidden. `key` names the table where the page chooses which tables are open.
export function table(caption, columns, rows, key = caption) {
  const measured = rows.filter((row) => !isEmpty(columns, row));
  const shown = columns.filter((column) => measured.some((row) => !missing(column.value(row))));
  if (!measured.length) return null;
  const button = element("button", { type: "button" }, "copy as CSV");
  button.addEventListener("click", () => copy(csvOf(columns, measured), button));
  const hidden = rows.length - measured.length;
  const box = element("details", { class: "sortable", open: "", "data-key": key }, element("summary", {}, element("b", {}, caption), " ",
    element("span", { class: "quiet" }, `${counted(measured.length, "row")}${hidden ? `, ${hidden} without values hidden` : ""}`)));
  const fill = () => { if (box.open && !box.querySelector("table")) box.append(grid(caption, shown, measured), button); };
  box.addEventListener("toggle", fill);
  return box;
}

// Opens the tables that `first` names, at most `most` in all; folds the rest.
export function foldTables(main, first, most = 5) {
  const all = [...main.querySelectorAll("details.sortable:not(.sums *)")], place = (box) => first.indexOf(box.dataset.key);
  const named = all.filter((box) => place(box) >= 0).sort((a, b) => place(a) - place(b));
  const open = new Set((all.length > most && named.length ? named : all).slice(0, most));
  for (const box of all) box.open = open.has(box);
}

const kinds = { kernel: (value) => shortName(value) || "–", word: (value) => (value ? spaced(value) : "–"), share: percent, bytes };
const showOf = (key, kind) => (key === "dims" ? shapeText : key === "cause" ? causeName : kinds[kind]);
const IDS = /^(rank|from|to|stream|queue|step|start_ms|group_size|nodes|channels|bytes_each|m|n|k)$/;

// "a.b": b of the object a.
const at = (row, key) => key.split(".").reduce((value, name) => value?.[name], row);

// A table whose columns the data names: { key, title, columns: [{ key, heading, kind }] }. before, after: columns of the page's own.
export function dataTable(described, rows, before = [], after = []) {
  return table(described.title, [...before, ...described.columns.map(({ key, heading, kind }) => ({ title: heading, value: (row) => at(row, key), id: IDS.test(key),
    show: showOf(key, kind) && ((row) => showOf(key, kind)(at(row, key))), tip: kind === "kernel" ? (row) => at(row, key) : undefined })), ...after], rows, described.key);
}
export const tableNamed = (data, key) => data.tables.find((one) => one.key === key);
