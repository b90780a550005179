"""Decisions of a driver: what it wants to do in one turn."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ._requests import as_json
from .v1 import decision_pb2, executor_service_pb2


@dataclass(frozen=True)
class Usage:
    """What the decision cost, for the budgets of the run."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0
    model: str = ""


@dataclass(frozen=True)
class Decision:
    """One decision. Make it with `call`, `next_plan`, `done`, `ask_user`, `confirm`, `abort` or `raw`."""

    action: str = ""
    speak: str = ""
    reason: str = ""
    goal_check: str = ""
    tool: str = ""
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    abort_code: str = ""
    abort_message: str = ""
    answer_schema: Mapping[str, Any] | None = None
    text: str = ""
    usage: Usage | None = None

    def using(self, usage: Usage) -> Decision:
        """The same decision with what it cost."""
        return dataclasses.replace(self, usage=usage)

    def saying(self, speak: str) -> Decision:
        """The same decision with a text for the user who follows the run."""
        return dataclasses.replace(self, speak=speak)


#: What the function of a driver may return. A dict and a text are read tolerantly by the executor.
Reply: TypeAlias = Decision | Mapping[str, Any] | str


def call(tool: str, /, **arguments: Any) -> Decision:
    """Calls a tool."""
    return Decision("continue", tool=tool, arguments=arguments)


def confirm(tool: str, /, **arguments: Any) -> Decision:
    """Asks a person to confirm a call of a tool. After the approval the executor makes it."""
    return Decision("confirm", tool=tool, arguments=arguments)


def next_plan(goal_check: str = "the step is done", *, speak: str = "") -> Decision:
    """The step is done; `goal_check` says why."""
    return Decision("next_plan", goal_check=goal_check, speak=speak)


def done(goal_check: str = "the goal is reached", *, speak: str = "") -> Decision:
    """The whole plan is done; `goal_check` says why, `speak` is the final answer."""
    return Decision("done", goal_check=goal_check, speak=speak)


def ask_user(question: str, *, answer_schema: Mapping[str, Any] | None = None) -> Decision:
    """Asks the user that the run works for. The answer must fit the JSON Schema, if there is one."""
    return Decision("ask_user", speak=question, answer_schema=answer_schema)


def abort(code: str, message: str, *, reason: str = "") -> Decision:
    """Ends the run as failed, with a code and a message for the user, and a reason for the operator."""
    return Decision("abort", abort_code=code, abort_message=message, reason=reason)


def raw(text: str, usage: Usage | None = None) -> Decision:
    """The reply of a model as it was written."""
    return Decision(text=text, usage=usage)


def fill(request: executor_service_pb2.SubmitDecisionRequest, reply: Reply) -> None:
    """Puts a decision into the request that submits it."""
    if isinstance(reply, str):
        request.raw = reply
        return
    if not isinstance(reply, Decision):
        if not isinstance(reply, Mapping):
            raise TypeError(f"a driver returns a Decision, a dict or a text, not {type(reply).__name__}")
        request.raw = as_json(reply, "decision")
        return
    if reply.usage is not None:
        request.usage.CopyFrom(decision_pb2.Usage(**dataclasses.asdict(reply.usage)))
    if not reply.action:
        request.raw = reply.text
        return
    decision = decision_pb2.ExecuteDecision(
        action=f"DECISION_ACTION_{reply.action.upper()}",
        speak=reply.speak,
        reason=reply.reason,
        goal_check=reply.goal_check,
    )
    if reply.tool:
        decision.tool_call.name = reply.tool
        decision.tool_call.arguments_json = as_json(reply.arguments, "arguments")
    if reply.action == "abort":
        decision.abort.code, decision.abort.user_message = reply.abort_code, reply.abort_message
        decision.abort.internal_reason = reply.reason
    if reply.answer_schema is not None:
        decision.answer_schema_json = as_json(reply.answer_schema, "answer_schema")
    request.decision.CopyFrom(decision)
