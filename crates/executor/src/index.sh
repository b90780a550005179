# An index that agrees with the files of a view.
#
#   index.sh INDEX PRIVATE FORMAT ORIGINALS
#
# Lists of paths, each ended by a zero byte: PRIVATE/unmarked are those that git may not overlook, PRIVATE/removed those
# that it does not have, PRIVATE/original those that are as in the folder ORIGINALS. Writes the index to PRIVATE/index.
set -eu
index=$1 private=$2 format=$3 originals=$4
export GIT_TERMINAL_PROMPT=0 GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_CONFIG_NOSYSTEM=1

mkdir -p "$private/objects" "$private/refs"
echo 'ref: refs/heads/none' >"$private/HEAD"
printf '[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = %s\n' "$format" >"$private/config"
[ "$index" = "$private/index" ] || cp "$index" "$private/index"
update() {
    git --git-dir="$private" --work-tree="$originals" update-index -z "$@" --stdin
}
for mark in assume-unchanged skip-worktree; do
    update --no-$mark <"$private/unmarked"
done
update --force-remove <"$private/removed"
update --add --replace <"$private/original"
