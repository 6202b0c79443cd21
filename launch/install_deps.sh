#!/usr/bin/env bash
# Installs the Debian packages of the named groups of launch/deps.txt that are missing.
#
#   launch/install_deps.sh [GROUP...]        GROUP: build (default), test, fuzz, python, export, plot,
#                                          compare, root
#
# Without root or sudo it names the missing packages, and fails only if there are any.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
case " $* " in
  *" -h "* | *" --help "*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
[ $# -gt 0 ] || set -- build

wanted=()
for group in "$@"; do
  before=${#wanted[@]}
  while read -r name package _; do
    if [ "$name" = "$group" ] && [ "$name" != "#" ]; then wanted+=("$package"); fi
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
missing=()
for package in "${wanted[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

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
if ! { "${as_root[@]}" apt-get update -q &&
       "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
         apt-get install -y -q --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "error: apt-get could not install: ${missing[*]}" >&2
  exit 2
fi
