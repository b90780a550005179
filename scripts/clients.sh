#!/usr/bin/env bash
# Runs a client in another language against live services.
#
#   scripts/clients.sh python | typescript  every conformance row; `node` is the same as typescript
#   scripts/clients.sh python-package [TEST...]
#   scripts/clients.sh typescript-package [TEST...]
#                                           the tests of the package in clients/python or clients/typescript
#                                           and its examples, or the named modules of its tests
#   scripts/clients.sh python-program | typescript-program NAME ARGUMENT...
#                                           a program among the tests of the package, instead of this script
#   scripts/clients.sh prepare python | typescript
#                                           only fetches and builds what these need
#
# SURETY_PLANNER, SURETY_EXECUTOR and SURETY_GATE are the addresses (host:port) of the services, and
# SURETY_TOKEN is a token that they know; the tests of packages read SURETY_URL, SURETY_EXECUTOR_URL and
# SURETY_TOKEN_FILE. The test `clients` starts some. What is needed from PyPI or npm is fetched once and
# kept; after that nothing goes to the network. Every run checks the package, builds its archive (sdist and wheel, or
# what npm packs), and uses what was installed from it into an empty environment. Exit code 77: the language is not on
# this machine, or its registry does not serve what the last line names. With CI=true that is a failure with exit
# code 1, so that CI cannot pass without having run the suite.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly ABSENT=77
readonly FETCHED="${CARGO_TARGET_DIR:-target}/clients"

absent() {
  if [ -n "${CI:-}" ]; then
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

# One process at a time works on a package, until `exec 9>&-`.
alone_in() {
  mkdir -p "$1"
  if command -v flock >/dev/null 2>&1; then
    exec 9>"$1/lock"
    flock 9
  fi
}

# What a package is built from: sets `inputs`.
inputs_of() {
  inputs=(scripts/clients.sh LICENSE)
  local file
  while IFS= read -r -d '' file; do inputs+=("$file"); done < <(
    find "$1" proto/surety/v1 -type f -not -path '*/.*' -not -path '*/__pycache__/*' -not -path '*/node_modules/*' \
      -not -path '*/dist/*' -not -path '*/generated/*' -not -path "$1/LICENSE" -print0 | sort -z)
}

# The package is ready in $PYTHON/installed.
prepare_python() {
  command -v python3 >/dev/null 2>&1 || absent "python3 is not on this machine"
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || absent "python3 is older than 3.10"
  alone_in "$PYTHON"
  local inputs
  inputs_of clients/python
  once "$PYTHON/fetched" clients/python/requirements.txt -- fetch_python
  once "$PYTHON/built" "${inputs[@]}" -- build_python
  exec 9>&-
}

readonly NODE="$FETCHED/typescript"
readonly PACKAGE=clients/typescript

# npm without its notices, and with a cache that holds what the empty environment needs.
quiet_npm() {
  npm "$@" --silent --no-audit --no-fund --ignore-scripts --cache "$NODE/cache"
}

# The tools of the package, and what it needs at run time in the cache.
fetch_typescript() {
  quiet_npm ci --prefix "$PACKAGE" || absent "npm does not serve what $PACKAGE/package-lock.json needs"
  rm -rf "$NODE/needs"
  mkdir "$NODE/needs"
  quiet_npm install --install-links --prefix "$NODE/needs" "$(pwd -P)/$PACKAGE" @opentelemetry/api zod ||
    absent "npm does not serve what $PACKAGE/package.json needs"
}

# Checks the package, packs it, and installs the archive without network where nothing else is. The tests are compiled
# there, against what was installed.
build_typescript() {
  local tools="$PACKAGE/node_modules/.bin" installed="$NODE/installed" package
  package="$(pwd -P)/$PACKAGE"
  rm -rf "$NODE/dist" "$installed"
  mkdir "$NODE/dist" "$installed"
  npm pack --silent --prefix "$PACKAGE" --pack-destination "$(cd "$NODE/dist" && pwd -P)" "$package" >"$NODE/build.log" 2>&1 || {
    cat "$NODE/build.log" >&2
    return 1
  }
  npm run --silent --prefix "$PACKAGE" lint
  printf '{ "private": true, "type": "module" }\n' >"$installed/package.json"
  quiet_npm install --offline --prefix "$installed" "$NODE"/dist/surety-client-*.tgz @opentelemetry/api zod
  cp -R "$PACKAGE/tests" "$PACKAGE/examples" "$installed"
  printf '{ "extends": "%s/tsconfig.json",
    "compilerOptions": { "noEmit": false, "paths": {}, "typeRoots": ["%s/node_modules/@types"] },
    "include": ["tests", "examples"] }\n' "$package" "$package" >"$installed/tsconfig.json"
  "$tools/tsc" --project "$installed"
}

# The package and its compiled tests are ready in $NODE/installed.
prepare_typescript() {
  command -v node >/dev/null 2>&1 || absent "node is not on this machine"
  command -v npm >/dev/null 2>&1 || absent "npm is not on this machine"
  node -e 'process.exit(import.meta?.dirname ? 0 : 1)' --input-type=module || absent "node is older than 20.11"
  alone_in "$NODE"
  local inputs
  inputs_of "$PACKAGE"
  [ -d "$PACKAGE/node_modules" ] || rm -f "$NODE/fetched"
  once "$NODE/fetched" "$PACKAGE/package.json" "$PACKAGE/package-lock.json" -- fetch_typescript
  once "$NODE/built" "${inputs[@]}" -- build_typescript
  exec 9>&-
}

case "${1:-}" in
  prepare)
    "prepare_${2:?usage: scripts/clients.sh prepare python | typescript}"
    ;;
  python)
    prepare_python
    exec "$PYTHON/installed/bin/python" clients/python/tests/conformance.py
    ;;
  python-package)
    prepare_python
    shift
    [ "$#" -gt 0 ] || set -- test_client test_driver test_worker test_tools
    status=0
    said="$(PYTHONPATH=clients/python/tests "$PYTHON/installed/bin/python" -m unittest "$@" 2>&1)" || status=$?
    printf '%s\npackage: %s\n' "$said" "$(grep '^Ran ' <<<"$said" || echo 'the tests did not run')"
    exit "$status"
    ;;
  python-program)
    prepare_python
    exec "$PYTHON/installed/bin/python" "clients/python/tests/$2.py" "${@:3}"
    ;;
  typescript-program)
    prepare_typescript
    exec node "$NODE/installed/tests/$2.js" "${@:3}"
    ;;
  typescript | node)
    prepare_typescript
    exec node "$NODE/installed/tests/conformance.js"
    ;;
  typescript-package)
    prepare_typescript
    shift
    [ "$#" -gt 0 ] || set -- settings.test client.test driver.test worker.test tools.test
    files=()
    for name in "$@"; do files+=("$NODE/installed/tests/$name.js"); done
    status=0
    said="$(node --test --test-reporter=spec --test-timeout=300000 "${files[@]}" 2>&1)" || status=$?
    printf '%s\npackage: %s\n' "$said" "$(grep -E '^. (tests|pass) ' <<<"$said" | tr '\n' ' ')"
    exit "$status"
    ;;
  *)
    echo "usage: scripts/clients.sh python | typescript | python-package [TEST...] | typescript-package [TEST...] |" \
      "python-program NAME ARGUMENT... | typescript-program NAME ARGUMENT... | prepare python | prepare typescript" >&2
    exit 64
    ;;
esac
