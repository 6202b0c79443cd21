#!/usr/bin/env bash
# Runs quickstart.sh and test.sh --quick, and two ways to install, as on a new machine: in a minimal Debian
# root that has nothing but what they install, and this machine's CUDA toolkit, read-only.
#
#   launch/fresh_root.sh [--installs]
#
# --installs: instead of these, the ways that take longer: a wheel, and what launch/Dockerfile says.
#
# mmdebstrap makes the root from this machine's apt sources. The root and the packages are kept in
# ${XDG_CACHE_HOME:-~/.cache}/dlrm-train for a week, or until launch/deps.txt changes. The tracked files of
# the tree are copied into the root. DLRM_FRESH_ROOT_SECONDS (720, with --installs 7200) limits the whole;
# what is not done by then is said to be not finished.
#
# Needs Debian, an apt mirror, and root or user namespaces. Otherwise it says so and ends with 0.
# Exit code: 0 passed, not run or not finished; 1 failed; 2 wrong usage.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
commands=(launch/quickstart.sh "launch/test.sh --quick" "tests/launch/installs.sh sources pip")
limit=720
case "${1:-}" in
  -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
  "") ;;
  --installs) commands=("tests/launch/installs.sh image wheel"); limit=7200 ;;
  *) echo "error: unknown option $1: launch/fresh_root.sh [--installs]" >&2; exit 2 ;;
esac
not_run() {
  echo "fresh root: not run: $1"
  exit 0
}
limit=${DLRM_FRESH_ROOT_SECONDS:-$limit}
codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release 2>/dev/null || true)
grep -qx 'ID=debian' /etc/os-release 2>/dev/null && [ -n "$codename" ] || not_run "this is no Debian release"
git rev-parse HEAD >/dev/null 2>&1 || not_run "the tree is no git checkout"
launch/install_deps.sh root || not_run "mmdebstrap is not installed"

# Mounts and processes end with the namespace.
namespace=(unshare --mount --pid --fork --kill-child)
mode=root
if [ "$(id -u)" -ne 0 ]; then
  namespace+=(--map-root-user --map-auto)
  mode=unshare
fi
"${namespace[@]}" true 2>/dev/null || not_run "no right to mount: needs root or user namespaces"

scratch=$(mktemp -d "${TMPDIR:-/var/tmp}/dlrm-root.XXXXXX")
trap '"${namespace[@]}" rm -rf --one-file-system "$scratch"' EXIT
root=$scratch/root
mkdir "$root"

# Those of this machine's apt sources that serve its release.
sources() {
  local file
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ ! -f "$file" ] || grep -E "^deb .*[[:space:]]$codename(-[a-z]+)?[[:space:]]" "$file" || true
  done >"$scratch/lines.list"
  for file in /etc/apt/sources.list.d/*.sources; do
    [ ! -f "$file" ] || awk -v RS= -v ORS='\n\n' \
      "/(^|\n)Suites:[^\n]*[ \t]$codename([- \t\n]|\$)/ && !/(^|\n)Enabled: *no/" "$file"
  done >"$scratch/stanzas.sources"
  find "$scratch" -name '*.list' -size +0 -o -name '*.sources' -size +0
}
mapfile -t mirrors < <(sources)
[ ${#mirrors[@]} -gt 0 ] || not_run "apt has no sources for $codename"
apt-config dump --no-empty --format '%f "%v";%n' Acquire |
  grep -iE '^Acquire::(https?|Retries|Check)' >"$scratch/apt.conf" || true

cache=${XDG_CACHE_HOME:-$HOME/.cache}/dlrm-train
mkdir -p "$cache/packages"
key=$(cat launch/deps.txt launch/fresh_root.sh "${mirrors[@]}" "$scratch/apt.conf" | sha256sum | cut -c 1-16)
base=$cache/root-$key.tar
find "$cache" -maxdepth 1 -name 'root-*.tar*' \( ! -name "root-$key.tar" -o -mtime +7 \) -delete
if [ ! -f "$base" ]; then
  echo "== fresh root: mmdebstrap $codename"
  mmdebstrap --quiet --mode=$mode --variant=apt --aptopt="$scratch/apt.conf" --dpkgopt=force-unsafe-io \
    "$codename" "$base.$$.tar" "${mirrors[@]}" 2>"$scratch/log" || {
    rm -f "$base.$$.tar"
    not_run "mmdebstrap: $(grep -v '^$' "$scratch/log" | tail -n 1)"
  }
  mv "$base.$$.tar" "$base"
fi
"${namespace[@]}" tar -C "$root" --exclude='./dev/*' -xf "$base"

# What the root needs of this machine to reach the mirrors of Debian and PyPI.
grep -hoE '/[^] ]+\.(gpg|asc)' "${mirrors[@]}" | sort -u | while read -r keyring; do
  [ ! -f "$keyring" ] || "${namespace[@]}" cp --parents "$keyring" "$root"
done
"${namespace[@]}" cp -L /etc/resolv.conf /etc/hosts "$root/etc"
if [ -f /etc/ssl/certs/ca-certificates.crt ]; then
  "${namespace[@]}" cp --parents /etc/ssl/certs/ca-certificates.crt "$root"
  # The package ca-certificates replaces that file by its own certificates and those in this folder.
  "${namespace[@]}" install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$root/usr/local/share/ca-certificates/machine.crt"
fi
[ ! -f /etc/pip.conf ] || "${namespace[@]}" cp -L /etc/pip.conf "$root/etc"

tree=$root/dlrm-train
"${namespace[@]}" mkdir -p "$tree" "$root/usr/local/cuda"
git ls-files -z | tar --null --ignore-failed-read -T - -c | "${namespace[@]}" tar -C "$tree" --no-same-owner -x
cuda=$(readlink -f /usr/local/cuda)
if [ ! -x "$cuda/bin/nvcc" ] || [ -z "$(find -L "$cuda" -name cudnn.h -print -quit)" ]; then
  echo "fresh root: no nvcc and cuDNN in /usr/local/cuda: no CUDA source is compiled"
  cuda=
fi

inside() {  # ROOT PACKAGES CUDA SECONDS COMMAND...
  local root=$1 packages=$2 cuda=$3 seconds=$4 variable kept=()
  shift 4
  mount --rbind /sys "$root/sys"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs none "$root/dev/shm"
  mount -t proc none "$root/proc"
  mount --bind "$packages" "$root/var/cache/apt/archives"
  if [ -n "$cuda" ]; then
    mount --bind "$cuda" "$root/usr/local/cuda"
    mount -o remount,bind,ro "$root/usr/local/cuda"
  fi
  for variable in http_proxy https_proxy no_proxy PIP_INDEX_URL PIP_CERT; do
    [ -z "${!variable:-}" ] || kept+=("$variable=${!variable}")
  done
  timeout -k 5 "$seconds" chroot "$root" env -i HOME=/root TERM="${TERM:-dumb}" LC_ALL=C.UTF-8 \
    PATH=/usr/sbin:/usr/bin:/sbin:/bin "${kept[@]}" "$@"
}
in_root() {
  [ "$SECONDS" -lt "$limit" ] || return 124
  "${namespace[@]}" bash -c "set -euo pipefail; $(declare -f inside); inside \"\$@\"" inside \
    "$root" "$cache/packages" "$cuda" $((limit - SECONDS)) "$@" </dev/null
}
in_root apt-get update -q --error-on=any >"$scratch/log" 2>&1 ||
  not_run "apt-get update: $(grep -E '^E:' "$scratch/log" || tail -n 1 "$scratch/log")"
code=0
for command in "${commands[@]}"; do
  echo "== fresh root: $command"
  in_root sh -c "cd /dlrm-train && exec $command" || { code=$?; break; }
done
case $code in
  0) in_root apt-get autoclean -q >/dev/null; echo "fresh root: passed in $SECONDS s" ;;
  # Time decides no test: a slow machine is no failure.
  124 | 137) echo "fresh root: not finished: $command was not done after $limit s" ;;
  *) echo "fresh root: failed: $command ended with $code" >&2; exit 1 ;;
esac
