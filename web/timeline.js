// Streams and hosts over time on a canvas: zoom, move, hover, search. What is closer than a pixel is drawn once, so that a
// frame costs a walk over the visible spans and few rectangles.
import { brief, duration, element, shortName } from "./words.js";
import { colour, kinds, onTheme } from "./theme.js";

const KIND_BITS = 16, LANE = 17, RANK_GAP = 6, AXIS = 30, LABELS = 150, OVERVIEW = 34;

// The spans of a lane, as src/report/page_lanes.c writes them: seven bits a byte, in base64.
function decode(text, count) {
  const letters = atob(text), bytes = new Uint8Array(letters.length), start = new Float64Array(count), end = new Float64Array(count);
  const name = new Uint32Array(count), kind = new Uint8Array(count), latest = new Float64Array(count);
  let at = 0, last = 0, most = 0;
  for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
  const number = () => {
    let byte = bytes[at++], value = byte & 127;
    for (let shift = 7; byte > 127 && shift < 28; shift += 7) {
      byte = bytes[at++];
      value |= (byte & 127) << shift;
    }
    for (let scale = 2 ** 28; byte > 127; scale *= 128) { // beyond the integers that bits reach
      byte = bytes[at++];
      value += (byte & 127) * scale;
    }
    return value;
  };
  for (let i = 0; i < count; i++) {
    last += number();
    start[i] = last;
    end[i] = last + number();
    const both = number();
    name[i] = Math.floor(both / KIND_BITS);
    kind[i] = both % KIND_BITS;
    most = latest[i] = Math.max(most, end[i]);
  }
  return { start, end, name, kind, latest, count };
}

// The first of `values`, ascending, that is greater than `limit`.
function firstAbove(values, limit) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > limit) high = middle;
    else low = middle + 1;
  }
  return low;
}

const tickOf = (length) => {
  const size = 10 ** Math.floor(Math.log10(length / 8));
  return [1, 2, 5, 10].map((factor) => factor * size).find((tick) => length / tick <= 10);
};

// A time on the axis, in the unit of the whole, as fine as the ticks are apart.
function label(time, tick) {
  const [size, unit] = time >= 1e9 ? [1e9, "s"] : time >= 1e6 ? [1e6, "ms"] : time >= 1e3 ? [1e3, "µs"] : [1, "ns"];
  return `${(time / size).toFixed(Math.max(0, Math.ceil(Math.log10(size / tick))))} ${unit}`;
}

export function timeline(data) {
  const lanes = data.lanes.map((lane) => ({ ...lane, ...decode(lane.spans, lane.count) }));
  const length = Math.max(1, data.length_ns), names = data.names;
  const ranks = [...new Set(lanes.map((lane) => lane.rank))];
  const view = { from: 0, to: length, ranks: new Set(ranks), found: null };
  const canvas = element("canvas", { class: "timeline", tabindex: "0", role: "img",
    "aria-label": "streams and hosts over time; arrow keys move, plus and minus zoom, 0 shows all" });
  const overview = element("canvas", { class: "overview", "aria-hidden": "true" });
  const hint = element("div", { class: "hint", hidden: "" });
  const status = element("span", { class: "quiet", role: "status" });
  let shown = [], width = 0, asked = false, hovered = null, whole = null;

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

  const drawLane = (pen, lane, y, height, x, from, to, left, right) => {
    const scale = (right - left) / (to - from), done = new Float64Array(KIND_BITS).fill(-1);
    let drawn = 0, filled = -1;
    pen.globalAlpha = 1;
    for (let i = firstAbove(lane.latest, from); i < lane.count && lane.start[i] < to; i++) {
      const kind = lane.kind[i];
      const a = Math.max(left, x + (lane.start[i] - from) * scale), b = Math.min(right, x + (lane.end[i] - from) * scale);
      if (b < left || b <= done[kind]) continue;
      const begin = Math.max(a, done[kind]), wide = Math.max(b - begin, 0.8);
      done[kind] = begin + wide;
      const faded = view.found && !view.found.has(lane.name[i]);
      if (view.found) pen.globalAlpha = faded ? 0.15 : 1;
      if (kind !== filled) pen.fillStyle = kinds[kind]?.[1] ?? "#888888"; // setting it costs more than a rectangle
      filled = kind;
      pen.fillRect(begin, y, wide - (b - a > 4 ? 0.6 : 0), height);
      drawn++;
      if (b - a > 46 && height > 10 && !faded) {
        pen.fillStyle = ["#e69f00", "#f0b090", "#56b4e9", "#a9a9a9", "#b0b0d0", "#cc79a7"].includes(pen.fillStyle) ? "#000000" : "#ffffff";
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
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    return pen;
  };
  const labels = () => (width < 600 ? 84 : LABELS);

  const drawAxis = (pen, high) => {
    const left = labels(), scale = (width - left) / (view.to - view.from), tick = tickOf(view.to - view.from);
    const quiet = colour("quiet"), line = colour("line");
    for (let time = Math.ceil(view.from / tick) * tick; time < view.to; time += tick) {
      const x = left + (time - view.from) * scale;
      pen.fillStyle = line;
      pen.fillRect(x, AXIS - 4, 0.7, high);
      pen.fillStyle = quiet;
      if (x < width - 50) pen.fillText(label(time, tick), x + 3, 7);
    }
    let last = -100;
    for (const [start, number] of data.steps) {
      const x = left + (start - view.from) * scale;
      if (x < left || x > width || x - last < 2) continue;
      pen.fillStyle = colour("accent");
      pen.globalAlpha = 0.5;
      pen.fillRect(x, AXIS - 6, 1, high);
      pen.globalAlpha = 1;
      if (x - last > 56) { pen.fillText(`step ${number}`, x + 3, AXIS - 10); last = x; }
    }
  };

  const drawOverview = () => {
    if (!whole || whole.width !== Math.round(width * (window.devicePixelRatio || 1))) {
      const pen = sized(overview, OVERVIEW);
      pen.fillStyle = colour("panel");
      pen.fillRect(0, 0, width, OVERVIEW);
      const high = OVERVIEW / Math.max(1, shown.length), found = view.found;
      view.found = null;
      shown.forEach(({ lane }, i) => drawLane(pen, lane, i * high, Math.max(0.8, high - 0.4), 0, 0, length, 0, width));
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
    const high = layOut(), pen = sized(canvas, high), left = labels();
    drawAxis(pen, high);
    let drawn = 0, rank = null;
    for (const { lane, y } of shown) {
      pen.fillStyle = colour("text");
      const many = ranks.length > 1 && lane.rank !== rank;
      if (many) pen.fillText(`rank ${lane.rank}`, 2, y + LANE / 2);
      rank = lane.rank;
      pen.fillStyle = colour("quiet");
      const text = lane.label, indent = ranks.length > 1 ? (left < 100 ? 42 : 50) : 2;
      const fits = Math.floor((left - indent) / 5.6);
      pen.fillText(text.length > fits ? `${text.slice(0, fits - 1)}…` : text, indent, y + LANE / 2);
      drawn += drawLane(pen, lane, y, LANE - 3, left, view.from, view.to, left, width);
    }
    if (hovered) {
      pen.strokeStyle = colour("text");
      pen.lineWidth = 1.5;
      const scale = (width - left) / (view.to - view.from);
      const a = Math.max(left, left + (hovered.start - view.from) * scale), b = Math.min(width, left + (hovered.end - view.from) * scale);
      pen.strokeRect(a, hovered.y, Math.max(1, b - a), LANE - 3);
    }
    Object.assign(canvas.dataset, { from: view.from, to: view.to, drawn });
    drawOverview();
  };
  const ask = () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(draw);
  };

  const show = (from, to) => {
    const least = Math.min(length, 100), span = Math.min(length, Math.max(least, to - from));
    view.from = Math.max(0, Math.min(from, length - span));
    view.to = view.from + span;
    ask();
  };
  const zoom = (factor, at = (view.from + view.to) / 2) => show(at - (at - view.from) * factor, at + (view.to - at) * factor);
  const move = (share) => show(view.from + share * (view.to - view.from), view.to + share * (view.to - view.from));
  const timeAt = (event) => {
    const box = canvas.getBoundingClientRect(), left = labels();
    return view.from + ((event.clientX - box.left - left) / (width - left)) * (view.to - view.from);
  };

  // ---- hover ----

  const spanAt = (event) => {
    const box = canvas.getBoundingClientRect(), y = event.clientY - box.top, x = event.clientX - box.left;
    const row = shown.find((one) => y >= one.y && y < one.y + LANE);
    if (!row || x < labels()) return null;
    const { lane } = row, time = timeAt(event), near = (2 * (view.to - view.from)) / width;
    let best = null;
    for (let i = firstAbove(lane.latest, time - near); i < lane.count && lane.start[i] <= time + near; i++) {
      const distance = Math.max(0, lane.start[i] - time, time - lane.end[i]);
      if (distance <= near && (!best || distance <= best.distance)) best = { distance, i };
    }
    return best && { lane, y: row.y, start: lane.start[best.i], end: lane.end[best.i], name: lane.name[best.i], kind: lane.kind[best.i] };
  };
  const explain = (event) => {
    hovered = spanAt(event);
    hint.hidden = !hovered;
    if (hovered) {
      const step = data.steps[firstAbove(data.steps.map((one) => one[0]), hovered.start) - 1];
      hint.replaceChildren(
        element("b", {}, names[hovered.name - 1] ?? "several spans, close together"), element("br"),
        `${kinds[hovered.kind]?.[0]}, ${duration(hovered.end - hovered.start)}, from ${duration(hovered.start)}`, element("br"),
        `rank ${hovered.lane.rank}, ${hovered.lane.label}${step ? `, step ${step[1]}` : ""}`);
      hint.style.left = `${Math.min(event.clientX + 14, window.innerWidth - hint.offsetWidth - 8)}px`;
      hint.style.top = `${Math.min(event.clientY + 16, window.innerHeight - hint.offsetHeight - 8)}px`;
    }
    ask();
  };

  // ---- pointer and keys ----

  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, from: view.from, to: view.to };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", () => { drag = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return explain(event);
    const shift = ((drag.x - event.clientX) / (width - labels())) * (drag.to - drag.from);
    return show(drag.from + shift, drag.to + shift);
  });
  canvas.addEventListener("pointerleave", () => { hovered = null; hint.hidden = true; ask(); });
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
  const search = element("input", { type: "search", placeholder: "search kernels and ranges", "aria-label": "search" });
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
    status.textContent = wanted ? `${matches.length} spans` : "";
    ask();
  };
  const jump = (by) => {
    if (!matches.length) return;
    place = (place + by + matches.length) % matches.length;
    const [start, end] = matches[place], span = Math.min(view.to - view.from, Math.max(8 * (end - start), length / 5000));
    status.textContent = `${place + 1} of ${matches.length} spans`;
    show((start + end) / 2 - span / 2, (start + end) / 2 + span / 2);
  };
  search.addEventListener("input", find);
  search.addEventListener("keydown", (event) => { if (event.key === "Enter") jump(event.shiftKey ? -1 : 1); });
  const keys = {
    ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), ArrowUp: () => zoom(0.7), ArrowDown: () => zoom(1.4),
    "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1.4), 0: () => show(0, length), Home: () => show(0, length),
    n: () => jump(1), p: () => jump(-1), "/": () => search.focus(),
  };
  canvas.addEventListener("keydown", (event) => {
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });

  // ---- what is around it ----

  const choice = element("select", { "aria-label": "rank" }, element("option", { value: "" }, "all ranks"),
    ...ranks.map((rank) => element("option", { value: String(rank) }, `rank ${rank}`)));
  choice.addEventListener("change", () => {
    view.ranks = new Set(choice.value === "" ? ranks : [Number(choice.value)]);
    whole = null;
    ask();
  });
  const step = () => {
    const middle = data.steps[Math.floor(data.steps.length / 2)], at = data.steps.indexOf(middle);
    if (middle) show(middle[0], data.steps[at + 1]?.[0] ?? length);
  };
  const button = (text, call) => element("button", { type: "button", onclick: call }, text);
  const used = new Set(lanes.flatMap((lane) => [...new Set(lane.kind)]));
  const controls = element("div", { class: "controls" },
    search, button("previous", () => jump(-1)), button("next", () => jump(1)), status,
    ranks.length > 1 ? choice : null, data.steps.length > 1 ? button("one step", step) : null,
    button("zoom in", () => zoom(0.5)), button("zoom out", () => zoom(2)), button("all", () => show(0, length)));
  const legend = element("div", { class: "legend" }, ...kinds.map(([name, hue], i) =>
    (used.has(i) ? element("span", {}, element("i", { style: { background: hue } }), name) : null)));
  const spans = lanes.reduce((sum, lane) => sum + lane.count, 0);
  const note = element("p", { class: "quiet" }, `${brief(spans)} spans over ${duration(length)}. ` +
    (data.thinned_ns ? `Neighbours of one kind that are closer than ${duration(data.thinned_ns)} are drawn as one. ` : "") +
    "Drag to move, wheel to zoom (after a click, or with Ctrl), double-click a span to see it whole; keys: arrows, +, −, 0, / n p.");
  const drawing = element("div", {}, canvas, overview);
  new ResizeObserver(() => { whole = null; ask(); }).observe(drawing);
  onTheme(() => { whole = null; ask(); });
  if (data.steps.length > 8) step();
  return element("div", {}, controls, legend, drawing, note, hint);
}
