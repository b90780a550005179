"""The client of runs for asyncio."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType

from . import _requests as requests
from ._calls import (
    ANSWER,
    CANCEL_RUN,
    CREATE_RUN,
    GET_RUN,
    LIST_RECEIPTS,
    LIST_WAITS,
    RESOLVE,
    WATCH_RUN,
    A,
    AsyncCalls,
    Deadline,
    Method,
    Q,
    Retry,
)
from ._settings import PERSON, Settings, planner_address
from .v1 import event_pb2, receipt_pb2, run_pb2, run_service_pb2, verdict_pb2


class AsyncClient:
    """Creates, follows and answers runs. As `Client`, for one event loop.

    What is not given is read from the environment: SURETY_URL, SURETY_TOKEN or SURETY_TOKEN_FILE,
    SURETY_TLS_CA_FILE, SURETY_TLS_CERT_FILE, SURETY_TLS_KEY_FILE and SURETY_PLAINTEXT_PEERS. `timeout` is the
    default deadline of a call in seconds. Every method may raise `SuretyError`.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        cert_file: str | os.PathLike[str] | None = None,
        key_file: str | os.PathLike[str] | None = None,
        plaintext_peers: Iterable[str] | None = None,
        namespace: str = "",
        timeout: float = 30.0,
        retry: Retry = Retry(),  # noqa: B008 - it is immutable
    ) -> None:
        settings = Settings(token, token_file, ca_file, cert_file, key_file, plaintext_peers)
        self._calls = AsyncCalls(planner_address(address), settings, PERSON, retry)
        self._namespace, self._timeout = namespace, timeout

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection."""
        await self._calls.close()

    async def create_run(
        self,
        *,
        plan: requests.Plan | None = None,
        goal: str = "",
        workspace: str = "",
        checks: Iterable[requests.Check] = (),
        policy: requests.Policy | None = None,
        limits: requests.Limits | None = None,
        driver: str | None = None,
        labels: Mapping[str, str] | None = None,
        namespace: str | None = None,
        priority: int = 0,
        interactive: bool = False,
        without_plan: bool = False,
        request_id: str | None = None,
        timeout: float | None = None,
        traceparent: str | None = None,
    ) -> run_pb2.Run:
        """Creates a run.

        `plan` is a dict, a text or a `Plan`. A check that is a text is a command. `driver` is `script` or
        `remote`. The same `request_id` with the same content answers the existing run.
        """
        request = requests.create_run(
            plan=plan,
            goal=goal,
            workspace=workspace,
            checks=checks,
            policy=policy,
            limits=limits,
            driver=driver,
            labels=labels,
            namespace=self._namespace if namespace is None else namespace,
            priority=priority,
            interactive=interactive,
            without_plan=without_plan,
            key=request_id,
        )
        answer = await self._call(CREATE_RUN, request, timeout, traceparent)
        return requests.created(answer)

    async def get_run(
        self, run_id: str, *, timeout: float | None = None, traceparent: str | None = None
    ) -> run_pb2.Run:
        """Returns a run, without its receipts and turns."""
        request = requests.get_run(run_id)
        return (await self._call(GET_RUN, request, timeout, traceparent)).run

    async def verdict(
        self, run_id: str, *, timeout: float | None = None, traceparent: str | None = None
    ) -> verdict_pb2.Verdict:
        """Returns the latest verdict. Raises `NotFound` with `verdict_not_found` while there is none."""
        run = await self.get_run(run_id, timeout=timeout, traceparent=traceparent)
        return requests.verdict_of(run)

    async def watch(
        self,
        run_id: str,
        *,
        from_sequence: int = 1,
        follow: bool = True,
        timeout: float | None = None,
        traceparent: str | None = None,
    ) -> AsyncIterator[event_pb2.Event]:
        """Yields the events of a run, each once and in order, and with `follow` until the run has ended.

        A broken stream is opened again after the last event. `timeout` bounds the whole; None is no limit.
        """
        next_sequence = from_sequence

        def resume() -> run_service_pb2.WatchRunRequest:
            return requests.watch_run(run_id, next_sequence, follow)

        answers = self._calls.stream(WATCH_RUN, resume, timeout=timeout, traceparent=traceparent)
        try:
            async for answer in answers:
                next_sequence = answer.event.sequence + 1
                yield answer.event
        finally:
            await answers.aclose()

    async def wait(
        self, run_id: str, *, timeout: float | None = None, traceparent: str | None = None
    ) -> run_pb2.Run:
        """Returns a run when it has ended. Raises `DeadlineExceeded` after `timeout` seconds."""
        deadline = Deadline(timeout)
        run = await self.get_run(run_id, timeout=timeout, traceparent=traceparent)
        events = self.watch(
            run_id, from_sequence=run.last_sequence + 1, timeout=deadline.left(), traceparent=traceparent
        )
        async for _ in events:
            pass
        return await self.get_run(run_id, traceparent=traceparent)

    async def cancel(
        self,
        run_id: str,
        *,
        reason: str = "",
        request_id: str | None = None,
        expected_version: int | None = None,
        timeout: float | None = None,
        traceparent: str | None = None,
    ) -> run_pb2.Run:
        """Cancels a run, and returns it."""
        request = requests.cancel_run(run_id, reason, request_id, expected_version)
        return (await self._call(CANCEL_RUN, request, timeout, traceparent)).run

    async def list_waits(
        self,
        *,
        run_id: str = "",
        namespace: str | None = None,
        timeout: float | None = None,
        traceparent: str | None = None,
    ) -> list[run_service_pb2.Wait]:
        """Returns the open waits of a run, or of all runs of a namespace."""
        request = requests.list_waits(run_id, self._namespace if namespace is None else namespace)
        waits: list[run_service_pb2.Wait] = []
        while True:
            page = await self._call(LIST_WAITS, request, timeout, traceparent)
            waits.extend(page.waits)
            if not page.next_page_token:
                return waits
            request.page_token = page.next_page_token

    async def answer(
        self,
        wait: requests.Wait | str,
        answer: object,
        *,
        request_id: str | None = None,
        expected_version: int | None = None,
        timeout: float | None = None,
        traceparent: str | None = None,
    ) -> run_pb2.Run:
        """Answers a question. An answer that is no text is sent as JSON, for questions with a JSON Schema."""
        request = requests.answer(wait, answer, request_id, expected_version)
        return (await self._call(ANSWER, request, timeout, traceparent)).run

    async def approve(
        self,
        wait: requests.Wait | str,
        *,
        call_digest: str | None = None,
        comment: str = "",
        request_id: str | None = None,
        expected_version: int | None = None,
        timeout: float | None = None,
        traceparent: str | None = None,
    ) -> run_pb2.Run:
        """Approves exactly the call or the verdict that a wait shows."""
        request = requests.resolve(
            wait,
            True,
            call_digest=call_digest,
            comment=comment,
            stop=False,
            key=request_id,
            expected_version=expected_version,
        )
        return (await self._call(RESOLVE, request, timeout, traceparent)).run

    async def deny(
        self,
        wait: requests.Wait | str,
        *,
        call_digest: str | None = None,
        comment: str = "",
        stop: bool = False,
        request_id: str | None = None,
        expected_version: int | None = None,
        timeout: float | None = None,
        traceparent: str | None = None,
    ) -> run_pb2.Run:
        """Denies what a wait shows; with `stop` the run ends with `confirmation_denied`."""
        request = requests.resolve(
            wait,
            False,
            call_digest=call_digest,
            comment=comment,
            stop=stop,
            key=request_id,
            expected_version=expected_version,
        )
        return (await self._call(RESOLVE, request, timeout, traceparent)).run

    async def receipts(
        self, run_id: str, *, timeout: float | None = None, traceparent: str | None = None
    ) -> AsyncIterator[receipt_pb2.EvidenceReceipt]:
        """Yields all receipts of a run in the order of the chain. The deadline is that of each page."""
        request = requests.list_receipts(run_id)
        while True:
            page = await self._call(LIST_RECEIPTS, request, timeout, traceparent)
            for receipt in page.receipts:
                yield receipt
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def _call(
        self, method: Method[Q, A], request: Q, timeout: float | None, traceparent: str | None
    ) -> A:
        deadline = self._timeout if timeout is None else timeout
        return await self._calls.call(method, request, timeout=deadline, traceparent=traceparent)
