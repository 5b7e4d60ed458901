#!/bin/sh
# Runs `aorta train` on all NVIDIA GPUs of this machine: scripts/launch_cuda.sh [--dry-run] [CONFIG] [OPTION …] [KEY=VALUE …]
kind=cuda nodes="NVIDIA GPU" options=
# shellcheck source=scripts/launch_gpus.sh
. "$(dirname "$0")/launch_gpus.sh"

# One connection keeps launches in order over all streams, as FSDP's authors recommend; what that costs is one of the
# verdict's causes (serialized_streams), and CUDA_DEVICE_MAX_CONNECTIONS=8 takes it away.
export CUDA_DEVICE_MAX_CONNECTIONS="${CUDA_DEVICE_MAX_CONNECTIONS:-1}"
echo "launch_cuda.sh: CUDA_DEVICE_MAX_CONNECTIONS=$CUDA_DEVICE_MAX_CONNECTIONS$(env | grep '^NCCL_' | sed 's/^/ /' | tr -d '\n')" >&2
echo "launch_cuda.sh: $*" >&2
[ "$dry" = 1 ] || exec "$@"
