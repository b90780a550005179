"""What a driver decides from, and the steps that it has leased."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from .v1 import executor_service_pb2 as api, plan_pb2, todo_pb2, tool_pb2

_ROLES = {
    api.CONTEXT_ROLE_SYSTEM: "system",
    api.CONTEXT_ROLE_USER: "user",
    api.CONTEXT_ROLE_ASSISTANT: "assistant",
}


class Held:
    """A leased step."""

    def __init__(self, lease: api.StepLease) -> None:
        self.lease = lease
        self.fence = api.StepFence(run_id=lease.run_id, step_id=lease.step_id, lease_epoch=lease.lease_epoch)
        #: Set when the step is no longer ours.
        self.lost = threading.Event()
        #: Set when the run is paused: the turn ends, then the step is released.
        self.stopping = threading.Event()
        self._cancel: Callable[[], object] | None = None
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """For logs."""
        return f"step {self.lease.step_id} of run {self.lease.run_id}"

    def lose(self) -> None:
        """The step is no longer ours: what works on it is cancelled."""
        with self._lock:
            self.lost.set()
            cancel = self._cancel
        if cancel is not None:
            cancel()

    def cancelling(self, cancel: Callable[[], object] | None) -> None:
        """What ends the work on the step; called at once if the step is lost already."""
        with self._lock:
            self._cancel = cancel
            lost = self.lost.is_set()
        if lost and cancel is not None:
            cancel()


@dataclass(frozen=True)
class StepContext:
    """What the next decision of a step is made from."""

    #: All fields, as docs/api.md lists them for StepContext.
    message: api.StepContext
    #: The answer to the decision before, under the same lease; None for the first.
    previous: api.SubmitDecisionResponse | None
    _held: Held = field(repr=False)

    @property
    def run_id(self) -> str:
        """The run."""
        return self._held.lease.run_id

    @property
    def step_id(self) -> str:
        """The id of the step."""
        return self.message.step.id

    @property
    def step(self) -> plan_pb2.PlanStep:
        """The step."""
        return self.message.step

    @property
    def attempt(self) -> int:
        """The attempt at the step, from 1."""
        return self._held.lease.attempt

    @property
    def turn(self) -> int:
        """The number of the turn in this attempt, from 1."""
        return self.message.turn

    @property
    def goal(self) -> str:
        """The goal of the run."""
        return self.message.goal

    @property
    def workspace(self) -> str:
        """The folder of the run on the executor's machine."""
        return self.message.workspace

    @property
    def tools(self) -> list[tool_pb2.Tool]:
        """The tools that the step may call."""
        return list(self.message.tools)

    @property
    def todos(self) -> list[todo_pb2.Todo]:
        """All todos of the run."""
        return list(self.message.todos)

    @property
    def messages(self) -> list[dict[str, str]]:
        """The conversation for a chat model: `role` and `content` of each message."""
        return [
            {"role": _ROLES.get(message.role, "user"), "content": message.text}
            for message in self.message.messages
        ]

    @property
    def traceparent(self) -> str:
        """The trace of the run; empty when it is not traced."""
        return self._held.lease.traceparent

    @property
    def lost(self) -> bool:
        """Whether the step is no longer leased: a function that takes long looks at it, and ends."""
        return self._held.lost.is_set()
