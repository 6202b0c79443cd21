#!/usr/bin/env bash
# Everything that can be tested on this machine without a GPU: installs what it needs, builds, runs all
# suites, then all of them again under AddressSanitizer and UndefinedBehaviorSanitizer.
#
#   launch/test.sh [--quick]      --quick leaves the sanitizers out
#
# The last line counts: "N passed, N failed".
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case "${1:-}" in
  -h | --help) sed -n '2,8p' "$0"; exit 0 ;;
  "" | --quick) ;;
  *) echo "error: launch/test.sh [--quick]" >&2; exit 2 ;;
esac
presets=(cpu cpu-asan)
[ "${1:-}" = --quick ] && presets=(cpu)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMP_WAIT_POLICY=passive
passed=0
failed=0
for preset in "${presets[@]}"; do
  echo "== $preset: build"
  if ! launch/build.sh "$preset" >build-$preset.log 2>&1; then
    tail -n 40 build-$preset.log
    rm -f build-$preset.log
    echo "$preset: the build failed" >&2
    failed=$((failed + 1))
    continue
  fi
  rm -f build-$preset.log
  echo "== $preset: tests"
  log=build/$preset/test.log
  ctest --test-dir "build/$preset" --output-on-failure -j "$(nproc)" >"$log" 2>&1
  status=$?
  counts=$(grep -E '^[0-9]+% tests passed' "$log")
  bad=$(sed -n 's/.*tests passed, \([0-9]*\) tests failed out of [0-9]*.*/\1/p' <<<"$counts")
  all=$(sed -n 's/.*tests failed out of \([0-9]*\).*/\1/p' <<<"$counts")
  if [ -z "$all" ] || { [ "$status" -ne 0 ] && [ "${bad:-0}" -eq 0 ]; }; then
    tail -n 40 "$log"
    failed=$((failed + 1))
    continue
  fi
  [ "$bad" -eq 0 ] || { grep -vE '^ *[0-9]+/[0-9]+ Test.*Passed|^ *Start ' "$log" | tail -n 150; }
  passed=$((passed + all - bad))
  failed=$((failed + bad))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
