#!/usr/bin/env bash
# The checks, each by its name, stopping at the first that fails; what passed is said at the end.
#
#   scripts/test.sh all | fast | lint | docs | conformance | liars
#
# Nothing is compiled twice with different features: one build of all targets lints and documents what it compiles, and the
# fuzz targets compile the domain alone.
set -euo pipefail
cd "$(dirname "$0")/.."

# No debugger looks at what CI builds, and it builds everything once.
[ -z "${CI:-}" ] || export CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0

readonly TARGET_DIR="${CARGO_TARGET_DIR:-target}"
readonly SURETY="$TARGET_DIR/debug/surety"
# An argument, as the tests would inherit a variable: they run cargo themselves.
LINTED=(--config "build.rustc-workspace-wrapper=\"$PWD/scripts/compiler.sh\"")
# A fresh clone is compiled once: what is for the next compilation and for debuggers takes time alone.
[ -z "${CI:-}" ] || LINTED+=(--config profile.dev.incremental=false --config profile.dev.debug=false)
readonly LINTED
readonly BUF=tools/buf/node_modules/.bin/buf

# Tests of the services wait for processes, sockets and disks for a third of their time.
RUST_TEST_THREADS="${RUST_TEST_THREADS:-$((3 * $(getconf _NPROCESSORS_ONLN) / 2))}"
export RUST_TEST_THREADS

passed=()
skipped=()
current=
# The session that builds ahead, while there is one.
ahead=
# What the tests printed, while they run and after they failed.
said=

report() {
  local status=$?
  [ -z "$ahead" ] || kill -- "-$ahead" 2>/dev/null || true
  [ -z "${current:-}" ] || [ "$status" -eq 0 ] || printf '\nFAILED: %s\n' "$current" >&2
  if [ "${#passed[@]}" -gt 0 ]; then printf '  passed   %s\n' "${passed[@]}"; fi
  if [ "${#skipped[@]}" -gt 0 ]; then printf '  skipped  %s\n' "${skipped[@]}"; fi
  [ -z "$said" ] || failures "$said"
}
trap report EXIT

# failures FILE: names the tests that failed and why, after everything else: thousands of lines lie between a failure and
# the end of the output, and a reader of CI may see only the last ones.
failures() {
  grep -A 2 -E ' panicked at |^(test .* FAILED|WRONG |FAILED |HANGS: |liars: )' "$1" |
    grep -v -E '^(--|test .* ok|note: run with|liars: .* 0 wrong)' | cut -c -400 | tail -n 60 >&2 || true
  rm -f "$1"
}

# check NAME COMMAND...: runs one check under its name.
check() {
  current="$1"
  shift
  printf '\n== %s\n' "$current"
  local began=$SECONDS
  "$@"
  passed+=("$current ($((SECONDS - began)) s)")
  current=
}

skip() {
  printf '\n== %s\n' "$1"
  skipped+=("$1")
}

# The domain's dependencies, by name: with one of these it would no longer be pure. That it compiles with these alone, its own
# tests prove in the inner loop, and the fuzz targets in CI.
domain_knows_no_wire_and_no_store() {
  local tree found
  tree="$(cargo tree --locked -p surety-common --no-default-features -e normal --prefix none -f '{p}' | sed 's/ (\*)$//')"
  found="$(printf '%s\n' "$tree" | grep -E '^(tonic|prost|sqlx|tokio|hyper|axum|tower|reqwest|rand)(-[a-z-]+)? ' || true)"
  if [ -n "$found" ]; then
    printf 'the domain depends on:\n%s\n' "$found" >&2
    return 1
  fi
  echo "the domain's $(printf '%s\n' "$tree" | sort -u | wc -l | tr -d ' ') packages hold no wire, no store, no runtime and no randomness"
}

protobuf() {
  if [ -x "$BUF" ]; then
    check "buf lint" "$BUF" lint
    check "buf breaking" scripts/api_baseline.sh check
  elif [ -n "${CI:-}" ]; then
    check "buf lint" missing_on_ci "buf (make setup installs it)"
  else
    skip "buf lint and buf breaking: buf is not here; install npm and run make setup"
  fi
}

# Client code in each language, generated and compiled. Exit code 77: the language or its generator is
# not available here, and the last line says which.
client_stubs() {
  local language said status
  for language in python typescript go java; do
    status=0
    said="$(scripts/stubs.sh "$language")" || status=$?
    case "$status" in
      0) check "stubs: $(tail -n 1 <<<"$said")" true ;;
      77) skip "$language stubs: $(tail -n 1 <<<"$said")" ;;
      *) check "$language stubs" scripts/stubs.sh "$language" ;;
    esac
  done
}

shell_scripts() {
  if command -v shellcheck >/dev/null 2>&1; then
    check "shellcheck" shellcheck scripts/*.sh examples/*/*.sh deploy/docker/*.sh .ci/run
  else
    skip "shellcheck: not here (apt-get install shellcheck, brew install shellcheck)"
  fi
}

# Licences and sources of all dependencies, by deny.toml. The tool is optional: it takes minutes to
# install, and Cargo.lock changes seldom.
dependencies() {
  if cargo deny --version >/dev/null 2>&1; then
    check "cargo deny" cargo deny --locked check licenses bans sources
  else
    skip "cargo deny: not here (cargo install cargo-deny)"
  fi
}

missing_on_ci() {
  echo "missing: $1" >&2
  return 1
}

formatted() { cargo fmt --check; }
clippy() { cargo clippy --locked --workspace --all-targets -- -D warnings; }
documented() { RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps; }
domain_tests() { cargo test --locked -p surety-common --no-default-features --lib; }

# Binaries and tests in one build, so that both have the same features; the tests start the binaries. Benchmarks are built to
# lint them.
built() { cargo build "${LINTED[@]}" --locked --workspace --all-targets; }

# What later checks need: the clients for the tests of the services, which come last, and the fuzz targets. The tests leave a
# part of the processors idle, and this takes it at the lowest priority. What fails in it is said by the check that it is
# for, which does it again. Linux gives each session the same share by autogroups, so the priority of this one has to be
# lowered too.
build_ahead() {
  { [ ! -w /proc/self/autogroup ] || echo 19 >/proc/self/autogroup; } 2>/dev/null || true
  renice -n 19 -p "$BASHPID" >/dev/null 2>&1 || true
  scripts/clients.sh prepare python || true
  scripts/clients.sh prepare typescript || true
  scripts/fuzz.sh build || true
}

# with_postgres COMMAND...: runs it beside a private Postgres. Each test has a database of 500 files, and to make and remove
# them takes longer than many a test, so they are in memory where that is a part of the file system with room for them.
with_postgres() {
  local room options=()
  room="$(df -Pk /dev/shm 2>/dev/null | awk '$1 == "tmpfs" && $6 == "/dev/shm" { print $4 }')" || room=0
  [ "${room:-0}" -lt 4000000 ] || options=(--temp-dir /dev/shm --setting max_wal_size=256MB)
  "$SURETY" dev-postgres ${options[@]+"${options[@]}"} -- "$@"
}

# All tests share one private Postgres, which ends with them. A scenario that cannot run on this
# machine is recorded in a file, and listed at the end with the other skipped ones. The documentation
# has no example that is a test.
tests_pass() {
  local skips status=0 line
  skips="$(mktemp)"
  said="$(mktemp)"
  if command -v setsid >/dev/null; then
    setsid scripts/test.sh build-ahead >/dev/null 2>&1 &
    ahead=$!
  else
    build_ahead >/dev/null 2>&1 &
  fi
  SURETY_TEST_SKIPS="$skips" with_postgres cargo test "${LINTED[@]}" --locked --workspace --tests --no-fail-fast 2>&1 |
    tee "$said" || status=$?
  wait
  ahead=
  while IFS= read -r line; do skipped+=("$line"); done < <(sort -u "$skips")
  rm -f "$skips"
  [ "$status" -ne 0 ] || { rm -f "$said" && said=; }
  return "$status"
}

# player NAME: a test program that prints what fails and then its own closing line, after which nothing follows.
player() {
  built
  with_postgres cargo test "${LINTED[@]}" --locked --quiet --workspace --test "$1"
}

case "${1:-}" in
  all)
    check "format" formatted
    protobuf
    shell_scripts
    dependencies
    check "the domain is pure" domain_knows_no_wire_and_no_store
    check "clippy, documentation and build" built
    check "tests" tests_pass
    client_stubs
    check "fuzz targets, briefly" scripts/fuzz.sh 4
    ;;
  fast)
    check "format" formatted
    check "the domain is pure" domain_knows_no_wire_and_no_store
    check "clippy" clippy
    check "the domain's tests" domain_tests
    ;;
  lint)
    check "format" formatted
    check "clippy" clippy
    protobuf
    shell_scripts
    dependencies
    ;;
  docs) check "documentation" documented ;;
  build-ahead)
    trap - EXIT
    build_ahead
    exit
    ;;
  conformance | liars)
    trap - EXIT
    player "$1"
    exit
    ;;
  *)
    echo "usage: scripts/test.sh all | fast | lint | docs | conformance | liars" >&2
    exit 64
    ;;
esac
printf '\nEverything asked for passed:\n'
