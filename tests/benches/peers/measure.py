"""Shared code of the peers in Python; its protocol with the caller is that of measure.mjs.

PYTHONPATH=. python PEER/run.py throughput | latency [--runs N] [--in-flight N]
"""

import argparse
import contextlib
import json
import math
import multiprocessing
import platform
import sys
import time

STEPS = 10
LONE_RUNS = 100
WARM_UP = 100


def measure(peer, version, make_tables, engine, processes, in_flight):
    """Measures as the command line says, and prints it.

    `engine()` is what one process works with, for a `with` block: it has `carry(steps)`, which
    returns when that run has ended, and `together(runs, in_flight)`, which carries many of ten
    steps, `in_flight` at a time. Many runs are shared out among `processes`."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("mode", choices=["throughput", "latency"])
    arguments.add_argument("--runs", type=int, default=1000)
    arguments.add_argument("--in-flight", type=int, default=in_flight, help="in each process")
    given = arguments.parse_args()
    make_tables()
    if given.mode == "throughput":
        measured = throughput(engine, processes, given.runs, given.in_flight)
    else:
        measured = latency(engine, given.runs)
    result = {"peer": peer, "version": version, "python": platform.python_version()}
    # What ends when it is left costs something, and is not to be measured.
    with measured as figures:
        result |= {"mode": given.mode, "steps": STEPS, **figures}
        print(json.dumps(result), flush=True)
        sys.stdin.readline()


@contextlib.contextmanager
def latency(engine, runs):
    rounds = min(LONE_RUNS, runs)
    with engine() as one:
        one_by_one(one, min(WARM_UP, runs), STEPS)
        ready()
        began = time.perf_counter()
        ten = one_by_one(one, rounds, STEPS)
        empty = one_by_one(one, rounds, 0)
        yield {
            "runs": 2 * rounds,
            "seconds": time.perf_counter() - began,
            "p50_ms": percentile(ten, 50),
            "p99_ms": percentile(ten, 99),
            "empty_p50_ms": percentile(empty, 50),
            "empty_p99_ms": percentile(empty, 99),
        }


def one_by_one(engine, runs, steps):
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        engine.carry(steps)
        times.append((time.perf_counter() - began) * 1000)
    return sorted(times)


@contextlib.contextmanager
def throughput(engine, processes, runs, in_flight):
    each = math.ceil(runs / processes)
    # New interpreters, for a fork would take along half of what the libraries have running.
    fresh = multiprocessing.get_context("spawn")
    start = fresh.Barrier(processes + 1)
    workers = [
        fresh.Process(target=work, args=(engine, each, in_flight, start), daemon=True)
        for _ in range(processes)
    ]
    for process in workers:
        process.start()
    start.wait()
    ready()
    start.wait()
    began = time.perf_counter()
    start.wait()
    seconds = time.perf_counter() - began
    runs = each * processes
    yield {
        "runs": runs,
        "in_flight": in_flight * processes,
        "seconds": seconds,
        "steps_per_second": runs * STEPS / seconds,
    }
    start.wait()
    for process in workers:
        process.join()


def work(engine, runs, in_flight, start):
    try:
        with engine() as one:
            one.together(min(WARM_UP, runs), in_flight)
            start.wait()  # all are warm
            start.wait()  # all may begin
            one.together(runs, in_flight)
            start.wait()  # all have carried their runs
            start.wait()  # what they used is known
    except BaseException:
        # Or the others would wait for this one.
        start.abort()
        raise


def ready():
    print('{"ready":true}', flush=True)
    sys.stdin.readline()


def percentile(sorted_times, percent):
    return sorted_times[min(len(sorted_times) * percent // 100, len(sorted_times) - 1)]
