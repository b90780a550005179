//! What is said to workers of messages that are refused, and what is kept of their texts.

use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::wire::v1;
use surety_common::wire::v1::connect_response::Message;

/// The answer to a message that changed nothing.
pub(super) fn refused(call_id: String, fault: &Fault) -> Message {
    let code = fault.reason.to_string();
    let message = match &fault.field {
        Some(field) => format!("{field}: {}", fault.message),
        None => fault.message.clone(),
    };
    Message::Refused(v1::Refused { call_id, code, message })
}

/// The fault of a message about a call that the stream does not have.
pub(super) fn unknown(call_id: &str) -> Fault {
    let message = format!(
        "no call {call_id:?} is given to this stream: it has ended, was answered, or is of another worker"
    );
    Fault::new(FaultCode::ToolCallUnknown, message).with_field("call_id")
}

/// A text without line breaks and other control characters.
pub(super) fn one_line(text: &str) -> String {
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    text.trim().chars().map(plain).collect()
}
