# How a later commit and an index differ from a commit.
#
#   recorded.sh PRIVATE FORMAT COMMON_DIR OLD NEW INDEX
#
# Writes git's raw differences, whose parts end with zero bytes, to PRIVATE/of_commit and PRIVATE/of_index. An INDEX that is
# no file is not compared.
begin "$1" "$2" "$3"
own diff-tree -r --raw -z --no-renames --no-abbrev "$4" "$5" >"$private/of_commit"
: >"$private/of_index"
if [ -f "$6" ]; then
    cp "$6" "$private/index"
    own diff-index --cached --raw -z --no-renames --no-abbrev "$4" >"$private/of_index"
fi
