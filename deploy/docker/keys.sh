#!/bin/sh
# Creates the key with which each service signs, and the file of trusted keys:
#
#   surety-keys FOLDER TRUSTED_FOLDER
#
#   FOLDER/planner/key.pem, FOLDER/executor/key.pem, FOLDER/gate/key.pem     each for its own service only
#   TRUSTED_FOLDER/trusted-keys.json                                         public keys; every service reads it
#
# Keys that exist and are trusted are kept, so that it can run at every start. It needs no database and no network: a
# key is never trusted because a service registered it. To replace a key while its service runs:
#
#   docker compose run --rm keys surety keys rotate planner --key-file /var/lib/surety/keys/planner/key.pem \
#     --trusted-keys-file /var/lib/surety/trusted/trusted-keys.json
set -eu

if [ "$#" -ne 2 ]; then
  echo "usage: surety-keys FOLDER TRUSTED_FOLDER" >&2
  exit 64
fi
folder="$1"
trusted="$2/trusted-keys.json"

for service in planner executor gate; do
  surety keys make "$service" --key-file "$folder/$service/key.pem" --trusted-keys-file "$trusted"
done
