"""LangGraph with its Postgres checkpointer: a graph whose nodes do nothing.

    python run.py throughput | latency [--runs N] [--in-flight N]

Speaks with whoever started it as the peers on Node do (measure.mjs).
"""

import argparse
import asyncio
import json
import math
import multiprocessing
import os
import platform
import sys
import time
from importlib.metadata import version
from typing import TypedDict

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

STEPS = 10
LONE_RUNS = 100
WARM_UP = 100
# One interpreter keeps one core busy; on two cores two of them with eight runs each were fastest.
PROCESSES = 2
IN_FLIGHT = 8


class State(TypedDict):
    at: int


def graph(steps, saver):
    builder = StateGraph(State)
    names = [f"s{step}" for step in range(steps)]
    for step, name in enumerate(names):
        builder.add_node(name, lambda _, step=step: {"at": step})
    for before, after in zip([START, *names], [*names, END], strict=True):
        builder.add_edge(before, after)
    return builder.compile(checkpointer=saver)


class Engine:
    """One process's connections and its two graphs: of ten steps, and the smallest there is."""

    async def __aenter__(self):
        self.pool = AsyncConnectionPool(
            os.environ["DATABASE_URL"],
            min_size=IN_FLIGHT,
            max_size=IN_FLIGHT,
            open=False,
            kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
        )
        await self.pool.open(wait=True)
        saver = AsyncPostgresSaver(self.pool)
        self.ten = graph(STEPS, saver)
        self.empty = graph(1, saver)
        self.made = 0
        return self

    async def __aexit__(self, *_):
        await self.pool.close()

    async def carry(self, which):
        self.made += 1
        thread = f"{os.getpid()}-{self.made}"
        config = {"configurable": {"thread_id": thread}}
        # sync: a step's checkpoint is stored before the next step starts.
        await which.ainvoke({"at": 0}, config, durability="sync")

    async def together(self, runs, in_flight):
        left = iter(range(runs))

        async def lane():
            for _ in left:
                await self.carry(self.ten)

        await asyncio.gather(*(lane() for _ in range(in_flight)))

    async def one_by_one(self, runs, which):
        times = []
        for _ in range(runs):
            began = time.perf_counter()
            await self.carry(which)
            times.append((time.perf_counter() - began) * 1000)
        return sorted(times)


async def make_tables():
    async with AsyncPostgresSaver.from_conn_string(os.environ["DATABASE_URL"]) as saver:
        await saver.setup()


async def latency(runs):
    async with Engine() as engine:
        await engine.one_by_one(min(WARM_UP, runs), engine.ten)
        rounds = min(LONE_RUNS, runs)
        ready()
        began = time.perf_counter()
        ten = await engine.one_by_one(rounds, engine.ten)
        empty = await engine.one_by_one(rounds, engine.empty)
        return {
            "runs": 2 * rounds,
            "seconds": time.perf_counter() - began,
            "p50_ms": percentile(ten, 50),
            "p99_ms": percentile(ten, 99),
            "empty_p50_ms": percentile(empty, 50),
            "empty_p99_ms": percentile(empty, 99),
        }


async def work(runs, in_flight, start):
    async with Engine() as engine:
        await engine.together(min(WARM_UP, runs), in_flight)
        start.wait()  # all are warm
        start.wait()  # all may begin
        await engine.together(runs, in_flight)
        start.wait()  # all have ended


def worker(runs, in_flight, start):
    try:
        asyncio.run(work(runs, in_flight, start))
    except BaseException:
        # Or the others would wait for this one.
        start.abort()
        raise


def throughput(runs, in_flight):
    each = math.ceil(runs / PROCESSES)
    start = multiprocessing.Barrier(PROCESSES + 1)
    workers = [
        multiprocessing.Process(target=worker, args=(each, in_flight, start), daemon=True)
        for _ in range(PROCESSES)
    ]
    for process in workers:
        process.start()
    start.wait()
    ready()
    start.wait()
    began = time.perf_counter()
    start.wait()
    seconds = time.perf_counter() - began
    for process in workers:
        process.join()
    runs = each * PROCESSES
    return {
        "runs": runs,
        "in_flight": in_flight * PROCESSES,
        "seconds": seconds,
        "steps_per_second": runs * STEPS / seconds,
    }


def ready():
    print('{"ready":true}', flush=True)
    sys.stdin.readline()


def percentile(sorted_times, percent):
    return sorted_times[min(len(sorted_times) * percent // 100, len(sorted_times) - 1)]


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("mode", choices=["throughput", "latency"])
    arguments.add_argument("--runs", type=int, default=1000)
    arguments.add_argument("--in-flight", type=int, default=IN_FLIGHT)
    given = arguments.parse_args()
    asyncio.run(make_tables())
    if given.mode == "throughput":
        measured = throughput(given.runs, given.in_flight)
    else:
        measured = asyncio.run(latency(given.runs))
    result = {
        "peer": "LangGraph",
        "version": f"{version('langgraph')}, checkpoint-postgres "
        f"{version('langgraph-checkpoint-postgres')}",
        "python": platform.python_version(),
        "mode": given.mode,
        "steps": STEPS,
        **measured,
    }
    print(json.dumps(result), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
