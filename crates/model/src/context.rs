//! Fits a conversation into a model's context, and says what was dropped.

use crate::tokens::{Tokenizer, count_messages};
use surety_common::domain::messages::{Message, Role, normalize};
use thiserror::Error;

/// A conversation that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounded {
    /// The messages, in normal form; the first user message says what was dropped.
    pub messages: Vec<Message>,
    /// Their tokens.
    pub tokens: u64,
    /// How many messages were dropped.
    pub dropped_messages: usize,
    /// Their tokens.
    pub dropped_tokens: u64,
}

/// What must be kept does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "the rules, the goal and the last message have {needed} tokens and the context has room for {room}. Use a model \
     with a longer context, or a shorter goal"
)]
pub struct ContextTooLong {
    /// The tokens of what must be kept.
    pub needed: u64,
    /// The room.
    pub room: u64,
}

/// Drops the oldest turns between the first user message and the last one until `room` tokens suffice.
///
/// # Errors
/// System text, first user message and last message do not fit.
pub fn bound(
    messages: &[Message],
    tokenizer: Tokenizer,
    room: u64,
) -> Result<Bounded, ContextTooLong> {
    let mut kept = normalize(messages).messages;
    let whole = count_messages(tokenizer, &kept);
    if whole <= room {
        return Ok(Bounded {
            messages: kept,
            tokens: whole,
            dropped_messages: 0,
            dropped_tokens: 0,
        });
    }
    let opening = kept.iter().position(|message| message.role == Role::User).unwrap_or_default();
    let (mut dropped_messages, mut dropped_tokens) = (0_usize, 0_u64);
    let original = kept.get(opening).map(|message| message.text.clone()).unwrap_or_default();
    // Roles alternate: the opening is followed by pairs of an assistant's and a user's message.
    while kept.len() > opening + 3 {
        let pair: Vec<Message> = kept.drain(opening + 1..opening + 3).collect();
        dropped_messages += pair.len();
        dropped_tokens = dropped_tokens.saturating_add(count_messages(tokenizer, &pair));
        if let Some(first) = kept.get_mut(opening) {
            first.text = format!(
                "{original}\n\n[{dropped_messages} earlier messages ({dropped_tokens} tokens) are not shown]"
            );
        }
        let tokens = count_messages(tokenizer, &kept);
        if tokens <= room {
            return Ok(Bounded { messages: kept, tokens, dropped_messages, dropped_tokens });
        }
    }
    Err(ContextTooLong { needed: count_messages(tokenizer, &kept), room })
}
