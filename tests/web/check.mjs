// Opens pages in Chromium and uses them as a reader does: node check.mjs PAGE.html …
// Every chart has marks and is saved; the timeline zooms, moves, answers the pointer, finds names and sums ranges; tables fold
// and sort; the address keeps the view; nothing is requested and nothing complained about. PAGE.txt, where it exists, is what
// the terminal printed: the verdict of the page is the same. Exit code 77 where Chromium or playwright-core is missing.
import assert from "node:assert";
import { existsSync, readFileSync } from "node:fs";
import { basename, resolve } from "node:path";

let browser;
try {
  browser = await import("./browser.mjs");
} catch {
  console.log("skipped: playwright-core is not installed (make check-web installs it)");
  process.exit(77);
}
if (!browser.program) {
  console.log("skipped: Chromium is not installed (make check-web installs it)");
  process.exit(77);
}

async function charts({ page }) {
  for (const box of await page.$$(".chart")) {
    const title = await box.getAttribute("aria-label");
    // Marks have a fill or stroke of the palette; axes and grid do not.
    const marks = await box.$$eval("svg path, svg polyline, svg circle", (all) => all.filter((one) => {
      const { fill, stroke } = getComputedStyle(one), box_ = one.getBBox();
      const coloured = (text) => { const parts = (text.match(/[\d.]+/g) ?? []).map(Number); return parts.length >= 3 && Math.max(...parts.slice(0, 3)) - Math.min(...parts.slice(0, 3)) > 60; };
      return (coloured(fill) || coloured(stroke)) && (box_.width > 0 || box_.height > 0);
    }).length);
    assert.ok(marks > 0, `${title}: no marks`);
    const labels = await box.$$eval("svg text", (all) => all.filter((one) => /^-?[\d.]+$/.test(one.textContent)).map((one) => one.getBoundingClientRect().right < one.closest("svg").getBoundingClientRect().left + 54 ? one.textContent : "").filter(Boolean));
    assert.equal(new Set(labels).size, labels.length, `${title}: two ticks are ${labels.join(", ")}`);
  }
}

// The pointer over a mark brings its figures; a slider moves what is shown.
async function pointer({ page }) {
  for (const box of await page.$$(".chart")) {
    const title = await box.getAttribute("aria-label");
    await box.scrollIntoViewIfNeeded();
    const marks = await box.$$eval("svg path, svg polyline, svg circle", (all) => all.map((one) => {
      const { fill, stroke } = getComputedStyle(one), at = one.getBoundingClientRect();
      const coloured = (text) => { const parts = (text.match(/[\d.]+/g) ?? []).map(Number); return parts.length >= 3 && Math.max(...parts.slice(0, 3)) - Math.min(...parts.slice(0, 3)) > 60; };
      const line = fill === "none" && one.getTotalLength ? one.getPointAtLength(one.getTotalLength() / 3).matrixTransform(one.getScreenCTM()) : null;
      return (coloured(fill) || coloured(stroke)) && (at.width > 0 || at.height > 0) ? { x: line?.x ?? at.x + at.width / 2, y: line?.y ?? at.y + at.height / 2 } : null;
    }).filter(Boolean));
    let words = "";
    for (const mark of marks.reverse().slice(0, 60)) {
      await page.mouse.move(mark.x + 1, mark.y);
      await page.mouse.move(mark.x, mark.y);
      words = await box.evaluate((one) => [...one.querySelectorAll(":scope > div")].filter((part) => part.style.visibility !== "hidden" && part.style.opacity !== "0").map((part) => part.textContent).join(""));
      if (/\d/.test(words)) break;
    }
    assert.match(words, /\d/, `${title}: the pointer finds nothing`);
    await page.mouse.move(2, 2);
  }
}

// Ctrl and the wheel zoom along x: the numbers below the axis change.
async function zooming({ page }) {
  for (const box of (await page.$$(".chart[data-zooms=yes]")).slice(0, 2)) {
    const title = await box.getAttribute("aria-label"), labels = () => box.$$eval("svg text", (all) => all.map((one) => one.textContent).join("|"));
    await box.scrollIntoViewIfNeeded();
    const before = await labels(), at = await box.boundingBox();
    await page.mouse.move(at.x + at.width * 0.4, at.y + at.height * 0.4);
    await page.keyboard.down("Control");
    for (let i = 0; i < 40 && (await labels()) === before; i++) {
      await page.mouse.wheel(0, -240);
      await page.waitForTimeout(60);
    }
    await page.keyboard.up("Control");
    assert.notEqual(await labels(), before, `${title}: the wheel does not zoom`);
    await page.mouse.move(2, 2);
  }
}

// ---- the verdict ----

const plain = (text) => text.replace(/^ +[#.]{10} /gm, "").replace(/\s+/g, " ").trim();

// Each part of the page's verdict stands in the terminal's text, in the same order.
async function verdict({ page }, path) {
  const parts = await page.$$eval("#verdict .verdict", ([one]) => {
    const text = (element) => (element ? element.innerText : "");
    return !one ? [] : [`Verdict: ${text(one.querySelector(".headline"))}`,
      ...[...one.querySelectorAll(".rows dt")].map((name) => `${text(name)} ${text(name.nextElementSibling)}`),
      ...[...one.querySelectorAll(".blocks > li")].flatMap((block) => [`${text(block.querySelector(".share"))} ${text(block.querySelector(".gain"))} ${text(block.querySelector(".what > div"))}`,
        ...[...block.querySelectorAll(".measured, .worst, .fix")].map(text)]), text(one.querySelector(".minor"))].filter(Boolean);
  });
  if (!existsSync(path)) return;
  const terminal = plain(readFileSync(path, "utf8"));
  let at = terminal.indexOf("Verdict: ");
  assert.ok(at >= 0 && parts.length > 2, `${path}: no verdict`);
  for (const part of parts.map(plain)) {
    const found = terminal.indexOf(part, at);
    assert.ok(found >= at, `the terminal does not say, or says before: ${part}`);
    at = found + part.length;
  }
  const bars = await page.$$eval(".blocks > li", (all) => all.map((one) => [parseFloat(one.querySelector(".bar i").style.width), parseFloat(one.querySelector(".share").textContent)]));
  for (const [width, share] of bars) assert.ok(Math.abs(width - share) <= 0.5, `a bar of ${width}% shows ${share}% of the step`);
  const folded = await page.$$eval("#verdict .blocks > li", (all) => all.map((block) => ({ figure: block.querySelector(".gain").textContent, rows: [...block.querySelectorAll("details tr")].map((row) => [...row.cells].slice(0, 2).map((cell) => cell.textContent)) })));
  for (const { figure, rows } of folded.filter((one) => one.rows.length)) {
    const row = (name) => rows.find(([key]) => key.startsWith(name))?.[1];
    assert.doesNotMatch(rows.flat().join("|"), /host launch|host sync|data wait|cost per step\|0 ms/, "facts have keys, or a cost of nothing");
    assert.ok(row("gain") ?? row("cost per step"), "neither a gain nor a cost");
    const [low, high] = (row("range of the gain") ?? `${row("gain")} to ${row("gain")}`).match(/[\d.]+/g)?.map(Number) ?? [], gain = parseFloat(row("gain"));
    if (row("gain")) assert.ok(low <= gain && gain <= high && Math.abs(high - Number(figure.match(/[\d.]+(?= ms)/))) <= 0.06 * high, `the gain ${figure} is ${row("gain")}, ${low} to ${high}, among the facts`);
  }
}

// ---- layout ----

async function layout({ page }, width) {
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= width, "the page is wider than the window");
  assert.ok(!(await page.textContent("h1")).startsWith("/"), "the title is a path");
  const open = await page.$$eval("details.sortable:not(.sums *)", (all) => all.filter((one) => one.open).length);
  assert.ok(open <= 5, `${open} tables are open`);
  const overlaps = await page.$$eval(".chart", (all) => all.flatMap((box) => {
    const texts = [...box.querySelectorAll("svg text")].filter((one) => !/^\d+\/\d+$|^$/.test(one.textContent)).map((one) => ({ text: one.textContent, at: one.getBoundingClientRect(), matrix: one.getCTM() })).filter(({ matrix }) => Math.abs(matrix.b) < 0.01);
    return texts.flatMap((a, i) => texts.slice(i + 1).filter((b) => Math.min(a.at.right, b.at.right) - Math.max(a.at.left, b.at.left) > 2 &&
      Math.min(a.at.bottom, b.at.bottom) - Math.max(a.at.top, b.at.top) > 4).map((b) => `${box.getAttribute("aria-label")}: "${a.text}" covers "${b.text}"`));
  }));
  assert.deepEqual(overlaps, [], "labels overlap");
}

// The parts of a step add up to the step of the table above.
async function comparison({ page }) {
  const box = await page.$('.chart[aria-label^="Device time per step"]');
  if (!box) return;
  await box.scrollIntoViewIfNeeded();
  const at = await box.boundingBox(), bar = await box.$$eval("svg path", (all) => all.map((one) => ({ fill: getComputedStyle(one).fill, at: one.getBoundingClientRect() })).filter(({ fill, at }) => fill === "rgb(0, 114, 178)" && at.height > 8 && at.height < 60 && at.width > 30).map((one) => one.at.y + one.at.height / 2));
  await page.mouse.move(at.x + at.width / 2, bar[0]);
  await page.waitForTimeout(100);
  const sum = await box.$$eval("span", (all) => all.filter((one) => one.style.float === "right").reduce((total, one) => total + Number(one.textContent.replace(/[^\d.e-]/g, "")), 0));
  const step = Number((await page.$eval('details[data-key="compared"] tbody tr:first-child td:nth-child(2)', (cell) => cell.textContent)).replace(/[^\d.]/g, ""));
  assert.ok(step > 0 && Math.abs(sum - step) < 0.01 * step, `the parts of the step add up to ${sum} of ${step} ms`);
  await page.mouse.move(2, 2);
}

// ---- the timeline ----

async function drawing({ page }) {
  const canvas = await page.$("canvas.timeline");
  if (!canvas) return;
  await canvas.scrollIntoViewIfNeeded();
  const state = () => canvas.evaluate((one) => ({ from: Number(one.dataset.from), to: Number(one.dataset.to), drawn: Number(one.dataset.drawn) }));
  const settled = () => page.waitForTimeout(120);
  await canvas.focus();
  await page.keyboard.press("0");
  await settled();
  const all = await state();
  assert.ok(all.drawn > 0, "the timeline is empty");
  await page.keyboard.press("+");
  await page.keyboard.press("+");
  await settled();
  const near = await state();
  assert.ok(near.to - near.from < (all.to - all.from) * 0.6, "plus does not zoom");
  await page.keyboard.press("ArrowRight");
  await settled();
  assert.ok((await state()).from > near.from, "the arrow does not move");
  const box = await canvas.boundingBox();
  await page.mouse.move(box.x + box.width * 0.6, box.y + box.height / 2);
  await page.mouse.wheel(0, -400);
  await settled();
  const wheeled = await state();
  assert.ok(wheeled.to - wheeled.from < near.to - near.from, "the wheel does not zoom");
  await page.keyboard.press("0");
  // Somewhere below the pointer lies a span.
  let words = "";
  for (let y = 30; !words && y < box.height; y += 6)
    for (let x = 0.15; !words && x < 1; x += 0.05) {
      await page.mouse.move(box.x + box.width * x, box.y + y);
      words = await page.$eval(".hint", (hint) => (hint.hidden ? "" : hint.textContent));
    }
  assert.match(words, /rank \d+/, "the pointer finds no span");
  await page.fill("input[type=search]", "i");
  await settled();
  assert.match(await page.textContent(".controls [role=status]"), /^[1-9][\d\u202f]* spans/);
  await page.press("input[type=search]", "Enter");
  await settled();
  const found = await state();
  assert.ok(found.to - found.from <= all.to - all.from);
  await page.fill("input[type=search]", "");
  const labels = await canvas.evaluate((one) => one.dataset.labels.split("|"));
  assert.equal(new Set(labels).size, labels.length, `two lanes are called the same: ${labels}`);
}

// W, A, S, D; a range that is dragged with Shift has sums; the address keeps both.
async function address(opened) {
  const { page } = opened;
  if (!(await page.$("canvas.timeline"))) return;
  const canvas = await page.$("canvas.timeline"), state = () => canvas.evaluate((one) => ({ ...one.dataset }));
  const press = async (key) => { await page.keyboard.press(key); await page.waitForTimeout(80); return state(); };
  await canvas.evaluate((one) => one.scrollIntoView({ block: "center" }));
  await canvas.focus();
  const all = await press("0"), near = await press("w"), right = await press("d"), left = await press("a"), far = await press("s");
  const length = (one) => one.to - one.from;
  assert.ok(length(near) < 0.8 * length(all), "W does not zoom in");
  assert.ok(Number(right.from) > Number(near.from), "D does not move");
  assert.ok(Number(left.from) < Number(right.from), "A does not move");
  assert.ok(length(far) > length(left), "S does not zoom out");
  await press("0");
  const box = await canvas.boundingBox();
  await page.keyboard.down("Shift");
  await page.mouse.move(box.x + box.width * 0.5, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.8, box.y + 44, { steps: 4 });
  await page.mouse.up();
  await page.keyboard.up("Shift");
  await page.waitForTimeout(120);
  const selected = await state(), share = await page.$$eval(".sums tbody tr td:nth-child(3)", (cells) => cells.map((cell) => parseFloat(cell.textContent)));
  const [from, to] = selected.selected.split("-").map(Number);
  assert.ok(to - from > 0.2 * length(all) && to - from < 0.5 * length(all), `the range is ${selected.selected}`);
  assert.match(await page.textContent(".sums"), /Selected: [\d.]+ (ns|µs|ms|s), from /);
  assert.ok(share.length > 1 && share.every((one) => one >= 0), "the range has no sums");
  await press("f");
  const fold = (await page.$$("details.sortable:not([open])"))[0] ?? (await page.$("details.sortable:not(.sums *)"));
  const open = await fold.evaluate((one) => { one.querySelector("summary").click(); return one.open; });
  await page.waitForTimeout(500);
  const before = await state(), key = await fold.evaluate((one) => one.dataset.key), url = page.url();
  assert.match(url, /[#&]t\d*=\d+-\d+.*&s\d*=\d+-\d+|[#&]s\d*=\d+-\d+.*&t\d*=\d+-\d+/);
  assert.match(url, /[#&]o=/);
  await page.goto("about:blank");
  await page.goto(url);
  await page.waitForSelector("html[data-ready=yes]");
  await page.waitForTimeout(200);
  const after = await page.$eval("canvas.timeline", (one) => ({ ...one.dataset }));
  for (const name of ["from", "to", "selected"]) assert.equal(Math.round(parseFloat(after[name])), Math.round(parseFloat(before[name])), `the address does not keep ${name}`);
  assert.ok((await page.$$(".sums tbody tr")).length > 1, "the address does not keep the sums");
  assert.equal(await page.$eval(`details[data-key="${key}"]`, (one) => one.open), open, "the address does not keep open tables");
  await page.click("nav a:last-child");
  await page.waitForTimeout(500);
  assert.match(page.url(), /#[a-z]+&.*t\d*=\d+/, "a link to a section loses the view");
  await page.focus("canvas.timeline");
  await page.keyboard.press("Escape");
  await page.waitForTimeout(100);
  assert.equal(await page.textContent(".sums"), "", "Escape does not clear the range");
  await page.keyboard.press("0");
}

// All tables open; no row is empty, and one row is "1 row".
async function folds({ page }) {
  await page.$$eval("details.sortable:not([open]) > summary", (all) => all.forEach((one) => one.click()));
  await page.waitForTimeout(300);
  assert.equal(await page.$$eval("details.sortable", (all) => all.filter((one) => !one.querySelector("table")).length), 0, "a table does not open");
  const empty = await page.$$eval(".sortable tbody tr", (all) => all.filter((row) => row.querySelector("td.number")).map((row) => [...row.cells].slice(1).map((cell) => cell.textContent))
    .filter((cells) => cells.length > 1 && cells.every((text) => /^(–|[+-]?0( ms|%| B)?)$/.test(text))).length);
  assert.equal(empty, 0, "rows without values are shown");
  assert.doesNotMatch(await page.textContent("main"), /\b1 rows\b/);
}

async function tables({ page }) {
  for (const box of await page.$$(".sortable")) {
    const column = () => box.$$eval("tbody tr td:first-child", (cells) => cells.map((cell) => cell.textContent));
    const before = await column();
    await box.$eval("th button", (button) => { button.click(); button.click(); });
    assert.deepEqual([...(await column())].sort(), [...before].sort(), "sorting loses rows");
    assert.ok(await box.$("th[aria-sort]"));
  }
}

// A chart is saved as SVG and as PNG.
async function downloads({ page }) {
  const buttons = await page.$$(".chart");
  if (!buttons.length) return;
  for (const [kind, begin] of [["SVG", "<svg"], ["PNG", "\x89PNG"]]) {
    const [download] = await Promise.all([page.waitForEvent("download"), page.locator(`h3 .save button:has-text("${kind}")`).first().click()]);
    const bytes = readFileSync(await download.path());
    assert.ok(bytes.toString("latin1").startsWith(begin) && bytes.length > 500, `no ${kind} was saved`);
    assert.match(download.suggestedFilename(), new RegExp(`\\.${kind.toLowerCase()}$`));
  }
}

async function themes({ page }) {
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const before = await paper();
  await page.click("text=light / dark");
  assert.notEqual(await paper(), before);
}

// On a narrow screen: nothing is wider than it, and no labels overlap.
async function narrow(path) {
  const opened = await browser.open(resolve(path), { width: 400 });
  try {
    await opened.showAll();
    await layout(opened, 400);
    assert.deepEqual(opened.troubles, []);
  } finally {
    await opened.close();
  }
}

for (const path of process.argv.slice(2)) {
  const opened = await browser.open(resolve(path));
  try {
    assert.ok(await opened.page.$("#verdict, #comparison"), "no verdict");
    await verdict(opened, path.replace(/html$/, "txt"));
    await drawing(opened);
    await opened.showAll();
    await layout(opened, 1400);
    await charts(opened);
    await comparison(opened);
    await pointer(opened);
    await zooming(opened);
    await address(opened);
    await folds(opened);
    await tables(opened);
    await downloads(opened);
    await themes(opened);
    assert.equal(await opened.page.$$eval("a[href^='#']", (all) => all.filter((one) => !document.getElementById(decodeURIComponent(one.hash.slice(1)))).length), 0, "a link leads nowhere");
    assert.equal(await opened.page.evaluate(() => window.injected), undefined, "text of a file ran");
    assert.deepEqual(opened.troubles, []);
  } finally {
    await opened.close();
  }
  await narrow(path);
  console.log(`${basename(path)}: opened in ${opened.opened} ms`);
}
await browser.quit();
