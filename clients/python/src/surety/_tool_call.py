"""A call of a tool as its function sees it, and what the function may answer or raise."""

from __future__ import annotations

import datetime
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from google.protobuf.duration_pb2 import Duration

from .v1 import receipt_pb2, tool_service_pb2 as api

# Limits of the service, in bytes.
_INLINE, _CHUNK, _OUTPUT, _SUMMARY, _ERROR = 32 << 10, 256 << 10, 64 << 20, 1_000, 4 << 10
# The service accepts ten reports a second.
_PROGRESS_INTERVAL = 0.11


class ToolError(Exception):
    """The call failed. With `retryable` it may be made again, with `retry_after` after so many seconds."""

    def __init__(self, message: str, *, retryable: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retryable = retryable or retry_after is not None
        self.retry_after = retry_after


class OutcomeUnknown(Exception):
    """The function does not know whether the call happened: a person is asked, or it is made again."""


@dataclass(frozen=True)
class ToolOutput:
    """The output of a call, with a line for people, and facts that are recorded as the worker's words."""

    text: str = ""
    summary: str = ""
    facts: Sequence[receipt_pb2.Fact] = field(default_factory=tuple)


class ToolCall:
    """A call of a tool. A parameter with this type receives it."""

    def __init__(self, invocation: api.ToolInvocation, send: Callable[[api.ConnectRequest], None]) -> None:
        self._invocation, self._send = invocation, send
        self._cancelled = threading.Event()
        self._guard = threading.Lock()
        self._waiting: api.ToolProgress | None = None
        self._next_progress = 0.0

    @property
    def message(self) -> api.ToolInvocation:
        """All fields, as docs/api.md lists them for ToolInvocation."""
        return self._invocation

    @property
    def id(self) -> str:
        """The id of the call."""
        return self._invocation.call_id

    @property
    def run_id(self) -> str:
        """The run."""
        return self._invocation.run_id

    @property
    def step_id(self) -> str:
        """The step."""
        return self._invocation.step_id

    @property
    def idempotency_key(self) -> str:
        """The same in every attempt: give it to the service that the tool calls."""
        return self._invocation.idempotency_key

    @property
    def attempt(self) -> int:
        """The attempt, from 1."""
        return self._invocation.attempt

    @property
    def resumed(self) -> bool:
        """Whether this attempt was begun before this process: the function goes on with it."""
        return self._invocation.resumed

    @property
    def deadline(self) -> datetime.datetime:
        """When the service abandons and cancels the call."""
        return self._invocation.deadline.ToDatetime(datetime.timezone.utc)

    @property
    def workspace(self) -> str:
        """The folder of the run on the executor's machine."""
        return self._invocation.workspace

    @property
    def traceparent(self) -> str:
        """The trace of the run; empty when it is not traced."""
        return self._invocation.traceparent

    @property
    def cancelled(self) -> bool:
        """Whether the call is cancelled or lost: a function that takes long looks at it, and ends."""
        return self._cancelled.is_set()

    def wait(self, seconds: float) -> bool:
        """Waits, and ends early when the call is cancelled; answers whether it is."""
        return self._cancelled.wait(seconds)

    def progress(self, message: str, percent: int | None = None) -> None:
        """Reports one line. Of reports that come too fast, only the last one is sent."""
        line = _cut(" ".join(message.split()), _SUMMARY)
        report = api.ToolProgress(
            call_id=self.id, message=line, percent=percent, fence=self._invocation.fence
        )
        with self._guard:
            waiting, self._waiting = self._waiting, report
            pause = self._next_progress - time.monotonic()
        if pause <= 0:
            self._report()
        elif waiting is None:
            timer = threading.Timer(pause, self._report)
            timer.daemon = True
            timer.start()

    def _report(self) -> None:
        with self._guard:
            report, self._waiting = self._waiting, None
            self._next_progress = time.monotonic() + _PROGRESS_INTERVAL
        if report is not None and not self.cancelled:
            self._send(api.ConnectRequest(progress=report))

    def _cancel(self) -> None:
        self._cancelled.set()


def output_of(value: object) -> ToolOutput:
    """What a function answered. A value that is no text is sent as JSON."""
    if isinstance(value, ToolOutput):
        return value
    if value is None:
        return ToolOutput()
    if isinstance(value, str):
        return ToolOutput(value)
    return ToolOutput(json.dumps(value, allow_nan=False, ensure_ascii=False))


def succeeded(of: api.ToolInvocation, output: ToolOutput) -> list[api.ConnectRequest]:
    """The messages of a result, with the parts of a large output before it."""
    data = output.text.encode()
    if len(data) > _OUTPUT:
        return failed(of, ToolError(f"the output has {len(data)} bytes, and {_OUTPUT} are accepted"))
    inline = len(data) <= _INLINE
    parts = [] if inline else [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)]
    summary = output.summary or next(iter(output.text.splitlines()), "")
    result = api.ToolResult(
        call_id=of.call_id,
        fence=of.fence,
        success=True,
        output=output.text if inline else "",
        summary=_cut(" ".join(summary.split()), _SUMMARY),
        facts=output.facts,
    )
    chunks = [api.ToolOutputChunk(call_id=of.call_id, fence=of.fence, data=part) for part in parts]
    return [*(api.ConnectRequest(output=chunk) for chunk in chunks), api.ConnectRequest(result=result)]


def failed(of: api.ToolInvocation, error: BaseException) -> list[api.ConnectRequest]:
    """The messages of a failure."""
    result = api.ToolResult(call_id=of.call_id, fence=of.fence)
    if isinstance(error, OutcomeUnknown):
        result.outcome_unknown = True
        return [api.ConnectRequest(result=result)]
    known = isinstance(error, ToolError)
    result.error = _cut(str(error) if known else f"{type(error).__name__}: {error}", _ERROR)
    if isinstance(error, ToolError):
        result.retryable = error.retryable
        if error.retry_after is not None:
            pause = Duration()
            pause.FromTimedelta(datetime.timedelta(seconds=error.retry_after))
            result.retry_after.CopyFrom(pause)
    return [api.ConnectRequest(result=result)]


def _cut(text: str, most: int) -> str:
    """The text, or what of it fits into so many bytes."""
    data = text.encode()
    return text if len(data) <= most else data[: most - 3].decode(errors="ignore") + "…"
