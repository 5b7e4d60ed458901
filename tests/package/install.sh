#!/bin/bash
# install.sh BUILD: what is installed is built first, is found, has a page for each command, completes, and is removed
# again; the Debian package has the same files.
set -eu
build=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "install: $*"; exit 1; }

tools/manual "$build/aorta" "$build/man1"
DESTDIR=$folder cmake --install "$build" --prefix /usr >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
aorta=$folder/usr/bin/aorta

# `make install` and `make deb` must build all that they install: after `make demo` only the program is built.
for goal in install deb; do
    targets=$(make -n "$goal" | sed -n 's/.*--target //p')
    # shellcheck disable=SC2086 # words
    ninja -C "$build" -t commands $targets >"$folder/commands"
    find "$folder/usr" -type f \( -path '*/bin/*' -o -name '*.so*' \) -printf '%f\n' | while read -r name; do
        grep -qF -- "-o $name " "$folder/commands" || fail "make $goal installs $name and does not build it"
    done
    grep -qF /tools/manual "$folder/commands" || fail "make $goal does not make the manual"
done
for file in lib/libaorta.so include/aorta/aorta.h include/aorta/ranges.h share/doc/aorta/LICENSE; do
    [ -s "$folder/usr/$file" ] || fail "no $file"
done
grep -q "MIT License" "$folder/usr/share/doc/aorta/copyright" || fail "no license for Debian"
[ "$(PKG_CONFIG_PATH=$folder/usr/lib/pkgconfig pkg-config --variable=includedir aorta)" -ef "$folder/usr/include" ] ||
    fail "aorta.pc names another directory of headers"

# The library is found where it lies now: what is refused is the lack of a GPU, or nothing, never the library.
"$aorta" trace run --dry-run --tool cuda -- true >"$folder/out" 2>&1 || { cat "$folder/out"; fail "trace run"; }
grep -q "$folder/usr/lib/aorta/record/libaorta_inject.so" "$folder/out" || { cat "$folder/out"; fail "the library is not found"; }
[ -e "$folder/usr/share/aorta/quickstart.yaml" ] || fail "no configurations"

# A page for each command, each with its name, and no warning of man.
pages=$folder/usr/share/man/man1
for words in "" trace hwq; do
    # shellcheck disable=SC2086 # none, or one word
    for command in $("$aorta" help --words $words | cut -f1); do
        page=aorta${words:+-$words}-$command
        [ -e "$pages/$page.1.gz" ] || fail "no page $page"
        zcat "$pages/$page.1.gz" | grep -q "^${page//-/\\\\-} \\\\- " || fail "page $page has no name"
    done
done
if command -v man >/dev/null; then
    for page in "$pages"/*.gz; do
        LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -l "$page" 2>"$folder/warnings" >/dev/null || true
        [ ! -s "$folder/warnings" ] || { cat "$folder/warnings"; fail "$page"; }
    done
fi

# What a shell offers behind words.
complete_words() { # WORD …: the last one is being typed
    PATH=$folder/usr/bin:$PATH bash -c '
        source "$0/usr/share/bash-completion/completions/aorta"
        COMP_WORDS=(aorta "$@") COMP_CWORD=$#
        _aorta; echo "${COMPREPLY[*]}"' "$folder" "$@"
}
expect() { # EXPECTED WORD …
    expected=$1
    shift
    found=$(complete_words "$@")
    [ "$found" = "$expected" ] || fail "aorta $*: \"$found\" instead of \"$expected\""
}
expect "train trace" tra
expect "compare" trace com
expect "host_launch" help host_l
expect "--html" trace analyze --ht
expect "--html" trace analyze some.json --ht
expect "" trace analyze so
expect "--streams" hwq run moe --str
expect "moe" hwq run mo
expect "moe" hwq info mo
expect "--capacity" hwq run moe --cap
expect "P0 P1 P2 P3" hwq run-priority P
expect "per_iteration" hwq run moe --sync-mode per
expect "fsdp.sharding_strategy=" train --config c.yaml --override fsdp.sh
expect "shard_grad_op" train --override a=1 fsdp.sharding_strategy = shard
expect "full_shard shard_grad_op no_shard hybrid_shard" train --override fsdp.sharding_strategy =
expect "true" train --override compile.enabled = t
expect "training.max_steps=" sweep --grid training.max
expect "hetero_kernels" sweep --hwq het

files_of() { (cd "$1" && find usr ! -type d | sort); }
files_of "$folder" >"$folder/installed"

# Everything that was installed has a name in the manifest, by which make uninstall removes it.
sed "s|^|$folder|" "$build/install_manifest.txt" | xargs -d '\n' rm
[ -z "$(find "$folder/usr" -type f)" ] || fail "left behind: $(find "$folder/usr" -type f)"
if command -v dpkg-shlibdeps >/dev/null; then
    cpack --config "$build/CPackConfig.cmake" -G DEB -B "$folder/deb" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
    dpkg-deb -x "$folder"/deb/*.deb "$folder/unpacked"
    files_of "$folder/unpacked" | diff "$folder/installed" - || fail "the package has other files (>) than make install (<)"
    "$folder/unpacked/usr/bin/aorta" --version | grep -q "^License: MIT" || fail "the packaged program does not start"
fi
echo "install: all well"
