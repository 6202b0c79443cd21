#!/usr/bin/env bash
# Installs missing packages and builds into build/PRESET/. Programs are in build/PRESET/bin/.
#
#   launch/build.sh [--log FILE] [PRESET] [TARGET...]
#
# PRESET: cpu (default), cpu-asan, cpu-tsan; cuda (needs nvcc); simt, simt-asan (emulated GPU);
# fuzz (needs clang; only the harnesses of tests/fuzz)
# TARGET: programs (dlrm-train, dlrm-data, dlrm-plan, dlrm-preflight and dlrm-infer), or one of them,
# or a test.
# Without a TARGET it builds everything, tests included.
# --log FILE writes the compiler's output there, and prints the progress and the end of a failure alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }
wrong_usage() {
  echo "error: $1: launch/build.sh [--log FILE] [PRESET] [TARGET...]" >&2
  exit 2
}
log=
while :; do
  case "${1:-}" in
    -h | --help) usage; exit 0 ;;
    --log) [ -n "${2:-}" ] || wrong_usage "--log needs a file"; log=$2; shift 2 ;;
    *) break ;;
  esac
done
for word in "$@"; do
  case $word in -*) wrong_usage "unknown option $word" ;; esac
done
preset=${1:-cpu}
[ $# -gt 0 ] && shift
presets=$(sed -n 's/.*"configurePreset": "\([^"]*\)".*/\1/p' CMakePresets.json | paste -sd ' ')
[[ " $presets " == *" $preset "* ]] || wrong_usage "unknown preset $preset (there are $presets)"
groups=(build)
tests=OFF
[ $# -gt 0 ] || tests=ON
for target in "$@"; do
  case $target in *_test) tests=ON ;; esac
done
options=(-DDLRM_TESTS=$tests)
[ $tests = OFF ] || groups+=(test)
[ "$preset" != fuzz ] || groups=(build fuzz)
launch/install_deps.sh "${groups[@]}"
# A build folder that has tests keeps them.
if [ $tests = OFF ] && [ -f "build/$preset/CMakeCache.txt" ]; then options=(); fi
said=$(cmake --preset "$preset" "${options[@]}" 2>&1) || {
  printf '%s\n' "$said" >&2
  echo "error: cmake could not configure the preset $preset" >&2
  exit 2
}

# Copies ninja's output to the log. On a terminal one line shows the state, otherwise each tenth has a line.
progress() {
  local line at=0 shown=-1 begun=$SECONDS columns
  columns=$(tput cols 2>/dev/null || echo 80)
  while IFS= read -r line; do
    printf '%s\n' "$line" >&3
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\]\ (.*) ]] || continue
    at=$((10 * BASH_REMATCH[1] / BASH_REMATCH[2]))
    if [ -t 1 ]; then
      printf '\r\033[K%.*s' $((columns - 1)) "$line"
    elif [ "$at" -gt "$shown" ]; then
      printf '  %3d %% built, %d s\n' $((10 * at)) $((SECONDS - begun))
      shown=$at
    fi
  done
  [ ! -t 1 ] || printf '\r\033[K'
}
command=(cmake --build "build/$preset" ${1:+--target "$@"})
[ -n "$log" ] || exec "${command[@]}"
NINJA_STATUS='[%f/%t] ' "${command[@]}" 2>&1 | progress 3>"$log" || {
  tail -n 40 "$log" >&2
  echo "error: the preset $preset was not built; the whole output is in $log" >&2
  exit 2
}
