#!/usr/bin/env bash
# Installs the packages of the named groups of launch/deps.txt that are missing. For groups with packages
# of Python it makes the environment build/venv, which has Debian's and those of PyPI, and the package dlrm
# of these sources with its commands, in build/venv/bin. Tests and `dlrm-data import` use it by themselves.
# The group peers has an environment of its own, build/peers, with what its packages need (6 GB).
#
#   launch/install_deps.sh [GROUP...]        GROUP: build (default), test, fuzz, python, torch, pip, kserve, peers, root
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
peers=()  # the same, of the group peers
needs_python=false
for group in "$@"; do
  before=${#wanted[@]}
  while read -r name package _; do
    if [ "$name" != "$group" ] || [ "$name" = "#" ]; then continue; fi
    case $package in
      pip:*) [ "$group" = peers ] && peers+=("${package#pip:}") || wheels+=("${package#pip:}") ;;
      python3-dev | python3-pip | python3-venv) wanted+=("$package") ;;
      python3-*) wanted+=("$package") needs_python=true ;;
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
# Makes the environment, with the sources on its path and the commands of pyproject.toml, and installs the
# packages of PyPI that it lacks.
make_environment() {
  local python=/usr/bin/python3 root folder packages command module
  root=$(dirname "$here")
  folder=$root/build/venv
  [ -x "$python" ] || python=python3
  $needs_python || return 0
  [ -x "$folder/bin/python3" ] || "$python" -m venv --without-pip --system-site-packages "$folder"
  for packages in "$folder"/lib/python3*/site-packages; do
    echo "$root/python" >"$packages/dlrm.pth"
  done
  sed -nE '/^\[project.scripts\]/,/^$/s/^([a-z-]+) = "([a-z_.]+):main"$/\1 \2/p' "$root/pyproject.toml" |
    while read -r command module; do
      printf '#!/bin/sh\nexec "%s" -m %s "$@"\n' "$folder/bin/python3" "$module" >"$folder/bin/$command"
      chmod +x "$folder/bin/$command"
    done
  install_wheels "$folder" --no-deps ${wheels[@]+"${wheels[@]}"}
}

make_peers() {
  local python=/usr/bin/python3 folder
  [ ${#peers[@]} -gt 0 ] || return 0
  folder=$(dirname "$here")/build/peers
  [ -x "$folder/bin/python3" ] || "$python" -m venv --without-pip "$folder"
  install_wheels "$folder" --no-input "${peers[@]}"
}

# install_wheels FOLDER OPTION WHEEL...: those that the environment lacks, with an option of pip.
install_wheels() {
  local folder=$1 option=$2 log wheel name absent=()
  for wheel in "${@:3}"; do
    name=${wheel%%=*}
    compgen -G "$folder/lib/python3*/site-packages/${name//-/_}-${wheel##*=}.dist-info" >/dev/null || absent+=("$wheel")
  done
  [ ${#absent[@]} -gt 0 ] || return 0
  echo "installing into $folder: ${absent[*]}"
  log=$(mktemp)
  if ! /usr/bin/python3 -m pip --python "$folder/bin/python3" install --disable-pip-version-check --retries 1 \
      --timeout 20 "$option" --only-binary :all: "${absent[@]}" >"$log" 2>&1; then
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
  make_environment
  make_peers
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
make_environment
make_peers
