"""What the loops of drivers and workers share: an event loop in a thread, and the end by a signal."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, TimeoutError as FutureTimeoutError
from types import FrameType
from typing import TypeVar

T = TypeVar("T")
_END_TIMEOUT = 5.0


class EventThread:
    """An event loop in a thread of its own, for async functions of a user."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="surety-events", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def submit(self, work: Awaitable[T]) -> Future[T]:
        """Begins to wait for something in the loop."""
        return asyncio.run_coroutine_threadsafe(_awaited(work), self._loop)

    def close(self) -> None:
        """Ends the loop after its cancelled functions."""

        async def cancel_all() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_END_TIMEOUT) if tasks else None

        ending = asyncio.run_coroutine_threadsafe(cancel_all(), self._loop)
        try:
            ending.result(2 * _END_TIMEOUT)
        except (TimeoutError, FutureTimeoutError):
            self._log.warning("an async function blocks its event loop, which cannot be closed")
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _awaited(work: Awaitable[T]) -> T:
    return await work


class _Terminated(BaseException):
    """SIGTERM, raised where the main thread waits, as KeyboardInterrupt is."""


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise _Terminated


def run_until_stopped(
    stop: threading.Event, start: Callable[[], None], shut_down: Callable[[], None], log: logging.Logger
) -> None:
    """Works until `stop`, SIGTERM or Ctrl-C, then shuts down. A second SIGTERM does not break that off."""
    in_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, _terminate) if in_main else None
    try:
        start()
        stop.wait()
    except (KeyboardInterrupt, _Terminated) as cause:
        log.info("%s: stopping", type(cause).__name__.strip("_"))
    finally:
        if in_main:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        shut_down()
        if in_main:
            signal.signal(signal.SIGTERM, before or signal.SIG_DFL)
