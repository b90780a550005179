"""Calls over a channel: deadlines, retries, token and trace context. Sync and async share the rules."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from . import _trace
from ._errors import Cancelled, SuretyError, error_of
from ._settings import Address, Settings
from .v1 import (
    executor_service_pb2 as executor_api,
    run_service_pb2 as run_api,
    tool_service_pb2 as tool_api,
)

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)
Metadata: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Method(Generic[Q, A]):
    """A call of the API."""

    path: str
    request: type[Q]
    answer: type[A]


def _run(name: str, request: type[Q], answer: type[A]) -> Method[Q, A]:
    return Method(f"/surety.v1.RunService/{name}", request, answer)


def _executor(name: str, request: type[Q], answer: type[A]) -> Method[Q, A]:
    return Method(f"/surety.v1.ExecutorService/{name}", request, answer)


CREATE_RUN = _run("CreateRun", run_api.CreateRunRequest, run_api.CreateRunResponse)
GET_RUN = _run("GetRun", run_api.GetRunRequest, run_api.GetRunResponse)
WATCH_RUN = _run("WatchRun", run_api.WatchRunRequest, run_api.WatchRunResponse)
CANCEL_RUN = _run("CancelRun", run_api.CancelRunRequest, run_api.CancelRunResponse)
LIST_WAITS = _run("ListWaits", run_api.ListWaitsRequest, run_api.ListWaitsResponse)
LIST_RECEIPTS = _run("ListReceipts", run_api.ListReceiptsRequest, run_api.ListReceiptsResponse)
ANSWER = _run("AnswerQuestion", run_api.AnswerQuestionRequest, run_api.AnswerQuestionResponse)
RESOLVE = _run("ResolveConfirmation", run_api.ResolveConfirmationRequest, run_api.ResolveConfirmationResponse)
LEASE_STEP = _executor("LeaseStep", executor_api.LeaseStepRequest, executor_api.LeaseStepResponse)
SUBMIT = _executor("SubmitDecision", executor_api.SubmitDecisionRequest, executor_api.SubmitDecisionResponse)
HEARTBEAT = _executor("Heartbeat", executor_api.HeartbeatRequest, executor_api.HeartbeatResponse)
RELEASE_STEP = _executor("ReleaseStep", executor_api.ReleaseStepRequest, executor_api.ReleaseStepResponse)
CONNECT = Method("/surety.v1.ToolService/Connect", tool_api.ConnectRequest, tool_api.ConnectResponse)


@dataclass(frozen=True)
class Retry:
    """When a failed call is sent again: exponential backoff with full jitter, within the deadline."""

    #: The upper bound of the first pause, in seconds.
    initial: float = 0.1
    #: The upper bound of every pause, in seconds.
    maximum: float = 5.0
    #: The most attempts of one call, or None for no other bound than the deadline. 1 never retries.
    attempts: int | None = None
    #: How long a stream without a deadline is opened again without success, in seconds.
    patience: float = 300.0

    def pause(self, failures: int) -> float:
        """A random pause after so many failures in a row."""
        bound = self.initial * 2.0 ** min(failures - 1, 30)
        return random.uniform(0.0, min(self.maximum, bound))


class Deadline:
    """The time until which a call may take; None is no limit."""

    def __init__(self, timeout: float | None) -> None:
        self._end = None if timeout is None else time.monotonic() + timeout

    def left(self) -> float | None:
        """The seconds that are left."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())


class Attempts:
    """Says after each failure how long to pause, or that the failure is final."""

    def __init__(self, retry: Retry, deadline: Deadline) -> None:
        self._retry, self._deadline = retry, deadline
        self._failures, self._since, self._began = 0, 0.0, time.monotonic()

    def begin(self) -> None:
        """An attempt begins."""
        self._began = time.monotonic()

    def succeeded(self) -> None:
        """The connection works: what failed before does not count any more."""
        self._failures = 0

    def pause(self, error: SuretyError) -> float:
        """The pause before the next attempt.

        Raises the error when there is none.
        """
        now = time.monotonic()
        # A stream that stayed open for long without an event was a success, too.
        if self._failures == 0 or now - self._began > self._retry.maximum:
            self._failures, self._since = 0, now
        self._failures += 1
        most, left = self._retry.attempts, self._deadline.left()
        pause = max(error.retry_after, self._retry.pause(self._failures))
        spent = most is not None and self._failures >= most
        late = now - self._since > self._retry.patience if left is None else left <= pause
        if not error.retryable or spent or late:
            raise error
        return pause


class _Channel:
    """What sync and async calls know of a connection."""

    def __init__(self, address: Address, settings: Settings, roles: frozenset[str]) -> None:
        self.address = address
        secret = settings.secret(address, roles)
        self._token = [("authorization", f"Bearer {secret}")] if secret else []
        self.credentials: grpc.ChannelCredentials | None = None
        if address.tls:
            self.credentials = grpc.ssl_channel_credentials(*settings.certificates())
        self.options: list[tuple[str, int]] = [
            # Retries are those of this package alone, so that their number and their time are known.
            ("grpc.enable_retries", 0),
            ("grpc.max_receive_message_length", -1),
            ("grpc.keepalive_time_ms", 20_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 5_000),
        ]
        if not address.tls:
            # A proxy would see the token.
            self.options.append(("grpc.enable_http_proxy", 0))

    def metadata(self, traceparent: str | None) -> Metadata:
        return tuple(self._token + _trace.headers(traceparent))


class Calls:
    """Calls of one service from threads."""

    def __init__(self, address: Address, settings: Settings, roles: frozenset[str], retry: Retry) -> None:
        self._of = of = _Channel(address, settings, roles)
        self._retry = retry
        if of.credentials is None:
            self._channel = grpc.insecure_channel(of.address.target, of.options)
        else:
            self._channel = grpc.secure_channel(of.address.target, of.credentials, of.options)
        self._closed = False

    def close(self) -> None:
        """Closes the connection; calls that are under way fail."""
        self._closed = True
        self._channel.close()

    def begin(
        self, method: Method[Q, A], request: Q, *, timeout: float | None, traceparent: str | None = None
    ) -> Pending[A]:
        """Begins a call without retries."""
        call = self._channel.unary_unary(
            method.path, method.request.SerializeToString, method.answer.FromString
        )
        self._open()
        try:
            future = call.future(request, timeout=timeout, metadata=self._of.metadata(traceparent))
        except ValueError:
            # The library's error for a channel that was closed in between.
            raise _closed() from None
        return Pending(future)

    def once(
        self, method: Method[Q, A], request: Q, *, timeout: float | None, traceparent: str | None = None
    ) -> A:
        """Makes a call without retries."""
        return self.begin(method, request, timeout=timeout, traceparent=traceparent).result()

    def call(self, method: Method[Q, A], request: Q, *, timeout: float | None, traceparent: str | None) -> A:
        """Makes a call that may be repeated: one that reads, or one with a request id."""
        deadline = Deadline(timeout)
        attempts = Attempts(self._retry, deadline)
        while True:
            attempts.begin()
            try:
                return self.once(method, request, timeout=deadline.left(), traceparent=traceparent)
            except SuretyError as error:
                failure = error
            time.sleep(attempts.pause(failure))

    def stream(
        self, method: Method[Q, A], resume: Callable[[], Q], *, timeout: float | None, traceparent: str | None
    ) -> Generator[A, None, None]:
        """Reads a stream; where it breaks, it is opened again with what `resume` answers then."""
        deadline = Deadline(timeout)
        attempts = Attempts(self._retry, deadline)
        open_stream = self._channel.unary_stream(
            method.path, method.request.SerializeToString, method.answer.FromString
        )
        while True:
            self._open()
            attempts.begin()
            metadata = self._of.metadata(traceparent)
            answers = open_stream(resume(), timeout=deadline.left(), metadata=metadata)
            try:
                for answer in answers:
                    attempts.succeeded()
                    yield answer
                return
            except grpc.RpcError as error:
                failure = error_of(error)
            finally:
                answers.cancel()
            time.sleep(attempts.pause(failure))

    def duplex(self, method: Method[Q, A], requests: Iterable[Q]) -> Any:
        """Opens a stream in both directions, without retries. Its errors are those of the library."""
        self._open()
        open_stream = self._channel.stream_stream(
            method.path, method.request.SerializeToString, method.answer.FromString
        )
        return open_stream(iter(requests), metadata=self._of.metadata(None))

    def _open(self) -> None:
        if self._closed:
            raise _closed()


class Pending(Generic[A]):
    """A call that is under way."""

    def __init__(self, future: grpc.Future[A]) -> None:
        self._future = future

    def cancel(self) -> None:
        """Ends the call; its result raises Cancelled."""
        self._future.cancel()

    def result(self) -> A:
        """Waits for the answer."""
        try:
            return self._future.result()
        except grpc.RpcError as error:
            failure = error_of(error)
        except grpc.FutureCancelledError:
            failure = Cancelled("the call was cancelled")
        raise failure


class AsyncCalls:
    """Calls of one service from an event loop."""

    def __init__(self, address: Address, settings: Settings, roles: frozenset[str], retry: Retry) -> None:
        self._of = of = _Channel(address, settings, roles)
        self._retry = retry
        if of.credentials is None:
            self._channel = grpc.aio.insecure_channel(of.address.target, of.options)
        else:
            self._channel = grpc.aio.secure_channel(of.address.target, of.credentials, of.options)
        self._closed = False

    async def close(self) -> None:
        """Closes the connection; calls that are under way fail."""
        self._closed = True
        await self._channel.close()

    async def call(
        self, method: Method[Q, A], request: Q, *, timeout: float | None, traceparent: str | None
    ) -> A:
        """As `Calls.call`."""
        deadline = Deadline(timeout)
        attempts = Attempts(self._retry, deadline)
        unary = self._channel.unary_unary(
            method.path, method.request.SerializeToString, method.answer.FromString
        )
        while True:
            self._open()
            attempts.begin()
            metadata = self._of.metadata(traceparent)
            try:
                return await unary(request, timeout=deadline.left(), metadata=metadata)
            except grpc.RpcError as error:
                failure = error_of(error)
            await asyncio.sleep(attempts.pause(failure))

    async def stream(
        self, method: Method[Q, A], resume: Callable[[], Q], *, timeout: float | None, traceparent: str | None
    ) -> AsyncGenerator[A, None]:
        """As `Calls.stream`."""
        deadline = Deadline(timeout)
        attempts = Attempts(self._retry, deadline)
        open_stream = self._channel.unary_stream(
            method.path, method.request.SerializeToString, method.answer.FromString
        )
        while True:
            self._open()
            attempts.begin()
            metadata = self._of.metadata(traceparent)
            answers = open_stream(resume(), timeout=deadline.left(), metadata=metadata)
            try:
                async for answer in answers:
                    attempts.succeeded()
                    yield answer
                return
            except grpc.RpcError as error:
                failure = error_of(error)
            finally:
                answers.cancel()
            await asyncio.sleep(attempts.pause(failure))

    def _open(self) -> None:
        if self._closed:
            raise _closed()


def _closed() -> SuretyError:
    return Cancelled("the client is closed; make another one")
