#!/bin/sh
# Records `aorta train --config CONFIG` with rocprofv3, every rank of it, and says what limited it.
#
#   scripts/rocprof_capture.sh [CONFIG] [RANKS] [--enable-rocm-metrics] [--override KEY=VALUE …]
#
# CONFIG                a file of config/ or any other (config/default.yaml)
# RANKS                 how many; without it one for each AMD GPU
# ROCPROF_OUTPUT_DIR    each run gets a folder run_TIMESTAMP there (rocprof_traces)
# ROCPROF_ARGS          its options, words separated by spaces, instead of those that the analysis needs; the output
#                       format stays JSON unless they name one
# AORTA                 the program (the one built here, else the one in PATH)
#
# Any other program: aorta trace run --tool rocm -- COMMAND …
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)

fail() { echo "rocprof_capture: $*" >&2; exit 2; }

# Nodes of the kernel driver that are GPUs; CPUs have the id 0.
count_gpus() {
    count=0
    for node in /sys/class/kfd/kfd/topology/nodes/*/gpu_id; do
        [ -r "$node" ] && [ "$(cat "$node")" != 0 ] && count=$((count + 1))
    done
    if [ $count -eq 0 ]; then echo 1; else echo $count; fi
}

case ${1:-} in
-h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
esac
config=$here/config/default.yaml ranks=
case ${1:-} in "" | --*) ;; *) config=$1; shift ;; esac
case ${1:-} in "" | --*) ;; *) ranks=$1; shift ;; esac
ranks=${ranks:-$(count_gpus)}
# Every run has the metrics of ROCm SMI: the option is taken out wherever it is, and put first.
set -- "$@" ''
while :; do
    word=$1; shift
    [ -n "$word" ] || break
    [ "$word" = --enable-rocm-metrics ] || set -- "$@" "$word"
done
case ${1:-} in "" | --override) ;; *) fail "unknown word $1: [CONFIG] [RANKS] [--enable-rocm-metrics] [--override KEY=VALUE …] is expected" ;; esac
[ -r "$config" ] || fail "$config: no such configuration"
case $ranks in *[!0-9]* | 0) fail "RANKS is \"$ranks\"; it is a number from 1 on" ;; esac
# shellcheck source=scripts/program.sh
. "$here/scripts/program.sh"
output=${ROCPROF_OUTPUT_DIR:-rocprof_traces}/run_$(date +%Y%m%d_%H%M%S)
arguments=${ROCPROF_ARGS:---kernel-trace --memory-copy-trace --rccl-trace --hip-runtime-trace --marker-trace --output-format json}
case " $arguments " in
*" -f "* | *" -f="* | *" --output-format "* | *" --output-format="*) ;;
*) arguments="$arguments --output-format json" ;;
esac
case " $arguments " in *otf2*) fail "ROCPROF_ARGS asks for otf2, which aorta trace does not read; json, csv, rocpd and pftrace it does" ;; esac
tool=$(command -v rocprofv3 || echo /opt/rocm/bin/rocprofv3)
first=$output number=1
while [ -e "$output" ]; do
    number=$((number + 1))
    output=${first}_$number
done
[ -x "$tool" ] || fail "rocprofv3 is neither in PATH nor in /opt/rocm/bin; it is part of ROCm 6.2 and later (package rocprofiler-sdk)"
mkdir -p "$output"

# shellcheck disable=SC2086 # words of ROCPROF_ARGS
set -- "$tool" $arguments -d "$output" -- "$aorta" train --config "$config" --enable-rocm-metrics "$@"
[ "$ranks" -eq 1 ] || set -- "$aorta" launch -n "$ranks" -- "$@"
echo "rocprof_capture: $*" >&2
status=0
"$@" || status=$?
[ $status -eq 0 ] || echo "rocprof_capture: the run ended with status $status; what was written is analyzed" >&2
"$aorta" trace analyze "$output"
exit $status
