#!/bin/sh
# One visit to a GPU for the workloads that are small models: each at its default sizes, on its fewest streams, on 8 and
# on 32 where it may, launched one by one and as a graph, verified; p50 beside the original toolkit's on an H100.
#   tests/gpu/workloads.sh DIRECTORY [DEVICE]
# DIRECTORY holds bin/aorta and lib/ (libraries it needs that the machine lacks). Results go to ${OUT:-/tmp}/workloads/.
# WORKLOADS="moe fsdp_tp" takes these alone, ITERATIONS so many (50). Exit status 1 when a run or its verification
# fails, or when on 8 streams neither way is as fast as the original.
set -u
bin=$1/bin
device=${2:-cuda:0}
export LD_LIBRARY_PATH="$1/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
logs=${OUT:-/tmp}/workloads
iterations=${ITERATIONS:-50}
mkdir -p "$logs"
failed=0

# name, fewest and most streams, p50 of the original on 8 streams in ms (-: it crashed)
table='
graph_subgraphs 4 32 1.18
grad_accum 2 16 4.1
moe 4 32 6.4
fsdp_tp 4 16 9.1
continuous_batch 4 16 4.7
speculative_decode 4 12 12.2
rag_pipeline 4 12 2.99
async_dataload 4 12 6.0
activation_ckpt 4 12 -
torch_compile 4 12 -
zero_offload 4 12 -
'

p50() { # file: p50, or nothing
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["latency_ms"]["p50"])' "$1" 2>/dev/null
}

measure() { # name, streams, eager or graph
    file=$logs/$1-$2-$3
    graph=
    [ "$3" = graph ] && graph=--graph
    rm -f "$file.json"
    # shellcheck disable=SC2086 # --graph, or no argument at all
    if ! timeout 300 "$bin/aorta" hwq run "$1" --device "$device" --streams "$2" --iterations "$iterations" --verify $graph \
        --output "$file.json" >"$file.txt" 2>&1; then
        echo "FAILED  $1, $2 streams, $3: $(tail -n 2 "$file.txt" | cut -c1-300)"
        failed=1
    fi
}

printf '%-20s %7s %12s %12s %12s\n' workload streams 'eager p50' 'graph p50' 'original'
while read -r name fewest most original; do
    [ -n "$name" ] || continue
    case " ${WORKLOADS:-$name} " in *" $name "*) ;; *) continue ;; esac
    for streams in $fewest 8 32; do
        [ "$streams" -le "$most" ] || continue
        measure "$name" "$streams" eager
        measure "$name" "$streams" graph
        eager=$(p50 "$logs/$name-$streams-eager.json")
        replayed=$(p50 "$logs/$name-$streams-graph.json")
        beside=-
        [ "$streams" = 8 ] && beside=$original
        printf '%-20s %7s %12.9s %12.9s %12s\n' "$name" "$streams" "${eager:--}" "${replayed:--}" "$beside"
        [ "$beside" = - ] && continue
        python3 -c 'import sys; times = [float(x) for x in sys.argv[2:] if x]; sys.exit(not times or min(times) > float(sys.argv[1]))' \
            "$beside" "$eager" "$replayed" || { echo "SLOWER  $name on 8 streams than the original's $beside ms"; failed=1; }
    done
done <<END
$table
END
echo "results in $logs"
exit $failed
