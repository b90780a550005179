"""LangGraph with its Postgres checkpointer: a graph whose nodes do nothing."""

import asyncio
import os
from importlib.metadata import version
from typing import TypedDict

from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from measure import STEPS, measure

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

    def __enter__(self):
        self.loop = asyncio.Runner()
        self.loop.run(self.open())
        self.made = 0
        return self

    def __exit__(self, *_):
        self.loop.run(self.pool.close())
        self.loop.close()

    async def open(self):
        self.pool = AsyncConnectionPool(
            os.environ["DATABASE_URL"],
            min_size=IN_FLIGHT,
            max_size=IN_FLIGHT,
            open=False,
            kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
        )
        await self.pool.open(wait=True)
        saver = AsyncPostgresSaver(self.pool)
        self.graphs = {STEPS: graph(STEPS, saver), 0: graph(1, saver)}

    def carry(self, steps):
        self.loop.run(self.invoke(steps))

    async def invoke(self, steps):
        self.made += 1
        thread = f"{os.getpid()}-{self.made}"
        config = {"configurable": {"thread_id": thread}}
        # sync: a step's checkpoint is stored before the next step starts.
        await self.graphs[steps].ainvoke({"at": 0}, config, durability="sync")

    def together(self, runs, in_flight):
        self.loop.run(self.workers(iter(range(runs)), in_flight))

    async def workers(self, left, in_flight):
        async def worker():
            for _ in left:
                await self.invoke(STEPS)

        await asyncio.gather(*(worker() for _ in range(in_flight)))


def make_tables():
    with PostgresSaver.from_conn_string(os.environ["DATABASE_URL"]) as saver:
        saver.setup()


if __name__ == "__main__":
    store = version("langgraph-checkpoint-postgres")
    measure(
        "LangGraph",
        f"{version('langgraph')}, checkpoint-postgres {store}",
        make_tables,
        Engine,
        PROCESSES,
        IN_FLIGHT,
    )
