# Makes a commit of the files of FROM with the changes in entries.bin, on top of HEAD: commit FROM HEAD
#
# Prints the commit; HEAD itself where the files are the same.
from=$1 head=$2
export GIT_INDEX_FILE="$clone/git/index"
export GIT_AUTHOR_NAME=Surety GIT_AUTHOR_EMAIL=surety@localhost
export GIT_COMMITTER_NAME=Surety GIT_COMMITTER_EMAIL=surety@localhost
own read-tree "$from"
own update-index -z --index-info <entries.bin
tree=$(own write-tree)
if [ "$tree" = "$(own rev-parse "$head^{tree}")" ]; then
  echo "$head"
else
  own commit-tree "$tree" -p "$head" -F message.txt
fi
