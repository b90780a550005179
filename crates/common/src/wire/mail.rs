//! Mail on the wire.

use super::v1;
use super::value::timestamp;
use crate::domain::mail::{MailKind, MailState};
use crate::domain::problem::{Code, Problem};

impl From<MailKind> for v1::MailKind {
    fn from(kind: MailKind) -> Self {
        match kind {
            MailKind::Inform => Self::Inform,
            MailKind::Request => Self::Request,
        }
    }
}

impl From<MailState> for v1::MailState {
    fn from(state: MailState) -> Self {
        match state {
            MailState::Open => Self::Open,
            MailState::Accepted => Self::Accepted,
            MailState::Failed => Self::Failed,
        }
    }
}

/// Whether an answer is asked for; by default not.
///
/// # Errors
/// `type_mismatch` for no value of the enum.
pub fn read_mail_kind(field: &str, number: i32) -> Result<MailKind, Problem> {
    match v1::MailKind::try_from(number) {
        Ok(v1::MailKind::Unspecified | v1::MailKind::Inform) => Ok(MailKind::Inform),
        Ok(v1::MailKind::Request) => Ok(MailKind::Request),
        Err(_) => Err(Problem::at(Code::TypeMismatch, field, "is no kind of a message")),
    }
}

/// The state of a message.
///
/// # Errors
/// `type_mismatch` for none.
pub fn read_mail_state(field: &str, number: i32) -> Result<MailState, Problem> {
    match v1::MailState::try_from(number) {
        Ok(v1::MailState::Open) => Ok(MailState::Open),
        Ok(v1::MailState::Accepted) => Ok(MailState::Accepted),
        Ok(v1::MailState::Failed) => Ok(MailState::Failed),
        Ok(v1::MailState::Unspecified) | Err(_) => {
            Err(Problem::at(Code::TypeMismatch, field, "is no state of a message"))
        }
    }
}

#[cfg(feature = "store")]
impl From<crate::store::StoredMail> for v1::Mail {
    fn from(stored: crate::store::StoredMail) -> Self {
        let crate::store::StoredMail {
            id,
            thread_id,
            in_reply_to,
            kind,
            from,
            to,
            subject,
            body,
            sent_at,
            deadline_at,
            read_at,
            answered_at,
            failure,
            state,
        } = stored;
        Self {
            id: id.to_string(),
            thread_id: thread_id.to_string(),
            in_reply_to: in_reply_to.map(|id| id.to_string()).unwrap_or_default(),
            kind: v1::MailKind::from(kind).into(),
            from,
            to,
            subject,
            body,
            sent_at: Some(timestamp(sent_at)),
            deadline_at: Some(timestamp(deadline_at)),
            read_at: read_at.map(timestamp),
            answered_at: answered_at.map(timestamp),
            state: v1::MailState::from(state).into(),
            failure,
        }
    }
}
