#!/bin/sh
# fuzz_all.sh SECONDS OUT [PROGRAMS]: all fuzzers at once, each for SECONDS on one core, in 1 GiB of memory.
#
# PROGRAMS is the folder of the fuzzers: bin/ next to this script (tools/fuzz_bundle), else build/fuzz/tests/fuzz. Prints a
# line for each: executions, inputs that failed, inputs it added. OUT holds table.md, crashes.tar.gz (the inputs that failed),
# corpora.tar.gz (the inputs that reached new code) and logs.tar.gz. A fuzzer whose input fails goes on with the rest of
# its time. Exit status 1 when an input failed or a fuzzer did not run.
set -eu
[ $# -ge 2 ] || { sed -n '2,/^set/s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
seconds=$1
mkdir -p "$2"
out=$(cd "$2" && pwd)
programs=${3:-$here/bin}
[ -d "$programs" ] || programs=$here/../../build/fuzz/tests/fuzz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -C "$work" -xJf "$here/corpora.tar.xz"
mv "$work/corpora" "$work/first"
mkdir "$work/corpora" "$work/crashes" "$work/logs" "$work/counts" "$work/rows"
# Where the libraries are ours, the loader finds them first; sanitizers want the same addresses in every run.
if [ -d "$here/lib" ]; then export LD_LIBRARY_PATH="$here/lib"; fi
if setarch "$(uname -m)" -R true 2>/dev/null; then fixed="setarch $(uname -m) -R"; else fixed=; fi

# field NAME FILE: what libFuzzer counted in its last run
field() { sed -n "s/^stat::$1: *\([0-9]*\)/\1/p" "$2" | tail -n 1; }

# fuzz NAME LENGTH: runs until its time is over, once more after each failure
fuzz() {
    end=$(($(date +%s) + seconds)) run=0 executions=0
    mkdir "$work/corpora/$1" "$work/crashes/$1"
    mkdir -p "$work/first/$1" # a new fuzzer has none yet
    while left=$((end - $(date +%s))) && [ "$left" -gt 0 ] && [ "$run" -lt 50 ]; do
        run=$((run + 1)) log="$work/logs/$1.$run"
        # shellcheck disable=SC2086 # words of a command
        $fixed "$programs/fuzz_$1" -max_total_time="$left" -max_len="$2" -rss_limit_mb=1024 -malloc_limit_mb=256 -timeout=25 \
            -print_final_stats=1 -artifact_prefix="$work/crashes/$1/" -dict="$here/$1.dict" "$work/corpora/$1" "$here/$1" "$work/first/$1" >"$log" 2>&1 || true
        done=$(field number_of_executed_units "$log")
        executions=$((executions + ${done:-0}))
    done
    failed=$(find "$work/crashes/$1" -type f | wc -l)
    added=$(find "$work/corpora/$1" -type f | wc -l)
    echo "$1: $executions executions, $failed failed, $added inputs added, $run runs"
    echo "| \`$1\` | $executions | $added | $([ "$failed" = 0 ] && echo nothing || echo "$failed") |" >"$work/rows/$1"
    if [ "$executions" -gt 0 ] && [ "$failed" = 0 ]; then echo clean >"$work/counts/$1"; fi
}

count=0
while read -r name length; do
    count=$((count + 1))
    fuzz "$name" "$length" &
done <<END
$(sed -n 's/^aorta_fuzz(\([a-z]*\) \([0-9]*\) .*/\1 \2/p' "$here/CMakeLists.txt")
END
wait
{
    printf '| fuzzer | inputs tried in %s s | added | failed |\n| --- | --- | --- | --- |\n' "$seconds"
    cat "$work"/rows/*
} >"$out/table.md"
for kind in crashes corpora logs; do tar -C "$work" -czf "$out/$kind.tar.gz" "$kind"; done
[ "$(find "$work/counts" -type f | wc -l)" = "$count" ]
