#!/usr/bin/env bash
# Finds what Surety needs on this machine, and installs what is missing if it can.
#
# Needs: Rust (reported, never installed: the choice of toolchain is yours), a C and a C++ compiler,
# git, and the binaries of Postgres 15 or later. Optional: npm, for `buf lint`. It starts no server,
# changes no running one, and uses the network only for missing packages.
set -euo pipefail

readonly POSTGRES_MIN=15
readonly RUST_MIN_MINOR=95

ROOT="$(cd "$(dirname "$0")/.." && pwd -P)"
readonly ROOT
missing=0

say() { printf 'setup: %s\n' "$*"; }
lack() {
  printf 'setup: MISSING %s\n' "$*" >&2
  missing=1
}
has() { command -v "$1" >/dev/null 2>&1; }

# The first folder with initdb of a usable version: the machine's own, wherever its packages
# installed it. Debian keeps it off PATH on purpose, so PATH alone does not suffice.
postgres_bin() {
  local folder version
  for folder in \
    "${SURETY_POSTGRES_BIN:-}" \
    "$(dirname "$(command -v initdb 2>/dev/null || echo /nonexistent/initdb)")" \
    "$(pg_config --bindir 2>/dev/null || true)" \
    /usr/lib/postgresql/*/bin \
    /usr/pgsql-*/bin \
    /opt/homebrew/opt/postgresql@*/bin \
    /usr/local/opt/postgresql@*/bin \
    /Applications/Postgres.app/Contents/Versions/latest/bin; do
    if [ ! -x "$folder/initdb" ] || [ ! -x "$folder/postgres" ]; then continue; fi
    version="$("$folder/initdb" --version 2>/dev/null | sed 's/[^0-9]*\([0-9][0-9]*\).*/\1/')"
    case "$version" in '' | *[!0-9]*) continue ;; esac
    if [ "$version" -ge "$POSTGRES_MIN" ]; then
      printf '%s\n' "$folder"
      return 0
    fi
  done
  return 1
}

# Runs a command as root: directly, or by sudo, which may ask for a password only on a terminal.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif has sudo && [ -t 0 ]; then
    sudo "$@"
  elif has sudo; then
    sudo -n "$@"
  else
    return 1
  fi
}

apt_updated=0
apt_install() {
  if [ "$apt_updated" -eq 0 ]; then
    as_root apt-get update -qq || return 1
    apt_updated=1
  fi
  say "installing $*"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# Debian's package starts a server on port 5432 unless configured otherwise. Only its binaries are
# needed, and another program may use the port. A machine that already has the folder is left
# unchanged.
keep_port_5432_free() {
  [ -e /etc/postgresql-common ] && return 0
  as_root mkdir -p /etc/postgresql-common/createcluster.d &&
    printf '%s\n' '# Only the binaries are wanted; no server of the machine'"'"'s own.' \
      'create_main_cluster = false' |
    as_root tee /etc/postgresql-common/createcluster.d/surety.conf >/dev/null
}

check_rust() {
  if ! has cargo; then
    lack "Rust 1.$RUST_MIN_MINOR or later: install it with rustup (https://rustup.rs), then run this again"
    return 0
  fi
  local minor
  minor="$(cd "$ROOT" && cargo --version | sed 's/^cargo 1\.\([0-9]*\).*/\1/')"
  case "$minor" in
    '' | *[!0-9]*) say "cannot read the version in '$(cargo --version)', going on" ;;
    *)
      if [ "$minor" -lt "$RUST_MIN_MINOR" ]; then
        lack "Rust 1.$RUST_MIN_MINOR or later (found 1.$minor): rustup update stable"
      fi
      ;;
  esac
  cargo fmt --version >/dev/null 2>&1 || lack "rustfmt: rustup component add rustfmt"
  cargo clippy --version >/dev/null 2>&1 || lack "clippy: rustup component add clippy"
}

# install_or_name WHAT APT_PACKAGES BREW_HINT: installs by apt where it may, else says how.
install_or_name() {
  local what="$1" packages="$2" brew_hint="$3"
  if has apt-get; then
    # shellcheck disable=SC2086 # the packages are a list of words
    if apt_install $packages; then
      return 0
    fi
    lack "$what: as root, apt-get install $packages"
  elif [ "$(uname -s)" = Darwin ]; then
    lack "$what: $brew_hint"
  else
    lack "$what: install it with this system's package manager"
  fi
  return 1
}

check_git() {
  has git || install_or_name git "git ca-certificates" "xcode-select --install" || true
}

check_compiler() {
  has cc || install_or_name "a C compiler (cc)" "gcc libc6-dev" "xcode-select --install" || true
  # libFuzzer, which `make test` runs briefly, is built from its source.
  has c++ || install_or_name "a C++ compiler (c++)" g++ "xcode-select --install" || true
}

check_postgres() {
  if postgres_bin >/dev/null; then
    return 0
  fi
  if has apt-get; then
    keep_port_5432_free || true
    install_or_name "Postgres $POSTGRES_MIN or later" postgresql "" || return 0
  elif [ "$(uname -s)" = Darwin ] && has brew; then
    say "installing postgresql@17 with brew (its server is not started)"
    brew install --quiet postgresql@17 || true
  fi
  if ! postgres_bin >/dev/null; then
    lack "Postgres $POSTGRES_MIN or later. Debian 12, Ubuntu 24.04: apt-get install postgresql." \
      "Older ones: take it from the PostgreSQL project's own apt repository." \
      "Mac: brew install postgresql@17. Elsewhere: the package with initdb and postgres, and" \
      "SURETY_POSTGRES_BIN=FOLDER when they lie in an unusual place."
  fi
}

# buf comes from npm, pinned by tools/buf/package-lock.json. Without npm the protobuf lint is
# skipped, except on CI, where it must run.
check_buf() {
  if [ "$("$ROOT/tools/buf/node_modules/.bin/buf" --version 2>/dev/null || true)" = "$(wanted_buf)" ]; then
    return 0
  fi
  if ! has npm; then
    if [ -n "${CI:-}" ]; then
      lack "npm, which brings buf for the protobuf lint"
    else
      say "npm is not installed: make test will skip the protobuf lint"
    fi
    return 0
  fi
  say "installing buf $(wanted_buf) under tools/buf"
  if ! (cd "$ROOT/tools/buf" && npm ci --silent --no-audit --no-fund); then
    if [ -n "${CI:-}" ]; then
      lack "buf: npm ci in tools/buf failed"
    else
      say "npm ci in tools/buf failed: make test will skip the protobuf lint"
    fi
  fi
}

# Some scenarios of the tests need more of the machine. Without it they are skipped and listed,
# except on CI. Only Linux has network namespaces and this library.
check_scenarios() {
  [ "$(uname -s)" = Linux ] || return 0
  want_scenario "ip, for a network that is cut" iproute2 has ip
  want_scenario "mount, for disks that are full" mount has mount
  want_scenario "libfaketime, for clocks that are wrong" faketime has_faketime
}

# want_scenario WHAT APT_PACKAGE TEST...: on CI installs what the test does not find, or reports it
# as missing; elsewhere reports what will be skipped.
want_scenario() {
  local what="$1" package="$2"
  shift 2
  if "$@"; then return 0; fi
  if [ -n "${CI:-}" ]; then
    install_or_name "$what" "$package" "" || true
    "$@" || lack "$what"
  else
    say "$what, is not here: make test will skip that (apt-get install $package)"
  fi
}

has_faketime() {
  local library
  for library in /usr/lib/*/faketime/libfaketimeMT.so.1; do
    if [ -e "$library" ]; then return 0; fi
  done
  return 1
}

wanted_buf() {
  sed -n 's/.*"@bufbuild\/buf": *"\([0-9.]*\)".*/\1/p' "$ROOT/tools/buf/package.json"
}

check_rust
check_git
check_compiler
check_postgres
check_buf
check_scenarios

if [ "$missing" -ne 0 ]; then
  say "not ready; see the lines above" >&2
  exit 1
fi
say "ready (Postgres from $(postgres_bin))"
