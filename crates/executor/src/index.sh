# An index without the marks by which git overlooks what the files of some paths are.
#
#   index.sh INDEX PRIVATE FORMAT
#
# Reads PRIVATE/paths, each ended by a zero byte, and writes the index to PRIVATE/index.
set -eu
index=$1 private=$2 format=$3
export GIT_TERMINAL_PROMPT=0 GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_CONFIG_NOSYSTEM=1

mkdir -p "$private/objects" "$private/refs"
echo 'ref: refs/heads/none' >"$private/HEAD"
printf '[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = %s\n' "$format" >"$private/config"
cp "$index" "$private/index"
for mark in assume-unchanged skip-worktree; do
    git --git-dir="$private" --work-tree="$private" update-index -z --no-$mark --stdin <"$private/paths"
done
