"""A tool worker whose functions say that they were called, and do not end."""

import sys
import threading

import surety

worker = surety.Worker(sys.argv[1], max_parallel=2)


def stuck() -> None:
    """Blocks its thread."""
    print("called", flush=True)
    threading.Event().wait()


worker.tool(name="test.once")(stuck)
worker.tool(name="test.again", idempotent=True)(stuck)

if __name__ == "__main__":
    worker.run()
