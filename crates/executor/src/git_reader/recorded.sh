# How a later commit and an index differ from a commit.
#
#   recorded.sh PRIVATE FORMAT COMMON_DIR OLD NEW INDEX
#
# Writes git's raw differences, whose parts end with zero bytes, to PRIVATE/of_commit and PRIVATE/of_index. Everything differs
# from an OLD that is empty, or that the repository no longer has. An empty NEW, and an INDEX that is no file, are not
# compared.
begin "$1" "$2" "$3"
old=$4 new=$5 index=$6
# Its commands are one condition, because `set -e` does not act inside a condition.
compare() {
    : >"$private/of_commit" && : >"$private/of_index" &&
        { [ -z "$new" ] || raw diff-tree -r "$old" "$new" >"$private/of_commit"; } &&
        { [ ! -f "$index" ] || raw diff-index --cached "$old" >"$private/of_index"; }
}
raw() {
    command=$1
    shift
    own "$command" --raw -z --no-renames --no-abbrev "$@"
}
[ ! -f "$index" ] || take_index "$index"
if [ -z "$old" ] || ! compare 2>/dev/null; then
    old=$(own hash-object -t tree -w /dev/null)
    compare
fi
