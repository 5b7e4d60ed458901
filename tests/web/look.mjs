// Pictures of pages: node look.mjs FOLDER PAGE.html …   (light and dark, 1400 and 400 wide; whole pages)
import { basename, join, resolve } from "node:path";
import { open, quit } from "./browser.mjs";

const [folder, ...pages] = process.argv.slice(2);
for (const page of pages)
  for (const [width, scheme] of [[1400, "light"], [400, "dark"], [1400, "dark"], [400, "light"]]) {
    const browser = await open(resolve(page), { width, height: 900, scheme });
    await browser.showAll();
    await browser.page.screenshot({ path: join(folder, `${basename(page, ".html")}-${width}-${scheme}.png`), fullPage: true });
    for (const trouble of browser.troubles) console.log(`${page}: ${trouble}`);
    await browser.close();
  }
await quit();
