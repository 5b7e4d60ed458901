// Streams and hosts over time on a canvas: zoom, move, hover, search, select. Spans closer than a pixel are drawn once, so
// that a frame costs a walk over the visible spans and few rectangles.
import { brief, counted, duration, element, known, percent, shortName } from "./words.js";
import { canvasBlob, saveButtons } from "./charts.js";
import { KIND_BITS, firstAbove, lanesOf, sumsOf } from "./spans.js";
import { onAddress, setViewed, viewed } from "./state.js";
import { table } from "./tables.js";
import { colour, kinds, onTheme } from "./theme.js";

const LANE = 17, RANK_GAP = 6, AXIS = 30, OVERVIEW = 34, FONT = "11px system-ui, sans-serif";
const DARK_TEXT = ["#e69f00", "#f0b090", "#56b4e9", "#a9a9a9", "#b0b0d0", "#cc79a7"]; // colours of spans that need it

const tickOf = (length) => {
  const size = 10 ** Math.floor(Math.log10(length / 8));
  return [1, 2, 5, 10].map((factor) => factor * size).find((tick) => length / tick <= 10);
};

// A time on the axis, in the unit of the whole, as fine as the ticks are apart.
function label(time, tick) {
  const [size, unit] = time >= 1e9 ? [1e9, "s"] : time >= 1e6 ? [1e6, "ms"] : time >= 1e3 ? [1e3, "µs"] : [1, "ns"];
  return `${(time / size).toFixed(Math.max(0, Math.ceil(Math.log10(size / tick))))} ${unit}`;
}

// Longer texts lose their middle, so that lanes stay distinct.
function cut(text, letters) {
  if (text.length <= letters) return text;
  const end = Math.floor((letters - 1) / 2);
  return `${text.slice(0, Math.max(1, letters - 1 - end))}…${end > 0 ? text.slice(-end) : ""}`;
}

const rangeText = ([from, to]) => `${Math.round(from)}-${Math.round(to)}`;
function rangeOf(text) {
  const numbers = /^(\d+)-(\d+)$/.exec(text ?? "")?.slice(1).map(Number);
  return numbers && numbers[1] > numbers[0] ? numbers : null;
}

// A copy of the canvas with the background of the page.
function pictureOf(canvas) {
  const copy = document.createElement("canvas"), pen = copy.getContext("2d");
  copy.width = canvas.width;
  copy.height = canvas.height;
  pen.fillStyle = colour("paper");
  pen.fillRect(0, 0, copy.width, copy.height);
  pen.drawImage(canvas, 0, 0);
  return copy;
}

// number: of the timeline on the page; it distinguishes their keys in the address.
export function timeline(data, number = 0) {
  const lanes = lanesOf(data), length = Math.max(1, data.length_ns), names = data.names;
  const ranks = [...new Set(lanes.map((lane) => lane.rank))], key = (letter) => `${letter}${number || ""}`;
  const view = { from: 0, to: length, ranks: new Set(ranks), found: null, selected: null };
  const canvas = element("canvas", { class: "timeline", tabindex: "0", role: "img",
    "aria-label": "streams and hosts over time; arrow keys or W, A, S, D move and zoom, 0 shows all" });
  const overview = element("canvas", { class: "overview", "aria-hidden": "true" });
  const hint = element("div", { class: "hint", hidden: "" });
  const status = element("span", { class: "quiet", role: "status" });
  const sums = element("div", { class: "sums", "aria-live": "polite" });
  let shown = [], width = 0, left = 0, asked = false, hovered = null, whole = null, home = [0, length], over = false;

  // ---- drawing ----

  const layOut = () => {
    let y = AXIS, rank = null;
    shown = [];
    for (const lane of lanes) {
      if (!view.ranks.has(lane.rank)) continue;
      if (rank !== null && rank !== lane.rank) y += RANK_GAP;
      rank = lane.rank;
      shown.push({ lane, y });
      y += LANE;
    }
    return y + 4;
  };

  const narrow = (text) => (width < 600 ? text.replace("stream ", "s").replace("host thread", "thread").replace(" communication", "") : text);
  const labelOf = (lane) => narrow(ranks.length > 1 ? `r${lane.rank} ${lane.label}` : lane.label);
  const widthOfLabels = (pen) => Math.min(width < 600 ? 0.38 * width : 260, 8 + Math.max(...lanes.map((lane) => pen.measureText(labelOf(lane)).width)));

  const drawLane = (pen, lane, y, height, begin, from, to, end) => {
    const scale = (end - begin) / (to - from), done = new Float64Array(KIND_BITS).fill(-1);
    let drawn = 0, filled = -1;
    pen.globalAlpha = 1;
    for (let i = firstAbove(lane.latest, from); i < lane.count && lane.start[i] < to; i++) {
      const kind = lane.kind[i];
      const a = Math.max(begin, begin + (lane.start[i] - from) * scale), b = Math.min(end, begin + (lane.end[i] - from) * scale);
      if (b < begin || b <= done[kind]) continue;
      const x = Math.max(a, done[kind]), wide = Math.max(b - x, 0.8);
      done[kind] = x + wide;
      const faded = view.found && !view.found.has(lane.name[i]);
      if (view.found) pen.globalAlpha = faded ? 0.15 : 1;
      if (kind !== filled) pen.fillStyle = kinds[kind]?.[1] ?? "#888888"; // setting it costs more than a rectangle
      filled = kind;
      pen.fillRect(x, y, wide - (b - a > 4 ? 0.6 : 0), height);
      drawn++;
      if (b - a > 46 && height > 10 && !faded) {
        pen.fillStyle = DARK_TEXT.includes(pen.fillStyle) ? "#000000" : "#ffffff";
        filled = -1;
        const text = shortName(names[lane.name[i] - 1] ?? "several");
        const fits = Math.floor((b - a - 6) / 6);
        pen.fillText(text.length > fits ? `${text.slice(0, Math.max(1, fits - 1))}…` : text, a + 3, y + height / 2);
      }
    }
    pen.globalAlpha = 1;
    return drawn;
  };

  const sized = (target, high) => {
    const ratio = window.devicePixelRatio || 1;
    target.width = Math.round(width * ratio);
    target.height = Math.round(high * ratio);
    target.style.height = `${high}px`;
    const pen = target.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.font = FONT;
    pen.textBaseline = "middle";
    return pen;
  };

  const xOf = (time) => left + ((time - view.from) / (view.to - view.from)) * (width - left);

  const drawAxis = (pen, high) => {
    const tick = tickOf(view.to - view.from), quiet = colour("quiet"), line = colour("line");
    let end = 0;
    for (let time = Math.ceil(view.from / tick) * tick; time < view.to; time += tick) {
      const x = xOf(time), text = label(time, tick);
      pen.fillStyle = line;
      pen.fillRect(x, AXIS - 4, 0.7, high);
      if (x < end || x > width - 50) continue;
      pen.fillStyle = quiet;
      pen.fillText(text, x + 3, 7);
      end = x + 9 + pen.measureText(text).width;
    }
    let last = -100;
    for (const [start, step] of data.steps) {
      const x = xOf(start);
      if (x < left || x > width || x - last < 2) continue;
      pen.fillStyle = colour("accent");
      pen.globalAlpha = 0.5;
      pen.fillRect(x, AXIS - 6, 1, high);
      pen.globalAlpha = 1;
      if (x - last > 56) { pen.fillText(`step ${step}`, x + 3, AXIS - 10); last = x; }
    }
  };

  const drawSelection = (pen, high) => {
    if (!view.selected) return;
    const a = Math.max(left, xOf(view.selected[0])), b = Math.min(width, xOf(view.selected[1]));
    if (b < left || a > width) return;
    pen.fillStyle = colour("accent");
    pen.globalAlpha = 0.16;
    pen.fillRect(a, 0, b - a, high);
    pen.globalAlpha = 1;
    pen.fillRect(a, 0, 1, high);
    pen.fillRect(b - 1, 0, 1, high);
  };

  const drawOverview = () => {
    if (!whole || whole.width !== Math.round(width * (window.devicePixelRatio || 1))) {
      const pen = sized(overview, OVERVIEW);
      pen.fillStyle = colour("panel");
      pen.fillRect(0, 0, width, OVERVIEW);
      const high = OVERVIEW / Math.max(1, shown.length), found = view.found;
      view.found = null;
      shown.forEach(({ lane }, i) => drawLane(pen, lane, i * high, Math.max(0.8, high - 0.4), 0, 0, length, width));
      view.found = found;
      whole = document.createElement("canvas");
      whole.width = overview.width;
      whole.height = overview.height;
      whole.getContext("2d").drawImage(overview, 0, 0);
    }
    const pen = overview.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.drawImage(whole, 0, 0);
    const scale = overview.width / length;
    pen.fillStyle = colour("paper");
    pen.globalAlpha = 0.7;
    pen.fillRect(0, 0, view.from * scale, overview.height);
    pen.fillRect(view.to * scale, 0, overview.width, overview.height);
    pen.globalAlpha = 1;
    pen.strokeStyle = colour("accent");
    pen.lineWidth = 2;
    pen.strokeRect(view.from * scale, 1, Math.max(3, (view.to - view.from) * scale), overview.height - 2);
  };

  const draw = () => {
    asked = false;
    width = canvas.parentElement?.clientWidth ?? 0;
    if (!width) return;
    const high = layOut(), pen = sized(canvas, high);
    left = widthOfLabels(pen);
    drawAxis(pen, high);
    const letters = Math.floor((left - 6) / 5.6);
    let drawn = 0;
    for (const { lane, y } of shown) {
      const text = labelOf(lane);
      pen.fillStyle = colour("quiet");
      pen.fillText(pen.measureText(text).width > left - 4 ? cut(text, letters) : text, 2, y + LANE / 2);
      drawn += drawLane(pen, lane, y, LANE - 3, left, view.from, view.to, width);
    }
    drawSelection(pen, high);
    if (hovered) {
      pen.strokeStyle = colour("text");
      pen.lineWidth = 1.5;
      const a = Math.max(left, xOf(hovered.start)), b = Math.min(width, xOf(hovered.end));
      pen.strokeRect(a, hovered.y, Math.max(1, b - a), LANE - 3);
    }
    Object.assign(canvas.dataset, { from: view.from, to: view.to, drawn, labels: shown.map(({ lane }) => labelOf(lane)).join("|"), selected: view.selected ? rangeText(view.selected) : "" });
    drawOverview();
  };
  const ask = () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(draw);
  };

  // ---- what is shown ----

  const show = (from, to) => {
    const least = Math.min(length, 100), span = Math.min(length, Math.max(least, to - from));
    view.from = Math.max(0, Math.min(from, length - span));
    view.to = view.from + span;
    const range = rangeText([view.from, view.to]);
    setViewed(key("t"), range === rangeText(home) ? "" : range);
    ask();
  };
  const zoom = (factor, at = (view.from + view.to) / 2) => show(at - (at - view.from) * factor, at + (view.to - at) * factor);
  const move = (share) => show(view.from + share * (view.to - view.from), view.to + share * (view.to - view.from));
  const timeAt = (event) => {
    const x = event.clientX - canvas.getBoundingClientRect().left;
    return Math.max(0, Math.min(length, view.from + ((x - left) / (width - left)) * (view.to - view.from)));
  };

  // ---- the selected range ----

  const button = (text, call, options = {}) => element("button", { type: "button", onclick: call, ...options }, text);
  const fillSums = () => {
    if (!view.selected) return sums.replaceChildren();
    const [from, to] = view.selected, { byLane, byName } = sumsOf(shown.map(({ lane }) => lane), names, from, to);
    const share = { title: "share of the range", value: (row) => row.ns / (to - from), show: (row) => percent(row.ns / (to - from)) };
    return sums.replaceChildren(element("div", { class: "controls" }, element("b", {}, `Selected: ${duration(to - from)}, from ${duration(from)} to ${duration(to)}`),
      button("zoom to it", () => show(from, to)), button("clear", () => select(null))),
    element("div", { class: "pair" },
      table("Busy time by lane", [{ title: "lane", value: (row) => labelOf(row.lane) }, { title: "ms", value: (row) => row.ns / 1e6 }, share, { title: "spans", value: (row) => row.count }], byLane),
      table("Time by name", [{ title: "name", value: (row) => shortName(row.name), tip: (row) => row.name }, { title: "kind", value: (row) => row.kind, id: true },
        { title: "ms", value: (row) => row.ns / 1e6 }, share, { title: "spans", value: (row) => row.count }], byName.slice(0, 200))));
  };
  const select = (range) => {
    view.selected = range && range[1] > range[0] ? range : null;
    setViewed(key("s"), view.selected ? rangeText(view.selected) : "");
    fillSums();
    ask();
  };

  // ---- hover ----

  const spanAt = (event) => {
    const box = canvas.getBoundingClientRect(), y = event.clientY - box.top, x = event.clientX - box.left;
    const row = shown.find((one) => y >= one.y && y < one.y + LANE);
    if (!row || x < left) return null;
    const { lane } = row, time = timeAt(event), near = (2 * (view.to - view.from)) / width;
    let best = null;
    for (let i = firstAbove(lane.latest, time - near); i < lane.count && lane.start[i] <= time + near; i++) {
      const distance = Math.max(0, lane.start[i] - time, time - lane.end[i]);
      if (distance <= near && (!best || distance <= best.distance)) best = { distance, i };
    }
    return best && { lane, y: row.y, start: lane.start[best.i], end: lane.end[best.i], name: lane.name[best.i], kind: lane.kind[best.i] };
  };
  const stepAt = (time) => data.steps[firstAbove(data.steps.map((one) => one[0]), time) - 1];
  const explain = (event) => {
    hovered = spanAt(event);
    hint.hidden = !hovered;
    if (hovered) {
      const step = stepAt(hovered.start), name = names[hovered.name - 1] ?? "several spans, close together";
      hint.replaceChildren(
        element("b", {}, shortName(name)), element("br"),
        `${kinds[hovered.kind]?.[0]}, ${duration(hovered.end - hovered.start)}, from ${duration(hovered.start)}`, element("br"),
        `rank ${hovered.lane.rank}, ${hovered.lane.label}${step ? `, step ${step[1]}` : ""}`);
      hint.style.left = `${Math.min(event.clientX + 14, window.innerWidth - hint.offsetWidth - 8)}px`;
      hint.style.top = `${Math.min(event.clientY + 16, window.innerHeight - hint.offsetHeight - 8)}px`;
    }
    ask();
  };

  // ---- pointer and keys ----

  const selecting = button("select a range", () => {
    selecting.setAttribute("aria-pressed", selecting.getAttribute("aria-pressed") === "true" ? "false" : "true");
  }, { "aria-pressed": "false", title: "dragging selects a range of time; so does dragging with Shift, or on the axis" });
  const selects = (event) => event.shiftKey || selecting.getAttribute("aria-pressed") === "true" || event.clientY - canvas.getBoundingClientRect().top < AXIS - 6;

  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, from: view.from, to: view.to, anchor: selects(event) ? timeAt(event) : null };
    canvas.setPointerCapture(event.pointerId);
  });
  const drop = (event) => {
    if (known(drag?.anchor)) select(Math.abs(event.clientX - drag.x) < 3 ? null : view.selected);
    drag = null;
  };
  canvas.addEventListener("pointerup", drop);
  canvas.addEventListener("pointercancel", drop);
  canvas.addEventListener("pointermove", (event) => {
    over = true;
    if (!drag) return explain(event);
    if (known(drag.anchor)) {
      view.selected = [drag.anchor, timeAt(event)].sort((a, b) => a - b);
      return ask();
    }
    const shift = ((drag.x - event.clientX) / (width - left)) * (drag.to - drag.from);
    return show(drag.from + shift, drag.to + shift);
  });
  canvas.addEventListener("pointerleave", () => { over = false; hovered = null; hint.hidden = true; ask(); });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) move(event.deltaX / 800);
    else zoom(1.0015 ** event.deltaY, timeAt(event));
  }, { passive: false });
  canvas.addEventListener("dblclick", (event) => {
    const span = spanAt(event);
    if (span) show(span.start - 2 * (span.end - span.start), span.end + 2 * (span.end - span.start));
  });
  const toTime = (event) => {
    const half = (view.to - view.from) / 2, middle = ((event.clientX - overview.getBoundingClientRect().left) / width) * length;
    show(middle - half, middle + half);
  };
  overview.addEventListener("pointerdown", (event) => { overview.setPointerCapture(event.pointerId); toTime(event); });
  overview.addEventListener("pointermove", (event) => { if (event.buttons) toTime(event); });

  // ---- search ----

  let matches = [], place = -1;
  const search = element("input", { type: "search", placeholder: "search kernels and ranges", size: 24, "aria-label": "search" });
  const find = () => {
    const wanted = search.value.trim().toLowerCase();
    const found = new Set();
    if (wanted) names.forEach((name, i) => { if (name.toLowerCase().includes(wanted)) found.add(i + 1); });
    view.found = wanted ? found : null;
    matches = [];
    place = -1;
    for (const lane of wanted ? lanes : [])
      for (let i = 0; i < lane.count; i++) if (found.has(lane.name[i])) matches.push([lane.start[i], lane.end[i]]);
    matches.sort((a, b) => a[0] - b[0]);
    status.textContent = wanted ? counted(matches.length, "span") : "";
    setViewed(key("q"), wanted);
    ask();
  };
  const jump = (by) => {
    if (!matches.length) return;
    place = (place + by + matches.length) % matches.length;
    const [start, end] = matches[place], span = Math.min(view.to - view.from, Math.max(8 * (end - start), length / 5000));
    status.textContent = `${place + 1} of ${counted(matches.length, "span")}`;
    show((start + end) / 2 - span / 2, (start + end) / 2 + span / 2);
  };
  search.addEventListener("input", find);
  search.addEventListener("keydown", (event) => { if (event.key === "Enter") jump(event.shiftKey ? -1 : 1); });

  const keys = {
    arrowleft: () => move(-0.2), arrowright: () => move(0.2), arrowup: () => zoom(0.7), arrowdown: () => zoom(1.4),
    a: () => move(-0.2), d: () => move(0.2), w: () => zoom(0.7), s: () => zoom(1.4),
    "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1.4), 0: () => show(0, length), home: () => show(0, length),
    f: () => view.selected && show(...view.selected), escape: () => select(null), n: () => jump(1), p: () => jump(-1), "/": () => search.focus(),
  };
  // Keys work where the drawing has the focus, and letters where the pointer is over it.
  document.addEventListener("keydown", (event) => {
    const letter = event.key.toLowerCase(), typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    const reaches = document.activeElement === canvas || (over && !typing && letter.length === 1);
    if (!reaches || !Object.hasOwn(keys, letter) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[letter]();
  });

  // ---- controls ----

  const choice = element("select", { "aria-label": "rank" }, element("option", { value: "" }, "all ranks"),
    ...ranks.map((rank) => element("option", { value: String(rank) }, `rank ${rank}`)));
  const choose = () => {
    view.ranks = new Set(choice.value === "" ? ranks : [Number(choice.value)]);
    setViewed(key("r"), choice.value);
    whole = null;
    layOut();
    fillSums();
    ask();
  };
  choice.addEventListener("change", choose);
  const middleStep = () => {
    const at = Math.floor(data.steps.length / 2);
    return data.steps[at] && [data.steps[at][0], data.steps[at + 1]?.[0] ?? length];
  };
  const used = new Set(lanes.flatMap((lane) => [...new Set(lane.kind)]));
  const controls = element("div", { class: "controls" },
    search, button("previous", () => jump(-1)), button("next", () => jump(1)), status,
    ranks.length > 1 ? choice : null, data.steps.length > 1 ? button("one step", () => show(...middleStep())) : null,
    button("zoom in", () => zoom(0.5)), button("zoom out", () => zoom(2)), button("all", () => show(0, length)), selecting,
    saveButtons("timeline", { PNG: () => canvasBlob(pictureOf(canvas)) }));
  const legend = element("div", { class: "legend" }, ...kinds.map(([name, hue], i) =>
    (used.has(i) ? element("span", {}, element("i", { style: { background: hue } }), name) : null)));
  const spans = lanes.reduce((sum, lane) => sum + lane.count, 0);
  const note = element("p", { class: "quiet" }, `${brief(spans)} spans in ${duration(length)}. ` +
    (data.thinned_ns ? `Neighbors of one kind less than ${duration(data.thinned_ns)} apart are drawn as one. ` : "") +
    "Keys: W and S zoom, A and D move, 0 shows all, F shows the selection, / searches. Drag to move, drag on the axis to select; the wheel zooms after a click or with Ctrl; a double click shows one span.");

  // From the address, else the whole; of many steps one.
  const restore = () => {
    view.selected = rangeOf(viewed(key("s")));
    choice.value = ranks.includes(Number(viewed(key("r")))) ? viewed(key("r")) ?? "" : "";
    search.value = viewed(key("q")) ?? "";
    if (data.steps.length > 8) home = middleStep();
    show(...(rangeOf(viewed(key("t"))) ?? home));
    choose();
    find();
    select(view.selected);
  };
  restore();
  onAddress(restore);
  const drawing = element("div", {}, canvas, overview);
  new ResizeObserver(() => { whole = null; ask(); }).observe(drawing);
  onTheme(() => { whole = null; ask(); });
  return element("div", {}, controls, legend, drawing, note, sums, hint);
}
