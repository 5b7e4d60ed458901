// Titles and units of the figures of an iteration.
import { spaced } from "./words.js";

const units = { samples_per_s: "samples/s", sm_clock_mhz: "MHz", power_w: "W", temperature_c: "°C", overlap_ratio: "", loss: "" };
export const unitOf = (key) => units[key] ?? (key.endsWith("_ms") ? "ms" : "");
const titles = { step_ms: "Step", exposed_comm_ms: "Exposed communication", overlap_ratio: "Hidden share of communication", compute_ms: "Compute",
  comm_ms: "Communication", idle_ms: "Idle", loss: "Loss", samples_per_s: "Throughput", sm_clock_mhz: "Device clock", power_w: "Power",
  temperature_c: "Temperature", lead_ms: "Time between steps", data_wait_ms: "Waiting for data", memcpy_ms: "Copies", span_ms: "First to last work of the step",
  overlap_ms: "Hidden communication", compute_overlap_ratio: "Share of compute during communication",
  throughput: "Throughput", gemm: "Matrix products", mfu: "Arithmetic, share of the peak (MFU)", idle_share: "Idle share of the step",
  launch_share: "Late launches, share of the step",
  compute_allreduce_ms: "Compute during all-reduce", compute_reducescatter_ms: "Compute during reduce-scatter" };
// Names with spaces, "all_gather time", are titles.
export const titleOf = (key) => titles[key] ?? (key.includes(" ") ? key : spaced(key));
