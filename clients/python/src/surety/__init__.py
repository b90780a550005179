"""Client, agent loop and tool worker of Surety. See README.md of the package, and docs/clients.md."""

from importlib.metadata import version as _version

from ._aio import AsyncClient
from ._calls import Retry
from ._client import Client
from ._decision import Decision, Usage, abort, ask_user, call, confirm, done, next_plan, raw
from ._driver import Driver, driver
from ._errors import (
    Cancelled,
    ConfigurationError,
    Conflict,
    DeadlineExceeded,
    DriverFailed,
    FailedPrecondition,
    Internal,
    InvalidInput,
    LeaseLost,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    SuretyError,
    Unauthenticated,
    Unavailable,
    Unimplemented,
)
from ._step import StepContext
from ._tool_call import OutcomeUnknown, ToolCall, ToolError, ToolOutput
from ._worker import Worker
from .v1.check_pb2 import AcceptCheck
from .v1.event_pb2 import Event
from .v1.limits_pb2 import Limits
from .v1.plan_pb2 import Plan
from .v1.receipt_pb2 import EvidenceReceipt
from .v1.run_pb2 import Policy, Run, RunState
from .v1.run_service_pb2 import Wait
from .v1.verdict_pb2 import Verdict

__version__ = _version("surety")
__all__ = [
    "AcceptCheck",
    "AsyncClient",
    "Cancelled",
    "Client",
    "ConfigurationError",
    "Conflict",
    "DeadlineExceeded",
    "Decision",
    "Driver",
    "DriverFailed",
    "Event",
    "EvidenceReceipt",
    "FailedPrecondition",
    "Internal",
    "InvalidInput",
    "LeaseLost",
    "Limits",
    "NotFound",
    "OutcomeUnknown",
    "PermissionDenied",
    "Plan",
    "Policy",
    "ResourceExhausted",
    "Retry",
    "Run",
    "RunState",
    "StepContext",
    "SuretyError",
    "ToolCall",
    "ToolError",
    "ToolOutput",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Usage",
    "Verdict",
    "Wait",
    "Worker",
    "abort",
    "ask_user",
    "call",
    "confirm",
    "done",
    "driver",
    "next_plan",
    "raw",
]
