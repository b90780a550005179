# Objects of a repository whose content is not what their names say.
#
#   objects.sh PRIVATE FORMAT COMMON_DIR
#
# Reads PRIVATE/wanted, one `OBJECT^{object}` a line, and PRIVATE/packs, one name of a pack a line. Writes what git says of
# the objects to PRIVATE/found, `NAME missing` where it does not read one, and the packs that do not read to PRIVATE/broken.
begin "$1" "$2" "$3"
own cat-file --batch-check <"$private/wanted" >"$private/found" 2>/dev/null
: >"$private/broken"
while IFS= read -r pack; do
    own verify-pack "$3/objects/pack/$pack" >/dev/null 2>&1 || printf '%s\n' "$pack" >>"$private/broken"
done <"$private/packs"
