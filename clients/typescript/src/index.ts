// Client, agent loop and tool worker of Surety. See README.md of the package, and docs/clients.md of the project.

export type { CallOptions, RetryOptions } from "./calls.js";
export { type ChangeOptions, Client, type ClientOptions, type ServiceCalls } from "./client.js";
export {
  Decision,
  type Reply,
  type Usage,
  abort,
  askUser,
  call,
  confirm,
  done,
  nextPlan,
  raw,
} from "./decision.js";
export { type Decide, Driver, type DriverOptions } from "./driver.js";
export {
  Cancelled,
  ConfigurationError,
  Conflict,
  DeadlineExceeded,
  DriverFailed,
  type ErrorFields,
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
} from "./errors.js";
export type { Log } from "./log.js";
export type { Fields, NewRun, Resolution } from "./requests.js";
export type { Settings } from "./settings.js";
export { type ChatMessage, StepContext } from "./step.js";
export type { StandardSchema } from "./standard_schema.js";
export { OutcomeUnknown, ToolCall, ToolError, ToolOutput } from "./tool_call.js";
export { type ToolOptions, Worker, type WorkerOptions } from "./worker.js";
export type { AcceptCheck } from "./generated/surety/v1/check_pb.js";
export type { Event } from "./generated/surety/v1/event_pb.js";
export type { Limits } from "./generated/surety/v1/limits_pb.js";
export type { Plan } from "./generated/surety/v1/plan_pb.js";
export type { EvidenceReceipt } from "./generated/surety/v1/receipt_pb.js";
export { type Policy, type Run, RunState } from "./generated/surety/v1/run_pb.js";
export type { Wait } from "./generated/surety/v1/run_service_pb.js";
export type { Verdict } from "./generated/surety/v1/verdict_pb.js";
