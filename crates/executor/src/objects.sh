# Objects of a repository whose content is not what their names say.
#
#   objects.sh COMMON_DIR PRIVATE FORMAT
#
# Reads PRIVATE/wanted, one `OBJECT^{object}` a line, and PRIVATE/packs, one name of a pack a line. Writes what git says of
# the objects to PRIVATE/found, `NAME missing` where it does not read one, and the packs that do not read to PRIVATE/broken.
set -eu
common=$1 private=$2 format=$3
export GIT_NO_REPLACE_OBJECTS=1 GIT_NO_LAZY_FETCH=1 GIT_TERMINAL_PROMPT=0 GIT_OPTIONAL_LOCKS=0
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_CONFIG_NOSYSTEM=1

mkdir -p "$private/objects/info" "$private/refs"
echo 'ref: refs/heads/none' >"$private/HEAD"
printf '[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = %s\n' "$format" >"$private/config"
printf '%s/objects\n' "$common" >"$private/objects/info/alternates"
git --git-dir="$private" cat-file --batch-check <"$private/wanted" >"$private/found" 2>/dev/null
: >"$private/broken"
while IFS= read -r pack; do
    git --git-dir="$private" verify-pack "$common/objects/pack/$pack" >/dev/null 2>&1 || printf '%s\n' "$pack" >>"$private/broken"
done <"$private/packs"
