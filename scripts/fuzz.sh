#!/usr/bin/env bash
# Runs every fuzz target for some seconds, from the conformance rows as a first corpus.
#
#   scripts/fuzz.sh [SECONDS]
#
# libFuzzer's flags are unstable ones; RUSTC_BOOTSTRAP=1 lets the stable compiler take them, so that
# no other toolchain is needed. Needs cargo-fuzz and a C++ compiler. Inputs that a target grew on lie
# in fuzz/corpus, those that broke one in fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly SECONDS_EACH="${1:-60}"
readonly TARGETS=(reader plan patch decision receipts commands globs paths)

if ! cargo fuzz --version >/dev/null 2>&1; then
  echo "skipped: cargo-fuzz is not here (cargo install cargo-fuzz)"
  exit 0
fi
export RUSTC_BOOTSTRAP=1

# seed TARGET FILE: one input for each row of a file.
seed() {
  mkdir -p "fuzz/corpus/$1"
  split --lines=1 --additional-suffix=".row" "tests/conformance/$2.jsonl" "fuzz/corpus/$1/$2-"
}

cd fuzz && cargo fuzz build && cd ..
for target in "${TARGETS[@]}"; do
  case "$target" in
    reader | decision) seed "$target" decision ;;
    plan | patch) seed "$target" "$target" ;;
    receipts) seed "$target" receipt ;;
    *) mkdir -p "fuzz/corpus/$target" ;;
  esac
  printf '\n== fuzz %s\n' "$target"
  (cd fuzz && cargo fuzz run "$target" -- -max_total_time="$SECONDS_EACH" -max_len=65536 -print_final_stats=1)
done
