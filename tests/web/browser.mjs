// A page in Debian's Chromium; what goes wrong in it, and what it asks for, is recorded.
import { existsSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

export const program = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);

let shared = null;
export const quit = async () => (await shared)?.close();

// One browser serves all pages, each in a context of its own.
export async function open(path, { width = 1400, height = 900, scheme = "light" } = {}) {
  shared ??= chromium.launch({ executablePath: program, args: ["--no-sandbox", "--disable-gpu"] });
  const context = await (await shared).newContext({ viewport: { width, height }, colorScheme: scheme });
  const page = await context.newPage();
  const troubles = [], address = pathToFileURL(path).href;
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) troubles.push(`console: ${message.text()}`); });
  page.on("pageerror", (error) => troubles.push(`error: ${error.message}`));
  page.on("request", (request) => {
    const url = request.url();
    if (url !== address && !url.startsWith("data:") && !url.startsWith("blob:")) troubles.push(`request: ${url}`);
  });
  const begun = Date.now();
  await page.goto(address);
  await page.waitForSelector("html[data-ready=yes]");
  const opened = Date.now() - begun;
  // Charts are made when they come into view.
  const showAll = async () => {
    for (const box of await page.$$(".chart")) {
      await box.scrollIntoViewIfNeeded();
      await page.waitForFunction((one) => one.querySelector("svg"), box);
    }
    await page.evaluate(() => window.scrollTo(0, 0));
    await page.waitForTimeout(100);
  };
  return { page, troubles, opened, showAll, close: () => context.close() };
}
