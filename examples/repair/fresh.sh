#!/usr/bin/env bash
# Makes a fresh copy of the example project as a git repository with one commit.
#
#   examples/repair/fresh.sh FOLDER      (which must not exist, or be empty)
set -euo pipefail

if [ "$#" -ne 1 ]; then
  echo "usage: $0 FOLDER" >&2
  exit 64
fi
if [ -e "$1" ] && [ -n "$(ls -A "$1")" ]; then
  echo "$0: $1 is not empty; name a new folder" >&2
  exit 73
fi

# A caller's own repository (a hook sets these) must not be the one that is written.
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE

here="$(cd "$(dirname "$0")" && pwd -P)"
mkdir -p "$1"
cp -R "$here/project/." "$1/"
rm -rf "$1/target"
cd "$1"
git init -q
git symbolic-ref HEAD refs/heads/main
git config user.name "Surety example"
git config user.email "example@localhost"
git config commit.gpgsign false
git config core.hooksPath /dev/null
git add -A
git commit -q -m "The project as its users have it"
