#!/bin/sh
# The compiler of the workspace's own crates in `make test`: clippy's driver compiles what it checks, so that one pass
# does both. Cargo starts it with the compiler's path and arguments. A warning is an error.
exec clippy-driver "$@" -D warnings
