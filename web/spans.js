// The spans of a timeline: unpacking, searching, sums over a range of time.
import { kinds } from "./theme.js";

export const KIND_BITS = 16;

// As src/report/page_timeline.c packs them: seven bits a byte, in base64.
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

// The kind that takes most time of a lane.
function mainKind(lane) {
  const sums = new Float64Array(KIND_BITS);
  for (let i = 0; i < lane.count; i++) sums[lane.kind[i]] += lane.end[i] - lane.start[i];
  return kinds[sums.indexOf(Math.max(...sums))]?.[0];
}

// Labels say what a stream does, unless the recording does.
export function lanesOf(data) {
  return data.lanes.map((packed) => {
    const lane = { ...packed, ...decode(packed.spans, packed.count) };
    const plain = lane.label.startsWith("stream ") && !lane.label.includes("(");
    return plain ? { ...lane, label: `${lane.label} (${mainKind(lane)})` } : lane;
  });
}

// The first of `values`, ascending, that is greater than `limit`.
export function firstAbove(values, limit) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > limit) high = middle;
    else low = middle + 1;
  }
  return low;
}

// Calls take(start, end, place) for each span of the lane in the range, cut to it.
function within(lane, from, to, take) {
  for (let i = firstAbove(lane.latest, from); i < lane.count && lane.start[i] < to; i++)
    if (lane.end[i] > from) take(Math.max(from, lane.start[i]), Math.min(to, lane.end[i]), i);
}

// Sums of a range: the busy time of each lane, and the time of the spans of each name, which ranks share. Lanes derived
// from other lanes count by lane only.
export function sumsOf(lanes, names, from, to) {
  const byName = new Map();
  const byLane = lanes.map((lane) => {
    let ns = 0, count = 0, reached = from;
    within(lane, from, to, (start, end, i) => {
      ns += Math.max(0, end - Math.max(start, reached));
      reached = Math.max(reached, end);
      count++;
      if (lane.derived) return;
      const name = names[lane.name[i] - 1] ?? "joined spans", key = `${lane.kind[i]} ${name}`, row = byName.get(key) ?? { name, kind: kinds[lane.kind[i]]?.[0], count: 0, ns: 0 };
      row.count++;
      row.ns += end - start;
      byName.set(key, row);
    });
    return { lane, ns, count };
  });
  return { byLane, byName: [...byName.values()].sort((a, b) => b.ns - a.ns) };
}
