#!/usr/bin/env bash
# Compares model-parallel, data-parallel and planned tables of the synthetic models Tiny and Small: measured
# here on 1 to 16 ranks with tables that fit, and predicted of full size for nodes of A100 and H200.
#
#   launch/parallelism.sh --output FOLDER [--configs CONFIG,CONFIG] [options of launch/scaling.sh]
#   launch/parallelism.sh --help
set -euo pipefail
exec "${DLRM_PYTHON:-python3}" "$(dirname "${BASH_SOURCE[0]}")/parallelism.py" "$@"
