//! How many tokens a text has.

use surety_common::domain::messages::Message;

/// What a message costs beyond its text: role, separators, and the words of a template.
const PER_MESSAGE: u64 = 16;

/// Counts the tokens of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tokenizer {
    /// An upper bound for every tokenizer that falls back to bytes: a token has one byte at least.
    Bytes,
}

impl Tokenizer {
    /// The tokens of a text, never fewer than the model counts.
    #[must_use]
    pub fn count(self, text: &str) -> u64 {
        match self {
            Self::Bytes => u64::try_from(text.len()).unwrap_or(u64::MAX),
        }
    }
}

/// The tokens of a prompt.
#[must_use]
pub fn count_messages(tokenizer: Tokenizer, messages: &[Message]) -> u64 {
    messages.iter().map(|message| tokenizer.count(&message.text).saturating_add(PER_MESSAGE)).sum()
}
