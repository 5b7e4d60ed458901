#!/bin/bash
# odd_paths.sh SOURCE: in a directory of any name CMake configures, or says which character it cannot take.
set -eu
source=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "odd paths: $*"; exit 1; }
enter() { # NAME: a directory that has everything but a build
    mkdir "$folder/$1"
    cd "$folder/$1"
    find "$source" -maxdepth 1 ! -name build ! -name '.*' ! -path "$source" -exec ln -s -t . {} +
}

tab=$'\t' newline=$'\n'
for character in '"' '#' '$' '`' ',' ':' ';' '<' '>' '?' '*' '|' '[' ']' "$tab" "$newline"; do
    enter "a${character}b"
    if cmake --preset release >../log 2>&1; then fail "no error for the character $character"; fi
    name=${character/"$tab"/tab}
    grep -qF "The build cannot take the character ${name/"$newline"/newline} in a path; rename" ../log || { cat ../log; fail "$character"; }
    [ "$(grep -c 'CMake Error' ../log)" = 1 ] || { cat ../log; fail "$character: more than one error"; }
done

enter "it's (50% a&b) {=}~@+^! ü"
cmake --preset release >../log 2>&1 || { cat ../log; fail "$PWD"; }
ninja -C build/release -n aorta >../log 2>&1 || { cat ../log; fail "$PWD: ninja"; }
echo "odd paths: all well"
