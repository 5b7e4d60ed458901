// Bundles the page into one HTML file and writes it as a C string: node build.mjs OUTPUT.c
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { buildSync } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const output = process.argv[2];
const bundle = (name, loader) => buildSync({
  entryPoints: [join(here, name)], bundle: true, minify: true, write: false, loader, format: "iife", target: "es2022",
  legalComments: "none", charset: "ascii", logLevel: "error",
}).outputFiles[0].text;

// Packed, as every page contains the program.
const script = gzipSync(bundle("main.js"), { level: 9 }).toString("base64");
const style = bundle("style.css");
const page = readFileSync(join(here, "page.html"), "utf8")
  .replace("@STYLE@", () => style).replace("@SCRIPT@", () => script);

const bytes = [...Buffer.from(page), 0];
let text = "extern const char aorta_page_template[];\nconst char aorta_page_template[] = {\n";
for (let i = 0; i < bytes.length; i += 32) text += `${bytes.slice(i, i + 32).map((byte) => (byte << 24) >> 24).join(",")},\n`;
writeFileSync(`${output}.tmp`, `${text}};\n`);
renameSync(`${output}.tmp`, output);
