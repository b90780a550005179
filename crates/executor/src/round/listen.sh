# Runs a line, and prints behind its output what programs of it said, wherever the line sends that: to a file, to another
# program, or nowhere. Of which: all, or those that failed.
#
#   sh -c SCRIPT listen LINE MARK all|failed

line=$1 mark=$2 which=$3
shell=$(command -v sh)
here=$(mktemp -d) || exec "$shell" -c "$line"
mkdir "$here/bin"
: >"$here/said"

# What is started in the place of a program.
cat >"$here/instead" <<'END'
# Where all are heard, runners that need an argument for it name each test.
if [ "$which" = all ]; then
    before='' due='' left=$#
    while [ "$left" -gt 0 ]; do
        word=$1 left=$((left - 1))
        shift
        case $due:$word in yes:discover) ;; yes:*) set -- "$@" -v && due='' ;; esac
        set -- "$@" "$word"
        [ "$due" = '' ] || { set -- "$@" -v && due=''; }
        case "$before $word ${program##*/}" in "-m unittest python"* | " test go") due=yes ;; esac
        before=$word
    done
    [ "$due" = '' ] || set -- "$@" -v
fi
# A shell below a heard interpreter is a part of it, as those with which a manager of versions starts it.
case ${program##*/} in
bash | dash | ksh | sh | zsh) [ -z "$surety_heard" ] || exec "$program" "$@" ;;
gmake | just | make | ninja) ;;
*) export surety_heard=yes ;;
esac
own=$here/$$
mkfifo "$own.1" "$own.2" || exec "$program" "$@"
# One that reads no more, as `grep -q`, ends only what it would have read.
{ trap '' PIPE; tee "$own.out" <"$own.1" 2>/dev/null; : >"$own.3"; } &
# Where both lead to one place, one reader keeps the order of what is written.
if [ /dev/fd/1 -ef /dev/fd/2 ]; then
    : >"$own.err"
    : >"$own.4"
    "$program" "$@" >"$own.1" 2>&1
    code=$?
else
    { trap '' PIPE; tee "$own.err" <"$own.2" >&2 2>/dev/null; : >"$own.4"; } &
    "$program" "$@" >"$own.1" 2>"$own.2"
    code=$?
fi
# A process that goes on in the background may keep them open.
tries=50
until [ -e "$own.3" ] && [ -e "$own.4" ] || [ "$tries" = 0 ]; do
    sleep 0.01
    tries=$((tries - 1))
done
[ "$which$code" = failed0 ] || { tail -c 4194304 "$own.out"; tail -c 4194304 "$own.err"; } >>"$here/said"
rm -f "$own".*
exit "$code"
END

# A program of the project has no other name in the PATH than an installed one, so nothing else is left out.
listen_to() {
    name=${1##*/}
    case $1 in *\'*) return ;; esac
    if [ -f "$1" ] && [ -x "$1" ] && [ ! -e "$here/bin/$name" ]; then
        { printf "#!/bin/sh\nhere='%s' program='%s' which='%s'\n" "$here" "$1" "$which"; cat "$here/instead"; } >"$here/bin/$name"
        chmod 700 "$here/bin/$name"
    fi
}

IFS=:
for folder in $PATH; do
    for file in "$folder"/python "$folder"/python[23] "$folder"/python[23].[0-9] "$folder"/python[23].[0-9][0-9]; do
        listen_to "$file"
    done
    for name in bash bun bundle cargo composer ctest dash deno dotnet go gradle java jest just ksh make gmake mocha mvn ninja \
        node npm npx perl php phpunit pnpm py.test pypy3 pytest rake rspec ruby sh uv vitest yarn zsh; do
        listen_to "$folder/$name"
    done
done
unset IFS

PATH=$here/bin:$PATH "$shell" -c "$line"
code=$?
printf '\n%s\n' "$mark"
cat "$here/said"
printf '\n%s\n' "$mark"
rm -rf "$here"
exit "$code"
