# Fetches a commit of the repository where the clone lacks it: fetch URL COMMIT
own cat-file -e "$2^{commit}" 2>/dev/null ||
  own fetch --quiet --no-tags --no-recurse-submodules --no-write-fetch-head --depth=1 -- "$1" "$2"
