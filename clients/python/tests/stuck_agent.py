"""A driver that never decides. It says when it was asked, and ends by a signal.

With `unseen` signals go to another thread, so that they interrupt no call of the main thread. To the main
thread that is as a signal that comes just before the call.
"""

import asyncio
import logging
import signal
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
    decide = {"waits": waits, "blocks": blocks, "unseen": waits}[sys.argv[2]]
    if sys.argv[2] == "unseen":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
    surety.Driver(decide, run_id=sys.argv[1], drain=0.2).run()
    print("ended", flush=True)
