# The content of objects.
#
#   blobs.sh PRIVATE FORMAT COMMON_DIR
#
# Reads PRIVATE/wanted, a name a line such as `COMMIT:PATH`, and writes what `git cat-file --batch` says to PRIVATE/found.
begin "$1" "$2" "$3"
own cat-file --batch <"$private/wanted" >"$private/found"
