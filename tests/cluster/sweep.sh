#!/bin/bash
# sweep.sh AORTA SOURCE: aorta sweep --submit under a Slurm that runs (slurm.sh): four points of which one fails, an
# interruption, a resumed sweep, a killed one, and a trial that takes too long.
set -u
aorta=$1 source=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/aorta-cluster.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

fail() {
    echo "FAILED: $*"
    cat output 2>/dev/null
    tail -n +1 out*/trials/*/log 2>/dev/null
    exit 1
}
expect() { # expect CODE TEXT COMMAND...: exit code and a part of what it says
    local code=$1 text=$2
    shift 2
    "$@" >output 2>&1
    local got=$?
    [ "$got" = "$code" ] || fail "exit code $got, not $code: $*"
    grep -qF -- "$text" output || fail "does not say '$text': $*"
}
jobs_in_queue() { squeue -h | wc -l; }
wait_for() { # wait_for SECONDS COMMAND...
    local until=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$until" ] || fail "waited in vain: $*"
        sleep 0.1
    done
}
lines() { wc -l <"$1"; }

# A machine of two processors has no GPUs: the template that we ship, less its requests.
sed '/gpus-per-node/d; /exclusive/d' "$source/scripts/slurm/sweep.sbatch" >template
grep -q '^srun {command}' template || fail "the template has changed"

cat >job.sh <<'J'
echo "$1 $SLURM_JOB_ID $SLURM_JOB_NODELIST" >>"$STARTS"
sleep "${3:-0.2}"
[ "$1" != 3 ] || { echo "point 3 has no memory"; exit 5; }
echo "{\"step_ms\": $((100 - 10 * $1)).$AORTA_SWEEP_REPEAT}" >"$AORTA_SWEEP_RESULT"
J
export STARTS=$work/starts
# ./sweep OUTPUT SECONDS OPTION... A shell lets what runs in its background ignore SIGINT.
cat >sweep <<J
#!/bin/bash
exec env --default-signal=INT "$aorta" sweep --submit template -o "\$1" --grid x=1,2,3,4 --repeats 1 --no-trace "\${@:3}" \\
    -- sh job.sh '{x}' 'a "quoted" \$word' "\$2"
J
chmod +x sweep

# All four, two at a time.
expect 0 "4 trials: 3 done, 1 failed" ./sweep out 0.2 --jobs 2
grep '"state": "failed", "exit_code": 5' out/trials.jsonl | grep -q '"reason": "point 3 has no memory"' ||
    fail "the failed trial is not recorded: $(cat out/trials.jsonl)"
grep -q "^Best of .*: x=4: " output || fail "x=4 is the best"
[ "$(lines starts)" = 4 ] || fail "not four jobs: $(cat starts)"
[ "$(jobs_in_queue)" = 0 ] || fail "jobs are left"
expect 0 "4 trials: 3 done, 1 failed" ./sweep out 0.2 --jobs 2 --resume
[ "$(lines starts)" = 4 ] || fail "--resume repeats trials"
expect 0 "4 trials: 3 done, 1 failed" ./sweep out 0.2 --retry failed
[ "$(lines starts)" = 5 ] || fail "--retry runs the failed one, once"

# A signal while two trials run and the next ones wait: no job is left, and no cancelled trial is recorded.
for signal in INT TERM; do
    rm -f starts
    ./sweep out-$signal 60 --jobs 4 >output 2>&1 &
    pid=$!
    wait_for 30 test -s starts
    kill -$signal $pid
    wait $pid
    [ $? = 1 ] || fail "SIG$signal: no exit code 1"
    grep -q "interrupted by .* after 0 trials" output || fail "SIG$signal is not said"
    [ "$(jobs_in_queue)" = 0 ] || fail "jobs are left after SIG$signal: $(squeue)"
    [ "$(lines out-$signal/trials.jsonl)" = 1 ] || fail "cancelled trials are recorded"
done
expect 1 "4 trials: 4 hung" ./sweep out-INT 60 --jobs 4 --resume --timeout-s 1
[ "$(jobs_in_queue)" = 0 ] || fail "jobs are left after the timeout"

# Where the queue does not get rid of them, a second signal ends the wait.
mkdir bin && printf '#!/bin/sh\n' >bin/scancel && chmod +x bin/scancel
rm -f starts
PATH=$work/bin:$PATH ./sweep out-twice 60 --jobs 1 --trials 1 >output 2>&1 &
pid=$!
wait_for 30 test -s starts
kill -INT $pid
wait_for 10 grep -q "cancels 1 job" output
sleep 1
kill -INT $pid
wait_for 5 sh -c "! kill -0 $pid 2>/dev/null"
wait $pid
[ $? = 1 ] || fail "two signals: no exit code 1"
left=$(squeue -h -o %A)
grep -q "jobs are still in Slurm's queue: scancel $left" output || fail "the job that is left is not named"
scancel "$left"
wait_for 20 sh -c '[ -z "$(squeue -h)" ]'

# Killed: its jobs go on, and the next sweep takes them over, those that have ended and those that have not.
rm -f starts
./sweep out-killed 3 --jobs 2 >output 2>&1 &
pid=$!
wait_for 30 test -s out-killed/trials/0001/id
kill -KILL $pid
wait $pid 2>/dev/null
wait_for 30 test -s starts
expect 0 "4 trials: 3 done, 1 failed" ./sweep out-killed 3 --jobs 2 --resume
[ "$(lines starts)" = 4 ] || fail "jobs of the killed sweep ran again: $(cat starts)"

# A job that somebody else cancels, and one that the cluster does not take.
./sweep out-lost 60 --jobs 1 --trials 1 >output 2>&1 &
pid=$!
wait_for 30 test -s out-lost/trials/0000/id
scancel "$(cat out-lost/trials/0000/id)"
wait $pid
grep -q "crashed: Slurm ended its job [0-9]*: CANCELLED" output || fail "who ended the job is not said"
sed 's/--nodes=1/--partition=none/' template >template.none
expect 1 "sbatch took no job: sbatch: error" "$aorta" sweep --submit template.none -o out-none --env X=1,2 --no-trace -- true

# Templates that are not for Slurm, and options that do not fit.
printf '#!/bin/sh\n#PBS -l nodes=1\n{command}\n' >pbs
expect 2 "lines #PBS are for PBS; of schedulers aorta knows Slurm" "$aorta" sweep --submit pbs --env X=1,2 -- true
printf '#!/bin/sh\n#SBATCH -N1\ntrue\n' >empty
expect 2 "write {command} where the trial's command goes" "$aorta" sweep --submit empty --env X=1,2 -- true
expect 2 "no sbatch in PATH" env PATH=/nowhere "$aorta" sweep --submit template --env X=1,2 -- true
expect 2 "--jobs goes with --submit" "$aorta" sweep --jobs 2 --env X=1,2 -- true
echo ok
