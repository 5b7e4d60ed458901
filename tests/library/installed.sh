#!/bin/bash
# installed.sh BUILD: the installed library: only versioned symbols, pkg-config, both examples.
set -eu
build=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "library: $*"; exit 1; }

mkdir -p "$folder/lib/pkgconfig" "$folder/include"
cp -P "$build"/libaorta.so* "$folder/lib"
cp -r include/aorta "$folder/include"
cp "$build/aorta.pc" "$folder/lib/pkgconfig"

others=$(nm -D --defined-only "$folder/lib/libaorta.so" | awk '{ print $3 }' | grep -v '^libaorta_.*@@LIBAORTA_1$\|^LIBAORTA_1' || true)
[ -z "$others" ] || fail "it shows more than its interface: $others"
[ "$(nm -D --defined-only "$folder/lib/libaorta.so" | grep -c '@@LIBAORTA_1')" -ge 15 ] || fail "symbols without a version"
readelf -d "$folder/lib/libaorta.so" | grep -q 'SONAME.*\[libaorta.so.0\]' || fail "no SONAME"

flags=$(PKG_CONFIG_PATH=$folder/lib/pkgconfig pkg-config --cflags --libs aorta)
for example in analyze overlap; do
    # shellcheck disable=SC2086 # words of the compiler
    cc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror "examples/$example.c" $flags -pthread -o "$folder/$example"
done
printf '#include <aorta/ranges.h>\nint main() { return libaorta_version() == nullptr; }\n' >"$folder/use.cpp"
# shellcheck disable=SC2086
if command -v c++ >/dev/null; then c++ -std=c++11 -Wall -Werror "$folder/use.cpp" $flags -o "$folder/use"; fi

export LD_LIBRARY_PATH=$folder/lib
data=tests/trace/data/whole
"$folder/analyze" $data/fsdp2_rank0.json.gz $data/fsdp2_rank1.json.gz >"$folder/out"
grep -q '^Verdict: ' "$folder/out" || fail "no verdict: $(cat "$folder/out")"
grep -q '^2 ranks, ' "$folder/out" || fail "no step: $(cat "$folder/out")"
grep -q '^rank,' "$folder/out" || fail "no table: $(cat "$folder/out")"
# The second one has work before its step, and no communication.
for files in "$data/fsdp2_rank0.json.gz $data/fsdp2_rank1.json.gz" $data/h100_qwen.json.gz; do
    # shellcheck disable=SC2086 # one or two files
    "$folder/analyze" $files >"$folder/out" && "$build/aorta" trace analyze -q $files >"$folder/ours"
    head -n "$(wc -l <"$folder/ours")" "$folder/out" | cmp -s - "$folder/ours" || fail "another verdict than the program's"
    if grep -qw nan "$folder/out"; then fail "a figure that is not known: $(grep -w nan "$folder/out")"; fi
done
if "$folder/analyze" /nowhere 2>"$folder/out"; then fail "a missing file is no failure"; fi
grep -q '/nowhere' "$folder/out" || fail "the file is not named: $(cat "$folder/out")"
"$folder/overlap" | tee "$folder/out"
grep -q 'of communication hidden' "$folder/out" || fail "no overlap"
echo "library: all well"
