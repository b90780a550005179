"""What work costs: processor time by process, bytes of log, commits, and the load of others."""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TICK = 1 / os.sysconf("SC_CLK_TCK")
SYNCS = 51


class Refused(Exception):
    """Postgres does not do what it is asked."""


def machine_busy():
    """Seconds that all processors were busy since they started, for any process; what the
    host took away counts as busy."""
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    user, nice, system, _idle, _waiting, irq, softirq, steal = map(int, words[1:9])
    return TICK * (user + nice + system + irq + softirq + steal)


def time_of_tree(root):
    """Processor seconds of a process and of all that descend from it, ended ones included."""
    spent, children = {}, {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name in the brackets may hold anything; what follows the last bracket does not.
            words = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # It has ended since.
        pid, parent = int(entry.name), int(words[1])
        # Its own time, and that of its children that it has waited for.
        spent[pid] = TICK * sum(map(int, words[11:15]))
        children.setdefault(parent, []).append(pid)
    tree = [root]
    for pid in tree:
        tree.extend(children.get(pid, []))
    return sum(spent.get(pid, 0.0) for pid in tree)


def sync_ms():
    """How long the disk takes to keep 8 KiB; every commit waits at least so long."""
    times = []
    with tempfile.TemporaryFile(buffering=0) as file:
        for _ in range(SYNCS):
            file.seek(0)
            began = time.perf_counter()
            file.write(b"x" * 8192)
            os.fdatasync(file.fileno())
            times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times)


class Postgres:
    """The server of a URL, as an onlooker sees it: connections of its own, for a moment each."""

    def __init__(self, url):
        self.server = url.rpartition("/")[0]
        self.psql = psql_program()
        pid_file = Path(self.ask("show data_directory"), "postmaster.pid")
        self.pid = int(pid_file.read_text().split()[0])
        try:
            self.ask("create extension if not exists pg_walinspect")
        except Refused as error:
            print(f"commits are not counted: {error}", file=sys.stderr)

    def ask(self, statement):
        command = [self.psql, "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", self.url("postgres")]
        command += ["-c", statement]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise Refused(ended.stderr.strip())
        return ended.stdout.strip()

    def url(self, database):
        return f"{self.server}/{database}"

    def log_position(self):
        return self.ask("select pg_current_wal_flush_lsn()")

    def log_between(self, first, last):
        """Bytes of the log and the commits in it, which are those that wrote; the server's own
        counters do not tell them from those that only read. None where it cannot be read."""
        size = float(self.ask(f"select '{last}'::pg_lsn - '{first}'::pg_lsn"))
        try:
            count = self.ask(
                f"select coalesce(sum(count), 0) from pg_get_wal_stats('{first}', '{last}', true)"
                " where \"resource_manager/record_type\" = 'Transaction/COMMIT'"
            )
        except Refused:
            return size, None
        return size, float(count)

    def described(self):
        names = ["fsync", "synchronous_commit", "shared_buffers", "max_connections"]
        settings = {name: self.ask(f"show {name}") for name in names}
        if settings["fsync"] != "on" or settings["synchronous_commit"] != "on":
            raise Refused("this Postgres does not wait for the disk; start it with --durable")
        shown = ", ".join(f"{name}={value}" for name, value in settings.items())
        return f"Postgres {self.ask('show server_version')} ({shown})"


def psql_program():
    # Debian keeps the server's programs off PATH, Macs those of a chosen version.
    folders = [os.environ.get("SURETY_POSTGRES_BIN"), *Path("/usr/lib/postgresql").glob("*/bin")]
    beside = (Path(folder, "psql") for folder in folders if folder)
    found = shutil.which("psql") or next((str(path) for path in beside if path.exists()), None)
    if not found:
        raise Refused("psql is not on this machine (Debian: apt-get install postgresql-client)")
    return found


class Meter:
    """Everything that only grows, read when made and when asked what was used since."""

    def __init__(self, postgres, pid):
        self.postgres, self.pid = postgres, pid
        self.log = postgres.log_position()
        self.clocks = self.read()

    def read(self):
        return {
            "elapsed": time.monotonic(),
            "machine": machine_busy(),
            "store": time_of_tree(self.postgres.pid),
            "engine": time_of_tree(self.pid),
            "onlooker": sum(os.times()[:4]),
        }

    def used(self):
        """Seconds of the store and the engine, cores that everybody else used, bytes of log and
        commits that wrote."""
        last = self.read()
        spent = {name: last[name] - self.clocks[name] for name in last}
        log_bytes, commits = self.postgres.log_between(self.log, self.postgres.log_position())
        foreign = spent["machine"] - spent["store"] - spent["engine"] - spent["onlooker"]
        return {
            "store": spent["store"],
            "engine": spent["engine"],
            "foreign_cores": max(0.0, foreign) / spent["elapsed"],
            "log_bytes": log_bytes,
            "commits": commits,
        }
