#!/bin/sh
# keep_ptxas.sh COMPILER... -o OBJECT...: runs nvcc and keeps the output of ptxas for each kernel in
# OBJECT.ptxas, where tests/style/check_kernels.py reads it; all other output is passed on.
object=
previous=
for word in "$@"; do
  [ "$previous" = -o ] && object=$word
  previous=$word
done
[ -n "$object" ] || exec "$@"
said=$object.ptxas
"$@" 2>"$said"
status=$?
grep -vE '^ptxas info|^ +[0-9]+ bytes stack frame' "$said" >&2
exit $status
