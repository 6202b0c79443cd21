#!/usr/bin/env bash
# Measures, profiles and tests a CUDA build on this machine's GPU in two calls of nine minutes each.
#
#   launch/gpu_acceptance.sh --first|--second [--bin DIR | --bundle FILE] [--output DIR] [--scratch DIR]
#                            [--only STEPS] [--emulated] [--seconds N]
#   launch/gpu_acceptance.sh --first|--second --list
#
# --first         figures first, in at most 520 s: losses against the CPU's, kernels, DCNv2, DE Tiny and DLE
#                 4.2B, the stages, launches and counters of a DCNv2 step, then suites, ranks, memcheck
# --second        in at most 560 s: synccheck, racecheck, DLE 22.8B with tables on the host, DE Small, the
#                 same models in PyTorch, training on this machine's CPU with 1 to 16 threads
# --bin DIR       programs and tests of the preset cuda (default: build/cuda/bin); no compiler is needed.
#                 Libraries are also searched in DIR/../lib, in CUDA's toolkit and in Python's wheels
# --bundle FILE   unpacks what launch/bundle.sh packed, and uses its programs
# --output DIR    record.json and record.md, written again after each figure, and at the end logs.tar.gz
#                 (default: runs/acceptance/first or second)
# --scratch DIR   logs and runs; without it a temporary folder, which is removed at the end
# --only STEPS    runs only these: keys, or beginnings of keys, as dcnv2,losses-dot
# --list          prints the steps' keys and how long each may take
# --emulated      programs of the preset simt: tiny sizes, no figures; tests this script
# --seconds N     ends after N seconds instead; the limits of all steps change in proportion
# A step that fails, hangs or takes too long is recorded, with the end of its log, and the next one starts.
# After SIGTERM the record has what was measured until then, and the logs are packed.
# Exit code: 0 all steps passed or were skipped for a reason; 1 one failed, or a signal; 2 wrong usage, no
# GPU, or libraries are missing. It needs python3, without packages.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
case " $* " in *" -h "* | *" --help "*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
for python in python3 /usr/bin/python3; do
  command -v "$python" >/dev/null && "$python" -c 'import sys; sys.exit(sys.version_info < (3, 8))' && break
  python=
done
[ -n "$python" ] || { echo "error: python3, 3.8 or newer, is needed" >&2; exit 2; }
if [ "$(id -u)" -eq 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
export PYTHONDONTWRITEBYTECODE=1
exec "$python" "$here/acceptance/main.py" "$@"
