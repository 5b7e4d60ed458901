#!/bin/sh
# Everything that needs a GPU to be checked, in one go: conformance of device, operations and collectives, parity with
# PyTorch, the kernel tracer, what recording costs, the HIP table through the forwarder, sanitizers, and ranks that die.
#   tests/gpu/check.sh DIRECTORY GPUS [quick]
# DIRECTORY holds bin/ (aorta and the test programs) and lib/ (libraries they need that the machine lacks).
# Prints a line per check; the output of each is in ${OUT:-/tmp}/gpu-check/. Exit status 1 when one failed.
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
tree=$1 gpus=$2 quick=${3:-}
bin=$tree/bin
export LD_LIBRARY_PATH="$tree/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
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
for test in streams events memory graphs captures; do check "device.$test" "$bin/test_${test}_device"; done
for test in linear random norm sums gelu attention scores embedding cast flag spin step; do check "ops.$test" "$bin/test_${test}_ops"; done
check tracer "$bin/test_tracer_gpu_measure"
[ "$gpus" -gt 1 ] && for test in collectives groups order shared_memory; do
    AORTA_TEST_BACKEND=nccl check "comm.$test.$gpus" "$bin/aorta" launch -n "$gpus" -- "$bin/test_${test}_comm_conformance"
done
unset AORTA_TEST_DEVICE

check recording python3 "$here/tests/gpu/recording.py" "$bin/aorta" --ranks "$gpus" --ways captured --rounds 1 --tolerance 0.02
check scenarios python3 "$here/tests/gpu/scenarios.py" --aorta "$bin/aorta" --config "$here/config/default.yaml" \
    --ranks "$gpus"
[ -n "$quick" ] || check precision python3 "$here/tests/gpu/precision.py" --aorta "$bin/aorta" \
    --config "$here/config/default.yaml" --ranks "$gpus"
[ "$gpus" -gt 1 ] && check killed-rank python3 "$here/tests/gpu/killed_rank.py" --aorta "$bin/aorta" \
    --config "$here/config/default.yaml" --ranks "$gpus"
check parity python3 "$here/tests/parity/live.py" --aorta "$bin/aorta" --device cuda --ranks "$gpus"

# HIP's rows of our tables, on CUDA's libraries.
if [ -d "$tree/rocm" ]; then
    export AORTA_LIBRARY_PATH="$tree/rocm"
    if [ "$gpus" -eq 1 ]; then
        export AORTA_TEST_DEVICE=hip
        for test in streams events memory graphs captures; do check "hip-forwarder.$test" "$bin/test_${test}_device"; done
        for test in linear random norm sums gelu attention scores embedding cast spin step; do
            check "hip-forwarder.ops.$test" "$bin/test_${test}_ops"
        done
        unset AORTA_TEST_DEVICE
        set -- one-rank-fsdp one-rank-ddp
    else
        set -- full-shard ddp captured
        AORTA_TEST_DEVICE=hip AORTA_TEST_BACKEND=nccl check hip-forwarder.comm.collectives \
            "$bin/aorta" launch -n "$gpus" -- "$bin/test_collectives_comm_conformance"
    fi
    check hip-forwarder.parity \
        python3 "$here/tests/parity/live.py" --aorta "$bin/aorta" --device hip --ranks "$gpus" "$@"
    unset AORTA_LIBRARY_PATH
fi
if [ -z "$quick" ] && [ "$gpus" -eq 1 ] && command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck; do
        # Not streams and events: they hold streams while others run, and the sanitizer runs one kernel at a time.
        for test in memory graphs captures; do
            AORTA_TEST_DEVICE=cuda check "$tool.device.$test" compute-sanitizer --tool "$tool" --report-api-errors no --error-exitcode 9 \
                "$bin/test_${test}_device"
        done
        for test in norm attention scores gelu embedding step cast; do
            AORTA_TEST_DEVICE=cuda check "$tool.$test" compute-sanitizer --tool "$tool" --report-api-errors no --error-exitcode 9 \
                "$bin/test_${test}_ops"
        done
    done
fi
exit $failed
