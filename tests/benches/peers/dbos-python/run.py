"""DBOS Python: a workflow whose steps do nothing, called directly, not by its polled queues."""

import os
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from urllib.parse import urlencode

from dbos import DBOS
from psycopg.conninfo import conninfo_to_dict

from measure import STEPS, measure

# One interpreter keeps one core busy; on two cores two of them with eight threads each were
# fastest, and faster than as many coroutines.
PROCESSES = 2
IN_FLIGHT = 8


@DBOS.workflow(name="chain")
def chain(steps):
    for step in range(steps):
        DBOS.run_step({"name": f"s{step}"}, lambda step=step: step)


def database_url():
    """A socket's folder goes into the query, for SQLAlchemy does not know it as a host."""
    parts = conninfo_to_dict(os.environ["DATABASE_URL"])
    return f"postgresql:///{parts.pop('dbname')}?{urlencode(parts)}"


class Engine:
    """One process's DBOS; a workflow runs in the thread that calls it."""

    def __enter__(self):
        DBOS(
            config={
                "name": "peer",
                "system_database_url": database_url(),
                "run_migrations": False,
                "log_level": "WARNING",
                # Or one that starts would take the other's runs for its own.
                "executor_id": str(os.getpid()),
            }
        )
        DBOS.launch()
        return self

    def __exit__(self, *_):
        DBOS.destroy()

    def carry(self, steps):
        chain(steps)

    def together(self, runs, in_flight):
        with ThreadPoolExecutor(in_flight) as threads:
            for _ in threads.map(chain, [STEPS] * runs):
                pass


def make_tables():
    DBOS.migrate(database_url())


if __name__ == "__main__":
    measure("DBOS Python", version("dbos"), make_tables, Engine, PROCESSES, IN_FLIGHT)
