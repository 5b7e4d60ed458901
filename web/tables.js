// Tables that sort by each column and copy as CSV.
import { brief, bytes, element, known, percent, shortName, spaced } from "./words.js";

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

// columns: [{ title, value(row), show(row)?, tip(row)?, class(row)? }]
export function table(caption, columns, rows) {
  const body = element("tbody");
  let sorted = null, down = true, shown = [...rows];
  const numeric = columns.map((column) => rows.some((row) => known(column.value(row))));
  const cell = (column, index, row) => {
    const value = column.value(row);
    const content = column.show ? column.show(row) : known(value) ? brief(value) : value ?? "–";
    const made = element("td", { class: `${numeric[index] ? "number " : ""}${column.class?.(row) ?? ""}`, title: column.tip?.(row) });
    made.append(content instanceof Node ? content : String(content));
    return made;
  };
  const fill = () => body.replaceChildren(...shown.map((row) => element("tr", {},
    ...columns.map((column, index) => cell(column, index, row)))));
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
      shown = [...rows].sort((a, b) => (down ? -1 : 1) * compare(column, a, b));
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      fill();
    };
    head.append(element("button", { type: "button", onclick: sort, title: "sort by this column" }, column.title));
    return head;
  });
  fill();
  const button = element("button", { type: "button" }, "copy as CSV");
  button.addEventListener("click", () => copy(csvOf(columns, shown), button));
  return element("div", { class: "sortable" },
    element("div", { class: "controls" }, element("b", {}, caption), element("span", { class: "quiet" }, `${rows.length} rows`), button),
    element("div", { class: "table", tabindex: "0", role: "region", "aria-label": caption },
      element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body)));
}

// How the kinds of columns are shown; the others as they are.
const kinds = { kernel: (value) => shortName(value) || "–", word: (value) => (value ? spaced(value) : "–"), share: percent, bytes };

// "a.b": b of the object a.
const at = (row, key) => key.split(".").reduce((value, name) => value?.[name], row);

// A table whose columns the data names: { title, columns: [{ key, heading, kind }] }. before, after: columns of the page's own.
export function dataTable(described, rows, before = [], after = []) {
  const shown = described.columns.filter(({ key }) => rows.some((row) => at(row, key) !== null && at(row, key) !== undefined));
  return rows.length ? table(described.title, [...before, ...shown.map(({ key, heading, kind }) => ({ title: heading, value: (row) => at(row, key),
    show: kinds[kind] && ((row) => kinds[kind](at(row, key))), tip: kind === "kernel" ? (row) => at(row, key) : undefined })), ...after], rows) : null;
}
export const tableNamed = (data, key) => data.tables.find((one) => one.key === key);
