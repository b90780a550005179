# What every script of a run's repository begins with. The first argument is the folder of the clone:
#
#   config  what git is told; nothing of the machine, of a person or of the workspace has an effect
#   git     the runner's own repository, which no command of the run sees
#   tree    the workspace of the run, with a repository of its own that only the run's commands use
set -eu
umask 022
clone=$1
shift
cd "$clone"
export GIT_CONFIG_GLOBAL="$clone/config" GIT_CONFIG_SYSTEM=/dev/null GIT_CONFIG_NOSYSTEM=1
export GIT_TERMINAL_PROMPT=0 GIT_OPTIONAL_LOCKS=0 GIT_NO_REPLACE_OBJECTS=1 GIT_NO_LAZY_FETCH=1 LC_ALL=C
own() { git --git-dir="$clone/git" "$@"; }
