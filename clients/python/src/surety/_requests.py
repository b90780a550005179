"""Requests of the client, made from plain Python values."""

from __future__ import annotations

import datetime
import json
import logging
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, TypeVar, cast

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from ._errors import InvalidInput, NotFound
from .v1 import check_pb2, limits_pb2, plan_pb2, run_pb2, run_service_pb2, verdict_pb2

_log = logging.getLogger("surety")
_PAGE = 200
M = TypeVar("M", bound=Message)
Plan: TypeAlias = str | Mapping[str, Any] | plan_pb2.Plan
Policy: TypeAlias = Mapping[str, Any] | run_pb2.Policy
Limits: TypeAlias = Mapping[str, Any] | limits_pb2.Limits
Check: TypeAlias = str | Mapping[str, Any] | check_pb2.AcceptCheck
Wait = run_service_pb2.Wait


def request_id(given: str | None) -> str:
    """The idempotency key of one call. All attempts of the call have the same."""
    return str(uuid.uuid4()) if given is None else given


def create_run(
    *,
    plan: Plan | None,
    goal: str,
    workspace: str,
    checks: Iterable[Check],
    policy: Policy | None,
    limits: Limits | None,
    driver: str | None,
    labels: Mapping[str, str] | None,
    namespace: str,
    priority: int,
    interactive: bool,
    without_plan: bool,
    key: str | None,
) -> run_service_pb2.CreateRunRequest:
    """The request of CreateRun."""
    request = run_service_pb2.CreateRunRequest(
        request_id=request_id(key),
        namespace=namespace,
        goal=goal,
        workspace=workspace,
        labels=labels or {},
        priority=priority,
        interactive=interactive,
        without_plan=without_plan,
    )
    if isinstance(plan, plan_pb2.Plan):
        request.plan.CopyFrom(plan)
    elif plan is not None:
        request.plan_text = plan if isinstance(plan, str) else as_json(plan, "plan")
    if policy is not None:
        request.policy.CopyFrom(message_of(run_pb2.Policy, policy, "policy"))
    if limits is not None:
        request.limits.CopyFrom(message_of(limits_pb2.Limits, limits, "limits"))
    if driver is not None:
        known = run_pb2.DESCRIPTOR.enum_types_by_name["Driver"]
        request.driver = cast("run_pb2.Driver", _enum(known, driver, "driver"))
    for number, check in enumerate(checks):
        if isinstance(check, str):
            check = {"kind": "command_success", "target": check}
        request.verify.append(message_of(check_pb2.AcceptCheck, check, f"verify[{number}]"))
    return request


def created(answer: run_service_pb2.CreateRunResponse) -> run_pb2.Run:
    """The run of an answer, whose warnings are logged."""
    for warning in answer.warnings:
        _log.warning("run %s: %s at %s: %s", answer.run.id, warning.code, warning.field, warning.message)
    return answer.run


def get_run(run_id: str) -> run_service_pb2.GetRunRequest:
    """The request of GetRun."""
    return run_service_pb2.GetRunRequest(run_id=run_id)


def verdict_of(run: run_pb2.Run) -> verdict_pb2.Verdict:
    """The latest verdict of a run."""
    if not run.HasField("verdict"):
        raise NotFound(f"run {run.id} has no verdict yet", code="verdict_not_found")
    return run.verdict


def watch_run(run_id: str, from_sequence: int, follow: bool) -> run_service_pb2.WatchRunRequest:
    """The request of WatchRun."""
    return run_service_pb2.WatchRunRequest(run_id=run_id, from_sequence=from_sequence, follow=follow)


def cancel_run(
    run_id: str, reason: str, key: str | None, expected_version: int | None
) -> run_service_pb2.CancelRunRequest:
    """The request of CancelRun."""
    return run_service_pb2.CancelRunRequest(
        run_id=run_id, reason=reason, request_id=request_id(key), expected_version=expected_version
    )


def list_waits(run_id: str, namespace: str) -> run_service_pb2.ListWaitsRequest:
    """The request of ListWaits for the first page."""
    return run_service_pb2.ListWaitsRequest(run_id=run_id, namespace=namespace, page_size=_PAGE)


def list_receipts(run_id: str) -> run_service_pb2.ListReceiptsRequest:
    """The request of ListReceipts for the first page."""
    return run_service_pb2.ListReceiptsRequest(run_id=run_id, page_size=_PAGE)


def answer(
    wait: Wait | str, value: object, key: str | None, expected_version: int | None
) -> run_service_pb2.AnswerQuestionRequest:
    """The request of AnswerQuestion. A value that is no text is sent as JSON. A Wait names its question."""
    return run_service_pb2.AnswerQuestionRequest(
        wait_id=wait_id(wait),
        answer=value if isinstance(value, str) else as_json(value, "answer"),
        question_digest=getattr(wait, "question_digest", ""),
        request_id=request_id(key),
        expected_version=expected_version,
    )


def resolve(
    wait: Wait | str,
    approved: bool,
    *,
    call_digest: str | None,
    comment: str,
    stop: bool,
    key: str | None,
    expected_version: int | None,
) -> run_service_pb2.ResolveConfirmationRequest:
    """The request of ResolveConfirmation."""
    digest = call_digest if call_digest is not None else getattr(wait, "call_digest", "")
    if not digest:
        raise InvalidInput(
            "an answer names the digest of what was shown; pass the Wait, or its call_digest beside the id",
            code="field_missing",
            field="call_digest",
        )
    return run_service_pb2.ResolveConfirmationRequest(
        wait_id=wait_id(wait),
        answer="CONFIRMATION_ANSWER_APPROVE" if approved else "CONFIRMATION_ANSWER_DENY",
        call_digest=digest,
        comment=comment,
        stop=stop,
        request_id=request_id(key),
        expected_version=expected_version,
    )


def wait_id(wait: Wait | str) -> str:
    """The id of a wait."""
    return wait if isinstance(wait, str) else wait.id


def as_json(value: object, field: str) -> str:
    """A value as JSON text."""
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"it is no JSON value: {error}", code="type_mismatch", field=field) from None


def message_of(kind: type[M], value: Mapping[str, Any] | Message, path: str) -> M:
    """A message of its fields by name. Enums may be short (`require_full`), durations numbers of seconds."""
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise _mismatch(path, f"{kind.__name__} or a mapping", value)
    message = kind()
    for name, item in value.items():
        field = kind.DESCRIPTOR.fields_by_name.get(name)
        place = f"{path}.{name}"
        if field is None:
            known = ", ".join(sorted(kind.DESCRIPTOR.fields_by_name))
            raise InvalidInput(
                f"{path} has no field {name!r}; it has {known}", code="type_mismatch", field=place
            )
        if item is None:
            continue
        try:
            _set(message, field, item, place)
        except (TypeError, ValueError, AttributeError) as error:
            raise InvalidInput(str(error), code="type_mismatch", field=place) from None
    return message


def _set(message: Message, field: Any, item: Any, place: str) -> None:
    target = getattr(message, field.name)
    if hasattr(target, "items"):
        target.update(item)
    elif hasattr(target, "extend"):
        if isinstance(item, str | bytes):
            raise _mismatch(place, "a list", item)
        target.extend(_value(field, entry, f"{place}[{at}]") for at, entry in enumerate(item))
    elif isinstance(target, Duration):
        target.CopyFrom(_duration(item, place))
    else:
        setattr(message, field.name, _value(field, item, place))


def _value(field: Any, item: Any, place: str) -> Any:
    return item if field.enum_type is None else _enum(field.enum_type, item, place)


def _enum(kind: Any, item: Any, place: str) -> int:
    """The number of a member, by its number or its name with or without the enum's prefix."""
    if isinstance(item, int) and not isinstance(item, bool):
        return item
    members = {member.name: member.number for member in kind.values}
    unspecified = next(name for name, number in members.items() if number == 0)
    prefix = unspecified.removesuffix("UNSPECIFIED")
    named = str(item).upper()
    for candidate in (named, prefix + named):
        if candidate in members:
            return int(members[candidate])
    choices = ", ".join(name.removeprefix(prefix).lower() for name, number in members.items() if number)
    raise InvalidInput(f"{item!r} is none of {choices}", code="type_mismatch", field=place)


def _duration(item: Any, place: str) -> Duration:
    if isinstance(item, Duration):
        return item
    if isinstance(item, bool) or not isinstance(item, int | float | datetime.timedelta):
        raise _mismatch(place, "seconds, or a timedelta", item)
    span = item if isinstance(item, datetime.timedelta) else datetime.timedelta(seconds=item)
    duration = Duration()
    duration.FromTimedelta(span)
    return duration


def _mismatch(place: str, wanted: str, item: object) -> InvalidInput:
    return InvalidInput(f"expected {wanted}, not {type(item).__name__}", code="type_mismatch", field=place)
