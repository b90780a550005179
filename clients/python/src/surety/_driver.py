"""The loop of an agent: leases steps, asks a function for decisions, submits them."""

from __future__ import annotations

import inspect
import logging
import os
import platform
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import CancelledError
from typing import Any, TypeAlias, overload

from google.protobuf.duration_pb2 import Duration

from . import _trace
from ._calls import HEARTBEAT, LEASE_STEP, RELEASE_STEP, SUBMIT, Calls, Pending, Retry
from ._decision import Reply, fill
from ._errors import Cancelled, DeadlineExceeded, DriverFailed, SuretyError
from ._events import EventThread, run_until_stopped
from ._settings import DRIVER, Settings, executor_address
from ._step import Held, StepContext
from .v1 import decision_pb2, executor_service_pb2 as api

_log = logging.getLogger("surety.driver")
Decide: TypeAlias = Callable[[StepContext], Reply | Awaitable[Reply]]
# The service waits at most 60 s for a step, and 30 s for a turn.
_LEASE_WAIT, _LEASE_MARGIN, _SUBMIT_TIMEOUT, _SHORT_TIMEOUT = 30.0, 15.0, 60.0, 5.0
# What SubmitDecision answers when the step is not ours any more.
_NOT_OURS = frozenset({"lease_lost", "turn_conflict", "run_terminal", "run_not_found", "step_not_found"})
# The end of a run is seen when LeaseStep is called, so a driver of one run calls it more often.
_RUN_WAIT = 5.0
# Between two heartbeats: a third of the lease, within these bounds whatever the clocks say.
_BEAT_LEAST, _BEAT_MOST = 0.25, 5.0


class _Ended(Exception):
    """The work on a step ends without a release: it is not ours any more."""


class Driver:
    """Drives steps of runs with `driver: remote` by a function from `StepContext` to a decision.

    The function may be `async`. It is called for several steps at once, up to `max_parallel`, each from a
    thread; async functions share one event loop. What is not given is read from the environment:
    SURETY_EXECUTOR_URL and the variables that `Client` names.

    Without `namespace` and `namespaces` it takes steps of every namespace of its token. With `labels` it
    takes only steps of runs that carry all of them.
    """

    def __init__(
        self,
        decide: Decide,
        *,
        executor: str | None = None,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        cert_file: str | os.PathLike[str] | None = None,
        key_file: str | os.PathLike[str] | None = None,
        plaintext_peers: Iterable[str] | None = None,
        driver_id: str | None = None,
        namespace: str = "",
        namespaces: Iterable[str] = (),
        labels: Mapping[str, str] | None = None,
        run_id: str = "",
        max_parallel: int = 1,
        max_failures: int = 5,
        drain: float = 10.0,
        retry: Retry = Retry(),  # noqa: B008 - it is immutable
    ) -> None:
        if max_parallel < 1 or max_failures < 1:
            raise ValueError("max_parallel and max_failures are at least 1")
        self._decide = decide
        self._executor = executor
        self._settings = Settings(token, token_file, ca_file, cert_file, key_file, plaintext_peers)
        self._driver_id = driver_id or f"{platform.node()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._namespace, self._run_id = namespace, run_id
        self._namespaces, self._labels = list(namespaces), dict(labels or {})
        self._max_parallel, self._max_failures, self._drain = max_parallel, max_failures, drain
        self._retry = retry
        self._stop = threading.Event()

    def __call__(self, context: StepContext) -> Reply | Awaitable[Reply]:
        """Decides, as the function does."""
        return self._decide(context)

    def stop(self) -> None:
        """Ends `run` from another thread: running turns end, and their steps are released."""
        self._stop.set()

    def run(self, *, idle: float | None = None) -> None:
        """Drives steps until SIGTERM, Ctrl-C or `stop`, or until no step was leased for `idle` seconds.

        At the end a running turn has `drain` seconds; then the step is released to other drivers. Raises the
        `SuretyError` that makes going on useless, such as `Unauthenticated`, and `DriverFailed` when the
        function failed `max_failures` times in a row.
        """
        calls = Calls(executor_address(self._executor), self._settings, DRIVER, self._retry)
        loop = _Loop(self, calls, idle)
        try:
            run_until_stopped(self._stop, loop.start, loop.shut_down, _log)
        finally:
            calls.close()
            self._stop.clear()
        if loop.failure is not None:
            raise loop.failure


class _Loop:
    """One run of a driver."""

    def __init__(self, driver: Driver, calls: Calls, idle: float | None) -> None:
        self._driver, self._calls, self._idle = driver, calls, idle
        self._stop = driver._stop
        self._ended = threading.Event()
        self.failure: SuretyError | None = None
        self._guard = threading.Lock()
        self._held: dict[int, Held] = {}
        self._failures = 0
        self._polling = threading.Lock()
        self._pending: Pending[api.LeaseStepResponse] | None = None
        self._last_work = time.monotonic()
        self._interval = _BEAT_LEAST
        self._events = EventThread(_log)
        self._workers = [self._thread("step", self._work) for _ in range(driver._max_parallel)]

    def _thread(self, name: str, target: Callable[[], None]) -> threading.Thread:
        # Daemons: a function that does not return must not keep the process after the release.
        return threading.Thread(target=target, name=f"surety-{name}", daemon=True)

    def start(self) -> None:
        """Starts the threads."""
        self._events.start()
        self._thread("heartbeat", self._beat).start()
        for worker in self._workers:
            worker.start()

    def shut_down(self) -> None:
        """Lets running turns end, releases the steps, and ends the threads."""
        self._stop.set()
        end = time.monotonic() + self._driver._drain
        with self._guard:
            pending = self._pending
        if pending is not None:
            pending.cancel()
        try:
            for worker in self._workers:
                worker.join(max(0.0, end - time.monotonic()))
        finally:
            # First, so that no thread reports the end of a lease that is released here.
            self._ended.set()
            with self._guard:
                left = list(self._held.values())
            for held in left:
                self._release(held, "the driver stops")
                held.lose()
            self._events.close()

    def _fail(self, error: SuretyError) -> None:
        if self.failure is None:
            self.failure = error
        self._stop.set()

    def _work(self) -> None:
        try:
            while (leased := self._lease()) is not None:
                self._drive(leased)
        except SuretyError as error:
            # After the end, a function that took too long finds its client closed.
            if not self._ended.is_set():
                self._fail(error)
        except Exception as error:  # A defect here must end the driver, not only one of its threads.
            _log.exception("driver: a worker failed")
            failure = DriverFailed(f"the driver's loop failed: {error!r}")
            failure.__cause__ = error
            self._fail(failure)

    def _lease(self) -> tuple[Held, api.StepContext] | None:
        """Leases the next step; None when the driver stops. One thread at a time asks."""
        with self._polling:
            failures = 0
            while not self._stop.is_set():
                wait = self._wait_for_step()
                if wait is None:
                    self._stop.set()
                    break
                request = api.LeaseStepRequest(
                    driver_id=self._driver._driver_id,
                    namespace=self._driver._namespace,
                    run_id=self._driver._run_id,
                    namespaces=self._driver._namespaces,
                    labels=self._driver._labels,
                    wait=Duration(seconds=int(wait), nanos=int(wait % 1 * 1e9)),
                )
                try:
                    answer = self._until_stop(
                        self._calls.begin(LEASE_STEP, request, timeout=wait + _LEASE_MARGIN)
                    )
                except SuretyError as error:
                    if self._stop.is_set() or (self._driver._run_id and error.code == "run_terminal"):
                        self._stop.set()
                        break
                    if not error.retryable and not isinstance(error, DeadlineExceeded):
                        raise
                    failures += 1
                    _log.warning("driver: LeaseStep failed, it is called again: %s", error)
                    self._stop.wait(max(error.retry_after, self._driver._retry.pause(failures)))
                    continue
                failures = 0
                if answer.HasField("lease"):
                    return self._hold(answer.lease), answer.context
        return None

    def _wait_for_step(self) -> float | None:
        """How long to wait for a step; None when the driver was idle for long enough."""
        longest = _RUN_WAIT if self._driver._run_id else _LEASE_WAIT
        if self._idle is None:
            return longest
        with self._guard:
            if self._held:
                self._last_work = time.monotonic()
            left = self._last_work + self._idle - time.monotonic()
        return None if left <= 0 else min(longest, left)

    def _until_stop(self, pending: Pending[api.LeaseStepResponse]) -> api.LeaseStepResponse:
        """The answer of a call that `shut_down` cancels."""
        with self._guard:
            self._pending = pending
        if self._stop.is_set():
            pending.cancel()
        return pending.result()

    def _hold(self, lease: api.StepLease) -> Held:
        held = Held(lease)
        left = lease.expires_at.ToSeconds() - time.time()
        self._interval = min(_BEAT_MOST, max(_BEAT_LEAST, left / 3))
        with self._guard:
            self._held[id(held)] = held
            self._last_work = time.monotonic()
        _log.info("driver: leased %s", held.name)
        return held

    def _drive(self, leased: tuple[Held, api.StepContext]) -> None:
        held, context = leased
        previous: api.SubmitDecisionResponse | None = None
        try:
            while True:
                step = StepContext(context, previous, held)
                attributes: dict[str, str | int] = {
                    "surety.run_id": step.run_id,
                    "surety.step_id": step.step_id,
                    "surety.turn": step.turn,
                }
                with _trace.span("surety.decide", step.traceparent, attributes):
                    request = self._decided(step, held)
                    previous = self._submit(request, held)
                self._failures = 0
                if not previous.HasField("next"):
                    return
                context = previous.next
                if self._stop.is_set() or held.stopping.is_set():
                    self._release(held, "the driver stops" if self._stop.is_set() else "the run is paused")
                    return
        except _Ended as cause:
            if not self._ended.is_set():
                _log.info("driver: gave up %s: %s", held.name, cause)
        except Exception as error:
            self._function_failed(held, error)
        finally:
            with self._guard:
                self._held.pop(id(held), None)
                self._last_work = time.monotonic()

    def _function_failed(self, held: Held, error: Exception) -> None:
        _log.exception("driver: the function failed at %s", held.name)
        self._release(held, f"the driver's function raised {type(error).__name__}")
        self._failures += 1
        if self._failures >= self._driver._max_failures:
            failure = DriverFailed(f"the function failed {self._failures} times in a row: {error!r}")
            failure.__cause__ = error
            raise failure
        # Another driver may have more luck; this one does not take the step again at once.
        self._stop.wait(self._driver._retry.pause(self._failures))

    def _decided(self, step: StepContext, held: Held) -> api.SubmitDecisionRequest:
        reply = self._driver._decide(step)
        if inspect.isawaitable(reply):
            future = self._events.submit(reply)
            held.cancelling(future.cancel)
            try:
                reply = future.result()
            except CancelledError:
                if not held.lost.is_set():
                    raise RuntimeError("the function was cancelled") from None
            finally:
                held.cancelling(None)
        if held.lost.is_set():
            raise _Ended("its lease is lost")
        request = api.SubmitDecisionRequest(fence=held.fence, turn=step.turn)
        fill(request, reply)  # type: ignore[arg-type]  # It refuses what is no reply.
        return request

    def _submit(self, request: api.SubmitDecisionRequest, held: Held) -> api.SubmitDecisionResponse:
        """Submits a decision until its turn has ended. However often it is sent, it is applied once."""
        failures = 0
        while not held.lost.is_set():
            try:
                answer = self._calls.once(SUBMIT, request, timeout=_SUBMIT_TIMEOUT)
            except SuretyError as error:
                if not error.retryable and not isinstance(error, DeadlineExceeded):
                    if error.code in _NOT_OURS:
                        raise _Ended(str(error)) from None
                    if isinstance(error, Cancelled) and self._stop.is_set():
                        raise _Ended("the driver stops") from None
                    raise
                failures += 1
                _log.warning("driver: SubmitDecision failed at %s, it is sent again: %s", held.name, error)
                held.lost.wait(max(error.retry_after, self._driver._retry.pause(failures)))
                continue
            if answer.outcome != decision_pb2.TURN_OUTCOME_PENDING:
                outcome = decision_pb2.TurnOutcome.Name(answer.outcome)
                _log.info("driver: turn %d of %s: %s", request.turn, held.name, outcome)
                return answer
            if self._stop.is_set() or held.stopping.is_set():
                # The turn goes on without a driver; that of a paused run when it is resumed.
                self._release(held, "the driver stops" if self._stop.is_set() else "the run is paused")
                break
        raise _Ended("its lease has ended")

    def _release(self, held: Held, reason: str) -> None:
        if held.lost.is_set():
            return
        request = api.ReleaseStepRequest(fence=held.fence, reason=reason)
        try:
            self._calls.once(RELEASE_STEP, request, timeout=_SHORT_TIMEOUT)
            _log.info("driver: released %s: %s", held.name, reason)
        except SuretyError as error:
            _log.warning("driver: %s could not be released, its lease expires: %s", held.name, error)

    def _beat(self) -> None:
        """Extends the leases. It has a thread of its own, so that no function can hold it up."""
        while not self._ended.wait(self._interval):
            with self._guard:
                held = {_key(one.fence): one for one in self._held.values()}
            if not held:
                continue
            request = api.HeartbeatRequest(driver_id=self._driver._driver_id)
            request.fences.extend(one.fence for one in held.values())
            try:
                answer = self._calls.once(HEARTBEAT, request, timeout=_SHORT_TIMEOUT)
            except SuretyError as error:
                if not self._ended.is_set():
                    _log.warning("driver: Heartbeat failed: %s", error)
                continue
            if self._ended.is_set():
                return
            for fence in answer.lost:
                if (one := held.get(_key(fence))) is not None:
                    _log.warning("driver: the lease of %s is lost", one.name)
                    one.lose()
            for fence in answer.stopping:
                if (one := held.get(_key(fence))) is not None:
                    one.stopping.set()


def _key(fence: api.StepFence) -> tuple[str, str, int]:
    return fence.run_id, fence.step_id, fence.lease_epoch


@overload
def driver(decide: Decide, /) -> Driver: ...
@overload
def driver(**options: Any) -> Callable[[Decide], Driver]: ...
def driver(decide: Decide | None = None, /, **options: Any) -> Driver | Callable[[Decide], Driver]:
    """Makes a `Driver` of a function: `@surety.driver`, or `@surety.driver(max_parallel=4)`."""
    if decide is not None:
        return Driver(decide)
    return lambda function: Driver(function, **options)
