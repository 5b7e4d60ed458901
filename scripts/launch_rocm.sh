#!/bin/sh
# Runs `aorta train` on all AMD GPUs of this machine: scripts/launch_rocm.sh [--dry-run] [CONFIG] [OPTION …] [KEY=VALUE …]
kind=hip nodes="AMD GPU" options=--enable-rocm-metrics
# shellcheck source=scripts/launch_gpus.sh
. "$(dirname "$0")/launch_gpus.sh"

# RCCL reads NCCL_* as well. CUDA_DEVICE_MAX_CONNECTIONS means nothing to ROCm: GPU_MAX_HW_QUEUES is its number of queues.
echo "launch_rocm.sh: environment:$(env | grep -E '^(NCCL|RCCL|HSA|GPU_MAX_HW)_' | sed 's/^/ /' | tr -d '\n')" >&2
echo "launch_rocm.sh: $*" >&2
[ "$dry" = 1 ] || exec "$@"
