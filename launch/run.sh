#!/usr/bin/env bash
# Trains on N ranks of this machine, or on the machines of a host file. Saves when it is stopped.
#
#   launch/run.sh -np N CONFIG [dlrm-train options]
#   MPIRUN_OPTIONS="--hostfile hosts" launch/run.sh -np 16 CONFIG
#
# Uses build/cuda if --device cuda (or the config) asks for GPUs, or if a GPU answers here and nothing asks
# for CPUs; otherwise build/cpu. DLRM_TRAIN names another program.
#
# Plain mpirun kills its ranks a second after Ctrl-C. Here Ctrl-C and SIGTERM become SIGUSR1, which mpirun
# forwards to the ranks: they finish the step, save, and end with 130. A second Ctrl-C ends them at once.
#
# On one machine the ranks must meet within DLRM_START_SECONDS (default: train.timeout and 30 s more). If
# they do not, they are killed, and the exit code is 3.
set -uo pipefail
usage() { sed -n '2,14p' "$0" | sed 's/^# \{0,1\}//'; }
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

# ask PROGRAM KEY DEFAULT ARGUMENT...: the value of a key of the config, or DEFAULT if the program does not
# tell it. mpirun shows the reason.
ask() {
  local program=$1 key=$2 default=$3 value
  shift 3
  value=$("$program" "$@" --print "$key" 2>/dev/null) || value=""
  echo "${value:-$default}"
}
gpu_answers() { [[ "$(timeout 20 nvidia-smi -L 2>/dev/null)" == GPU* ]]; }

cuda=$here/../build/cuda/bin/dlrm-train
cpu=$here/../build/cpu/bin/dlrm-train
program=${DLRM_TRAIN:-}
if [ -z "$program" ]; then
  device=auto
  for candidate in "$cpu" "$cuda" "$here/dlrm-train" "$(command -v dlrm-train || true)"; do
    [ ! -x "$candidate" ] || { device=$(ask "$candidate" device auto "$@") && break; }
  done
  if [ "$device" = auto ] && gpu_answers; then
    if [ -x "$cuda" ]; then
      device=cuda
    elif [ -x "$cpu" ]; then
      echo "note: a GPU is here, but no build for it (launch/build.sh cuda): training on CPUs" >&2
    fi
  fi
  candidates=("$cpu" "$here/dlrm-train" "$(command -v dlrm-train || true)" "$cuda")
  if [ "$device" = cuda ]; then
    candidates=("$cuda" "$here/dlrm-train" "$(command -v dlrm-train || true)" "$cpu")
  fi
  for candidate in "${candidates[@]}"; do
    [ -z "$program" ] && [ -x "$candidate" ] && program=$candidate
  done
  if [ "$device" = cuda ] && { [ -z "$program" ] || [ "$program" = "$cpu" ]; }; then
    echo "error: --device cuda: build/cuda is not built: run launch/build.sh cuda, or set DLRM_TRAIN to the program" >&2
    exit 2
  fi
fi
if [ -z "$program" ]; then
  echo "error: dlrm-train is not built: run launch/build.sh, or set DLRM_TRAIN to the program" >&2
  exit 2
fi
command -v mpirun >/dev/null || { echo "error: mpirun is missing: install openmpi-bin" >&2; exit 2; }

folder=$(mktemp -d) || exit 3
trap 'rm -rf "$folder"' EXIT
options=()
# cores_here: the number of this machine's cores, or 0 if a quota or an affinity leaves less than all of them.
cores_here() {
  local list quota
  list=$(LC_ALL=C lscpu -p=CORE 2>/dev/null | grep -v '^#') || { echo 0; return; }
  read -r quota _ < <(cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null)
  if [[ "${quota:-max}" =~ ^[0-9]+$ ]] ||
    [ "$(wc -l <<<"$list")" -ne "$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)" ]; then
    echo 0
  else
    sort -u <<<"$list" | wc -l
  fi
}
# On one machine each rank gets cores of its own, and each of its threads one core, unless there are more ranks
# than cores, or the environment says where threads run. Otherwise the ranks divide the CPUs themselves.
if [ -z "${MPIRUN_OPTIONS:-}" ]; then
  cores=0
  [ -n "${OMP_NUM_THREADS:-}${OMP_PLACES:-}${OMP_PROC_BIND:-}${GOMP_CPU_AFFINITY:-}" ] || cores=$(cores_here)
  options+=(--quiet --oversubscribe)
  if [ "$cores" -ge "$ranks" ]; then
    export OMP_PLACES=cores OMP_PROC_BIND=close
    options+=(--map-by "slot:PE=$((cores / ranks))" --bind-to core)
  else
    options+=(--bind-to none)
  fi
fi
if [ "$(id -u)" -eq 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# If a host or its link goes down, Open MPI notices within 11 s, instead of after a minute or more.
export OMPI_MCA_oob_tcp_keepalive_time=${OMPI_MCA_oob_tcp_keepalive_time:-5}
export OMPI_MCA_oob_tcp_keepalive_intvl=${OMPI_MCA_oob_tcp_keepalive_intvl:-2}
export OMPI_MCA_oob_tcp_keepalive_probes=${OMPI_MCA_oob_tcp_keepalive_probes:-3}

# The ranks write DLRM_START_FILE when they have met. Only this machine's can be read here; those of a
# host file end themselves.
start_seconds=
if [ -z "${MPIRUN_OPTIONS:-}" ]; then
  export DLRM_START_FILE=$folder/met
  start_seconds=${DLRM_START_SECONDS:-}
  if [ -z "$start_seconds" ]; then
    start_seconds=$(($(LC_ALL=C printf '%.0f' "$(ask "$program" train.timeout 300 "$@")") + 30))
  fi
fi
# Passes on what mpirun and the ranks write to stderr, but for what mpirun adds about ranks that have said
# themselves why they end: --quiet would also hide which host is lost. Its name goes to $folder/lost.
pass_on() {
  local line="" text="" inside=""
  while IFS= read -r line || [ -n "$line" ]; do
    if [[ "$line" =~ ^-{74}$ ]]; then
      if [ -z "$inside" ]; then inside=yes text="" && continue; fi
      inside=""
      if [[ "$text" =~ Remote\ daemon.*\ on\ node\ ([^[:space:]]+) ]]; then
        echo "${BASH_REMATCH[1]}" >"$folder/lost"
      elif ! [[ "$text" =~ (non-zero\ (status|exit)|exiting\ improperly|MPI_ABORT) ]]; then
        printf '%s\n' "$text" >&2
      fi
    elif [ -n "$inside" ]; then
      text+=$line$'\n'
    elif ! [[ "$line" =~ ^mpirun:\ Forwarding\ signal|help\ message|orte_base_help_aggregate ]]; then
      printf '%s\n' "$line" >&2
    fi
    line=""
  done
}
# Kills mpirun and its ranks: all processes of its session.
kill_job() {
  local stat fields
  for stat in /proc/[0-9]*/stat; do
    read -r -a fields < <(sed 's/.*) //' "$stat" 2>/dev/null)
    [ "${fields[3]:-}" != "$mpirun_pid" ] || kill -KILL "$(basename "${stat%/stat}")"
  done
}
# Kills the job, stopped ranks too, unless the ranks meet in time.
limit_start() {
  local left=$start_seconds
  until [ -e "$DLRM_START_FILE" ]; do
    kill -0 "$mpirun_pid" 2>/dev/null || return
    if [ "$left" -le 0 ]; then
      touch "$folder/late"
      kill_job
      return
    fi
    left=$((left - 1))
    sleep 1
  done
}

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
exec 3>&2
pass_on_pid=
if [ -n "${MPIRUN_OPTIONS:-}" ]; then
  mkfifo "$folder/stderr"
  # Until mpirun has ended, whatever signals come.
  (trap '' INT TERM USR1 && pass_on) <"$folder/stderr" &
  pass_on_pid=$!
  exec 3>"$folder/stderr"
fi
# A session of its own, so that the terminal's Ctrl-C does not reach mpirun. Without SIGPIPE, because Open
# MPI 4 may still write to a rank that has ended, and would then end with 141 instead of the rank's code.
# shellcheck disable=SC2086
(trap '' PIPE && exec setsid mpirun "${options[@]}" ${MPIRUN_OPTIONS:-} -np "$ranks" "$program" "$@") <&0 2>&3 3>&- &
mpirun_pid=$!
exec 3>&-
[ "$asked" -eq 0 ] || kill -USR1 "$mpirun_pid" 2>/dev/null
limit_pid=
if [ -n "$start_seconds" ]; then
  limit_start </dev/null >/dev/null 2>&1 &
  limit_pid=$!
fi
while :; do
  wait "$mpirun_pid"
  code=$?
  # After a trapped signal, wait returns more than 128 while mpirun continues.
  kill -0 "$mpirun_pid" 2>/dev/null || break
done
# mpirun may have ended between a signal and the check. A second wait returns its own code.
wait "$mpirun_pid" 2>/dev/null
last=$?
[ "$last" -eq 127 ] || code=$last
if [ -e "$folder/late" ]; then
  echo "error: the ranks did not meet within $start_seconds s: they were killed (DLRM_START_SECONDS sets the limit)" >&2
  exit 3
fi
[ -z "$limit_pid" ] || kill "$limit_pid" 2>/dev/null
if [ -n "$pass_on_pid" ]; then
  # What mpirun started on other hosts may hold its stderr for longer.
  for _ in {1..20}; do
    kill -0 "$pass_on_pid" 2>/dev/null || break
    sleep 0.1
  done
  kill -KILL "$pass_on_pid" 2>/dev/null
fi
if [ -e "$folder/lost" ]; then
  echo "error: the connection to $(cat "$folder/lost") is lost: the host or its link is down" >&2
  exit 3
fi
# The request came before mpirun or the ranks handled signals. Nothing was trained, nothing is lost.
if [ "$asked" -eq 1 ] && [ "$code" -eq 138 ]; then code=130; fi
exit "$code"
