#!/usr/bin/env bash
# Runs a client in another language against live services.
#
#   scripts/clients.sh python | node        every conformance row
#   scripts/clients.sh python-package [TEST...]
#                                           the tests of the package in clients/python and its example, or
#                                           the named modules of its tests
#
# SURETY_PLANNER, SURETY_EXECUTOR and SURETY_GATE are the addresses (host:port) of the services, and
# SURETY_TOKEN is a token that they know; python-package reads SURETY_URL, SURETY_EXECUTOR_URL and
# SURETY_TOKEN_FILE. The test `clients` starts some. What is needed from PyPI or npm is fetched once and
# kept; after that nothing goes to the network. Both Python runs check the package, build its sdist and its
# wheel, and use what was installed from the wheel into an empty environment. Exit code 77: the language is not on this
# machine, or its registry does not serve what the last line names. With CI=true that is a failure with exit
# code 1, so that CI cannot pass without having run the suite.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly ABSENT=77
readonly FETCHED="${CARGO_TARGET_DIR:-target}/clients"

absent() {
  if [ "${CI:-}" = true ]; then
    echo "failed: $1, and CI=true requires it"
    exit 1
  fi
  echo "skipped: $1"
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

readonly PYTHON="$FETCHED/python"

# The tools of the package with what it needs at run time, as wheels that are kept.
fetch_python() {
  rm -rf "$PYTHON/venv" "$PYTHON/wheels"
  python3 -m venv "$PYTHON/venv" ||
    absent "python3 cannot make a virtual environment (Debian: apt-get install python3-venv)"
  local pip="$PYTHON/venv/bin/pip" wanted
  if ! "$pip" download --quiet --disable-pip-version-check --only-binary=:all: \
    --dest "$PYTHON/wheels" --requirement clients/python/requirements.txt; then
    while read -r wanted; do
      "$pip" download --quiet --disable-pip-version-check --only-binary=:all: --no-deps \
        --dest "$PYTHON/wheels" "$wanted" || absent "PyPI does not serve $wanted"
    done <clients/python/requirements.txt
    absent "PyPI does not serve what clients/python/requirements.txt needs"
  fi
  "$pip" install --quiet --disable-pip-version-check --no-index --find-links "$PYTHON/wheels" \
    --requirement clients/python/requirements.txt
}

# Checks the package, builds its archives, and installs the wheel without network where nothing else is.
build_python() {
  local tools="$PYTHON/venv/bin" sources
  "$tools/ruff" check --no-cache --quiet clients/python
  "$tools/ruff" format --no-cache --quiet --check clients/python
  rm -rf "$PYTHON/dist" "$PYTHON/sources" "$PYTHON/installed"
  "$tools/python" -m build --no-isolation --outdir "$PYTHON/dist" clients/python >"$PYTHON/build.log" 2>&1 || {
    cat "$PYTHON/build.log" >&2
    return 1
  }
  mkdir "$PYTHON/sources"
  tar --extract --gzip --strip-components 1 --directory "$PYTHON/sources" --file "$PYTHON"/dist/surety-*.tar.gz
  sources="$(cd "$PYTHON/sources" && pwd -P)"
  "$tools/mypy" --strict --no-error-summary --cache-dir "$PYTHON/mypy" \
    --config-file "$sources/pyproject.toml" "$sources/src" "$sources/examples"
  python3 -m venv "$PYTHON/installed"
  "$PYTHON/installed/bin/pip" install --quiet --disable-pip-version-check --no-index \
    --find-links "$PYTHON/wheels" --find-links "$PYTHON/dist" 'surety[otel]'
  "$PYTHON/installed/bin/python" -I -c 'import surety, surety.v1.run_service_pb2_grpc; surety.Client'
}

# The package is ready in $PYTHON/installed. One process at a time works on it.
prepare_python() {
  command -v python3 >/dev/null 2>&1 || absent "python3 is not on this machine"
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || absent "python3 is older than 3.10"
  mkdir -p "$PYTHON"
  if command -v flock >/dev/null 2>&1; then
    exec 9>"$PYTHON/lock"
    flock 9
  fi
  local inputs=()
  while IFS= read -r -d '' file; do inputs+=("$file"); done < <(
    find clients/python proto/surety/v1 -type f -not -path '*/.*' -not -path '*/__pycache__/*' -print0 | sort -z)
  once "$PYTHON/fetched" clients/python/requirements.txt -- fetch_python
  once "$PYTHON/built" scripts/clients.sh LICENSE "${inputs[@]}" -- build_python
  exec 9>&-
}

case "${1:-}" in
  python)
    prepare_python
    exec "$PYTHON/installed/bin/python" clients/python/tests/conformance.py
    ;;
  python-package)
    prepare_python
    shift
    [ "$#" -gt 0 ] || set -- test_client test_driver
    status=0
    said="$(PYTHONPATH=clients/python/tests "$PYTHON/installed/bin/python" -m unittest "$@" 2>&1)" || status=$?
    printf '%s\npackage: %s\n' "$said" "$(grep '^Ran ' <<<"$said" || echo 'the tests did not run')"
    exit "$status"
    ;;
  node)
    command -v node >/dev/null 2>&1 || absent "node is not on this machine"
    command -v npm >/dev/null 2>&1 || absent "npm is not on this machine"
    node -e 'process.exit(import.meta?.dirname ? 0 : 1)' --input-type=module || absent "node is older than 20.11"
    mkdir -p "$FETCHED"
    [ -d clients/node/node_modules ] || rm -f "$FETCHED/node.sum"
    once "$FETCHED/node.sum" clients/node/package-lock.json -- \
      npm ci --prefix clients/node --silent --no-audit --no-fund
    exec node clients/node/conformance.mjs
    ;;
  *)
    echo "usage: scripts/clients.sh python | python-package [TEST...] | node" >&2
    exit 64
    ;;
esac
