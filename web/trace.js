// The page of recordings: `aorta trace analyze --html`.
import { brief, bytes, element, known, ms, percent, shortName, spaced } from "./words.js";
import { bandwidth, figures, lines, losses, note, pair, roofline, section, sizesTable, stack } from "./sections.js";
import { chart } from "./charts.js";
import { table } from "./tables.js";
import { timeline } from "./timeline.js";

const rankName = (rank) => `rank ${rank.rank}`;
// Rows of all ranks in one table, the rank in front where there are several.
const joined = (ranks, key) => ranks.flatMap((rank) => (rank[key] ?? []).map((row) => ({ ...row, rank_: rank.rank })));
const rankColumn = (ranks) => (ranks.length > 1 ? [{ title: "rank", value: (row) => row.rank_ }] : []);
const nameColumn = (title, key) => ({ title, value: (row) => row[key], show: (row) => shortName(row[key]) || "–", tip: (row) => row[key] });
const plain = (title, key) => ({ title, value: (row) => row[key] });
const share = (title, key) => ({ title, value: (row) => row[key], show: (row) => percent(row[key]) });

const overSteps = (ranks, key, title, unit) => lines(title, unit, ranks.filter((rank) => rank.steps.length > 1)
  .map((rank) => ({ name: rankName(rank), data: rank.steps.map((step) => [step.step, step[key]]) })));

function gemmChart(rows, roofline) {
  const drawn = rows.filter((row) => row.tflops_p50 > 0).sort((a, b) => b.total_ms - a.total_ms).slice(0, 20);
  if (!drawn.length) return null;
  const peak = roofline?.peaks?.tflops, type = roofline?.classes?.gemm && (roofline.largest_losses ?? []).find((row) => row.class === "gemm")?.arithmetic;
  const rate = (row, time) => (known(time) && time > 0 ? row.flops / time / 1e9 : null);
  const series = [{ type: "bar", name: "alone", data: drawn.map((row) => rate(row, row.alone_p50_ms)) },
    { type: "bar", name: "beside collectives", data: drawn.map((row) => rate(row, row.beside_comm_p50_ms)) }];
  if (type && known(peak?.[type])) series[0].markLine = { silent: true, symbol: "none", data: [{ yAxis: peak[type] }], lineStyle: { type: "dashed" },
    label: { formatter: `peak ${type}: ${brief(peak[type])}`, position: "insideEndTop" } };
  return chart("GEMMs: rate alone and beside collectives, those of most time first", () => ({
    xAxis: { type: "category", data: drawn.map((row) => `${row.m}×${row.n}×${row.k}`), axisLabel: { rotate: 35 } },
    yAxis: { type: "value", name: "TFLOP/s", nameLocation: "end", nameGap: 8, max: type && known(peak?.[type]) ? peak[type] : undefined },
    grid: { bottom: 84 }, series }));
}

function skewCharts(data, ranks) {
  if (ranks.length < 2) return null;
  const shared = data.shared_collectives ?? [];
  return pair(
    chart("How late each rank was, over all collectives", () => ({ xAxis: { type: "category", data: ranks.map(rankName) },
      yAxis: { type: "value", name: "ms", nameLocation: "end", nameGap: 8 },
      series: [{ type: "bar", name: "late", data: ranks.map((rank) => rank.clock?.late_ms ?? 0) }] })),
    shared.length ? chart("Skew of each collective: last start after the first", () => ({ zoom: shared.length > 40,
      xAxis: { type: "value", name: shared.length > 40 ? "" : "ms into the recording" }, yAxis: { type: "value", name: "ms", nameLocation: "end", nameGap: 8 },
      tooltip: { trigger: "item" },
      series: [...new Set(shared.map((one) => one.last_rank))].map((rank) => ({ type: "scatter", name: `last: rank ${rank}`, symbolSize: 6,
        data: shared.filter((one) => one.last_rank === rank).map((one) => [one.last_start_ms, one.skew_ms]) })) })) : null);
}

function queueMap(ranks) {
  const queues = joined(ranks, "queues"), streams = joined(ranks, "streams");
  if (!streams.length) return [];
  const lanes = (title, rows, key, other) => (rows.length ? table(title, [...rankColumn(ranks), plain(key, key), plain("spans", "count"),
    plain("busy ms", "busy_ms"), plain("compute ms", "compute_ms"), plain("communication ms", "comm_ms"), plain("copies ms", "memcpy_ms"),
    share("busy", "utilization"), plain("several at once ms", "overlapped_ms"), plain(spaced(other), other)], rows) : null);
  const bars = ranks.flatMap((rank) => rank.streams.slice(0, 12).map((row) => ({ name: `${ranks.length > 1 ? `r${rank.rank} ` : ""}stream ${row.stream}`,
    parts: { compute: row.compute_ms, communication: row.comm_ms, copies: row.memcpy_ms } }))).slice(0, 24);
  return [stack("What streams do", bars, "ms"), lanes("Streams", streams, "stream", "queues_used"), lanes("Hardware queues", queues, "queue", "streams_served"),
    queues.length ? null : note("The file names no hardware queues.")];
}

export function tracePage(data) {
  const results = data.results, ranks = results.ranks, one = ranks[0];
  const unit = results.judged === "steps" ? "a step" : "in the recording";
  const sizes = joined(ranks, "collective_sizes").map((row) => ({ ...row, rate: row.transfer_busbw_gbps ?? row.busbw_gbps, link: row.link_gbps }));
  const gemms = joined(ranks, "gemms"), warnings = joined(ranks, "warnings");
  const mean = (key) => ranks.reduce((sum, rank) => sum + (rank[key] ?? NaN), 0) / ranks.length;
  const hidden = ranks.reduce((sum, rank) => sum + rank.overlap_ms, 0) / ranks.reduce((sum, rank) => sum + rank.comm_ms, 0);
  return {
    title: ranks.length > 1 ? `${ranks.length} recorded ranks` : (one?.file ?? "recording"),
    subtitle: `${one?.device_name ?? "unknown device"}, ${one?.format ?? ""}`,
    sections: [
      section("verdict", "Verdict", data.headline ? element("p", { class: "headline" }, data.headline) : null,
        results.remark ? note(results.remark) : null,
        figures([[`${results.judged === "steps" ? "step" : "recording"}, mean`, ms(results.judged_ms_mean)], ["floor: without all losses", ms(results.floor_ms)],
          ["of communication hidden", percent(hidden)], ["device busy", percent(mean("busy_ms") / mean("span_ms"))],
          ["of peak arithmetic (MFU)", percent(one?.roofline?.mfu)],
          ["GEMMs beside communication", known(results.gemm_slowdown?.ratio) ? `× ${brief(results.gemm_slowdown.ratio)}` : "–"]]),
        losses(results.verdict, "loss-")),
      section("timeline", "Streams and hosts over time", data.timelines[0].lanes.length ? timeline(data.timelines[0]) : note("No device work.")),
      section("steps", "Over the steps", overSteps(ranks, "span_ms", "Time of a step", "ms"),
        pair(overSteps(ranks, "exposed_comm_ms", "Exposed communication", "ms"), overSteps(ranks, "overlap_ratio", "Hidden share of communication", ""))),
      section("causes", "Where the time goes", pair(
        stack(`Devices: work and idle time ${results.judged === "steps" ? "of all steps" : unit}`, ranks.map((rank) => ({ name: rankName(rank),
          parts: { compute: rank.compute_ms - rank.overlap_ms, "hidden communication": rank.overlap_ms, "exposed communication": rank.exposed_comm_ms,
            "exposed copies": rank.exposed_copy_ms, idle: rank.idle_ms } })), "ms"),
        stack("Idle time by cause", ranks.map((rank) => ({ name: rankName(rank), parts: rank.idle_causes_ms ?? {} })), "ms")),
        joined(ranks, "gaps").length ? table("Longest gaps", [...rankColumn(ranks), plain("start ms", "start_ms"), plain("ms", "duration_ms"),
          { title: "cause", value: (row) => spaced(row.cause) }, nameColumn("next", "next"), plain("stream", "stream"), plain("host call", "host_call"),
          plain("host range", "host_range"), plain("step", "step")], joined(ranks, "gaps")) : null),
      section("collectives", "Collectives", pair(
        stack("Collectives: hidden and exposed", (one?.collectives ?? []).map((row) => ({ name: spaced(row.kind), parts: { hidden: row.overlap_ms, exposed: row.exposed_ms } })), `ms on ${one ? rankName(one) : ""}`),
        bandwidth(sizes, "Bandwidth against size (waiting left out)")), sizesTable(sizes)),
      section("roofline", "Compute against the roofline", ...(one?.roofline ? roofline(one.roofline) : [])),
      section("gemms", "GEMMs", gemmChart(one?.gemms ?? [], one?.roofline), gemms.length ? table("GEMMs", [...rankColumn(ranks), nameColumn("kernel", "kernel"), plain("operation", "op"),
        { title: "m × n × k", value: (row) => row.m * row.n * row.k || null, show: (row) => (row.m ? `${row.m} × ${row.n} × ${row.k}` : row.dims ?? row.geometry ?? "–") },
        plain("count", "count"), plain("total ms", "total_ms"), plain("p50 ms", "p50_ms"), plain("TFLOP/s", "tflops_p50"), plain("beside collectives", "runs_beside_comm"),
        plain("slowdown", "slowdown")], gemms) : null),
      section("ranks", "Rank skew", skewCharts(results, ranks), ranks.length > 1 && results.kernel_differences?.length ? table("Kernels that differ between ranks", [
        nameColumn("kernel", "kernel"), plain("rank", "rank"), plain("ms a step", "ms_per_step"), plain("others", "others_ms_per_step"), plain("excess ms", "excess_ms_per_step")],
      results.kernel_differences) : null),
      section("queues", "Streams and queues", ...queueMap(ranks)),
      section("kernels", "Kernels and copies", table("Kernels", [...rankColumn(ranks), nameColumn("kernel", "name"), plain("class", "class"), plain("count", "count"),
        plain("total ms", "total_ms"), plain("mean ms", "mean_ms"), plain("p50 ms", "p50_ms"), plain("p95 ms", "p95_ms"), share("share", "share")], joined(ranks, "kernels")),
      joined(ranks, "copies").length ? table("Copies", [...rankColumn(ranks), plain("copy", "name"), plain("count", "count"), plain("total ms", "total_ms"),
        { title: "bytes", value: (row) => row.bytes, show: (row) => bytes(row.bytes) }, plain("GB/s", "gbps")], joined(ranks, "copies")) : null,
      joined(ranks, "synchronisations").length ? table("Synchronisations", [...rankColumn(ranks),
        ...Object.keys(joined(ranks, "synchronisations")[0]).filter((key) => key !== "rank_").map((key) => ({ title: spaced(key),
          value: (row) => (typeof row[key] === "object" && row[key] ? JSON.stringify(row[key]) : row[key]) }))], joined(ranks, "synchronisations")) : null),
      section("configuration", "Files and environment", table("Files", [plain("rank", "rank"), plain("file", "file"), plain("format", "format"),
        plain("device", "device_name"), plain("span ms", "span_ms"), { title: "clock shift", value: (row) => row.clock?.shift_ns },
        plain("steps by", "steps_by")], ranks), warnings.length ? table("Notes of the reader", [...rankColumn(ranks), plain("note", "text"), plain("count", "count")], warnings) : null),
    ],
  };
}
