#!/bin/sh
# Which hardware queues a workload uses: records it and prints kernels for each queue.
#
#   scripts/hw_queue/profile_queues.sh WORKLOAD [STREAMS] [OUTPUT]
#
# STREAMS   number of streams (the workload's recommendation)
# OUTPUT    folder of the recording (queue_profile/WORKLOAD)
# AORTA     the program (the one built here, else the one in PATH)
# DRY_RUN=1 prints the commands and records nothing
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
case ${1:-} in
"" | -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; [ -n "${1:-}" ] && exit 0; exit 2 ;;
esac
fail() { echo "profile_queues: $*" >&2; exit 2; }
# shellcheck source=scripts/program.sh
. "$here/scripts/program.sh"
workload=$1 streams=${2:-} output=${3:-queue_profile/$1}
"$aorta" hwq info "$workload" >/dev/null
set -- "$aorta" hwq profile ${DRY_RUN:+--dry-run} --output "$output" "$workload"
[ -z "$streams" ] || set -- "$@" --streams "$streams"
exec "$@"
