# Prints the message of a commit of the repository: message URL COMMIT
own cat-file -e "$2^{commit}" 2>/dev/null ||
  own fetch --quiet --no-tags --no-recurse-submodules --no-write-fetch-head --depth=1 -- "$1" "$2"
own log -1 --format=%B "$2"
