#!/bin/bash
# expect.sh CODE LAST_LINE [PATTERN...] -- COMMAND...
# The command must end with CODE. LAST_LINE (a regular expression; "" for silence) must be the last
# line on stderr that is not mpirun's own, and occur once; each PATTERN must occur there somewhere.
# No process of the command may remain.
code=$1 last=$2
shift 2
patterns=()
while [ "$1" != -- ]; do patterns+=("$1") && shift; done
shift

directory=$(mktemp -d)
processes_left() { grep -lsz "^EXPECT_JOB=$directory$" /proc/[0-9]*/environ | grep -o '[0-9]*'; }
clean() {
  # shellcheck disable=SC2046
  kill -9 $(processes_left) 2>/dev/null
  rm -rf "$directory"
}
trap clean EXIT
# Open MPI 4 may write to a rank that has ended, and would then end with 141 instead of the rank's code.
trap '' PIPE
EXPECT_JOB=$directory timeout 60 "$@" >"$directory/out" 2>"$directory/all"
status=$?
# mpirun's own words follow a line of dashes, or begin with [host:pid].
sed -E '/^-----/,$d; /^\[[^]]*:[0-9]+\] /d' "$directory/all" >"$directory/err"

fail() {
  echo "expect.sh: $1 (exit status $status)"
  cat "$directory/out" "$directory/all"
  exit 1
}
[ "$status" = "$code" ] || fail "exit status is not $code"
# A process is removed some time after it has ended.
for _ in $(seq 100); do
  left=$(processes_left) || break
  sleep 0.1
done
[ -z "$left" ] || fail "processes are left: $left"
if [ -z "$last" ]; then
  [ ! -s "$directory/err" ] || fail "stderr is not empty"
else
  tail -n 1 "$directory/err" | grep -qE "$last" || fail "the last line is not '$last'"
  [ "$(grep -cE "$last" "$directory/all")" = 1 ] || fail "'$last' is not printed once"
fi
for pattern in "${patterns[@]}"; do
  grep -qE "$pattern" "$directory/err" || fail "nowhere '$pattern'"
done
