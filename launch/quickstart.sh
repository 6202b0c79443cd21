#!/usr/bin/env bash
# From a bare machine to a trained model, in under ten minutes on two cores: installs packages, builds,
# writes a raw click log in Criteo's format whose best possible AUC is known, converts it, trains on two
# ranks, and compares.
#
#   launch/quickstart.sh [FOLDER]      FOLDER: where data and results go (default: quickstart)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case "${1:-}" in
  -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
  -*) echo "error: launch/quickstart.sh [FOLDER]" >&2; exit 2 ;;
esac
[ $# -le 1 ] || { echo "error: launch/quickstart.sh [FOLDER]" >&2; exit 2; }
folder=${1:-quickstart}
samples=${DLRM_QUICKSTART_SAMPLES:-1200000}
mkdir -p "$folder"
# mpirun refuses root unless both variables are set. Ranks share the cores of a small machine.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

echo "== 1/4 build"
launch/build.sh --log "$folder/build.log" cpu dlrm-train dlrm-data
export PATH="$PWD/build/cpu/bin:$PATH"

echo "== 2/4 a raw click log of $samples lines"
dlrm-data synth --criteo --samples "$samples" --teacher 7 --output "$folder/clicks.tsv"

echo "== 3/4 conversion"
dlrm-data criteo "$folder/clicks.tsv" --output "$folder/train.h5" \
  --test-output "$folder/test.h5" --test-fraction 0.1

echo "== 4/4 training on two ranks"
mpirun -np 2 --oversubscribe dlrm-train configs/quickstart.yaml --overwrite \
  --set "data.train=$folder/train.h5" --set "data.test=$folder/test.h5" \
  --set "output.directory=$folder/run" --set "checkpoint.directory=$folder/ckpt"

number() { grep -o "\"$2\": *[0-9.eE+-]*" "$1" | head -n 1 | sed 's/.*: *//'; }
auc=$(number "$folder/run/summary.json" auc)
best=$(number "$folder/clicks.tsv.teacher.json" best_auc)
rate=$(number "$folder/run/summary.json" samples_per_second)
printf '\ntest AUC %.4f, best possible %.4f\n' "$auc" "$best"
printf '%.0f samples/s\n' "$rate"
echo "the run's files: $folder/run (metrics.jsonl, summary.json), checkpoint: $folder/ckpt"
