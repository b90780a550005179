# A commit like another one, with some files as they are in a folder.
#
#   commit.sh PRIVATE FORMAT COMMON_DIR COMMIT ORIGINALS
#
# Lists of paths, each ended by a zero byte: PRIVATE/removed are those that the commit does not have, PRIVATE/original those
# that it has as in the folder ORIGINALS. Writes its name to PRIVATE/made, and what git has to store for it to a pack in
# PRIVATE/pack. Where it would be the same commit, there is neither a name nor a pack.
begin "$1" "$2" "$3"
commit=$4 originals=$5
own read-tree "$commit"
own --work-tree="$originals" update-index -z --force-remove --stdin <"$private/removed"
own --work-tree="$originals" update-index -z --add --replace --stdin <"$private/original"
tree=$(own write-tree --missing-ok)
: >"$private/made"
[ "$tree" != "$(own rev-parse --verify -q "$commit^{tree}")" ] || exit 0
own cat-file commit "$commit" | sed "1s/^tree .*/tree $tree/" >"$private/text"
own hash-object -t commit -w "$private/text" >"$private/made"
mkdir -p "$private/pack"
cd "$private/objects"
find . -type f -path './??/*' | sed 's,^\./\(..\)/,\1,' |
    own pack-objects -q "$private/pack/pack" >/dev/null
