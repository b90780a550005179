"""The peers' packages: exactly those that are pinned, from the public registries."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
NODE_PEERS = ["restate", "graphile", "dbos", "pg-boss"]
PYTHON_PEERS = ["langgraph", "dbos-python"]
RUST_PEERS = ["underway"]
PEERS = [*NODE_PEERS, *PYTHON_PEERS, *RUST_PEERS]


class Absent(Exception):
    """What a peer needs is not to be had on this machine."""


def command_of(peer):
    """The command that runs a peer, its packages fetched unless they are here.

    Raises Absent where that cannot be."""
    folder = HERE / peer
    if peer in NODE_PEERS:
        needed("npm")
        once(folder / "node_modules", folder / "package-lock.json", npm_ci)
        # Pinned like the packages; where npm has none for this machine, its own has to do.
        own = folder / "node_modules" / ".bin" / "node"
        return [str(own) if own.exists() else needed("node"), str(folder / "run.mjs")]
    if peer in RUST_PEERS:
        return [str(cargo_build(folder))]
    venv = TARGET / "peers" / peer
    once(venv, folder / "requirements.txt", pip_install)
    return [str(venv / "bin" / "python"), str(folder / "run.py")]


def needed(program):
    found = shutil.which(program)
    if not found:
        raise Absent(f"{program} is not on this machine")
    return found


def once(into, pins, install):
    """Installs unless `into` was filled from exactly these pins."""
    stamp = into / ".pinned"
    wanted = hashlib.sha256(pins.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"fetching what {pins.relative_to(ROOT)} names", file=sys.stderr, flush=True)
        install(into, pins)
        stamp.write_text(wanted)


def npm_ci(into, _pins):
    # No package here needs its scripts to be installed, and one's would only report the machine.
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    fetch(["npm", "ci", "--prefix", str(into.parent), *quiet])


def pip_install(into, pins):
    fetch([sys.executable, "-m", "venv", "--clear", str(into)])
    pip = [str(into / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    fetch([*pip, "--require-hashes", "--requirement", str(pins)])


def cargo_build(folder):
    """The program of a crate; its Cargo.lock has the versions and digests of what it is made of."""
    print(f"building {folder.relative_to(ROOT)}", file=sys.stderr, flush=True)
    into = TARGET / "peers" / "rust"
    where = ["--manifest-path", str(folder / "Cargo.toml"), "--target-dir", str(into)]
    # Its macros would read the measured database, which has no tables yet.
    offline = {**os.environ, "SQLX_OFFLINE": "true"}
    fetch([needed("cargo"), "build", "--locked", "--release", "--quiet", *where], offline)
    return into / "release" / f"surety-peer-{folder.name}"


def fetch(command, environment=None):
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment
    )
    if ended.returncode != 0:
        lines = (ended.stderr or ended.stdout).strip().splitlines()
        raise Absent(f"{' '.join(command[:3])} failed: {lines[-1] if lines else 'without a word'}")
