# Whether a commit is an ancestor of another one, by the objects of a repository alone.
#
#   ancestor.sh COMMON_DIR OLD NEW PRIVATE
#
# Exit code 1: it is none.
set -eu
common=$1 old=$2 new=$3 private=$4
# Names are bytes, whatever the locale says.
export LC_ALL=C GIT_NO_REPLACE_OBJECTS=1 GIT_NO_LAZY_FETCH=1 GIT_TERMINAL_PROMPT=0 GIT_OPTIONAL_LOCKS=0
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_CONFIG_NOSYSTEM=1

case ${#old} in 64) format=sha256 ;; *) format=sha1 ;; esac
mkdir -p "$private/objects/info" "$private/refs"
echo 'ref: refs/heads/none' >"$private/HEAD"
printf '[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = %s\n' "$format" >"$private/config"
printf '%s/objects\n' "$common" >"$private/objects/info/alternates"
if [ -f "$common/shallow" ]; then cp "$common/shallow" "$private/shallow"; fi
git --git-dir="$private" merge-base --is-ancestor "$old" "$new"
