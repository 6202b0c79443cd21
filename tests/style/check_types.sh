#!/usr/bin/env bash
# Types of the Python package.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if ! command -v mypy >/dev/null; then
  echo "skipped: mypy is not installed (launch/install_deps.sh test)"
  exit 77
fi
exec mypy --cache-dir build/mypy python/dlrm
