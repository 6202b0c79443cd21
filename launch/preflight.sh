#!/usr/bin/env bash
# Checks in seconds what a long run needs of its machines: the programs and their libraries, MPI, GPUs,
# driver, NCCL, a shared folder. Prints one line per check: ok, or failed and what to do.
#
#   launch/preflight.sh [-np N] [--hostfile FILE | --host A,B] [--folder DIR] [--need-gpu]
#
# In a Slurm job it runs on the job's nodes and ranks. -np defaults to two ranks here, or to one for each
# machine of the list. --folder is the folder for checkpoints (default: this one). --need-gpu fails if
# there is no GPU. Exit code 0: every check passed; 2: one failed.
set -uo pipefail
usage() { sed -n '5,9p' "$0" | sed 's/^# \{0,1\}//'; }
wrong_usage() {
  echo "error: $1" >&2
  usage >&2
  exit 2
}
ok() { printf '%-7s %-13s %s\n' ok "$1" "$2"; }
failed() {
  printf '%-7s %-13s %s\n' failed "$1" "$2"
  exit 2
}
ranks=
machines=()
arguments=()
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) usage; exit 0 ;;
    --need-gpu) arguments+=(--need-gpu); shift; continue ;;
    -np | --hostfile | --host | --folder) ;;
    *) wrong_usage "unknown option $1" ;;
  esac
  [ $# -ge 2 ] || wrong_usage "$1 needs a value"
  case "$1" in
    -np) [[ "$2" =~ ^[1-9][0-9]*$ ]] || wrong_usage "-np $2 is no number of ranks"; ranks=$2 ;;
    --hostfile) [ -r "$2" ] || wrong_usage "--hostfile $2 cannot be read"; machines=(--hostfile "$2") ;;
    --host) machines=(--host "$2") ;;
    --folder) arguments+=(--folder "$2") ;;
  esac
  shift 2
done

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=${DLRM_PREFLIGHT:-}
for candidate in "$here/../build/cuda/bin/dlrm-preflight" "$here/../build/cpu/bin/dlrm-preflight" \
  "$here/dlrm-preflight" "$(command -v dlrm-preflight || true)"; do
  [ -z "$program" ] && [ -x "$candidate" ] && program=$candidate
done
[ -x "$program" ] || failed programs "dlrm-preflight is not built: launch/build.sh cpu programs, or launch/build.sh cuda programs"
missing=$(ldd "$program" 2>/dev/null | awk '/not found/ { print $1 }' | tr '\n' ' ')
[ -z "$missing" ] || failed libraries "${missing}not found: install them, or put them on LD_LIBRARY_PATH"
ok programs "$program, its libraries are there"

if [ -n "${SLURM_JOB_ID:-}" ] && [ ${#machines[@]} -eq 0 ]; then
  command -v srun >/dev/null || failed mpi "srun is missing within a Slurm job"
  srun --mpi=list 2>&1 | grep -qw pmix ||
    failed mpi "this srun has no PMIx (srun --mpi=list): install Slurm's mpi_pmix plugin, or start ranks with mpirun"
  start=(srun --mpi=pmix)
  [ -z "$ranks" ] || start+=(-n "$ranks")
else
  command -v mpirun >/dev/null || failed mpi "mpirun is missing: install openmpi-bin"
  if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
  start=(mpirun --quiet --bind-to none "${machines[@]}")
  if [ ${#machines[@]} -eq 0 ]; then
    start+=(--oversubscribe -np "${ranks:-2}")
  elif [ -n "$ranks" ]; then
    start+=(-np "$ranks")
  else
    start+=(--map-by ppr:1:node)
  fi
fi

# Ranks that cannot find one another wait without a message.
timeout -k 5 "${DLRM_PREFLIGHT_SECONDS:-120}" "${start[@]}" "$program" ${arguments[@]+"${arguments[@]}"} </dev/null
code=$?
case $code in
  0) exit 0 ;;
  2) exit 2 ;;
  124 | 137) failed start "no end within ${DLRM_PREFLIGHT_SECONDS:-120} s: do the machines reach one another (ssh, firewall), with one MPI?" ;;
  *) failed start "${start[0]} ended with $code: its words stand above" ;;
esac
