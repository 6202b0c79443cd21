#!/usr/bin/env bash
# Builds from nothing, dependencies included, into build/PRESET/ (programs in build/PRESET/bin/).
#
#   launch/build.sh [PRESET] [TARGET...]        PRESET: cpu (default), cpu-asan, cpu-tsan
#
# With no TARGET everything is built, the tests included.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case "${1:-}" in
  -h | --help) sed -n '2,7p' "$0"; exit 0 ;;
esac
preset=${1:-cpu}
[ $# -gt 0 ] && shift
groups=(build)
options=(-DDLRM_TESTS=ON)
if [ $# -gt 0 ]; then options=(-DDLRM_TESTS=OFF); else groups+=(test); fi
launch/install_deps.sh "${groups[@]}"
# A build folder that has the tests keeps them.
if [ -f "build/$preset/CMakeCache.txt" ]; then options=(); fi
[ $# -gt 0 ] || options=(-DDLRM_TESTS=ON)
cmake --preset "$preset" "${options[@]}" >"/tmp/dlrm-configure.$$" 2>&1 || {
  cat "/tmp/dlrm-configure.$$" >&2
  rm -f "/tmp/dlrm-configure.$$"
  echo "error: cmake could not configure the preset $preset" >&2
  exit 2
}
rm -f "/tmp/dlrm-configure.$$"
cmake --build "build/$preset" ${1:+--target "$@"}
