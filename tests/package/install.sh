#!/bin/bash
# install.sh BUILD: what is installed is found, has a page for each command, completes, and is removed again.
set -eu
build=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "install: $*"; exit 1; }

tools/manual "$build/aorta" "$build/man1"
DESTDIR=$folder cmake --install "$build" --prefix /usr >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
aorta=$folder/usr/bin/aorta

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
expect "--html" trace analyze --ht
expect "--html" trace analyze some.json --ht
expect "" trace analyze so
expect "--streams" hwq run moe --str

# Everything that was installed has a name in the manifest, by which make uninstall removes it.
sed "s|^|$folder|" "$build/install_manifest.txt" | xargs -d '\n' rm
[ -z "$(find "$folder/usr" -type f)" ] || fail "left behind: $(find "$folder/usr" -type f)"
echo "install: all well"
