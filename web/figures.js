// Names of an iteration's figures.
import { spaced } from "./words.js";

const units = { samples_per_s: "samples/s", sm_clock_mhz: "MHz", power_w: "W", temperature_c: "°C", overlap_ratio: "", loss: "" };
export const unitOf = (key) => units[key] ?? (key.endsWith("_ms") ? "ms" : "");
const titles = { step_ms: "Time of a step", exposed_comm_ms: "Exposed communication", overlap_ratio: "Hidden share of communication", compute_ms: "Compute",
  comm_ms: "Communication", idle_ms: "Idle", loss: "Loss", samples_per_s: "Throughput", sm_clock_mhz: "Clock of the device", power_w: "Power",
  temperature_c: "Temperature", lead_ms: "Between steps", data_wait_ms: "Waiting for data", memcpy_ms: "Copies", span_ms: "Work of a step",
  overlap_ms: "Hidden communication", compute_overlap_ratio: "Share of compute beside communication",
  compute_allreduce_ms: "Compute beside all-reduce", compute_reducescatter_ms: "Compute beside reduce-scatter" };
export const titleOf = (key) => titles[key] ?? spaced(key);
