"""Errors of calls: one class for each status, with the stable code of the service."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import grpc
from google.rpc import error_details_pb2, status_pb2

_DOMAIN = "surety"
_DETAILS = "grpc-status-details-bin"
# The codes of docs/errors.md whose advice is "Retry with backoff".
_RETRYABLE = frozenset(
    {
        "overloaded",
        "database_unavailable",
        "model_unavailable",
        "service_unavailable",
        "shutting_down",
        "worker_silent",
    }
)


class SuretyError(Exception):
    """A call failed. `code` is stable; docs/errors.md lists all codes with their meaning."""

    general: ClassVar[str] = "internal"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        field: str = "",
        advice: str = "",
        retryable: bool = False,
        retry_after: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.message = message
        #: The stable code in lower case, such as `run_not_found`.
        self.code = code if code is not None else self.general
        #: The path of the field at fault; empty when none is.
        self.field = field
        #: What to do.
        self.advice = advice
        #: Whether the same call may succeed later.
        self.retryable = retryable
        #: The seconds that the service asks to wait before a retry.
        self.retry_after = retry_after

    def __str__(self) -> str:
        place = f" at {self.field}" if self.field else ""
        advice = f"; {self.advice}" if self.advice else ""
        return f"{self.code}{place}: {self.message}{advice}"


class InvalidInput(SuretyError):
    """A value of the call is invalid; `field` names it."""

    general = "bad_request"


class ConfigurationError(InvalidInput):
    """The address, the token or a certificate cannot be used. No call was sent."""

    general = "setting_invalid"


class NotFound(SuretyError):
    """An object that the call names does not exist."""

    general = "not_found"


class Conflict(SuretyError):
    """The call lost a race, or the object exists with other content."""

    general = "aborted"


class LeaseLost(Conflict):
    """Another driver holds the step now."""

    general = "lease_lost"


class FailedPrecondition(SuretyError):
    """The state does not allow the call."""

    general = "failed_precondition"


class Unauthenticated(SuretyError):
    """The call has no token, or an unknown one."""

    general = "unauthenticated"


class PermissionDenied(SuretyError):
    """The identity does not have the role."""

    general = "permission_denied"


class ResourceExhausted(SuretyError):
    """A limit of the service is reached."""

    general = "overloaded"


class Unavailable(SuretyError):
    """The service, or what it needs, does not answer."""

    general = "service_unavailable"


class DeadlineExceeded(SuretyError):
    """The call did not end within its deadline; it may have taken effect."""

    general = "deadline_exceeded"


class Cancelled(SuretyError):
    """The call was cancelled before it ended; it may have taken effect."""

    general = "call_cancelled"


class Unimplemented(SuretyError):
    """The service does not serve the call."""

    general = "unimplemented"


class Internal(SuretyError):
    """The service has a defect, or an answer could not be read."""

    general = "internal"


class DriverFailed(SuretyError):
    """The function of a driver failed too often; `__cause__` is its last exception."""

    general = "driver_failed"


_CLASSES: dict[grpc.StatusCode, type[SuretyError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidInput,
    grpc.StatusCode.OUT_OF_RANGE: InvalidInput,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: Conflict,
    grpc.StatusCode.ABORTED: Conflict,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPrecondition,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    # What the library reports when a proxy or a broken connection ended the call without a status.
    grpc.StatusCode.UNKNOWN: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.CANCELLED: Cancelled,
    grpc.StatusCode.UNIMPLEMENTED: Unimplemented,
}


def error_of(failure: grpc.RpcError) -> SuretyError:
    """The error of a failed call of either library, `grpc` or `grpc.aio`."""
    status = failure.code() if hasattr(failure, "code") else grpc.StatusCode.UNKNOWN
    message = (failure.details() if hasattr(failure, "details") else "") or str(status)
    metadata = failure.trailing_metadata() if hasattr(failure, "trailing_metadata") else ()
    kind = _CLASSES.get(status, Internal)
    reason, field, advice, retry_after = "", "", "", 0.0
    for detail in _details(metadata):
        info = error_details_pb2.ErrorInfo()
        violations = error_details_pb2.BadRequest()
        retry = error_details_pb2.RetryInfo()
        if detail.Unpack(info) and info.domain == _DOMAIN:
            reason = info.reason.lower()
            field = info.metadata.get("field", field)
            advice = info.metadata.get("advice", advice)
        elif detail.Unpack(violations) and violations.field_violations:
            field = field or violations.field_violations[0].field
        elif detail.Unpack(retry):
            retry_after = retry.retry_delay.ToTimedelta().total_seconds()
    if reason == "lease_lost":
        kind = LeaseLost
    code = reason or kind.general
    # The services always name a reason. A status without one is of the connection or of a proxy.
    retryable = code in _RETRYABLE if reason else kind is Unavailable
    return kind(message, code=code, field=field, advice=advice, retryable=retryable, retry_after=retry_after)


def _details(metadata: Iterable[Any] | None) -> list[Any]:
    for key, value in metadata or ():
        if key == _DETAILS:
            try:
                return list(status_pb2.Status.FromString(value).details)
            except ValueError:
                break
    return []
