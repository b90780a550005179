# An index that agrees with the files of a view.
#
#   index.sh PRIVATE FORMAT COMMON_DIR INDEX ORIGINALS
#
# Lists of paths, each ended by a zero byte: PRIVATE/unmarked are those that git may not overlook, PRIVATE/removed those
# that it does not have, PRIVATE/original those that are as in the folder ORIGINALS. Writes the index to PRIVATE/index.
begin "$1" "$2" "$3"
[ "$4" = "$private/index" ] || take_index "$4"
originals=$5
update() {
    own --work-tree="$originals" update-index -z "$@" --stdin
}
for mark in assume-unchanged skip-worktree; do
    update --no-$mark <"$private/unmarked"
done
update --force-remove <"$private/removed"
update --add --replace <"$private/original"
