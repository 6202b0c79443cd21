#!/usr/bin/env bash
# Everything that can be tested on this machine without a GPU: installs what it needs, builds, runs all
# suites; those of GPUs in the emulator; both again under AddressSanitizer and
# UndefinedBehaviorSanitizer; and, where nvcc is, compiles and links the GPU build with the tests that
# gpu_acceptance.sh needs, looks for spills, and runs it without a GPU.
#
#   launch/test.sh [--quick]      --quick leaves the sanitizers and nvcc out
#
# The last line counts: "N passed, N failed".
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case "${1:-}" in
  -h | --help) sed -n '2,9p' "$0"; exit 0 ;;
  "" | --quick) ;;
  *) echo "error: launch/test.sh [--quick]" >&2; exit 2 ;;
esac
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMP_WAIT_POLICY=passive
passed=0
failed=0

# build PRESET [TARGET...]
build() {
  echo "== $1: build"
  launch/build.sh "$@" >"build-$1.log" 2>&1
  local status=$?
  if [ $status -ne 0 ]; then
    tail -n 40 "build-$1.log"
    echo "$1: the build failed" >&2
    failed=$((failed + 1))
  fi
  rm -f "build-$1.log"
  return $status
}

# run PRESET [CTEST OPTION...]: runs and counts
run() {
  local preset=$1 log=build/$1/test.log status bad all
  shift
  ctest --test-dir "build/$preset" --output-on-failure -j "$(nproc)" "$@" >"$log" 2>&1
  status=$?
  bad=$(sed -n 's/.*tests passed, \([0-9]*\) tests failed out of [0-9]*.*/\1/p' "$log")
  all=$(sed -n 's/.*tests failed out of \([0-9]*\).*/\1/p' "$log")
  if [ -z "$all" ] || { [ "$status" -ne 0 ] && [ "${bad:-0}" -eq 0 ]; }; then
    tail -n 40 "$log"
    failed=$((failed + 1))
    return
  fi
  [ "$bad" -eq 0 ] || { grep -vE '^ *[0-9]+/[0-9]+ Test.*Passed|^ *Start ' "$log" | tail -n 150; }
  passed=$((passed + all - bad))
  failed=$((failed + bad))
}

# What an emulated GPU can make different: its own suites, and the others' tests of devices.
emulated() {
  echo "== $1: tests"
  run "$1" -L '^(simt|device)$'
  run "$1" -LE '^(simt|device)$' -R '(OnADevice|OnGpu|[Cc]uda|Nccl|Staged|Emulated)' -E NOT_BUILT
}

if build cpu; then
  echo "== cpu: tests"
  run cpu
fi
suites=(simt_test device_test ops_test comm_test nn_test train_test end_to_end_test)
build simt dlrm-train "${suites[@]}" && emulated simt
if [ "${1:-}" != --quick ]; then
  if build cpu-asan; then
    echo "== cpu-asan: tests"
    run cpu-asan
  fi
  build simt-asan simt_test device_test ops_test && emulated simt-asan
  if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
    # What gpu_acceptance.sh takes to a machine with a GPU; kernels are compiled once, in the libraries.
    mapfile -t programs <launch/acceptance/programs.txt
    if build cuda "${programs[@]}"; then
      echo "== cuda: spills"
      if tests/style/check_kernels.py build/cuda >build/cuda/kernels.txt; then
        passed=$((passed + 1))
      else
        grep -E 'spills|error' build/cuda/kernels.txt
        failed=$((failed + 1))
      fi
      tail -n 1 build/cuda/kernels.txt
      echo "== cuda: without a GPU"
      run cuda -R '^launch\.no_gpu$'
    fi
  fi
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
