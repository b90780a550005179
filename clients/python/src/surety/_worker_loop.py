"""One run of a worker: its connection, and the calls that it has."""

from __future__ import annotations

import inspect
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import grpc

from . import _trace
from ._calls import CONNECT, Calls, Retry
from ._errors import (
    Conflict,
    FailedPrecondition,
    InvalidInput,
    NotFound,
    PermissionDenied,
    SuretyError,
    Unauthenticated,
    Unimplemented,
    error_of,
)
from ._events import EventThread
from ._tool_call import OutcomeUnknown, ToolCall, ToolError, failed, output_of, succeeded
from .v1 import tool_service_pb2 as api

if TYPE_CHECKING:
    from ._worker import Tool

_log = logging.getLogger("surety.worker")
# What another connection cannot change.
_FATAL = (
    Conflict,
    FailedPrecondition,
    InvalidInput,
    NotFound,
    PermissionDenied,
    Unauthenticated,
    Unimplemented,
)
# What a refusal of a call's message means when the call is not ours any more.
_NOT_OURS = frozenset({"lease_lost", "run_terminal", "tool_call_unknown"})
# Refusals of a result that say nothing against it: the same result is sent again.
_LATER = frozenset({"database_unavailable", "overloaded"})
# Until the service has said how often it wants to hear from the worker.
_HEARTBEAT, _LEASE, _END_TIMEOUT = 1.0, 30.0, 5.0


class _Stream:
    """What is sent over one connection."""

    def __init__(self, first: api.ConnectRequest) -> None:
        self._queue: queue.SimpleQueue[api.ConnectRequest | None] = queue.SimpleQueue()
        self._queue.put(first)
        #: Whether the service has accepted the announcement.
        self.accepted = False

    def __iter__(self) -> Iterator[api.ConnectRequest]:
        while (message := self._queue.get()) is not None:
            yield message

    def send(self, *messages: api.ConnectRequest) -> None:
        for message in messages:
            self._queue.put(message)

    def close(self) -> None:
        self._queue.put(None)


@dataclass
class _Held:
    """A call that this worker has, until its result is stored."""

    call: ToolCall
    #: The connection on which it was given last.
    stream: _Stream
    #: The messages of its result, when it has ended.
    result: list[api.ConnectRequest] = field(default_factory=list)
    #: Whether its result is sent again soon.
    waits: bool = False
    #: Ends its async function.
    cancel: Callable[[], object] | None = None

    def end(self) -> None:
        """The call is not ours any more: what works on it is cancelled."""
        self.call._cancel()
        if self.cancel is not None:
            self.cancel()


class WorkerLoop:
    """One run of a worker."""

    def __init__(
        self,
        calls: Calls,
        announce: api.Announce,
        tools: Mapping[str, Tool],
        stop: threading.Event,
        drain: float,
        retry: Retry,
    ) -> None:
        self._calls, self._announce, self._tools = calls, announce, tools
        self._stop, self._drain, self._retry = stop, drain, retry
        self.failure: SuretyError | None = None
        self._ended = threading.Event()
        # Guards what follows; `_changed` is notified when a call is forgotten.
        self._guard = threading.RLock()
        self._changed = threading.Condition(self._guard)
        self._held: dict[str, _Held] = {}
        self._stream: _Stream | None = None
        self._answers: grpc.Call | None = None
        self._cut_at = time.monotonic()
        self._interval, self._lease = _HEARTBEAT, _LEASE
        self._events = EventThread(_log)
        self._connection = threading.Thread(target=self._connect, name="surety-worker", daemon=True)

    def start(self) -> None:
        """Starts the threads."""
        self._events.start()
        self._connection.start()
        threading.Thread(target=self._beat, name="surety-heartbeat", daemon=True).start()

    def shut_down(self) -> None:
        """Takes no new calls, lets running ones end, and closes the connection."""
        self._stop.set()
        end = time.monotonic() + self._drain
        try:
            with self._changed:
                if self._stream is not None and self._stream.accepted:
                    self._stream.send(api.ConnectRequest(draining=api.WorkerDraining()))
                while self._held and self.failure is None and (left := end - time.monotonic()) > 0:
                    self._changed.wait(left)
        finally:
            self._ended.set()
            with self._guard:
                left_over, self._held = list(self._held.values()), {}
                if self._stream is not None:
                    self._stream.close()
            for held in left_over:
                _log.warning("worker: call %s has not ended; its lease expires", held.call.id)
                held.end()
            self._connection.join(_END_TIMEOUT)
            with self._guard:
                if self._answers is not None:
                    self._answers.cancel()
            self._events.close()

    def _connect(self) -> None:
        """Keeps a connection until the worker ends."""
        failures = 0
        while not self._ended.is_set():
            stream = _Stream(api.ConnectRequest(announce=self._announce))
            failure: SuretyError | None = None
            try:
                self._serve(stream)
            except grpc.RpcError as error:
                failure = error_of(error)
            except SuretyError as error:
                failure = error
            except Exception as error:  # A defect here must end the worker, not only its connection.
                _log.exception("worker: the connection failed")
                failure = FailedPrecondition(f"the worker's loop failed: {error!r}")
                failure.__cause__ = error
            finally:
                stream.close()
                with self._guard:
                    self._stream, self._answers = None, None
                    if stream.accepted:
                        self._cut_at, failures = time.monotonic(), 0
            if self._ended.is_set():
                return
            if isinstance(failure, _FATAL):
                with self._changed:
                    self.failure = failure
                    self._changed.notify_all()
                self._stop.set()
                return
            failures += 1
            _log.warning("worker: the connection ended, it is opened again: %s", failure or "closed")
            self._ended.wait(max(failure.retry_after if failure else 0.0, self._retry.pause(failures)))

    def _serve(self, stream: _Stream) -> None:
        """Reads what the service sends over one connection."""
        answers = self._calls.duplex(CONNECT, stream)
        with self._guard:
            self._stream, self._answers = stream, answers
        for answer in answers:
            kind = answer.WhichOneof("message")
            if kind == "announced":
                self._announced(stream, answer.announced)
            elif kind == "invocation":
                self._invoked(stream, answer.invocation)
            elif kind == "cancel":
                self._forget(answer.cancel.call_id, answer.cancel.fence, answer.cancel.reason)
            elif kind == "refused":
                self._refused(stream, answer.refused)
            elif kind == "stored":
                self._forget(answer.stored.call_id, answer.stored.fence)
            elif kind == "draining":
                _log.info("worker: the executor shuts down; the calls go on over the next connection")

    def _announced(self, stream: _Stream, announced: api.Announced) -> None:
        with self._guard:
            stream.accepted = True
            # Half of it, so that a message that takes some time is not late.
            self._interval = announced.heartbeat_interval.ToTimedelta().total_seconds() / 2 or _HEARTBEAT
            self._lease = announced.lease.ToTimedelta().total_seconds() or _LEASE
            if self._stop.is_set():
                stream.send(api.ConnectRequest(draining=api.WorkerDraining()))
        names = ", ".join(announced.namespaces)
        _log.info("worker: serves tools of namespaces %s at executor %s", names, announced.executor_id)

    def _invoked(self, stream: _Stream, invocation: api.ToolInvocation) -> None:
        with self._guard:
            held = self._held.get(invocation.call_id)
            if held is not None and held.call.message.fence == invocation.fence:
                # It was given again after a new connection.
                held.stream = stream
                stream.send(*held.result)
                return
            new = _Held(ToolCall(invocation, lambda message: self._report(new, message)), stream)
            self._held[invocation.call_id] = new
        if held is not None:
            held.end()
        tool = self._tools.get(invocation.tool)
        if tool is None:
            self._finish(new, failed(invocation, ToolError(f"the worker has no tool {invocation.tool}")))
        elif invocation.resumed and not tool.repeatable:
            # It was begun by a process that has ended.
            self._finish(new, failed(invocation, OutcomeUnknown()))
        else:
            threading.Thread(target=self._work, args=(tool, new), name="surety-tool", daemon=True).start()

    def _work(self, tool: Tool, held: _Held) -> None:
        """Calls the function, in a thread of its own."""
        call, invocation = held.call, held.call.message
        attributes: dict[str, str | int] = {"surety.call_id": call.id, "surety.tool": tool.message.name}
        try:
            with _trace.span("surety.tool", call.traceparent, attributes):
                value = tool.call(call)
                if inspect.isawaitable(value):
                    future: Future[object] = self._events.submit(value)
                    with self._guard:
                        held.cancel = future.cancel
                    if call.cancelled:
                        future.cancel()
                    value = future.result()
                result = succeeded(invocation, output_of(value))
        except CancelledError:
            result = failed(invocation, ToolError("the function was cancelled"))
        except (ToolError, OutcomeUnknown) as error:
            result = failed(invocation, error)
        except Exception as error:
            if not call.cancelled:
                _log.exception("worker: the tool %s failed at call %s", tool.message.name, call.id)
            result = failed(invocation, error)
        self._finish(held, result)

    def _finish(self, held: _Held, result: list[api.ConnectRequest]) -> None:
        """Keeps a result until it is stored, and sends it if the connection is the one that gave the call."""
        with self._guard:
            if self._held.get(held.call.id) is held:
                held.result = result
                held.stream.send(*result)

    def _report(self, held: _Held, message: api.ConnectRequest) -> None:
        with self._guard:
            if self._held.get(held.call.id) is held and not held.result:
                held.stream.send(message)

    def _forget(self, call_id: str, fence: int, reason: str = "") -> None:
        """The result is stored, or the call is cancelled."""
        with self._changed:
            held = self._held.get(call_id)
            if held is None or held.call.message.fence != fence:
                return
            del self._held[call_id]
            self._changed.notify_all()
        if reason:
            _log.info("worker: call %s is cancelled: %s", call_id, reason)
        held.end()

    def _refused(self, stream: _Stream, refused: api.Refused) -> None:
        with self._guard:
            held = self._held.get(refused.call_id)
            if held is None or held.stream is not stream:
                return
            invocation, ended = held.call.message, bool(held.result)
        _log.warning("worker: call %s: %s: %s", refused.call_id, refused.code, refused.message)
        if refused.code in _NOT_OURS:
            self._forget(refused.call_id, invocation.fence, refused.code)
        elif refused.code in _LATER and ended:
            self._again(held)
        elif ended and held.result[-1].result.success:
            # The result itself is refused, so the call ends with why.
            self._finish(held, failed(invocation, ToolError(f"{refused.code}: {refused.message}")))
        elif ended:
            self._forget(refused.call_id, invocation.fence, refused.code)

    def _again(self, held: _Held) -> None:
        """Sends a refused result again after a pause, once where a part of its output was refused as well."""

        def send() -> None:
            held.waits = False
            self._finish(held, held.result)

        with self._guard:
            if held.waits:
                return
            held.waits = True
        timer = threading.Timer(self._retry.maximum, send)
        timer.daemon = True
        timer.start()

    def _beat(self) -> None:
        """Says that the worker is alive, and ends the calls whose lease has expired without a connection."""
        while not self._ended.wait(self._interval):
            with self._guard:
                stream = self._stream
                if stream is not None and stream.accepted:
                    stream.send(api.ConnectRequest(heartbeat=api.WorkerHeartbeat()))
                lost = []
                if time.monotonic() - self._cut_at > self._lease:
                    lost = [held for held in self._held.values() if held.stream is not stream]
            for held in lost:
                self._forget(held.call.id, held.call.message.fence, "its lease has expired")
