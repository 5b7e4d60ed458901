// The page of a result. Its data is in the document; nothing is requested.
import { element, useShortNames } from "./words.js";
import { hwqComparisonPage, hwqMapPage, hwqPage } from "./hwq.js";
import { recordingsPage } from "./recordings.js";
import { sdmaPage } from "./sdma.js";
import { sweepComparisonPage, sweepPage } from "./sweep.js";
import { startTheme, toggleTheme } from "./theme.js";
import { whatifPage } from "./whatif.js";

// By the kind of the data.
const pages = { recordings: recordingsPage, sweep: sweepPage, sweep_comparison: sweepComparisonPage, hwq: hwqPage,
  hwq_comparison: hwqComparisonPage, hwq_map: hwqMapPage, whatif: whatifPage, sdma: sdmaPage };

function start() {
  startTheme();
  const main = document.getElementById("main");
  try {
    const data = JSON.parse(document.getElementById("data").textContent);
    useShortNames(data.short_names);
    const page = pages[data.kind](data), sections = page.sections.filter(Boolean);
    document.getElementById("top").replaceChildren(element("h1", {}, page.title), element("span", { class: "quiet" }, page.subtitle),
      element("span", { class: "controls" }, element("button", { type: "button", onclick: toggleTheme }, "light / dark"),
        element("button", { type: "button", onclick: () => window.print() }, "print")));
    document.getElementById("contents").replaceChildren(...sections.map((one) => element("a", { href: `#${one.id}` }, one.heading)));
    main.replaceChildren(...sections);
    document.documentElement.dataset.ready = "yes";
    if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
  } catch (failure) {
    main.replaceChildren(element("p", { class: "failure" }, `This page cannot show its data: ${failure.message}`));
    throw failure;
  }
}

start();
