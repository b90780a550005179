#!/usr/bin/env bash
# Runs a client in another language over every conformance row against live services.
#
#   scripts/clients.sh python | node
#
# SURETY_PLANNER, SURETY_EXECUTOR and SURETY_GATE are the addresses (host:port) of the services, and
# SURETY_TOKEN is a token that they know;
# the test `clients` starts some. What is needed from PyPI or npm is fetched once and kept; after
# that nothing goes to the network. Exit code 77: the language is not on this machine. With CI=true
# that is a failure with exit code 1, so that CI cannot pass without having run the suite.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly ABSENT=77
readonly FETCHED="${CARGO_TARGET_DIR:-target}/clients"

absent() {
  if [ "${CI:-}" = true ]; then
    echo "failed: $1 is not on this machine, and CI=true requires it; install it"
    exit 1
  fi
  echo "skipped: $1 is not on this machine"
  exit "$ABSENT"
}

# Runs a command unless its inputs are what they were when it last succeeded.
# once STAMP INPUT... -- COMMAND...
once() {
  local stamp="$1" inputs=()
  shift
  while [ "$1" != -- ]; do
    inputs+=("$1")
    shift
  done
  shift
  local wanted
  wanted="$(cksum "${inputs[@]}")"
  if [ "$(cat "$stamp" 2>/dev/null || true)" != "$wanted" ]; then
    "$@"
    printf '%s\n' "$wanted" >"$stamp"
  fi
}

fetch_python() {
  python3 -m venv "$FETCHED/python/venv" || {
    echo "python3 cannot make a virtual environment (Debian: apt-get install python3-venv)" >&2
    return 1
  }
  "$FETCHED/python/venv/bin/pip" install --quiet --disable-pip-version-check \
    --requirement clients/python/requirements.txt
}

generate_python() {
  rm -rf "$FETCHED/python/generated"
  mkdir -p "$FETCHED/python/generated"
  "$FETCHED/python/venv/bin/python" -m grpc_tools.protoc --proto_path=proto \
    --python_out="$FETCHED/python/generated" --grpc_python_out="$FETCHED/python/generated" \
    proto/surety/v1/*.proto
}

case "${1:-}" in
  python)
    command -v python3 >/dev/null 2>&1 || absent python3
    mkdir -p "$FETCHED/python"
    once "$FETCHED/python/fetched" clients/python/requirements.txt -- fetch_python
    once "$FETCHED/python/generated.sum" clients/python/requirements.txt proto/surety/v1/*.proto -- \
      generate_python
    exec "$FETCHED/python/venv/bin/python" clients/python/conformance.py "$FETCHED/python/generated"
    ;;
  node)
    command -v node >/dev/null 2>&1 || absent node
    command -v npm >/dev/null 2>&1 || absent npm
    node -e 'process.exit(import.meta?.dirname ? 0 : 1)' --input-type=module || absent "node 20.11 or later"
    mkdir -p "$FETCHED"
    [ -d clients/node/node_modules ] || rm -f "$FETCHED/node.sum"
    once "$FETCHED/node.sum" clients/node/package-lock.json -- \
      npm ci --prefix clients/node --silent --no-audit --no-fund
    exec node clients/node/conformance.mjs
    ;;
  *)
    echo "usage: scripts/clients.sh python | node" >&2
    exit 64
    ;;
esac
