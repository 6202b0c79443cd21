#!/usr/bin/env bash
# Tests and measures a CUDA build on this machine's GPU in about nine minutes, and writes a record.
#
#   launch/gpu_acceptance.sh [--bin DIR] [--output DIR] [--scratch DIR] [--only STEPS] [--skip STEPS]
#                            [--quick] [--emulated] [--seconds N]
#   launch/gpu_acceptance.sh --list
#   launch/gpu_acceptance.sh --merge RECORD.json... [--output DIR]
#
# It runs the suites of operations, devices and communicators, compares training with the CPU's losses, lets
# ranks share the GPU, runs the benchmarks of docs/benchmarks/gpu.md, and compute-sanitizer if installed.
# --bin DIR       programs and tests of the preset cuda (default: build/cuda/bin); no compiler is needed.
#                 Libraries are also searched in DIR/../lib, in CUDA's toolkit and in Python's wheels;
#                 launch/bundle.sh packs programs for a machine that has none of them
# --output DIR    record.json and record.md, written again after each figure (default: runs/acceptance)
# --scratch DIR   logs and runs (default: the same folder)
# --only STEPS    runs only these and adds them to the record: keys, beginnings of keys, proof or benchmark,
#                 as operations,losses,dcnv2-6912. --skip STEPS: all but these. So calls can share the work
# --list          prints the steps' keys and how long each may take
# --merge         makes one record of several, of the same GPU and build
# --quick         proofs, kernels and one model: about three minutes
# --emulated      programs of the preset simt: tiny sizes, no figures; tests this script
# --seconds N     ends after about N seconds (540; with --quick 200) and skips the remaining steps
# A step that fails, hangs or takes too long is recorded, with the end of its log, and the next one starts.
# Exit code: 0 all steps passed or were skipped for a reason; 1 one failed; 2 wrong usage, no GPU, or
# libraries are missing. It needs python3, without packages.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
case " $* " in *" -h "* | *" --help "*) sed -n '2,25p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;; esac
for python in python3 /usr/bin/python3; do
  command -v "$python" >/dev/null && "$python" -c 'import sys; sys.exit(sys.version_info < (3, 8))' && break
  python=
done
[ -n "$python" ] || { echo "error: python3, 3.8 or newer, is needed" >&2; exit 2; }
if [ "$(id -u)" -eq 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
export PYTHONDONTWRITEBYTECODE=1
exec "$python" "$here/acceptance/main.py" "$@"
