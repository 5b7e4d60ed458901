#!/bin/sh
# Every hardware-queue workload at its default sizes, on the fewest streams it takes, on 8 and on 32 (held within its
# range), verified once: one line each, and a JSON file in $OUT.
#
#   OUT=results tests/gpu/hwq.sh [build/release/aorta] [DEVICE]
set -u
aorta=${1:-build/release/aorta}
device=${2:-cuda}
out=${OUT:-hwq-results}
iterations=${ITERATIONS:-20}
mkdir -p "$out"
failed=0
printf '%-22s %3s %10s %12s %-10s %11s %9s %8s %9s %8s %9s\n' workload str p50_ms throughput unit launches/s inter_us n intra_us n switch_us
"$aorta" hwq list --json >"$out/workloads.json" || exit 1
names=$(sed -n 's/^ *"name": "\(.*\)",$/\1/p' "$out/workloads.json")
for name in $names; do
    verify=--verify
    ran=" "
    for streams in 1 8 32; do
        least=$(grep -A6 "\"name\": \"$name\"" "$out/workloads.json" | sed -n 's/.*"min_streams": \([0-9]*\).*/\1/p')
        most=$(grep -A6 "\"name\": \"$name\"" "$out/workloads.json" | sed -n 's/.*"max_streams": \([0-9]*\).*/\1/p')
        [ $streams -lt "$least" ] && streams=$least
        [ $streams -gt "$most" ] && streams=$most
        case $ran in *" $streams "*) continue ;; esac
        ran="$ran$streams "
        file=$out/${name}_$streams.json
        if timeout 60 "$aorta" hwq run "$name" --streams $streams --iterations "$iterations" --warmup 3 --quiet $verify \
            --device "$device" -o "$file" 2>"$out/error"; then
            python3 - "$file" <<'PY'
import json, sys
r = json.load(open(sys.argv[1]))
s, f = r["switch_latency"], r["figures"]
us = lambda v: "null" if v is None else "%.3f" % (1e3 * v)
print("%-22s %3d %10.4f %12.5g %-10s %11.4g %9s %8d %9s %8d %9s %s%s" % (
    r["workload_name"], r["stream_count"], r["latency_ms"]["p50"], r["throughput"], r["throughput_unit"],
    f["launches_per_second"]["value"], us(s["inter_stream_gap_ms"]), s["inter_stream_samples"],
    us(s["intra_stream_gap_ms"]), s["intra_stream_samples"], us(s["estimated_switch_overhead_ms"]),
    r["verified"] or "", " (%s)" % s["reason"][:80] if s["reason"] else ""))
PY
        else
            failed=1
            printf '%-22s %3d FAILED %s\n' "$name" $streams "$(head -c 200 "$out/error" | tr '\n' ' ')"
        fi
        verify=
    done
done
rm -f "$out/error"
exit $failed
