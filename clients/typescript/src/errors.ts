// Errors of calls: one class for each status, with the stable code of the service.

import { anyUnpack } from "@bufbuild/protobuf/wkt";
import { fromBinary } from "@bufbuild/protobuf";
import { type ServiceError, status } from "@grpc/grpc-js";
import {
  BadRequestSchema,
  ErrorInfoSchema,
  RetryInfoSchema,
  StatusSchema,
} from "./generated/google/rpc/status_pb.js";

const DOMAIN = "surety";
const DETAILS = "grpc-status-details-bin";
// The codes of docs/errors.md whose advice is "Retry with backoff".
const RETRYABLE = new Set([
  "overloaded",
  "database_unavailable",
  "model_unavailable",
  "service_unavailable",
  "shutting_down",
  "worker_silent",
]);

/** What an error says beside its message. */
export interface ErrorFields {
  code?: string;
  field?: string;
  advice?: string;
  retryable?: boolean;
  retryAfterMs?: number;
  cause?: unknown;
}

/** A call failed. `code` is stable; docs/errors.md lists all codes with their meaning. */
export class SuretyError extends Error {
  /** The code of errors of a class that have no other. */
  static readonly general: string = "internal";
  /** The stable code in lower case, such as `run_not_found`. */
  readonly code: string;
  /** The path of the field at fault; empty when none is. */
  readonly field: string;
  /** What to do. */
  readonly advice: string;
  /** Whether the same call may succeed later. */
  readonly retryable: boolean;
  /** The milliseconds that the service asks to wait before a retry. */
  readonly retryAfterMs: number;

  constructor(message: string, fields: ErrorFields = {}) {
    super(message, fields.cause === undefined ? undefined : { cause: fields.cause });
    this.name = new.target.name;
    this.code = fields.code ?? new.target.general;
    this.field = fields.field ?? "";
    this.advice = fields.advice ?? "";
    this.retryable = fields.retryable ?? false;
    this.retryAfterMs = fields.retryAfterMs ?? 0;
  }

  override toString(): string {
    const place = this.field ? ` at ${this.field}` : "";
    const advice = this.advice ? `; ${this.advice}` : "";
    return `${this.code}${place}: ${this.message}${advice}`;
  }
}

/** A value of the call is invalid; `field` names it. */
export class InvalidInput extends SuretyError {
  static override readonly general: string = "bad_request";
}

/** The address, the token or a certificate cannot be used. No call was sent. */
export class ConfigurationError extends InvalidInput {
  static override readonly general = "setting_invalid";
}

/** An object that the call names does not exist. */
export class NotFound extends SuretyError {
  static override readonly general = "not_found";
}

/** The call lost a race, or the object exists with other content. */
export class Conflict extends SuretyError {
  static override readonly general: string = "aborted";
}

/** Another driver holds the step now. */
export class LeaseLost extends Conflict {
  static override readonly general = "lease_lost";
}

/** The state does not allow the call. */
export class FailedPrecondition extends SuretyError {
  static override readonly general = "failed_precondition";
}

/** The call has no token, or an unknown one. */
export class Unauthenticated extends SuretyError {
  static override readonly general = "unauthenticated";
}

/** The identity does not have the role. */
export class PermissionDenied extends SuretyError {
  static override readonly general = "permission_denied";
}

/** A limit of the service is reached. */
export class ResourceExhausted extends SuretyError {
  static override readonly general = "overloaded";
}

/** The service, or what it needs, does not answer. */
export class Unavailable extends SuretyError {
  static override readonly general = "service_unavailable";
}

/** The call did not end within its deadline; it may have taken effect. */
export class DeadlineExceeded extends SuretyError {
  static override readonly general = "deadline_exceeded";
}

/** The call was cancelled before it ended; it may have taken effect. */
export class Cancelled extends SuretyError {
  static override readonly general = "call_cancelled";
}

/** The service does not serve the call. */
export class Unimplemented extends SuretyError {
  static override readonly general = "unimplemented";
}

/** The service has a defect, or an answer could not be read. */
export class Internal extends SuretyError {
  static override readonly general = "internal";
}

/** The function of a driver failed too often; `cause` is its last error. */
export class DriverFailed extends SuretyError {
  static override readonly general = "driver_failed";
}

type Kind = new (message: string, fields?: ErrorFields) => SuretyError;

const CLASSES = new Map<status, Kind & { general: string }>([
  [status.INVALID_ARGUMENT, InvalidInput],
  [status.OUT_OF_RANGE, InvalidInput],
  [status.NOT_FOUND, NotFound],
  [status.ALREADY_EXISTS, Conflict],
  [status.ABORTED, Conflict],
  [status.FAILED_PRECONDITION, FailedPrecondition],
  [status.UNAUTHENTICATED, Unauthenticated],
  [status.PERMISSION_DENIED, PermissionDenied],
  [status.RESOURCE_EXHAUSTED, ResourceExhausted],
  [status.UNAVAILABLE, Unavailable],
  // What the library reports when a proxy or a broken connection ended the call without a status.
  [status.UNKNOWN, Unavailable],
  [status.DEADLINE_EXCEEDED, DeadlineExceeded],
  [status.CANCELLED, Cancelled],
  [status.UNIMPLEMENTED, Unimplemented],
]);

/** The error of a failed call. */
export function errorOf(failure: ServiceError): SuretyError {
  let [reason, field, advice, retryAfterMs] = ["", "", "", 0];
  for (const detail of detailsOf(failure)) {
    const info = anyUnpack(detail, ErrorInfoSchema);
    const violations = anyUnpack(detail, BadRequestSchema)?.fieldViolations;
    const delay = anyUnpack(detail, RetryInfoSchema)?.retryDelay;
    if (info?.domain === DOMAIN) {
      reason = info.reason.toLowerCase();
      field = info.metadata.field ?? field;
      advice = info.metadata.advice ?? advice;
    }
    field ||= violations?.[0]?.field ?? "";
    if (delay !== undefined) retryAfterMs = Number(delay.seconds) * 1000 + delay.nanos / 1e6;
  }
  const general: Kind & { general: string } = CLASSES.get(failure.code) ?? Internal;
  const kind = reason === "lease_lost" ? LeaseLost : general;
  const code = reason || kind.general;
  // The services always name a reason. A status without one is of the connection or of a proxy.
  const retryable = reason ? RETRYABLE.has(code) : kind === Unavailable;
  return new kind(failure.details || failure.message, { code, field, advice, retryable, retryAfterMs });
}

function detailsOf(failure: ServiceError) {
  // Errors that the library makes itself may come without metadata.
  const metadata = failure.metadata as ServiceError["metadata"] | undefined;
  const [sent] = metadata?.get(DETAILS) ?? [];
  if (!Buffer.isBuffer(sent)) return [];
  try {
    return fromBinary(StatusSchema, sent).details;
  } catch {
    // Bytes that are no Status are those of a proxy.
    return [];
  }
}
