# Fetches the start of a run and the commit to go on from, and writes the files of the latter:
#
#   open URL LIMIT_KIB START TARGET BRANCH
#
# Exit code 4: the clone is larger than the limit.
url=$1 limit=$2 start=$3 target=$4 branch=$5
case ${#start} in 64) format=sha256 ;; *) format=sha1 ;; esac
git init --quiet --bare --template= --object-format="$format" git
mkdir -p git/info tree
# Files are written and stored byte by byte, so that a commit has exactly the files that were judged.
echo '* -text -ident !filter !working-tree-encoding' >git/info/attributes

fetch() {
  own fetch --quiet --no-tags --no-recurse-submodules --no-write-fetch-head --depth=1 -- "$url" "$1" 2>said && return
  cat said >&2
  # An older server gives no commit by its name: then everything that it lists is fetched.
  grep -q 'unadvertised object' said || return 1
  own fetch --quiet --no-tags --no-recurse-submodules --no-write-fetch-head -- "$url" '+refs/*:refs/all/*'
}
for commit in "$start" "$target"; do
  own cat-file -e "$commit^{commit}" 2>/dev/null || fetch "$commit"
  own update-ref "refs/kept/$commit" "$commit"
done
GIT_INDEX_FILE=git/index git --git-dir="$clone/git" --work-tree="$clone/tree" read-tree --reset -u "$target"

# The repository of the workspace has the start alone, and neither an address nor a credential. It is the same in
# every clone of the run.
steps() { git --git-dir="$clone/tree/.git" --work-tree="$clone/tree" -c protocol.file.allow=always "$@"; }
git init --quiet --template= --object-format="$format" tree
steps fetch --quiet --no-tags --no-write-fetch-head --depth=1 -- "$clone/git" "refs/kept/$start"
if [ -n "$branch" ]; then
  steps symbolic-ref HEAD "refs/heads/$branch"
  steps update-ref "refs/heads/$branch" "$start"
else
  steps update-ref --no-deref HEAD "$start"
fi
(cd tree && steps read-tree "$start" && { steps update-index -q --refresh >/dev/null 2>&1 || :; })
[ "$(du -sk . | cut -f 1)" -le "$limit" ] || exit 4
