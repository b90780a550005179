"""A tool worker: serves functions as tools of runs."""

from __future__ import annotations

import inspect
import json
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, overload

from google.protobuf.duration_pb2 import Duration

from ._calls import Calls, Retry
from ._events import run_until_stopped
from ._requests import as_json
from ._schema import Signature
from ._settings import WORKER, Settings, executor_address
from ._tool_call import ToolCall, ToolError
from ._worker_loop import WorkerLoop
from .v1 import tool_pb2, tool_service_pb2 as api

_log = logging.getLogger("surety.worker")
Function: TypeAlias = Callable[..., Any]
F = TypeVar("F", bound=Function)


@dataclass(frozen=True)
class Tool:
    """A tool and its function."""

    message: tool_pb2.Tool
    function: Function
    #: None when the schema was given: then the function receives the arguments as JSON has them.
    signature: Signature | None
    call_name: str | None

    @property
    def repeatable(self) -> bool:
        """Whether another call with the same idempotency key has no further effect."""
        return self.message.annotations.read_only or self.message.annotations.idempotent

    def call(self, call: ToolCall) -> object:
        """Calls the function. Raises ToolError for arguments that do not fit."""
        arguments = json.loads(call.message.arguments_json or "{}")
        if self.signature is not None:
            try:
                arguments = self.signature.arguments(arguments)
            except ValueError as error:
                raise ToolError(f"the arguments do not fit: {error}") from None
        if self.call_name is not None:
            arguments[self.call_name] = call
        return self.function(**arguments)


class Worker:
    """Serves functions as tools.

    `worker_id` is the worker's name within its identity: a process that restarts and goes on with its calls
    keeps it, and two processes have two names. The policy of a namespace says in `tool_workers` which
    identity may serve which tool. Sync functions have a thread for each call, async functions share one
    event loop. What is not given is read from the environment: SURETY_EXECUTOR_URL and the variables that
    `Client` names. With `labels` it takes only calls of runs that carry all of them.
    """

    def __init__(
        self,
        worker_id: str,
        *,
        executor: str | None = None,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        cert_file: str | os.PathLike[str] | None = None,
        key_file: str | os.PathLike[str] | None = None,
        plaintext_peers: Iterable[str] | None = None,
        namespaces: Iterable[str] = (),
        labels: Mapping[str, str] | None = None,
        max_parallel: int = 1,
        drain: float = 30.0,
        retry: Retry = Retry(),  # noqa: B008 - it is immutable
    ) -> None:
        if max_parallel < 1:
            raise ValueError("max_parallel is at least 1")
        self._announce = api.Announce(
            worker_id=worker_id,
            max_parallel=max_parallel,
            namespaces=list(namespaces),
            labels=dict(labels or {}),
        )
        self._executor, self._drain, self._retry = executor, drain, retry
        self._settings = Settings(token, token_file, ca_file, cert_file, key_file, plaintext_peers)
        self._tools: dict[str, Tool] = {}
        self._stop = threading.Event()

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(
        self,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        schema: Mapping[str, Any] | None = None,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        open_world: bool | None = None,
        timeout: float | None = None,
        return_sample: str = "",
    ) -> Callable[[F], F]: ...
    def tool(
        self,
        function: F | None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        schema: Mapping[str, Any] | None = None,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        open_world: bool | None = None,
        timeout: float | None = None,
        return_sample: str = "",
    ) -> F | Callable[[F], F]:
        """Serves a function as a tool: `@worker.tool`, or `@worker.tool(read_only=True)`.

        The name and the description are those of the function, the JSON Schema is made from its type hints.
        `timeout` is the time limit of one call in seconds. An annotation counts where the namespace's policy
        repeats it; one that is not given has the safe value.
        """

        def add(served: F) -> F:
            signature = None if schema is not None else Signature(served, ToolCall)
            tool = tool_pb2.Tool(
                name=name or served.__name__,
                description=inspect.cleandoc(served.__doc__ or "") if description is None else description,
                input_schema_json=as_json(schema if signature is None else signature.schema, "schema"),
                annotations=tool_pb2.ToolAnnotations(
                    read_only=read_only, destructive=destructive, idempotent=idempotent, open_world=open_world
                ),
                return_sample=return_sample,
            )
            if timeout is not None:
                tool.timeout.CopyFrom(Duration(seconds=int(timeout), nanos=int(timeout % 1 * 1e9)))
            if tool.name in self._tools:
                raise ValueError(f"the worker has a tool with the name {tool.name} already")
            call_name = _call_name(served) if signature is None else signature.call_name
            self._tools[tool.name] = Tool(tool, served, signature, call_name)
            return served

        return add if function is None else add(function)

    def stop(self) -> None:
        """Ends `run` from another thread: running calls end first."""
        self._stop.set()

    def run(self) -> None:
        """Serves calls until SIGTERM, Ctrl-C or `stop`.

        After a lost connection it connects again and goes on with its calls. At the end it takes no new
        calls, and running ones have `drain` seconds; a call that takes longer is offered again, or a person
        is asked. Raises the `SuretyError` that makes going on useless, such as `PermissionDenied` with
        `tool_not_granted`.
        """
        announce = api.Announce()
        announce.CopyFrom(self._announce)
        announce.tools.extend(tool.message for tool in self._tools.values())
        calls = Calls(executor_address(self._executor), self._settings, WORKER, self._retry)
        loop = WorkerLoop(calls, announce, self._tools, self._stop, self._drain, self._retry)
        try:
            run_until_stopped(self._stop, loop.start, loop.shut_down, _log)
        finally:
            calls.close()
            self._stop.clear()
        if loop.failure is not None:
            raise loop.failure


def _call_name(function: Function) -> str | None:
    """The parameter of a function with a given schema that receives the call."""
    hints = inspect.get_annotations(function, eval_str=True)
    return next((name for name, hint in hints.items() if hint is ToolCall), None)
