#!/usr/bin/env bash
# Tests what can be tested on this machine without a GPU: installs what it needs, builds the preset
# simt, and runs every test once: those of CPU code, and those of GPU code in the emulator.
#
#   launch/test.sh [--quick | --all | --release]
#
# --quick: a small part, in a few minutes after quickstart.sh, whose build it continues: the tests of
# core, config, HDF5, data and scripts, some runs of dlrm-train, and an installation. If nvcc is there,
# it compiles one kernel.
# --all adds: the suites of vector code once more with AVX2, if the processor has AVX-512; jobs of a Slurm
# that the test starts here, and jobs on hosts that are namespaces of this machine, both as root; the
# tests of code that handles memory, but for the slowest, under AddressSanitizer and
# UndefinedBehaviorSanitizer; those of comm, data, train and caches under ThreadSanitizer; a fixed
# number of inputs for each harness of tests/fuzz, if clang with libFuzzer is there
# (launch/install_deps.sh fuzz); the build without GPU code; and, if nvcc is there, the build for GPUs,
# which is searched for spills and run without one.
# --release: like --all, with every combination of parameters, of which the others run a part that has every
# pair of values; and the programs, as ranks of mpirun too, under AddressSanitizer.
#
# At the end: the time of each part and of each test program, every skipped test with its reason, and
# "N passed, N failed, N skipped" in the last line.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
wrong_usage() {
  echo "error: $1: launch/test.sh [--quick | --all | --release]" >&2
  exit 2
}
[ $# -le 1 ] || wrong_usage "more than one option"
case "${1:-}" in
  -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
  "" | --quick | --all | --release) ;;
  *) wrong_usage "unknown option $1" ;;
esac
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMP_WAIT_POLICY=passive
passed=0
failed=0
results=()
times=""
left_out=0

# part NAME COMMAND...: runs the command and notes its time
part() {
  local name=$1 start=$SECONDS status
  shift
  echo "== $name"
  "$@"
  status=$?
  times+=$(printf '  %5d s  %s' $((SECONDS - start)) "$name")$'\n'
  return $status
}

# leave_out NAME REASON: notes a part that cannot run here
leave_out() {
  echo "== $1: SKIPPED: $2"
  left_out=$((left_out + 1))
  times+="  skipped  $1: $2"$'\n'
}

# build PRESET [TARGET...]
build() {
  launch/build.sh --log "build-$1.log" "$@"
  local status=$?
  if [ $status -ne 0 ]; then
    echo "$1: the build failed" >&2
    failed=$((failed + 1))
  fi
  rm -f "build-$1.log"
  return $status
}

# run PRESET [CTEST OPTION...]; calls for one preset add up. Tests of several processes wait a part of
# their time, so there are two more at a time than processors.
run() {
  local folder=$PWD/build/$1 result
  shift
  [[ " ${results[*]-}" == *" $folder/"* ]] || rm -rf "$folder"/ctest*.xml "$folder"/ctest*.suites
  result=$folder/ctest${#results[@]}.xml
  rm -rf "$folder/suites"
  ctest --test-dir "$folder" --output-on-failure -j $(($(nproc) + 2)) --output-junit "$result" "$@" \
    >"$folder/test.log" 2>&1 ||
    grep -vE '^ *[0-9]+/[0-9]+ Test.*Passed|^ *Start ' "$folder/test.log" | tail -n 150
  [ ! -d "$folder/suites" ] || mv "$folder/suites" "${result%.xml}.suites"
  if [ -s "$result" ] && ! grep -q 'No tests were found' "$folder/test.log"; then
    results+=("$result")
  else
    echo "$folder: ctest ran no tests" >&2
    failed=$((failed + 1))
  fi
}

spills() {
  if tests/style/check_kernels.py build/cuda >build/cuda/kernels.txt; then
    passed=$((passed + 1))
  else
    grep -E 'spills|error' build/cuda/kernels.txt
    failed=$((failed + 1))
  fi
  tail -n 1 build/cuda/kernels.txt
}

has_libfuzzer() {
  echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
    clang++ -fopenmp -fsanitize=fuzzer,address,undefined -x c++ - -o /dev/null 2>/dev/null
}

has_nvcc() { command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; }

quick() {
  part "cpu: build" build cpu programs {core,config,hdf5,data,end_to_end}_test && {
    part "cpu: tests" run cpu -L '^(core|config|hdf5|data|scripts)$'
    GTEST_FILTER='Install.*:Preflight.*:Training.TwoThree*:Resuming.AResumed*:Programs.EveryProgram*' \
      part "cpu: programs" run cpu -L '^end_to_end$'
  }
  has_nvcc && part "cuda: one kernel" one_kernel
}

# The GPUs' build of one source.
one_kernel() {
  build cuda kernels/CMakeFiles/dlrm_kernels.dir/rank_sum.cu.o && passed=$((passed + 1))
}

whole() {
  # Without them, for example without a network, the tests that use them are skipped.
  part "packages of Python" launch/install_deps.sh python
  part "packages of a KServe client" launch/install_deps.sh kserve
  part "simt: build" build simt && part "simt: tests" run simt -LE '^(slurm|nodes)$'
}

slow=$(grep -v '^#' tests/slow_tests.txt | paste -s -d :)

# What whole leaves out.
rest() {
  [ ! -x build/simt/bin/dlrm-train ] || part "simt: Slurm and hosts" run simt -L '^(slurm|nodes)$'
  if grep -q avx512f /proc/cpuinfo; then
    DLRM_MAX_CPU_ISA=avx2 GTEST_FILTER='-*cuda*:*Cuda*:*gpu*:*Gpu*' \
      part "simt: code for AVX2" run simt -L '^(ops|embedding|data|plan)$'
  fi
  # Scripts and sources are the same in every build. Ranks as threads cover what ranks of mpirun do.
  local tests=({comm,data,data_tools,device,embedding,hdf5,nn,ops,simt,train}_test)
  [ -z "${DLRM_TEST_ALL:-}" ] || tests+=(end_to_end_test programs)
  part "simt-asan: build" build simt-asan "${tests[@]}" &&
    GTEST_FILTER="-$slow" part "simt-asan: tests" run simt-asan -L "^($(labels "${tests[@]}"))\$"
  # Where threads share data, ranks as threads among them. The sanitizer cannot see locks of oneDNN,
  # whose products of new shapes PlannedMemory and DrawnRuns make on several ranks at once.
  part "tsan: build" build cpu-tsan {comm,data,embedding,train}_test && {
    GTEST_FILTER="-$slow:*PlannedMemory*:*DrawnRuns*" part "tsan: tests" run cpu-tsan -L '^(comm|data|train)$'
    GTEST_FILTER='*Cached*:Placing.*:*Record*:Ssd*:HeldRead*:*BlockChannel*' \
      part "tsan: caches" run cpu-tsan -L '^embedding$'
  }
  if has_libfuzzer; then
    part "fuzz: build" build fuzz && part "fuzz: tests" run fuzz
  else
    leave_out fuzz "clang, libFuzzer or OpenMP for it is not installed"
  fi
  # Without GPU code only the stubs differ, and what programs say if they are asked for a GPU.
  part "cpu: build" build cpu programs dlrm-bench {bench,device,end_to_end}_test &&
    GTEST_FILTER="-$slow" part "cpu: tests" run cpu -L '^(device|end_to_end|bench)$' \
      -E '^(python|docs|nodes|bench.programs|end_to_end.(failing|refused))'
  has_nvcc || return
  # Kernels are compiled once, in the libraries. Tests that need a GPU compile as for the emulator.
  part "cuda: build" build cuda dlrm-{train,bench,preflight} {device,ops}_test && {
    part "cuda: spills" spills
    part "cuda: without a GPU" run cuda -L '^no_gpu$'
  }
}

# The labels of test programs, as an expression.
labels() {
  local names=("${@%_test}")  # "programs" is no label
  (IFS='|' && echo "${names[*]}")
}

case "${1:-}" in
  --quick) quick ;;
  --all) whole; rest ;;
  --release) DLRM_TEST_ALL=1 whole; rest ;;
  *) whole ;;
esac
report=$(python3 tests/report.py ${results+"${results[@]}"}) || failed=$((failed + 1))
sed '$d' <<<"$report"
printf '\nParts:\n%s\n' "$times"
read -r good bad skipped <<<"$(tail -n 1 <<<"$report")"
passed=$((passed + ${good:-0}))
failed=$((failed + ${bad:-0}))
echo "$passed passed, $failed failed, $((${skipped:-0} + left_out)) skipped"
[ "$failed" -eq 0 ]
