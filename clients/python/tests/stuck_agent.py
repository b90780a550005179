"""A driver that never decides. It says when it was asked, and ends by a signal."""

import asyncio
import logging
import sys
import threading

import surety


async def waits(context):
    """Waits until it is cancelled."""
    print("asked", flush=True)
    await asyncio.Event().wait()


def blocks(context):
    """Blocks its thread, which cannot be cancelled."""
    print("asked", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stdout)
    decide = {"waits": waits, "blocks": blocks}[sys.argv[2]]
    surety.Driver(decide, run_id=sys.argv[1], drain=0.2).run()
    print("ended", flush=True)
