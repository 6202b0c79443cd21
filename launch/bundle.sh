#!/usr/bin/env bash
# Packs launch/gpu_acceptance.sh's programs for a GPU machine on which nothing can be installed: stripped,
# with their libraries and Open MPI with mpirun. CUDA's own libraries and NCCL are left out.
#
#   launch/bundle.sh [--arch ARCH | --preset PRESET] FILE.tar.xz
#
# --arch ARCH      builds them in build/bundle for one kind of GPU, with one library of kernels: 90 for
#                  H100 and H200. The file is a fraction of that of a whole build
# --preset PRESET  packs those that build/PRESET has: cuda (default), simt
#
# On that machine, in a checkout: launch/gpu_acceptance.sh --first --bundle FILE.tar.xz. Its C library must
# not be older than this machine's.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
preset=cuda
arch=
case "${1:-}" in
  -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
  --preset) preset=${2:-}; shift; [ $# -eq 0 ] || shift ;;
  --arch) preset=bundle; arch=${2:-}; shift; [ $# -eq 0 ] || shift ;;
esac
case "${1:-}" in
  *.tar.xz) [ $# -eq 1 ] && target=$1 ;;
esac
[ -n "${target:-}" ] || { echo "error: launch/bundle.sh [--arch ARCH | --preset PRESET] FILE.tar.xz" >&2; exit 2; }
command -v mpirun >/dev/null || { echo "error: mpirun is missing: install openmpi-bin" >&2; exit 2; }
command -v xz >/dev/null || { echo "error: xz is missing: install xz-utils" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/bin" "$folder/lib" "$folder/mpi"

mapfile -t programs <"$root/launch/acceptance/programs.txt"
if [ "$preset" = bundle ]; then
  [[ $arch =~ ^[0-9]+[af]?$ ]] || { echo "error: --arch $arch: a number as 90 is needed" >&2; exit 2; }
  cmake --preset cuda -B "$root/build/bundle" -S "$root" -DDLRM_CUDA_ARCHITECTURES="$arch-real" \
    -DDLRM_SHARED_KERNELS=ON -DDLRM_PYTHON_PACKAGE=OFF -DDLRM_TESTS=ON
  cmake --build "$root/build/bundle" --target "${programs[@]}"
fi
for program in "${programs[@]}"; do
  built=$root/build/$preset/bin/$program
  [ -x "$built" ] || { echo "error: $built is not built: launch/build.sh $preset ${programs[*]}" >&2; exit 2; }
  strip -o "$folder/bin/$program" "$built"
done

# Open MPI finds its files under OPAL_PREFIX as it does under its own prefix here.
prefix=$(ompi_info --parsable --path prefix | sed 's/.*://')
keep() { mkdir -p "$folder/mpi/$(dirname "${1#"$prefix"/}")"; cp -rL "$1" "$folder/mpi/${1#"$prefix"/}"; }
keep "$(ompi_info --parsable --path pkglibdir | sed 's/.*://')"
keep "$(ompi_info --parsable --path pkgdatadir | sed 's/.*://')"
mkdir -p "$folder/mpi/etc" "$folder/mpi/bin"
cp -L "$(readlink -f "$(command -v mpirun)")" "$folder/mpi/bin/mpirun"
cp -L "$(command -v orted)" "$folder/mpi/bin/orted"
pmix=$(find "$prefix"/lib* -type d -path '*/pmix2/lib/pmix' 2>/dev/null | head -n 1)
[ -z "$pmix" ] || keep "$pmix"

# All libraries that these need, except the C and C++ libraries, CUDA's and the driver's.
left_out='/(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s|cuda|cudart|cublas.*|cudnn.*|nccl|nvidia.*)\.so.*)$'
find "$folder" -type f \( -perm -u+x -o -name '*.so*' \) -print0 | xargs -0 ldd 2>/dev/null |
  awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
  while read -r library; do
    if [[ $library == "$root/build/"* || ! $library =~ $left_out ]]; then echo "$library"; fi
  done |
  while read -r library; do
    cp -L "$library" "$folder/lib/"
    strip --strip-unneeded "$folder/lib/${library##*/}" 2>/dev/null || true
  done
XZ_OPT=${XZ_OPT:--9e} tar -C "$folder" -cJf "$target.partial" bin lib mpi
mv "$target.partial" "$target"
echo "$target: $(du -h "$target" | cut -f1)"
