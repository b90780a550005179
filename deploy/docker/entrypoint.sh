#!/bin/sh
# Creates the token of the services and their callers unless it exists, then becomes the command.
# Services that share the folder start at once: the link is atomic, so one of them creates the token
# and the others find it.
set -eu

token="${SURETY_TOKEN_FILE:-}"
if [ -n "$token" ] && [ ! -e "$token" ]; then
  umask 077
  made="$(mktemp "$(dirname "$token")/.token.XXXXXX")"
  od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n' >"$made"
  ln "$made" "$token" 2>/dev/null || [ -e "$token" ] || {
    echo "surety-entrypoint: cannot write $token; mount a file or a folder that uid $(id -u) may write" >&2
    exit 1
  }
  rm -f "$made"
fi

exec "$@"
