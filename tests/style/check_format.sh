#!/usr/bin/env bash
# Every C++ file is as clang-format 14 with .clang-format leaves it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folders=()
for folder in src include data_tools python tests examples kernels; do
  if [ -d "$folder" ]; then folders+=("$folder"); fi
done
find "${folders[@]}" \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 -n 20 -P 2 clang-format --dry-run -Werror
