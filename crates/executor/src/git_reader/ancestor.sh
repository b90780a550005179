# Whether a commit is an ancestor of another one.
#
#   ancestor.sh PRIVATE FORMAT COMMON_DIR OLD NEW
#
# Exit code 1: it is none.
begin "$1" "$2" "$3"
if [ -f "$3/shallow" ]; then cp "$3/shallow" "$private/shallow"; fi
own merge-base --is-ancestor "$4" "$5"
