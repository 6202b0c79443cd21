#!/bin/bash
# expect.sh CODE LAST_LINE [PATTERN...] -- COMMAND...
# The command must end with CODE. LAST_LINE (a regular expression; "" for silence) must be the last
# line on stderr that is not mpirun's own, and occur once; each PATTERN must occur there somewhere.
code=$1 last=$2
shift 2
patterns=()
while [ "$1" != -- ]; do patterns+=("$1") && shift; done
shift

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
timeout 60 "$@" >"$directory/out" 2>"$directory/all"
status=$?
# mpirun's own words follow a line of dashes, or begin with [host:pid].
sed -E '/^-----/,$d; /^\[[^]]*:[0-9]+\] /d' "$directory/all" >"$directory/err"

fail() {
  echo "expect.sh: $1 (exit status $status)"
  cat "$directory/out" "$directory/all"
  exit 1
}
[ "$status" = "$code" ] || fail "exit status is not $code"
if [ -z "$last" ]; then
  [ ! -s "$directory/err" ] || fail "stderr is not empty"
else
  tail -n 1 "$directory/err" | grep -qE "$last" || fail "the last line is not '$last'"
  [ "$(grep -cE "$last" "$directory/all")" = 1 ] || fail "'$last' is not printed once"
fi
for pattern in "${patterns[@]}"; do
  grep -qE "$pattern" "$directory/err" || fail "nowhere '$pattern'"
done
