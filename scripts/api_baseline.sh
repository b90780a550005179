#!/usr/bin/env bash
# Compares the API with its baseline, proto/baseline.binpb, or writes the baseline anew.
#
#   scripts/api_baseline.sh check | update
#
# The baseline is an image of every call that is served and of what these calls carry. Calls that
# proto/not_served.txt names are outside, and so are the messages that only they carry.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly BUF=tools/buf/node_modules/.bin/buf
readonly BASELINE=proto/baseline.binpb

# The names of what a baseline holds, one a line: every served call, and the enum of error reasons, which
# no call names.
served() {
  # shellcheck disable=SC2016 # The dollar signs belong to the program in JavaScript.
  "$BUF" build proto --exclude-source-info -o '-#format=json' | node -e '
    const { file } = JSON.parse(require("fs").readFileSync(0, "utf8"));
    const notServed = require("fs").readFileSync("proto/not_served.txt", "utf8").split("\n");
    for (const { package: name, service = [] } of file)
      for (const { name: service_name, method = [] } of service)
        for (const { name: method_name } of method)
          if (name === "surety.v1" && !notServed.includes(`${name}.${service_name}/${method_name}`))
            console.log(`${name}.${service_name}.${method_name}`);
    console.log("surety.v1.ErrorReason");'
}

case "${1:-}" in
  check) exec "$BUF" breaking proto --against "$BASELINE" ;;
  update)
    types=()
    while IFS= read -r name; do types+=(--type "$name"); done < <(served)
    exec "$BUF" build proto --exclude-source-info "${types[@]}" -o "$BASELINE"
    ;;
  *)
    echo "usage: scripts/api_baseline.sh check | update" >&2
    exit 64
    ;;
esac
