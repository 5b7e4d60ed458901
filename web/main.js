// The page of a result. The document contains the data; nothing is requested.
import { element, useCauseNames, useShortNames } from "./words.js";
import { hwqComparisonPage, hwqMapPage, hwqPage } from "./hwq.js";
import { recordingsPage } from "./recordings.js";
import { sdmaPage } from "./sdma.js";
import { showPlace, startFolds, startState } from "./state.js";
import { sweepPage } from "./sweep.js";
import { sweepComparisonPage } from "./sweeps.js";
import { foldTables } from "./tables.js";
import { startTheme, toggleTheme } from "./theme.js";
import { whatifPage } from "./whatif.js";

// By the kind of the data.
const pages = { recordings: recordingsPage, sweep: sweepPage, sweep_comparison: sweepComparisonPage, hwq: hwqPage,
  hwq_comparison: hwqComparisonPage, hwq_map: hwqMapPage, whatif: whatifPage, sdma: sdmaPage };

// The tables that are open on a page with many, the most important first.
const OPEN = ["compared", "compared_categories", "compared_operations", "compared_kernels", "largest_losses", "kernels", "collectives", "gaps", "stragglers"];

function start() {
  startTheme();
  startState();
  const main = document.getElementById("main");
  try {
    const data = JSON.parse(document.getElementById("data").textContent);
    useShortNames(data.short_names);
    useCauseNames(data.causes);
    const page = pages[data.kind](data), sections = page.sections.filter(Boolean);
    document.title = `${page.title} - AORTA`;
    document.getElementById("top").replaceChildren(element("h1", {}, page.title), element("span", { class: "quiet" }, page.subtitle),
      element("span", { class: "controls" }, element("button", { type: "button", onclick: toggleTheme }, "light / dark"),
        element("button", { type: "button", onclick: () => window.print() }, "print")));
    document.getElementById("contents").replaceChildren(...sections.map((one) => element("a", { href: `#${one.id}` }, one.heading)));
    main.replaceChildren(...sections);
    foldTables(main, OPEN);
    startFolds(main);
    document.documentElement.dataset.ready = "yes";
    showPlace();
  } catch (failure) {
    main.replaceChildren(element("p", { class: "failure" }, `This page cannot show its data: ${failure.message}`));
    throw failure;
  }
}

start();
