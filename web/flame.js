// The flame view: modules and operations, as wide as the work launched in each; a click shows one as the whole.
import { brief, element, ms, percent } from "./words.js";
import { palette } from "./theme.js";

const ROW = 22, LEAST = 2; // px
const colourOf = (name) => palette[[...name].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 997, 7) % palette.length];

// nodes: [[parent, name, ms with children, own ms], …], the root first and parents before children.
export function flame(nodes) {
  if (!nodes || nodes.length < 2) return null;
  const children = nodes.map(() => []);
  nodes.forEach(([parent], i) => { if (parent >= 0) children[parent].push(i); });
  for (const list of children) list.sort((a, b) => nodes[b][2] - nodes[a][2]);
  const box = element("div", { class: "flame", role: "tree", "aria-label": "work by module and operation" });
  const trail = element("div", { class: "quiet" });
  const pathOf = (i) => (i < 0 ? [] : [...pathOf(nodes[i][0]), i]);
  let shown = 0;
  function draw() {
    const width = box.clientWidth || 1000, bars = [];
    let deepest = 0;
    const place = (i, left, depth, scale) => {
      const wide = nodes[i][2] * scale;
      if (wide < LEAST) return;
      deepest = Math.max(deepest, depth);
      const [, name, all, itself] = nodes[i];
      const bar = element("button", { type: "button", role: "treeitem", title: `${name}: ${ms(all)}, ${percent(all / nodes[0][2])} of all work; own ${ms(itself)}`,
        style: { left: `${left}px`, top: `${depth * ROW}px`, width: `${Math.max(1, wide - 1)}px`, background: colourOf(name) } }, wide > 34 ? name : "");
      bar.addEventListener("click", () => { shown = i; draw(); });
      bars.push(bar);
      let at = left;
      for (const child of children[i]) { place(child, at, depth + 1, scale); at += nodes[child][2] * scale; }
    };
    place(shown, 0, 0, width / nodes[shown][2]);
    box.style.height = `${(deepest + 1) * ROW}px`;
    box.replaceChildren(...bars);
    trail.replaceChildren(...pathOf(shown).flatMap((i, n) => {
      const link = element("button", { type: "button" }, nodes[i][1]);
      link.addEventListener("click", () => { shown = i; draw(); });
      return n ? [" › ", link] : [link];
    }), ` ${brief(nodes[shown][2])} ms`);
  }
  new ResizeObserver(draw).observe(box);
  return element("div", {}, trail, box);
}
