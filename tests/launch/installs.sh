#!/usr/bin/env bash
# Tries ways to install on a new machine, as root: launch/fresh_root.sh runs it there. Each must give commands
# and programs that import a log, train on it, and export, compare and sweep.
#
#   tests/launch/installs.sh WAY...      WAY: sources, pip, wheel, image
#
# sources  launch/build.sh and launch/install_deps.sh python
# pip      pip install . into build/cpu, which has most of what it compiles
# wheel    pip wheel ., and pip install of the wheel alone
# image    what launch/Dockerfile says, for its preset cpu
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

try() {
  cd "$(mktemp -d)"
  { echo click,user,age; seq 2000 | awk '{ print $1 % 2 ",user" $1 % 20 "," $1 % 7 }'; } >log.csv
  dlrm-import log.yaml log.csv --infer
  dlrm-data import log.yaml log.csv --output train.h5 --write-config train.yaml
  dlrm-train train.yaml --set train.global_batch_size=64 --set checkpoint.directory=ckpt --set checkpoint.at_end=true
  dlrm-export ckpt --to npz model.npz
  dlrm-data export ckpt --to npz again.npz
  cmp model.npz again.npz
  dlrm-compare runs/train
  dlrm-sweep train.yaml --grid train.seed=1,2 --output trials -- --set train.steps=5
}
export -f try

sources() {
  launch/build.sh cpu programs
  launch/install_deps.sh python
  (PATH=$root/build/venv/bin:$root/build/cpu/bin:$PATH try)
}

pip() {
  launch/install_deps.sh build pip
  launch/build.sh cpu programs
  local environment
  environment=$(mktemp -d)
  python3 -m venv "$environment"
  "$environment/bin/pip" install "$@"
  "$environment/bin/python" -c 'import dlrm; print(dlrm.Error)'
  (PATH=$environment/bin:$root/build/cpu/bin:$PATH try)
}

wheel() {
  launch/install_deps.sh build pip
  python3 -m venv build/wheels
  build/wheels/bin/pip wheel --no-deps --wheel-dir build/wheels .
  pip build/wheels/dlrm-*.whl
}

# The instructions after the last FROM, here.
image() {
  local instruction rest
  export PRESET=cpu PATH=/usr/local/bin:$PATH
  mkdir /source
  tar -c --exclude ./build . | tar -C /source -x
  while read -r instruction rest; do
    case $instruction in
      ENV) eval "export $rest" ;;
      RUN) bash -ec "$rest" </dev/null ;;
    esac
  done < <(sed -e '/^#/d' -e ':a' -e '/\\$/{N;s/\\\n//;ba}' launch/Dockerfile | awk '/^FROM/ { text = "" } { text = text $0 "\n" } END { print text }')
  (cd / && runuser -u dlrm -- bash -c try)
}

# Whether pip can fetch what a build needs.
reaches_pypi() {
  launch/install_deps.sh build pip
  local environment
  environment=$(mktemp -d)
  python3 -m venv "$environment" && "$environment/bin/pip" download -q --no-deps --dest "$environment" scikit-build-core
}

[ $# -gt 0 ] || { echo "error: tests/launch/installs.sh WAY..." >&2; exit 2; }
if [ "$1" != image ] && ! reaches_pypi; then
  echo "skipped: PyPI cannot be reached"
  exit 0
fi
for way in "$@"; do
  echo "== $way"
  case $way in
    sources | wheel | image) $way ;;
    pip) pip --config-settings=build-dir=build/cpu . ;;
    *) echo "error: unknown way $way: sources, pip, wheel, image" >&2; exit 2 ;;
  esac
done
