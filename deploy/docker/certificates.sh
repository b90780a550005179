#!/bin/sh
# Creates a certificate authority, and a certificate with its key for each named service:
#
#   surety-certificates AUTHORITY_FOLDER FOLDER SERVICE...
#
#   AUTHORITY_FOLDER/ca.key              the key of the authority; only this script needs it
#   FOLDER/ca.pem                        the authority, for clients
#   FOLDER/SERVICE.pem, SERVICE.key      for the host SERVICE, localhost, 127.0.0.1 and ::1
#
# Valid files are kept, so that it can run at every start. A certificate with less than 30 days left, or
# of another authority, is replaced; services load replaced files without a restart.
set -eu
umask 077

readonly AUTHORITY_DAYS=3650
readonly DAYS=397
readonly RENEWAL_SECONDS=2592000

if [ "$#" -lt 3 ]; then
  echo "usage: surety-certificates AUTHORITY_FOLDER FOLDER SERVICE..." >&2
  exit 64
fi
authority="$1"
folder="$2"
shift 2

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# run COMMAND...: shows what a command says on standard error only if it fails.
run() {
  "$@" 2>"$work/log" || {
    cat "$work/log" >&2
    echo "surety-certificates: failed: $*" >&2
    exit 1
  }
}

# key FILE: creates a key on the curve P-256.
key() { run openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"; }

# put FILE TARGET: replaces a file at once, so that a reader finds the whole old or the whole new one.
put() {
  cp "$1" "$2.new"
  mv "$2.new" "$2"
}

usable_authority() {
  [ -s "$authority/ca.key" ] && [ -s "$authority/ca.pem" ] &&
    openssl x509 -in "$authority/ca.pem" -noout -checkend "$RENEWAL_SECONDS" >/dev/null 2>&1
}

make_authority() {
  printf '%s\n' '[req]' 'distinguished_name = name' 'x509_extensions = authority' 'prompt = no' \
    '[name]' 'CN = Surety authority' \
    '[authority]' 'basicConstraints = critical, CA:TRUE' 'keyUsage = critical, keyCertSign, cRLSign' \
    'subjectKeyIdentifier = hash' >"$work/authority.cnf"
  key "$work/ca.key"
  run openssl req -x509 -new -key "$work/ca.key" -days "$AUTHORITY_DAYS" -config "$work/authority.cnf" \
    -out "$work/ca.pem"
  put "$work/ca.key" "$authority/ca.key"
  put "$work/ca.pem" "$authority/ca.pem"
  echo "surety-certificates: created an authority in $authority"
}

usable() {
  [ -s "$folder/$1.key" ] && [ -s "$folder/$1.pem" ] &&
    openssl x509 -in "$folder/$1.pem" -noout -checkend "$RENEWAL_SECONDS" >/dev/null 2>&1 &&
    openssl verify -CAfile "$authority/ca.pem" "$folder/$1.pem" >/dev/null 2>&1
}

issue() {
  printf '%s\n' 'basicConstraints = critical, CA:FALSE' 'keyUsage = critical, digitalSignature' \
    'extendedKeyUsage = serverAuth, clientAuth' \
    "subjectAltName = DNS:$1, DNS:localhost, IP:127.0.0.1, IP:::1" >"$work/$1.ext"
  printf '%s\n' '[req]' 'distinguished_name = name' 'prompt = no' '[name]' "CN = $1" >"$work/$1.cnf"
  key "$work/$1.key"
  run openssl req -new -key "$work/$1.key" -config "$work/$1.cnf" -out "$work/$1.csr"
  run openssl x509 -req -in "$work/$1.csr" -CA "$authority/ca.pem" -CAkey "$authority/ca.key" \
    -set_serial "0x$(openssl rand -hex 16)" -days "$DAYS" -extfile "$work/$1.ext" \
    -out "$work/$1.pem"
  # The key first: services refuse the pair until its certificate follows.
  put "$work/$1.key" "$folder/$1.key"
  put "$work/$1.pem" "$folder/$1.pem"
  echo "surety-certificates: issued a certificate for $1 in $folder"
}

mkdir -p "$authority" "$folder"
usable_authority || make_authority
cmp -s "$authority/ca.pem" "$folder/ca.pem" || put "$authority/ca.pem" "$folder/ca.pem"
for service in "$@"; do
  usable "$service" || issue "$service"
done
