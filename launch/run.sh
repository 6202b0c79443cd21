#!/usr/bin/env bash
# Trains on N ranks of this machine, or on the machines of a host file, and stops them well.
#
#   launch/run.sh -np N CONFIG [dlrm-train options]
#   MPIRUN_OPTIONS="--hostfile hosts" launch/run.sh -np 16 CONFIG
#
# Plain mpirun kills its ranks a second after Ctrl-C. Here Ctrl-C and SIGTERM become SIGUSR1, which mpirun
# hands to the ranks: they finish the step, save, and end with 130. A second Ctrl-C ends them at once.
set -uo pipefail
usage() { sed -n '4,8p' "$0" | sed 's/^# \{0,1\}//'; }
case "${1:-}" in
  -h | --help) usage; exit 0 ;;
esac
if [ "${1:-}" != "-np" ] || ! [[ "${2:-}" =~ ^[1-9][0-9]*$ ]] || [ $# -lt 3 ]; then
  echo "error: launch/run.sh -np N CONFIG [dlrm-train options]" >&2
  exit 2
fi
ranks=$2
shift 2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=${DLRM_TRAIN:-}
for candidate in "$here/../build/cpu/bin/dlrm-train" "$here/dlrm-train" "$(command -v dlrm-train || true)"; do
  [ -z "$program" ] && [ -x "$candidate" ] && program=$candidate
done
if [ -z "$program" ]; then
  echo "error: dlrm-train is not built: run launch/build.sh, or set DLRM_TRAIN to the program" >&2
  exit 2
fi
command -v mpirun >/dev/null || { echo "error: mpirun is missing: install openmpi-bin" >&2; exit 2; }

options=(--quiet)
# One machine: the ranks divide its CPUs themselves.
if [ -z "${MPIRUN_OPTIONS:-}" ]; then options+=(--bind-to none --oversubscribe); fi
if [ "$(id -u)" -eq 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

mpirun_pid=
asked=0
stop() {
  if [ "$asked" -eq 1 ] && [ "$1" = INT ]; then
    echo "stopping at once" >&2
    [ -z "$mpirun_pid" ] || kill -TERM "$mpirun_pid" 2>/dev/null
    return
  fi
  asked=1
  [ "$1" = USR1 ] || echo "stopping: the step is finished and saved first (again to stop at once)" >&2
  [ -z "$mpirun_pid" ] || kill -USR1 "$mpirun_pid" 2>/dev/null
}
trap 'stop INT' INT
trap 'stop TERM' TERM
trap 'stop USR1' USR1
# Apart: its own session, so that the terminal's Ctrl-C does not reach mpirun.
# shellcheck disable=SC2086
setsid mpirun "${options[@]}" ${MPIRUN_OPTIONS:-} -np "$ranks" "$program" "$@" <&0 &
mpirun_pid=$!
[ "$asked" -eq 0 ] || kill -USR1 "$mpirun_pid" 2>/dev/null
while :; do
  wait "$mpirun_pid"
  code=$?
  # A trapped signal ends wait with more than 128 while mpirun goes on.
  kill -0 "$mpirun_pid" 2>/dev/null || break
done
# mpirun may have ended between a signal and the check: its own code is kept for another wait.
wait "$mpirun_pid" 2>/dev/null
last=$?
[ "$last" -eq 127 ] || code=$last
# Asked before mpirun or the ranks listened: nothing was trained, nothing is lost.
if [ "$asked" -eq 1 ] && [ "$code" -eq 138 ]; then code=130; fi
exit "$code"
