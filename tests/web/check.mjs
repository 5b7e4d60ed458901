// Opens pages in Chromium and uses them as a reader does: node check.mjs PAGE.html …
// Every chart has marks; the timeline zooms, moves, answers the pointer and finds names; tables sort; nothing is requested
// and nothing complained about. Exit code 77 where Chromium or playwright-core is missing, with the reason.
import assert from "node:assert";
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
    for (let i = 0; i < 12 && (await labels()) === before; i++) {
      await page.mouse.wheel(0, -240);
      await page.waitForTimeout(60);
    }
    await page.keyboard.up("Control");
    assert.notEqual(await labels(), before, `${title}: the wheel does not zoom`);
    await page.mouse.move(2, 2);
  }
}

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
  assert.match(await page.textContent(".controls [role=status]"), /^[1-9]\d* spans/);
  await page.press("input[type=search]", "Enter");
  await settled();
  const found = await state();
  assert.ok(found.to - found.from <= all.to - all.from);
  await page.fill("input[type=search]", "");
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

async function themes({ page }) {
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const before = await paper();
  await page.click("text=light / dark");
  assert.notEqual(await paper(), before);
}

for (const path of process.argv.slice(2)) {
  const opened = await browser.open(resolve(path));
  try {
    assert.ok(await opened.page.$("#verdict, #comparison"), "no verdict");
    await drawing(opened);
    await opened.showAll();
    await charts(opened);
    await pointer(opened);
    await zooming(opened);
    await tables(opened);
    await themes(opened);
    assert.equal(await opened.page.$$eval("a[href^='#']", (all) => all.filter((one) => !document.getElementById(decodeURIComponent(one.hash.slice(1)))).length), 0, "a link leads nowhere");
    assert.equal(await opened.page.evaluate(() => window.injected), undefined, "text of a file ran");
    assert.deepEqual(opened.troubles, []);
  } finally {
    await opened.close();
  }
  console.log(`${basename(path)}: opened in ${opened.opened} ms`);
}
await browser.quit();
