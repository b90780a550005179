# Moves a reference of the repository from OLD to NEW, unless another process moved it: push URL REF OLD NEW [GONE]
#
# An empty OLD: the reference is not there. GONE is a reference that is deleted.
url=$1 ref=$2 old=$3 new=$4 gone=${5-}
if [ -n "$gone" ]; then set -- "$new:$ref" ":$gone"; else set -- "$new:$ref"; fi
own push --porcelain --no-verify --no-signed --no-recurse-submodules --force-with-lease="$ref:$old" -- "$url" "$@"
