#!/usr/bin/env bash
# Trains a config with many settings: each combination is a trial in a directory of its own. Run the same
# command again after an interruption: finished trials are kept, stopped ones resume.
#
#   launch/sweep.sh CONFIG --grid KEY=V1,V2... [--grid ...] [options] [-- dlrm-train options]
#   launch/sweep.sh --help
set -euo pipefail
exec "${DLRM_PYTHON:-python3}" "$(dirname "${BASH_SOURCE[0]}")/sweep.py" "$@"
