// Runs the script of a page that `aorta trace analyze --html` wrote against a small stand-in for a browser's document:
// every table is made and sorted, the timeline is drawn, zoomed, moved and asked for what lies under the pointer.
//   node check_page.mjs PROGRAM TRACE …
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import assert from "node:assert";

const [program, ...traces] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), "aorta-page-"));
const path = join(folder, "page.html");
execFileSync(program, ["trace", "analyze", "--html", path, ...traces]);
const page = readFileSync(path, "utf8");
rmSync(folder, { recursive: true });

const inlay = (id) => page.split(`id="${id}">`)[1].split("</script>")[0];
const drawn = [];
const pen = new Proxy({}, {
  get: (_, name) => (...values) => { drawn.push([name, ...values]); },
  set: () => true,
});
class Element {
  constructor(tag) { Object.assign(this, { tag, children: [], style: {}, on: {}, textContent: "", clientWidth: 1000 }); }
  append(...more) { this.children.push(...more); }
  replaceChildren(...all) { this.children = all; }
  addEventListener(name, call) { this.on[name] = call; }
  setPointerCapture() {}
  getContext() { return pen; }
  all(tag) { return this.children.flatMap((child) => [...(child.tag === tag ? [child] : []), ...(child.all?.(tag) ?? [])]); }
}
const known = { analysis: new Element("script"), lanes: new Element("script") };
known.analysis.textContent = inlay("analysis");
known.lanes.textContent = inlay("lanes");
globalThis.window = { devicePixelRatio: 1, innerWidth: 1200, addEventListener() {} };
globalThis.getComputedStyle = () => ({ getPropertyValue: () => "#123456" });
globalThis.document = {
  documentElement: {},
  createElement: (tag) => new Element(tag),
  getElementById: (id) => known[id] ??= Object.assign(new Element(id), { selectedIndex: 0 }),
};
(0, eval)(`(() => {${page.match(/<script>([\s\S]*?)<\/script>/)[1]}})()`);

const analysis = JSON.parse(inlay("analysis")), lanes = JSON.parse(inlay("lanes"));
assert.equal(known.findings.children.length, analysis.verdict.length);
assert.equal(known.rank.children.length, analysis.ranks.length);
const items = lanes.lanes.reduce((sum, lane) => sum + lane.items.length, 0);
const boxes = () => drawn.filter((call) => call[0] === "fillRect").length;
assert.equal(boxes(), items + lanes.lanes.length);
for (const lane of lanes.lanes)
  for (const [start, length, name] of lane.items)
    assert.ok(start >= 0 && length >= 0 && start + length <= lanes.length_ns && name < lanes.names.length);

for (const table of known.tables.all("table")) {
  const before = table.all("tbody")[0].children.length;
  for (const heading of table.all("th")) {
    heading.onclick();
    heading.onclick();
  }
  assert.equal(table.all("tbody")[0].children.length, before);
}
const first = lanes.lanes[0].items[0], canvas = known.timeline;
const at = 150 + (first[0] + first[1] / 2) / lanes.length_ns * 850;
canvas.on.pointermove({ offsetX: at, offsetY: 30, clientX: 0, clientY: 0 });
assert.match(known.tip.textContent, /µs at/);
drawn.length = 0;
canvas.on.wheel({ preventDefault() {}, offsetX: 600, deltaY: -2000 });
assert.ok(boxes() < items);
canvas.on.pointerdown({ offsetX: 600, pointerId: 1 });
canvas.on.pointermove({ offsetX: 500, offsetY: 30 });
canvas.on.pointerup({});
drawn.length = 0;
canvas.on.dblclick({});
assert.equal(boxes(), items + lanes.lanes.length);
