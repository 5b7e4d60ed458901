#!/bin/bash
# slurm.sh COMMAND [ARGUMENT ...]: runs it beside a Slurm of its own, of two nodes (n1, n2) with two processors each, on
# this machine's loopback. No service of the machine is used or changed. Exit code 77: Slurm does not start here.
set -u

skip() {
    echo "skipped: $*"
    [ ! -d "${folder:-}/log" ] || tail -n 5 "$folder"/log/* 2>/dev/null
    exit 77
}

PATH=$PATH:/usr/sbin
[ "$(id -u)" = 0 ] || skip "Slurm's daemons need root"
for program in munged slurmctld slurmd sbatch squeue scancel scontrol srun; do
    command -v "$program" >/dev/null || skip "no $program (scripts/bootstrap check installs it)"
done

folder=$(mktemp -d "${TMPDIR:-/tmp}/aorta-slurm.XXXXXX") || exit 1
export SLURM_CONF=$folder/slurm.conf

stop() {
    scancel --me 2>/dev/null
    for _ in $(seq 100); do
        [ -n "$(squeue -h 2>/dev/null)" ] || break
        sleep 0.1
    done
    for pid in "$folder"/*.pid; do
        [ ! -s "$pid" ] || kill "$(cat "$pid")" 2>/dev/null
    done
    for _ in $(seq 100); do
        pgrep -f "$folder" >/dev/null || break
        sleep 0.1
    done
    rm -rf "$folder"
}
trap stop EXIT

host=$(hostname -s)
port=$((20000 + $$ % 10000 * 3))
mkdir "$folder/log" "$folder/state"
cat >"$SLURM_CONF" <<CONF
ClusterName=aorta
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool-%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmctldLogFile=$folder/log/slurmctld
SlurmdLogFile=$folder/log/slurmd-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=2
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=2
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=2
PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=60
CONF

head -c 1024 /dev/urandom >"$folder/munge.key" && chmod 400 "$folder/munge.key"
munged --key-file="$folder/munge.key" --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
    --log-file="$folder/log/munged" --seed-file="$folder/munge.seed" --num-threads=2 --force || skip "munged does not start"
slurmctld -i >"$folder/log/slurmctld.out" 2>&1 || skip "slurmctld does not start"
slurmd -N n1 >"$folder/log/slurmd.out" 2>&1 && slurmd -N n2 >>"$folder/log/slurmd.out" 2>&1 || skip "slurmd does not start"
for _ in $(seq 100); do
    [ "$(sinfo -h -o '%D %t' 2>/dev/null)" != "2 idle" ] || break
    sleep 0.1
done
[ "$(sinfo -h -o '%D %t' 2>/dev/null)" = "2 idle" ] || skip "the nodes are not idle: $(sinfo 2>&1)"

"$@"
