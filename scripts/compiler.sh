#!/usr/bin/env bash
# The compiler of the workspace's own crates in `make test`: one pass that lints, compiles and documents each of them. Cargo
# starts it with the compiler's path and arguments. A warning is an error.
#
# Cargo builds a library twice: for those that use it, and with its own tests. The second has all of the code of the first,
# and it is the one that is linted. The first is documented; cargo would compile every dependency once more to do that.
set -euo pipefail

case " $* " in
  *" --crate-type lib "*) "$@" -D warnings ;;
  *) exec clippy-driver "$@" -D warnings ;;
esac

# The arguments of the compiler that rustdoc has too, and where it writes.
arguments=()
folder=
shift
while [ "$#" -gt 0 ]; do
  case "$1" in
    --out-dir) folder="$2" && shift ;;
    -C) shift ;;
    --emit=*) ;;
    *) arguments+=("$1") ;;
  esac
  shift
done
exec rustdoc "${arguments[@]}" --out-dir "$folder/../../doc" -D warnings
