#!/usr/bin/env bash
# Measures how training scales: runs a config on several numbers of ranks, several times each, and writes
# a table, a JSON file and a figure. Run the same command again after an interruption: it continues.
#
#   launch/scaling.sh CONFIG --ranks 1,2,4,8 --output FOLDER [--mode strong,weak,memory] [options]
#   launch/scaling.sh --help
set -euo pipefail
exec "${DLRM_PYTHON:-python3}" "$(dirname "${BASH_SOURCE[0]}")/scaling.py" "$@"
