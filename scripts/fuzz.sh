#!/usr/bin/env bash
# Runs fuzz targets for some seconds each, as many at a time as there are cores, and fails when one
# finds something.
#
#   scripts/fuzz.sh SECONDS [TARGET...]      all targets, when none is named
#   scripts/fuzz.sh again TARGET FILE        one input that broke a target, once more
#   scripts/fuzz.sh build                    only builds them
#
# Plain cargo builds them with the flags in fuzz/.cargo/config.toml, so that the stable compiler will
# do and nothing has to be installed but a C++ compiler (and `cargo fuzz run -s none TARGET` does the
# same). First inputs come from the conformance rows. Inputs that a target grew on lie in
# fuzz/corpus, those that broke one in fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."

ROOT="$PWD"
readonly ROOT
# Cargo takes a relative folder from where it runs, and it does not run here.
case "${CARGO_TARGET_DIR:-target}" in
  /*) readonly BUILT="$CARGO_TARGET_DIR/fuzz" ;;
  *) readonly BUILT="$ROOT/${CARGO_TARGET_DIR:-target}/fuzz" ;;
esac
readonly LOGS="$BUILT/logs"

usage() {
  sed -n 's/^#   \(scripts.*\)/usage: \1/p' "$0" >&2
  exit 64
}

# Every target there is: one file each.
targets() {
  local file
  for file in fuzz/fuzz_targets/*.rs; do basename "$file" .rs; done
}

build() {
  # Seconds of fuzzing do not pay for minutes of optimisation.
  [ -z "${CI:-}" ] ||
    export CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_INCREMENTAL=false
  if ! command -v c++ >/dev/null 2>&1; then
    echo "MISSING a C++ compiler (c++), of which libFuzzer is built." \
      "Debian: apt-get install g++. Mac: xcode-select --install." >&2
    exit 1
  fi
  # The flags are found from the folder that cargo runs in.
  (cd fuzz && env -u RUSTFLAGS cargo build --locked --release --bins --target-dir "$BUILT")
}

binary() {
  local host
  host="$(rustc -vV | sed -n 's/^host: //p')"
  printf '%s\n' "$BUILT/$host/release/$1"
}

# run TARGET SECONDS: an input that takes 10 seconds or 2 GiB has found something too.
run() {
  local target="$1" seconds="$2" log="$LOGS/$1" seeds="$BUILT/seeds/$1" began=$SECONDS
  mkdir -p "$LOGS" "$seeds" "fuzz/corpus/$target" "fuzz/artifacts/$target"
  if SURETY_FUZZ_SEEDS="$seeds" "$(binary "$target")" "fuzz/corpus/$target" "$seeds" \
    -artifact_prefix="fuzz/artifacts/$target/" -dict=fuzz/words.dict -max_total_time="$seconds" \
    -timeout=10 -rss_limit_mb=2048 -max_len=4096 -print_final_stats=1 >"$log" 2>&1; then
    printf 'fuzz %-9s %9s inputs in %3s s, nothing found\n' "$target" \
      "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" "$((SECONDS - began))"
    return
  fi
  printf 'fuzz %-9s FOUND SOMETHING:\n' "$target"
  # From the panic or the report on, without the lines about the corpus before it.
  sed -nE '/panicked at|^==/,$p' "$log" | head -60
  return 1
}

[ "$#" -gt 0 ] || usage
case "$1" in
  run)
    run "$2" "$3"
    ;;
  build) build ;;
  again)
    [ "$#" -eq 3 ] || usage
    build
    exec "$(binary "$2")" "$3"
    ;;
  *[!0-9]*) usage ;;
  *)
    seconds="$1"
    shift
    build
    { if [ "$#" -gt 0 ]; then printf '%s\n' "$@"; else targets; fi; } |
      xargs -P "$(getconf _NPROCESSORS_ONLN)" -I TARGET "$ROOT/scripts/fuzz.sh" run TARGET "$seconds"
    ;;
esac
