#!/bin/bash
# windows.sh AORTA SOURCE PROGRAM CUPTI CUDA: scripts/slurm/trace_run.sbatch under a Slurm of two nodes (slurm.sh). Each
# node records its rank in windows, and one watch evaluates both. PROGRAM runs on the fake driver in place of a training.
set -u
aorta=$1 source=$2 program=$3
work=$(mktemp -d "${TMPDIR:-/tmp}/aorta-cluster.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

fail() {
    echo "FAILED: $*"
    tail -n +1 ./*.log 2>/dev/null
    exit 1
}

mkdir bin && ln -s "$aorta" bin/aorta
export PATH=$work/bin:$PATH FAKE_CUPTI=$4 LD_LIBRARY_PATH=$5 AORTA_EVERY=2 AORTA_WINDOWS=$work/shared
# Rank 1 is late by 3 ms from the fifth second on; both count from one second of the clock.
cat >train.sh <<J
export RANK=\$SLURM_PROCID WORLD_SIZE=\$SLURM_NTASKS LIVE_BASE=\$(cat base) LIVE_LATE=1 LIVE_CHANGE=5
echo "node \$SLURMD_NODENAME is rank \$RANK"
exec "$program" live 11
J
echo "$(date +%s)000000000" >base
# The nodes of the job are two of one processor each, without GPUs.
sed '/gpus-per-node/d; /exclusive/d' "$source/scripts/slurm/trace_run.sbatch" >trace_run.sbatch
sbatch --wait -N 2 trace_run.sbatch sh train.sh >submitted.log 2>&1 || fail "the job ended with exit code $?"
[ -z "$(squeue -h)" ] || fail "the job is still in the queue"
for node in n1 n2; do grep -q "node $node is rank" aorta-trace-*.log || fail "nothing ran on $node"; done

both=$(grep -c '"ranks": 2' shared.jsonl) || fail "no window has both ranks"
[ "$both" -ge 3 ] || fail "$both windows have both ranks"
grep -q "rank 1 is late by" shared.jsonl || fail "the change is not named: $(cat shared.jsonl)"
# The gauges are of the last window, which may have one rank: the ranks end where they are in theirs.
last=$(tail -n 1 shared.jsonl | sed 's/.*"ranks": \([0-9]*\),.*/\1/')
grep -q "^aorta_ranks $last$" shared.prom || fail "gauges other than of $last ranks"
grep -qE "rank 1 is late by (2\.9[0-9]?|3|3\.0[0-9]?) ms per step" aorta-trace-*.log ||
    fail "the change is not in the job's log"
echo ok
