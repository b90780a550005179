# Moves a reference of the repository from OLD to NEW, unless another process moved it: push URL REF OLD NEW [GONE]
#
# An empty OLD: the reference is not there. GONE is a reference that is deleted. A branch is never moved away from its
# commit: that is said as git says it.
url=$1 ref=$2 old=$3 new=$4 gone=${5-}
case $ref in
refs/heads/*)
  if [ -n "$old" ] && ! own merge-base --is-ancestor "$old" "$new"; then
    printf '!\t%s:%s\t[rejected] (non-fast-forward)\n' "$new" "$ref"
    exit 1
  fi
  ;;
esac
if [ -n "$gone" ]; then set -- "$new:$ref" ":$gone"; else set -- "$new:$ref"; fi
own push --porcelain --no-verify --no-signed --no-recurse-submodules --force-with-lease="$ref:$old" -- "$url" "$@"
