# Sourced by the job files in this folder, with their arguments. The ranks find each other at the first node of the job; ranks
# on the CPU device do so through MPI (srun --mpi=pmix).
config=${1:-${AORTA_HOME:-${SLURM_SUBMIT_DIR:-.}}/config/default.yaml}
[ $# -eq 0 ] || shift
[ $# -eq 0 ] || set -- --override "$@"
[ -r "$config" ] || { echo "aorta: $config: no such configuration" >&2; exit 2; }
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# Jobs that share a node must not share a port.
MASTER_PORT=${MASTER_PORT:-$((20000 + SLURM_JOB_ID % 20000))}
CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-1}
export MASTER_ADDR MASTER_PORT CUDA_DEVICE_MAX_CONNECTIONS
exec srun --kill-on-bad-exit=1 "${AORTA:-aorta}" train --config "$config" "$@"
