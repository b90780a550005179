"""What the loops of drivers and workers share: an event loop in a thread, and the end by a signal."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, TimeoutError as FutureTimeoutError
from types import FrameType
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Handler: TypeAlias = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None
_END_TIMEOUT = 5.0
# How long a signal may wait for its effect, in seconds.
_SIGNAL_CHECK = 0.2


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


class _Signals:
    """Notes SIGTERM and Ctrl-C in the main thread. A handler that raised could leave a lock held for good."""

    def __init__(self) -> None:
        #: The name of the signal that came first.
        self.came = ""
        self._before: dict[signal.Signals, Handler] = {}

    def __enter__(self) -> _Signals:
        if threading.current_thread() is threading.main_thread():
            self._before[signal.SIGTERM] = signal.signal(signal.SIGTERM, self._note)
            # What a program does with Ctrl-C by a handler of its own stays so.
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                self._before[signal.SIGINT] = signal.signal(signal.SIGINT, self._note)
        return self

    def shutting_down(self) -> None:
        """From now on a second SIGTERM changes nothing, and Ctrl-C breaks the end off."""
        if signal.SIGTERM in self._before:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if signal.SIGINT in self._before:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler or signal.SIG_DFL)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.came = self.came or signal.Signals(number).name


def run_until_stopped(
    stop: threading.Event, start: Callable[[], None], shut_down: Callable[[], None], log: logging.Logger
) -> None:
    """Works until `stop`, SIGTERM or Ctrl-C, then shuts down. A second SIGTERM does not break that off."""
    with _Signals() as signals:
        try:
            start()
            # A signal that arrives just before the wait begins does not end the wait, so none is without end.
            while not signals.came and not stop.wait(_SIGNAL_CHECK):
                pass
            if signals.came:
                log.info("%s: stopping", signals.came)
        except KeyboardInterrupt:  # From a handler of the program's own.
            log.info("KeyboardInterrupt: stopping")
        finally:
            signals.shutting_down()
            shut_down()
