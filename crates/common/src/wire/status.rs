//! The two functions that convert between a [`Fault`] and a gRPC status.
//!
//! Every status has an `ErrorInfo {reason, domain = "surety"}`, with the reason in upper case, as in
//! the proto enum `ErrorReason`. `BadRequest`, `PreconditionFailure`, `QuotaFailure` and `RetryInfo`
//! are added where they apply.

use crate::domain::fault::{Fault, FaultClass, FaultCode, Reason};
use crate::domain::problem::{Code as InputCode, Problem};
use std::collections::HashMap;
use std::time::Duration;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// The domain of every reason.
pub const ERROR_DOMAIN: &str = "surety";
/// The metadata key of an `ErrorInfo` for the invalid field.
const FIELD_KEY: &str = "field";
/// The metadata key of an `ErrorInfo` for the advice.
const ADVICE_KEY: &str = "advice";

/// What tonic's message of a request that it cannot decode begins with.
const UNDECODABLE: &str = "failed to decode Protobuf message: ";

/// The most bytes of a message, and of a field's path. Clients accept at least 8 KiB of trailers,
/// and a message is in them up to three times, once percent-encoded in three bytes per byte.
const MAX_MESSAGE_BYTES: usize = 600;
const MAX_FIELD_BYTES: usize = 200;

/// The gRPC status of a fault. Texts that would not fit into a client's trailers are shortened: `…`
/// stands for what is left out of the middle, because what is wrong stands behind a long value.
pub fn to_status(fault: &Fault) -> Status {
    let Fault { reason, class, message, field, retry_after_ms } = fault;
    let message = &bounded(message, MAX_MESSAGE_BYTES);
    let field = field.as_ref().map(|field| bounded(field, MAX_FIELD_BYTES));
    let subject = field.as_deref().unwrap_or_default();
    let mut metadata = HashMap::from([(ADVICE_KEY.to_owned(), reason.advice().to_owned())]);
    if let Some(field) = &field {
        metadata.insert(FIELD_KEY.to_owned(), field.clone());
    }
    let mut details = ErrorDetails::with_error_info(reason.to_wire(), ERROR_DOMAIN, metadata);
    match class {
        FaultClass::InvalidArgument => {
            details.add_bad_request_violation(subject, message);
        }
        FaultClass::FailedPrecondition => {
            details.add_precondition_failure_violation(reason.to_wire(), subject, message);
        }
        FaultClass::ResourceExhausted => {
            details.add_quota_failure_violation(subject, message);
        }
        FaultClass::NotFound
        | FaultClass::AlreadyExists
        | FaultClass::Aborted
        | FaultClass::Unavailable
        | FaultClass::Unauthenticated
        | FaultClass::PermissionDenied
        | FaultClass::Unimplemented
        | FaultClass::DeadlineExceeded
        | FaultClass::Cancelled
        | FaultClass::Internal => {}
    }
    if let Some(retry_after_ms) = retry_after_ms {
        details.set_retry_info(Some(Duration::from_millis(*retry_after_ms)));
    }
    Status::with_error_details(code_of(*class), message, details)
}

/// The fault of a status. A foreign status, or a reason of a later version, keeps its text and gets
/// the general code of its class.
pub fn from_status(status: &Status) -> Fault {
    let details = status.get_error_details();
    let info = details.error_info().filter(|info| info.domain == ERROR_DOMAIN);
    let known = info.and_then(|info| Reason::from_wire(&info.reason));
    // tonic returns OUT_OF_RANGE only for a message over its limit.
    let over_limit = known.is_none() && status.code() == Code::OutOfRange;
    let (class, general) = if over_limit {
        (FaultClass::ResourceExhausted, FaultCode::MessageTooLarge)
    } else {
        let class = class_of(status.code());
        (class, class.general_code())
    };
    let reason = known.unwrap_or(Reason::Service(general));
    let unknown_reason =
        info.filter(|_| known.is_none()).map(|info| info.reason.to_ascii_lowercase());
    Fault {
        reason,
        class,
        message: match (unknown_reason, status.message()) {
            (Some(text), message) => format!("{message} ({text})"),
            (None, "") => reason.meaning().to_owned(),
            (None, message) => message.to_owned(),
        },
        field: info.and_then(|info| info.metadata.get(FIELD_KEY).cloned()),
        retry_after_ms: details
            .retry_info()
            .and_then(|retry| retry.retry_delay)
            .map(|delay| u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)),
    }
}

/// Whether a service of Surety made the status: a transport, and a server of another kind, say no reason.
pub fn has_reason(status: &Status) -> bool {
    status.get_error_details().error_info().is_some_and(|info| info.domain == ERROR_DOMAIN)
}

/// The same status, with an `ErrorInfo` if it had none; its metadata is kept.
pub fn with_error_info(status: Status) -> Status {
    if status.code() == Code::Ok || status.get_error_details().error_info().is_some() {
        return status;
    }
    let fault = undecodable(&status).unwrap_or_else(|| from_status(&status));
    let mut complete = to_status(&fault);
    *complete.metadata_mut() = status.metadata().clone();
    complete
}

/// The fault of bytes that are no message, which tonic answers as a failure of the service.
fn undecodable(status: &Status) -> Option<Fault> {
    let why = status.message().strip_prefix(UNDECODABLE)?;
    // prost names the message and the field: `GetRunRequest.run_id: invalid string value: ...`.
    let place = why.split_once(": ").map(|(place, _)| place).filter(|place| !place.contains(' '));
    let field = place.and_then(|place| place.split_once('.')).map_or("", |(_, field)| field);
    let message = format!("the bytes of the request are no message of this call: {why}");
    let problem = match field {
        "" => Problem::new(InputCode::TypeMismatch, message),
        field => Problem::at(InputCode::TypeMismatch, field, message),
    };
    (status.code() == Code::Internal).then(|| problem.into())
}

/// The answer of a service without a database to a call that stores state; `rpc` is its name.
pub fn needs_database(rpc: &str) -> Status {
    let message = format!("{rpc} stores state, and this service has no database; set DATABASE_URL");
    to_status(&Fault::new(FaultCode::DatabaseNotConfigured, message))
}

fn bounded(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let rest = max_bytes.saturating_sub('…'.len_utf8());
    let end = text.floor_char_boundary(rest / 2);
    let from = text.ceil_char_boundary(text.len().saturating_sub(rest - end));
    format!("{}…{}", text.get(..end).unwrap_or_default(), text.get(from..).unwrap_or_default())
}

const fn code_of(class: FaultClass) -> Code {
    match class {
        FaultClass::InvalidArgument => Code::InvalidArgument,
        FaultClass::NotFound => Code::NotFound,
        FaultClass::AlreadyExists => Code::AlreadyExists,
        FaultClass::FailedPrecondition => Code::FailedPrecondition,
        FaultClass::Aborted => Code::Aborted,
        FaultClass::ResourceExhausted => Code::ResourceExhausted,
        FaultClass::Unavailable => Code::Unavailable,
        FaultClass::Unauthenticated => Code::Unauthenticated,
        FaultClass::PermissionDenied => Code::PermissionDenied,
        FaultClass::Unimplemented => Code::Unimplemented,
        FaultClass::DeadlineExceeded => Code::DeadlineExceeded,
        FaultClass::Cancelled => Code::Cancelled,
        FaultClass::Internal => Code::Internal,
    }
}

const fn class_of(code: Code) -> FaultClass {
    match code {
        Code::InvalidArgument | Code::OutOfRange => FaultClass::InvalidArgument,
        Code::NotFound => FaultClass::NotFound,
        Code::AlreadyExists => FaultClass::AlreadyExists,
        Code::FailedPrecondition => FaultClass::FailedPrecondition,
        Code::Aborted => FaultClass::Aborted,
        Code::ResourceExhausted => FaultClass::ResourceExhausted,
        Code::Unavailable => FaultClass::Unavailable,
        Code::Unauthenticated => FaultClass::Unauthenticated,
        Code::PermissionDenied => FaultClass::PermissionDenied,
        Code::Unimplemented => FaultClass::Unimplemented,
        Code::DeadlineExceeded => FaultClass::DeadlineExceeded,
        Code::Cancelled => FaultClass::Cancelled,
        // A status of OK is no fault; a caller that converts one has a defect.
        Code::Ok | Code::Unknown | Code::Internal | Code::DataLoss => FaultClass::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_fault() -> impl Iterator<Item = Fault> {
        let service =
            FaultCode::ALL.iter().map(|code| Fault::new(*code, "why").with_retry_after_ms(1500));
        let input =
            InputCode::ALL.iter().map(|code| Fault::from(Problem::at(*code, "steps[1].id", "why")));
        service.chain(input)
    }

    #[test]
    fn every_fault_comes_back_as_it_went() {
        for fault in every_fault() {
            assert_eq!(from_status(&to_status(&fault)), fault);
        }
    }

    #[test]
    fn every_status_says_the_reason_and_the_domain() {
        for fault in every_fault() {
            let status = to_status(&fault);
            let details = status.get_error_details();
            let info = details.error_info().unwrap();
            assert_eq!(info.reason, fault.reason.as_str().to_ascii_uppercase());
            assert_eq!(info.domain, "surety");
        }
    }

    #[test]
    fn a_long_text_is_cut_to_what_every_client_takes() {
        let problem = Problem::at(InputCode::TypeMismatch, "é".repeat(9_999), "é".repeat(99_999));
        let mut headers = http::HeaderMap::new();
        to_status(&problem.into()).add_header(&mut headers).unwrap();
        let bytes: usize =
            headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        assert!(bytes < 8 * 1024, "{bytes} bytes");
    }

    #[test]
    fn an_invalid_field_is_named_the_way_standard_clients_look_for_it() {
        let problem =
            Problem::at(InputCode::LimitOutOfRange, "limits.max_replans", "11 is too many");
        let details = to_status(&problem.into()).get_error_details();
        let violation = details.bad_request().unwrap().field_violations.first().unwrap().clone();
        assert_eq!(violation.field, "limits.max_replans");
        assert_eq!(violation.description, "11 is too many");
    }

    #[test]
    fn a_status_from_elsewhere_keeps_its_class_and_text() {
        let fault = from_status(&Status::unavailable("connection refused"));
        assert_eq!(fault.reason, Reason::Service(FaultCode::ServiceUnavailable));
        assert_eq!(fault.message, "connection refused");
        assert_eq!(fault.class, FaultClass::Unavailable);
    }

    #[test]
    fn a_reason_of_a_later_version_is_kept_in_the_text() {
        let details = ErrorDetails::with_error_info("RUN_FROZEN", ERROR_DOMAIN, HashMap::new());
        let status = Status::with_error_details(Code::FailedPrecondition, "no", details);
        let fault = from_status(&status);
        assert_eq!(fault.reason, Reason::Service(FaultCode::FailedPrecondition));
        assert_eq!(fault.message, "no (run_frozen)");
    }

    #[test]
    fn a_bare_status_is_given_an_error_info_and_keeps_its_metadata() {
        let mut bare = Status::out_of_range("decoded message length too large");
        bare.metadata_mut().insert("x-kept", "yes".parse().unwrap());
        let status = with_error_info(bare);
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert_eq!(from_status(&status).reason.as_str(), "message_too_large");
        assert!(status.metadata().contains_key("x-kept"));
    }
}
