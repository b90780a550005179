//! Mail: messages from one agent to another. Each is a run in the namespace `_mail`.
//!
//! ```text
//!   inform    open --read-----> accepted
//!   request   open --answered-> accepted
//!   both      open --deadline, or its run is cancelled-> failed: a dead letter, and the sender is told
//! ```

use crate::domain::identity::{SERVICE_NAME, is_service_name};
use crate::domain::problem::{Code, Problem};

/// The namespace of mail.
pub const MAIL_NAMESPACE: &str = "_mail";
/// The sender of what the service itself sends; no caller sends under this name.
pub const MAIL_SYSTEM: &str = SERVICE_NAME;
/// The longest name of an agent, in bytes.
const MAX_AGENT: usize = 100;
/// The longest subject, in characters.
pub const MAX_SUBJECT: usize = 200;
/// The longest text, in bytes.
pub const MAX_TEXT: usize = 65_536;
/// The most messages that a receiver may have unread.
pub const MAX_UNREAD: i64 = 1_000;
/// The time for an answer where the sender names none, in seconds: a day.
pub const ANSWER_WITHIN_S: u64 = 24 * 3600;
/// The longest time for an answer, and the time in which a message has to be read, in seconds: 14 days.
pub const MAX_WITHIN_S: u64 = 14 * 24 * 3600;

/// Why a message failed whose run was cancelled before it was read, or answered.
pub const CANCELLED: &str = "cancelled";

/// Whether a message asks for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MailKind {
    /// It is accepted when it is read.
    Inform,
    /// It is accepted when it is answered in its thread.
    Request,
}

impl MailKind {
    /// The stable word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inform => "inform",
            Self::Request => "request",
        }
    }

    /// The kind with this word.
    pub fn from_text(text: &str) -> Option<Self> {
        [Self::Inform, Self::Request].into_iter().find(|kind| kind.as_str() == text)
    }

    /// Why a message of this kind fails at its deadline.
    pub const fn failure(self) -> &'static str {
        match self {
            Self::Inform => "unread",
            Self::Request => "unanswered",
        }
    }
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MailState {
    /// It waits to be read, or answered.
    Open,
    /// It was.
    Accepted,
    /// It was not, by its deadline.
    Failed,
}

impl MailState {
    /// The stable word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Accepted => "accepted",
            Self::Failed => "failed",
        }
    }

    /// The state with this word.
    pub fn from_text(text: &str) -> Option<Self> {
        let all = [Self::Open, Self::Accepted, Self::Failed];
        all.into_iter().find(|state| state.as_str() == text)
    }
}

/// A message that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Whether an answer is asked for.
    pub kind: MailKind,
    /// The sender.
    pub from: String,
    /// The receiver.
    pub to: String,
    /// One line.
    pub subject: String,
    /// The text.
    pub body: String,
    /// The time until its deadline, in seconds.
    pub within_s: u64,
}

impl Message {
    /// Checks a message.
    ///
    /// # Errors
    /// `field_missing`, `too_large`, `type_mismatch`, each with the field.
    pub fn check(self) -> Result<Self, Problem> {
        let Self { kind, from, to, subject, body, within_s } = self;
        let from = agent("from", &from)?;
        if is_service_name(&from) {
            let message =
                format!("is {MAIL_SYSTEM}, which stands for the service; use another name");
            return Err(Problem::at(Code::TypeMismatch, "from", message));
        }
        let to = agent("to", &to)?;
        let subject = subject.trim().to_owned();
        if subject.is_empty() {
            let message = "is blank; say in one line what the message is about";
            return Err(Problem::at(Code::FieldMissing, "subject", message));
        }
        if subject.chars().count() > MAX_SUBJECT {
            let message = format!("has more than {MAX_SUBJECT} characters");
            return Err(Problem::at(Code::TooLarge, "subject", message));
        }
        if subject.chars().any(char::is_control) {
            return Err(Problem::at(Code::TypeMismatch, "subject", "is no single line"));
        }
        check_text(&body)?;
        if !(1..=MAX_WITHIN_S).contains(&within_s) {
            let message = format!("is no time of 1 to {MAX_WITHIN_S} seconds");
            return Err(Problem::at(Code::TypeMismatch, "answer_within", message));
        }
        Ok(Self { kind, from, to, subject, body, within_s })
    }

    /// The answer to a message, in its thread.
    #[must_use]
    pub fn answer(subject: &str, from: &str, to: &str, body: String) -> Self {
        let subject = match subject.strip_prefix("Re: ") {
            Some(_) => subject.to_owned(),
            None => format!("Re: {subject}").chars().take(MAX_SUBJECT).collect(),
        };
        let (from, to) = (from.to_owned(), to.to_owned());
        Self { kind: MailKind::Inform, from, to, subject, body, within_s: MAX_WITHIN_S }
    }

    /// What the sender of a failed message is told. `failure` is the word that the message failed with.
    #[must_use]
    pub fn notice(
        subject: &str,
        (from, to): (&str, &str),
        (kind, failure): (MailKind, &str),
    ) -> Self {
        let did = match kind {
            MailKind::Inform => "read the message",
            MailKind::Request => "answer the request",
        };
        let why = match failure {
            CANCELLED => "before it was cancelled",
            _ => "by its deadline",
        };
        let body = format!("{from} did not {did} {why}: {failure}.");
        Self::answer(subject, MAIL_SYSTEM, to, body)
    }
}

/// Checks the text of a message.
///
/// # Errors
/// `too_large`, `type_mismatch`.
pub fn check_text(body: &str) -> Result<(), Problem> {
    if body.len() > MAX_TEXT {
        let message =
            format!("has more than {MAX_TEXT} bytes; send an address of the text instead");
        return Err(Problem::at(Code::TooLarge, "body", message));
    }
    if body.contains('\0') {
        let message = "has U+0000, which cannot be stored; take it out";
        return Err(Problem::at(Code::TypeMismatch, "body", message));
    }
    Ok(())
}

fn agent(field: &str, name: &str) -> Result<String, Problem> {
    let name = name.trim();
    if name.is_empty() {
        return Err(Problem::at(Code::FieldMissing, field, "is blank; name an agent"));
    }
    if name.len() > MAX_AGENT {
        return Err(Problem::at(Code::TooLarge, field, format!("has more than {MAX_AGENT} bytes")));
    }
    if name.chars().any(char::is_control) {
        return Err(Problem::at(Code::TypeMismatch, field, "is no name of an agent"));
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(to: &str, subject: &str, body: &str, within_s: u64) -> Message {
        Message {
            kind: MailKind::Request,
            from: "a".to_owned(),
            to: to.to_owned(),
            subject: subject.to_owned(),
            body: body.to_owned(),
            within_s,
        }
    }

    #[test]
    fn a_message_is_bounded_and_one_that_is_not_names_its_field() {
        assert!(message(" b ", " Which port? ", "", 60).check().is_ok_and(|it| it.to == "b"));
        for (message, field, code) in [
            (message("", "s", "", 60), "to", Code::FieldMissing),
            (message("b", " ", "", 60), "subject", Code::FieldMissing),
            (message("b", "two\nlines", "", 60), "subject", Code::TypeMismatch),
            (message("b", &"x".repeat(201), "", 60), "subject", Code::TooLarge),
            (message(&"x".repeat(101), "s", "", 60), "to", Code::TooLarge),
            (message("b", "s", &"x".repeat(MAX_TEXT + 1), 60), "body", Code::TooLarge),
            (message("b", "s", "\0", 60), "body", Code::TypeMismatch),
            (message("b", "s", "", 0), "answer_within", Code::TypeMismatch),
            (message("b", "s", "", MAX_WITHIN_S + 1), "answer_within", Code::TypeMismatch),
        ] {
            let problem = message.check().expect_err("a refusal");
            assert_eq!((problem.field.as_deref(), problem.code), (Some(field), code));
        }
    }

    #[test]
    fn an_answer_keeps_its_subject_within_the_bound() {
        let long = Message::answer(&"x".repeat(MAX_SUBJECT), "b", "a", "yes".to_owned());
        assert_eq!(long.subject.chars().count(), MAX_SUBJECT);
        assert_eq!(Message::answer("Re: s", "b", "a", String::new()).subject, "Re: s");
        assert!(long.check().is_ok());
    }
}
