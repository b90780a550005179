#!/usr/bin/env bash
# Checks exports of receipts with programs that others wrote: securesystemslib and in-toto-attestation of PyPI, and with
# clients/python/verify_receipts.py.
#
#   scripts/attestations.sh FOLDER KEYS [TSA_CERTIFICATE]     see clients/python/tests/attestations.py
#
# What is needed from PyPI is fetched once and kept. Exit code 77: Python is not on this machine, or PyPI does not serve
# it. On CI (the variable CI is set) that is a failure with exit code 1.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly ABSENT=77
readonly KEPT="${CARGO_TARGET_DIR:-target}/clients/attestations"
readonly WANTED=(cryptography==50.0.2 in-toto-attestation==0.9.3 protobuf==7.36.2 securesystemslib==1.6.0)

absent() {
  if [ -n "${CI:-}" ]; then
    echo "failed: $1, and CI=$CI requires it"
    exit 1
  fi
  echo "skipped: $1"
  # scripts/test.sh lists it at the end of all tests.
  [ -z "${SURETY_TEST_SKIPS:-}" ] || echo "attestations: $1" >>"$SURETY_TEST_SKIPS"
  exit "$ABSENT"
}

command -v python3 >/dev/null || absent "python3 is not installed"
if [ "$(cat "$KEPT/wanted" 2>/dev/null || true)" != "${WANTED[*]}" ]; then
  rm -rf "$KEPT"
  mkdir -p "$(dirname "$KEPT")"
  python3 -m venv "$KEPT" || absent "python3 cannot make a virtual environment"
  "$KEPT/bin/pip" install --quiet --disable-pip-version-check --only-binary=:all: "${WANTED[@]}" ||
    absent "PyPI does not serve ${WANTED[*]}"
  printf '%s' "${WANTED[*]}" >"$KEPT/wanted"
fi
exec "$KEPT/bin/python" clients/python/tests/attestations.py "$@"
