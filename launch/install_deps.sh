#!/usr/bin/env bash
# Installs the packages of the named groups of launch/deps.txt that are missing: Debian's, and those of
# PyPI into build/python, where data_tools/import_dataset.py finds them.
#
#   launch/install_deps.sh [GROUP...]        GROUP: build (default), test, fuzz, python, import, export,
#                                          plot, tensorboard, pytorch, compare, root
#
# Without root or sudo it names Debian's missing packages, and fails only if there are any.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
case " $* " in
  *" -h "* | *" --help "*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
[ $# -gt 0 ] || set -- build

wanted=()
wheels=() # of PyPI
for group in "$@"; do
  before=${#wanted[@]}
  while read -r name package _; do
    if [ "$name" != "$group" ] || [ "$name" = "#" ]; then continue; fi
    case $package in
      pip:*) wheels+=("${package#pip:}") ;;
      *) wanted+=("$package") ;;
    esac
  done <"$here/deps.txt"
  if [ ${#wanted[@]} -eq "$before" ]; then
    known=$(sed '/^#/d; s/ .*//' "$here/deps.txt" | uniq | paste -sd ' ')
    echo "error: unknown group $group: launch/install_deps.sh [GROUP...], of $known" >&2
    exit 2
  fi
done

if ! command -v dpkg-query >/dev/null; then
  echo "not a Debian system: docs/building.md lists the libraries that it needs" >&2
  exit 0
fi
# Installs the packages of PyPI that are missing.
install_wheels() {
  local python=/usr/bin/python3 folder wheel absent=() log
  folder=$(dirname "$here")/build/python
  [ -x "$python" ] || python=python3
  for wheel in ${wheels[@]+"${wheels[@]}"}; do
    [ -d "$folder/${wheel%%=*}-${wheel##*=}.dist-info" ] || absent+=("$wheel")
  done
  [ ${#absent[@]} -gt 0 ] || return 0
  echo "installing into $folder: ${absent[*]}"
  mkdir -p "$folder"
  log=$(mktemp)
  if ! "$python" -m pip install --disable-pip-version-check --retries 1 --timeout 20 --no-deps \
      --only-binary :all: --upgrade --target "$folder" "${absent[@]}" >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    rm -f "$log"
    echo "error: pip could not install: ${absent[*]}" >&2
    exit 2
  fi
  rm -f "$log"
}

missing=()
for package in "${wanted[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  install_wheels
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; }; }; then
    as_root=(sudo)
  else
    echo "error: missing packages: ${missing[*]} (root can run: apt-get install ${missing[*]})" >&2
    exit 2
  fi
fi
echo "installing: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The tests' services are started by the tests alone: policy-rc.d tells dpkg to start none.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  trap 'rm -f "$log"; "${as_root[@]}" rm -f $policy' EXIT
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee $policy >/dev/null
  "${as_root[@]}" chmod 755 $policy
fi
if ! { "${as_root[@]}" apt-get update -q &&
       "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
         apt-get install -y -q --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "error: apt-get could not install: ${missing[*]}" >&2
  exit 2
fi
install_wheels
