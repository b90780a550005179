# Reads one revision of a repository without any of its hooks, filters, attributes of a person or
# replaced objects: a private repository borrows the objects and has a configuration of its own.
#
#   checkout.sh GIT_DIR COMMON_DIR REVISION PRIVATE TREE
#
# Prints the commit. Exit code 3: no commit has that name. Exit code 4: an object is not what its name is the digest of.
# Exit code 5: HEAD is a branch without a commit.
set -eu
git_dir=$1 common=$2 revision=$3 private=$4 tree=$5
# Names are bytes, whatever the locale says.
export LC_ALL=C GIT_NO_REPLACE_OBJECTS=1 GIT_NO_LAZY_FETCH=1 GIT_TERMINAL_PROMPT=0 GIT_OPTIONAL_LOCKS=0

# A repository may name a work tree, which is not there in the sandbox.
original() { git --git-dir="$git_dir" --work-tree=/ "$@"; }
# known COMMAND...: prints what a name stands for.
known() {
  if "$@" 2>"$private/said"; then return; else code=$?; fi
  if grep -q 'hash mismatch' "$private/said"; then
    sed -n 's/.*hash mismatch \([0-9a-f]*\).*/\1 missing/p' "$private/said" >&2
    exit 4
  fi
  if [ "$code" -eq 1 ]; then
    if [ "$revision" = HEAD ] && original symbolic-ref --quiet HEAD >"$private/said"; then exit 5; fi
    exit 3
  fi
  cat "$private/said" >&2
  exit "$code"
}
mkdir -p "$private"
# What follows a name, as ~1 does, is read from objects: it waits until these are known to be genuine.
name=${revision%%[~^]*} steps=${revision#"${revision%%[~^]*}"}
object=$(known original rev-parse --quiet --verify --end-of-options "$name")
format=$(original config --get extensions.objectformat || echo sha1)
autocrlf=$(original config --get core.autocrlf || echo false)
eol=$(original config --get core.eol || echo native)

# git compares no object with its name when it reads one. So each object of the revision is copied, and named anew by
# its content; nothing else is read afterwards.
source=$private/source
mkdir -p "$private/objects" "$private/refs" "$private/info" "$source/objects/info" "$source/refs" "$tree"
echo 'ref: refs/heads/none' >"$private/HEAD"
{
  printf '[core]\n\trepositoryformatversion = 1\n\tbare = false\n'
  printf '\tautocrlf = %s\n\teol = %s\n[extensions]\n\tobjectformat = %s\n' "$autocrlf" "$eol" "$format"
} >"$private/config"
cp "$private/HEAD" "$private/config" "$source"
printf '%s/objects\n' "$common" >"$source/objects/info/alternates"
if [ -f "$common/info/attributes" ]; then cp "$common/info/attributes" "$private/info/attributes"; fi

export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_CONFIG_NOSYSTEM=1
commit=$(known git --git-dir="$source" rev-parse --quiet --verify --end-of-options "$object$steps^{commit}")
{
  echo "$object"
  if [ -n "$steps" ]; then git --git-dir="$source" rev-list "$object" --not "$commit"; fi
  git --git-dir="$source" rev-list --objects --no-walk "$commit"
} >"$private/named"
git --git-dir="$source" pack-objects --stdout --window=0 -q <"$private/named" >"$private/copied"
git --git-dir="$private" index-pack --stdin <"$private/copied" >"$private/indexed"
rm "$private/copied"
sed 's/ .*//' "$private/named" | git --git-dir="$private" cat-file --batch-check >"$private/found"
if grep ' missing$' "$private/found" >&2; then exit 4; fi
genuine=$(git --git-dir="$private" rev-parse --quiet --verify "$object$steps^{commit}") || genuine=none
if [ "$genuine" != "$commit" ]; then
  echo "$object missing" >&2
  exit 4
fi

export GIT_DIR="$private" GIT_WORK_TREE="$tree"
git read-tree --reset -u "$commit"
git ls-files --eol --stage -z >"$private/list"
echo "$commit"
