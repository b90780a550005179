# What the scripts beside this one begin with: git over the objects of a repository alone.

# Names are bytes, whatever the locale says.
export LC_ALL=C GIT_NO_REPLACE_OBJECTS=1 GIT_NO_LAZY_FETCH=1 GIT_TERMINAL_PROMPT=0 GIT_OPTIONAL_LOCKS=0
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_CONFIG_NOSYSTEM=1

# A repository of its own in a folder, with the names of objects in this format, that reads the objects of another one.
begin() {
    private=$1 format=$2 common=$3
    mkdir -p "$private/objects/info" "$private/refs"
    echo 'ref: refs/heads/none' >"$private/HEAD"
    printf '[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = %s\n' "$format" >"$private/config"
    printf '%s/objects\n' "$common" >"$private/objects/info/alternates"
}

own() {
    git --git-dir="$private" "$@"
}

# A copy of an index, whole where it is split.
take_index() {
    cp "$1" "$private/index"
    for shared in "${1%/*}"/sharedindex.*; do
        [ ! -f "$shared" ] || cp "$shared" "$private/"
    done
    own update-index --no-split-index
}
