"""Measures published engines and Surety turn about on this machine, and prints one table.

    surety dev-postgres --durable [--setting NAME=VALUE]... -- python3 compare.py [PEER]...

`make bench-peers` does that. A peer's measurement has a fresh database on the Postgres of
DATABASE_URL; Surety's own benchmark starts a Postgres with the same settings. All take turns, so
that what changes about the machine meanwhile meets every one of them. A peer whose language or
packages cannot be had here is left out, with a line that says so.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from meter import Meter, Postgres, Refused, sync_ms
from packages import HERE, PEERS, ROOT, Absent, command_of
from table import table

OURS = "surety"
# Keeps its state itself, so what Postgres does meanwhile is not its doing.
OWN_STORE = {"restate"}
# What takes longer is stuck.
PATIENCE_S = 900


class Failed(Exception):
    """A measurement gave no figure."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def measure_ours(options):
    """Surety's benchmark meters itself, in the way the peers are metered here."""
    command = [
        *("cargo", "bench", "--locked", "--profile", "dist"),
        *("--workspace", "--bench", "engine", "--"),
    ]
    command += ["throughput", "latency", "--repeat", "1", "--runs", str(options.runs), "--json"]
    environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with group_of(command, signal.SIGTERM, env=environment, cwd=ROOT, **pipes) as process:
        printed, complaints = process.communicate()
    if process.returncode != 0:
        raise Failed(last_lines(complaints))
    return json.loads(printed.splitlines()[-1])


def measure_peer(peer, command, mode, options, postgres):
    database = f"peer_{peer}_{mode}".replace("-", "_")
    postgres.ask(f"create database {database}")
    try:
        with tempfile.TemporaryDirectory(prefix=f"surety-peer-{peer}-") as folder:
            environment = {
                **os.environ,
                "DATABASE_URL": postgres.url(database),
                "TMPDIR": folder,
                # Those in Python share measure.py.
                "PYTHONPATH": str(HERE),
                # No usage statistics are sent.
                "SCARF_ANALYTICS": "false",
                "LANGSMITH_TRACING": "false",
            }
            command = [*command, mode, "--runs", str(options.runs)]
            result, used = converse(command, environment, postgres)
    finally:
        postgres.ask(f"drop database {database} with (force)")
    return {**result, **costs(result, used, peer in OWN_STORE)}


def converse(command, environment, postgres):
    """Starts a peer, reads the clocks when it is warm, lets it work, and reads them again."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with (
        tempfile.TemporaryFile("w+") as complaints,
        group_of(command, signal.SIGKILL, env=environment, stderr=complaints, **pipes) as process,
    ):
        answer(process, complaints)
        meter = Meter(postgres, process.pid)
        go(process)
        result = answer(process, complaints)
        used = meter.used()
        go(process)
        if process.wait() != 0:
            raise Failed(f"it ended with {process.returncode}: {read_back(complaints)}")
    return result, used


@contextlib.contextmanager
def group_of(command, end, **how):
    """A process with a group of its own, which gets the signal `end` when it takes too long, and
    when we leave before it has ended."""

    def end_all():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, end)

    process = subprocess.Popen(command, text=True, start_new_session=True, **how)
    overdue = threading.Timer(PATIENCE_S, end_all)
    overdue.start()
    try:
        yield process
    finally:
        overdue.cancel()
        end_all()
        process.wait()


def answer(process, complaints):
    for line in process.stdout:
        # Some libraries greet on standard output.
        if line.startswith("{"):
            return json.loads(line)
    raise Failed(read_back(complaints))


def go(process):
    # Where it has died, the answer that does not come says of what.
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write("\n")
        process.stdin.flush()


def read_back(complaints):
    complaints.seek(0)
    return last_lines(complaints.read())


def last_lines(text):
    return "\n".join(text.strip().splitlines()[-12:]) or "it ended without a word"


def costs(result, used, own_store):
    """What was used, by the step where there was one measurement only."""
    if result["mode"] == "latency":
        return {}
    steps = result["runs"] * result["steps"]
    figures = {"foreign_cores": used["foreign_cores"]}
    if own_store:
        return {**figures, "cpu_ms_per_step": 1000 * used["engine"] / steps}
    commits = used["commits"]
    return {
        **figures,
        "cpu_ms_per_step": 1000 * (used["engine"] + used["store"]) / steps,
        "store_cpu_ms_per_step": 1000 * used["store"] / steps,
        "log_bytes_per_step": used["log_bytes"] / steps,
        "writing_commits_per_step": None if commits is None else commits / steps,
    }


def turn(name, command, options, postgres):
    """One sample of everything of one engine."""
    disk = {"disk_ms": sync_ms()}
    if name == OURS:
        return {**measure_ours(options), **disk}
    loaded = measure_peer(name, command, "throughput", options, postgres)
    alone = measure_peer(name, command, "latency", options, postgres)
    return {**alone, **loaded, **disk}


def machine(postgres, options):
    cpuinfo = Path("/proc/cpuinfo").read_text().splitlines()
    models = (line.split(":")[1].strip() for line in cpuinfo if line.startswith("model name"))
    memory = int(Path("/proc/meminfo").read_text().split()[1]) // 1024
    return (
        f"{os.cpu_count()} cores of {next(models, 'unknown make')}, {memory} MiB,"
        f" Linux {os.uname().release}, {postgres.described()}, {time.strftime('%Y-%m-%d')}."
        f" Engine, store and client share the cores. {options.runs} runs of 10 steps,"
        f" medians of {options.repeat}, turn about."
    )


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    known = ", ".join(PEERS)
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"of {known}; none is all")
    parser.add_argument("--runs", type=int, default=1000, help="runs in one measurement")
    parser.add_argument("--repeat", type=int, default=3, help="how often each has its turn")
    parser.add_argument("--quick", action="store_true", help="small and once: it works, no figures")
    parser.add_argument("--without-ours", action="store_true", help="the peers alone")
    options = parser.parse_args()
    unknown = [peer for peer in options.peers if peer not in PEERS]
    if unknown:
        parser.error(f"no such peer: {', '.join(unknown)} (there are {known})")
    if options.quick:
        options.runs, options.repeat = 50, 1
    return options


def engines(options):
    """The commands of all that can be had here, by name; ours needs none."""
    found = {} if options.without_ours else {OURS: []}
    for peer in options.peers or PEERS:
        try:
            found[peer] = command_of(peer)
        except Absent as error:
            say(f"skipped {peer}: {error}")
    return found


def main():
    # Ends as Ctrl-C does, so that what was started is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    options = arguments()
    if not Path("/proc/stat").exists():
        sys.exit("processor time is read from /proc, which only Linux has")
    if "DATABASE_URL" not in os.environ:
        sys.exit("DATABASE_URL is not set; `make bench-peers` starts a Postgres")
    try:
        postgres = Postgres(os.environ["DATABASE_URL"])
        where = machine(postgres, options)
    except Refused as error:
        sys.exit(str(error))
    commands = engines(options)
    samples = {name: [] for name in commands}
    failures = 0
    for _ in range(options.repeat):
        for name, command in commands.items():
            try:
                samples[name].append(turn(name, command, options, postgres))
                say(json.dumps(samples[name][-1]))
            except (Failed, Refused) as error:
                failures += 1
                say(f"FAILED {name}: {error}")
    print(f"\n{where}\n\n{table(samples, OURS)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
