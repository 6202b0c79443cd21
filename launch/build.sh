#!/usr/bin/env bash
# Installs missing packages and builds into build/PRESET/. Programs are in build/PRESET/bin/.
#
#   launch/build.sh [PRESET] [TARGET...]        PRESET: cpu (default), cpu-asan, cpu-tsan;
#                                             cuda (needs nvcc); simt, simt-asan (emulated GPU)
#
# Without a TARGET it builds everything, tests included.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case "${1:-}" in
  -h | --help) sed -n '2,8p' "$0"; exit 0 ;;
esac
preset=${1:-cpu}
[ $# -gt 0 ] && shift
groups=(build)
tests=OFF
[ $# -gt 0 ] || tests=ON
for target in "$@"; do
  case $target in *_test) tests=ON ;; esac
done
options=(-DDLRM_TESTS=$tests)
[ $tests = OFF ] || groups+=(test)
launch/install_deps.sh "${groups[@]}"
# A build folder that has tests keeps them.
if [ $tests = OFF ] && [ -f "build/$preset/CMakeCache.txt" ]; then options=(); fi
cmake --preset "$preset" "${options[@]}" >"/tmp/dlrm-configure.$$" 2>&1 || {
  cat "/tmp/dlrm-configure.$$" >&2
  rm -f "/tmp/dlrm-configure.$$"
  echo "error: cmake could not configure the preset $preset" >&2
  exit 2
}
rm -f "/tmp/dlrm-configure.$$"
cmake --build "build/$preset" ${1:+--target "$@"}
