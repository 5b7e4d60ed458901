#!/bin/sh
# One visit to a GPU for what hardware queues do: maps under several CUDA_DEVICE_MAX_CONNECTIONS, three times each;
# copies beside products in all directions. Half a minute. (What else there is of queues: hwq_gpu.py.)
#   tests/gpu/queue_map.sh DIRECTORY [DEVICE]
# DIRECTORY holds bin/ (aorta, libaorta_inject.so) and lib/ (libraries it needs that the machine lacks). Everything it writes is in
# ${OUT:-/tmp}/queue-map/. Exit status 1 when something is not as it has to be.
set -u
bin=$1/bin
device=${2:-cuda:0}
export LD_LIBRARY_PATH="$1/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
logs=${OUT:-/tmp}/queue-map
mkdir -p "$logs"
failed=0
begun=$(date +%s)

fail() {
    echo "FAILED  $*"
    failed=1
}

run() { # name, command...: output to $logs/name, errors beside it; says why it failed
    name=$1
    shift
    timeout 60 "$@" >"$logs/$name" 2>"$logs/$name.err" && return 0
    fail "$name (status $?): $(tail -n 2 "$logs/$name.err" | cut -c1-300)"
    return 1
}

echo "== maps: 16 compute streams, 2 that copy, 1 with NCCL; three times each"
for connections in 1 2 4 8 32 unset; do
    for repeat in 1 2 3; do
        if [ $connections = unset ]; then
            run map-$connections-$repeat env -u CUDA_DEVICE_MAX_CONNECTIONS "$bin/aorta" hwq map --device "$device" \
                --copy-mb 0 --json
        else
            run map-$connections-$repeat env CUDA_DEVICE_MAX_CONNECTIONS=$connections "$bin/aorta" hwq map \
                --device "$device" --copy-mb 0 --json
        fi
    done
    python3 - "$logs" $connections <<'END' || failed=1
import json, sys
logs, connections = sys.argv[1:]
maps = []
for repeat in (1, 2, 3):
    try:
        maps.append(json.load(open(f"{logs}/map-{connections}-{repeat}")))
    except ValueError:
        sys.exit(f"FAILED  map {connections}: repeat {repeat} wrote no JSON")
first = maps[0]
compute = next(p for p in first["parts"] if p["role"] == "compute")
agree = all(m["groups"] == first["groups"] for m in maps)
stable = all(m["stable"] for m in maps)
shared = ["+".join(g) for g in first["groups"] if len(g) > 1]
print(f"connections {connections:>5}: {compute['queues']:2} queues of 16 compute streams, {first['queue_count']} in all; "
      f"blocking {first['blocking']}, comm {first['comm_backend']}, {first['rounds']} rounds, "
      f"{'three agree' if agree else 'REPEATS DIFFER'}{'' if stable else ', NOT STABLE'}")
print("    shared: " + ("; ".join(shared)[:230] or "none"))
for number, other in enumerate(maps[1:], 2):
    if other["groups"] != first["groups"]:
        print(f"    repeat {number}: " + "; ".join("+".join(g) for g in other["groups"] if len(g) > 1)[:230])
wrong = connections == "1" and compute["queues"] != 1
if wrong:
    print("FAILED  one connection must be one queue")
if not agree:
    print(f"FAILED  maps with {connections} connections differ")
sys.exit(1 if wrong or not agree else 0)
END
done

echo "== priorities (8 streams each), and copies on two streams"
if run map-priorities "$bin/aorta" hwq map --device "$device" --streams 8 --priority all --json; then
    python3 - "$logs/map-priorities" <<'END'
import json, sys
m = json.load(open(sys.argv[1]))
print("   ".join(f"{p['role']} {p['priority']}: {p['queues']} queues of {p['streams']}" for p in m["parts"]))
print("    shared: " + ("; ".join("+".join(g) for g in m["groups"] if len(g) > 1)[:300] or "none"))
for c in m["copies"]["pairs"]:
    print(f"    {c['first']}+{c['second']}: {c['first_alone_ms']:.3f} and {c['second_alone_ms']:.3f} alone, "
          f"{c['together_ms']:.3f} ms together (first end {c['first_end_ms']:.3f}): {c['verdict']}")
END
fi

echo "== sdma: product of 4096 x 4096 beside copies of 64 MiB"
for what in "d2h fp32" "h2d fp32" "d2d fp32" "p2p fp32" "d2h bf16"; do
    set -- $what
    "$bin/aorta" sdma --device "$device" --direction "$1" --dtype "$2" --json >"$logs/sdma-$1-$2" 2>"$logs/sdma-$1-$2.err"
    status=$?
    if [ $status -eq 2 ] && [ "$1" = p2p ]; then
        echo "$what: $(tail -n 1 "$logs/sdma-$1-$2.err")"
        continue
    fi
    [ $status -eq 0 ] || { fail "sdma $what: $(tail -n 1 "$logs/sdma-$1-$2.err" | cut -c1-300)"; continue; }
    python3 - "$logs/sdma-$1-$2" "$what" <<'END'
import json, sys
s = json.load(open(sys.argv[1]))
p50 = lambda key: s[key]["p50"]
print(f"{sys.argv[2]}: product {p50('gemm_alone_ms'):.3f} ms ({s['gemm_tflops']:.1f} TFLOP/s), copy "
      f"{p50('copy_alone_ms'):.3f} ms ({s['copy_alone_gbps']:.1f} GB/s), serial {p50('serial_ms'):.3f}, together "
      f"{p50('together_ms'):.3f} (product {p50('gemm_together_ms'):.3f}, copy {p50('copy_together_ms'):.3f}): saved "
      f"{s['savings_percent']:.1f}%, {100 * s['share_of_ideal']:.1f}% of ideal, {100 * s['hidden_share']:.0f}% hidden")
END
done

echo "== $(($(date +%s) - begun)) s; $([ $failed -eq 0 ] && echo "all well" || echo "something FAILED")"
exit $failed
