# Counts the changed lines of each file between two commits: difference START COMMIT
own diff-tree -r -z --numstat --no-renames --no-ext-diff --no-textconv "$1" "$2"
