# Files of a commit, by the objects of a repository alone.
#
#   blobs.sh COMMON_DIR COMMIT PRIVATE
#
# Reads PRIVATE/wanted, one `COMMIT:PATH` a line, and writes what `git cat-file --batch` says to PRIVATE/found.
set -eu
common=$1 commit=$2 private=$3
# Names are bytes, whatever the locale says.
export LC_ALL=C GIT_NO_REPLACE_OBJECTS=1 GIT_NO_LAZY_FETCH=1 GIT_TERMINAL_PROMPT=0 GIT_OPTIONAL_LOCKS=0
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_CONFIG_NOSYSTEM=1

case ${#commit} in 64) format=sha256 ;; *) format=sha1 ;; esac
mkdir -p "$private/objects/info" "$private/refs"
echo 'ref: refs/heads/none' >"$private/HEAD"
printf '[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = %s\n' "$format" >"$private/config"
printf '%s/objects\n' "$common" >"$private/objects/info/alternates"
git --git-dir="$private" cat-file --batch <"$private/wanted" >"$private/found"
