#!/bin/sh
# Everything that needs a GPU to be checked, in one go: conformance of device, operations and collectives, parity with
# PyTorch, the kernel tracer, what recording costs, the HIP table through the forwarder, sanitizers, and ranks that die.
#   tests/gpu/check.sh GPUS [quick]
# Runs as it is from the unpacked archive of `make dist`, whose bin/, tests/ and config/ it takes.
# Prints a line per check; the output of each is in ${OUT:-/tmp}/gpu-check/. Exit status 1 when one failed.
set -u
tree=$(cd "$(dirname "$0")/../.." && pwd)
gpus=${1:-} quick=${2:-}
case $gpus in [1-9]*) ;; *) echo "usage: $0 GPUS [quick]" >&2; exit 2 ;; esac
aorta=$tree/bin/aorta tests=$tree/tests
[ -x "$aorta" ] || { echo "$0: no $aorta: run it from the unpacked archive of 'make dist'" >&2; exit 2; }
logs=${OUT:-/tmp}/gpu-check
mkdir -p "$logs"
failed=0

check() { # name, command...
    name=$1
    shift
    if timeout 240 "$@" >"$logs/$name" 2>&1; then
        echo "ok      $name"
    else
        echo "FAILED  $name (status $?)"
        grep -E "ERROR|FAILED|error|aorta" "$logs/$name" | head -6
        failed=1
    fi
}

export AORTA_TEST_DEVICE=cuda
for test in streams events memory graphs captures; do check "device.$test" "$tests/test_${test}_device"; done
for test in "$tests"/test_*_ops; do check "ops.$(basename "$test")" "$test"; done
check tracer "$tests/test_tracer_gpu_measure"
[ "$gpus" -gt 1 ] && for test in collectives groups order shared_memory; do
    AORTA_TEST_BACKEND=nccl check "comm.$test.$gpus" "$aorta" launch -n "$gpus" -- "$tests/test_${test}_comm_conformance"
done
unset AORTA_TEST_DEVICE

check recording python3 "$tests/gpu/recording.py" "$aorta" --ranks "$gpus" --ways captured --rounds 1 --tolerance 0.02
check scenarios python3 "$tests/gpu/scenarios.py" --aorta "$aorta" --config "$tree/config/default.yaml" \
    --ranks "$gpus"
[ -n "$quick" ] || check precision python3 "$tests/gpu/precision.py" --aorta "$aorta" \
    --config "$tree/config/default.yaml" --ranks "$gpus"
[ "$gpus" -gt 1 ] && check killed-rank python3 "$tests/gpu/killed_rank.py" --aorta "$aorta" \
    --config "$tree/config/default.yaml" --ranks "$gpus"
[ -n "$quick" ] || check sparse python3 "$tests/gpu/sparse.py" "$logs/sparse-runs" --aorta "$aorta" --programs "$tests" --gpus "$gpus"
check parity python3 "$tests/parity/live.py" --aorta "$aorta" --device cuda --ranks "$gpus"

# HIP's rows of our tables, on CUDA's libraries.
if [ -d "$tests/hip_forwarder" ]; then
    export AORTA_LIBRARY_PATH="$tests/hip_forwarder"
    if [ "$gpus" -eq 1 ]; then
        export AORTA_TEST_DEVICE=hip
        for test in streams events memory graphs captures; do check "hip-forwarder.$test" "$tests/test_${test}_device"; done
        for test in linear random norm gelu attention scores embedding cast spin step; do
            check "hip-forwarder.ops.$test" "$tests/test_${test}_ops"
        done
        unset AORTA_TEST_DEVICE
        set -- one-rank-fsdp one-rank-ddp
    else
        set -- full-shard ddp captured
        AORTA_TEST_DEVICE=hip AORTA_TEST_BACKEND=nccl check hip-forwarder.comm.collectives \
            "$aorta" launch -n "$gpus" -- "$tests/test_collectives_comm_conformance"
    fi
    check hip-forwarder.parity \
        python3 "$tests/parity/live.py" --aorta "$aorta" --device hip --ranks "$gpus" "$@"
    unset AORTA_LIBRARY_PATH
fi
if [ -z "$quick" ] && [ "$gpus" -eq 1 ] && command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck; do
        # Not streams and events: they hold one stream while another one runs; the sanitizer runs one kernel at a time.
        for test in memory graphs captures; do
            AORTA_TEST_DEVICE=cuda check "$tool.device.$test" compute-sanitizer --tool "$tool" --report-api-errors no --error-exitcode 9 \
                "$tests/test_${test}_device"
        done
        for test in norm attention scores gelu embedding step cast; do
            AORTA_TEST_DEVICE=cuda check "$tool.$test" compute-sanitizer --tool "$tool" --report-api-errors no --error-exitcode 9 \
                "$tests/test_${test}_ops"
        done
    done
fi
exit $failed
