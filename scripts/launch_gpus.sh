# Sourced by launch_cuda.sh and launch_rocm.sh, which set `kind` (cuda, hip), `nodes` (what one device is called) and
# `options` (of `aorta train`). Ends in `aorta launch`.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
name=$(basename "$0")

usage() {
    cat <<END
$name [--dry-run] [CONFIG] [OPTION …] [KEY=VALUE …]
Runs \`aorta train${options:+ $options}\` with one rank for each $nodes.
  CONFIG      a file of config/ or any other (config/default.yaml)
  OPTION      --enable-rocm-metrics or another option of aorta train without a value, anywhere
  KEY=VALUE   overrides of the configuration; the word --override before them may be there
  --dry-run   prints the command and starts nothing
  RANKS=N     that many ranks (or NPROC=N), instead of one for each device (2 ranks on the CPU where there is none)
  AORTA=FILE  the program (the one built here, else the one in PATH)
END
}
fail() { echo "$name: $*" >&2; exit 2; }

# As the program itself finds them, so that the variables that hide devices count.
count_devices() { "$aorta" info --json | grep -c "\"kind\": \"$kind\"" || true; }

dry=0 config='' overrides=''
for word in "$@"; do
    case $word in
    -h | --help) usage; exit 0 ;;
    --dry-run) dry=1 ;;
    --override) ;;
    --*=*) fail "$word: options with a value are not passed on" ;;
    --*) case " $options " in *" $word "*) ;; *) options="$options $word" ;; esac ;;
    -*) fail "unknown option $word; --help lists the options" ;;
    *=*) overrides=1 ;;
    *) [ -z "$config" ] || fail "two configurations: $config and $word"; config=$word ;;
    esac
done
[ -n "$config" ] || config=$here/config/default.yaml
[ -r "$config" ] || fail "$config: no such configuration; config/ has some"
# shellcheck source=scripts/program.sh
. "$here/scripts/program.sh"
given=${RANKS:-${NPROC:-}}
ranks=${given:-$(count_devices)}
case $ranks in *[!0-9]* | '') fail "RANKS is \"$ranks\"; it is a number from 1 on" ;; esac
if [ "$ranks" -eq 0 ]; then
    [ -z "$given" ] || fail "RANKS is 0; it is a number from 1 on"
    ranks=2
    echo "$name: no $nodes is visible (aorta info says what was looked for): $ranks ranks on the CPU" >&2
    case $config in
    *default.yaml) echo "$name: there default.yaml takes minutes, and quickstart.yaml 20 seconds: $0 ${config%default.yaml}quickstart.yaml" >&2 ;;
    esac
fi

# The words that are neither options nor the configuration, in their order.
set -- "$@" ''
while :; do
    word=$1; shift
    [ -n "$word" ] || break
    case $word in -* | "$config") ;; *=*) set -- "$@" "$word" ;; esac
done
[ -z "$overrides" ] || set -- --override "$@"
# shellcheck disable=SC2086 # words of options
set -- "$aorta" launch -n "$ranks" -- "$aorta" train --config "$config" $options "$@"
