//! Fits a conversation into a model's context, and says what was dropped.
//!
//! ```text
//!   too long --> the oldest turns are dropped --too long--> long messages lose their middle --too long--> no request
//! ```

use crate::tokens::{Tokenizer, count_messages};
use surety_common::domain::messages::{Message, Role, normalize};
use thiserror::Error;

/// A message is not shortened to fewer bytes.
const SHORTEST: usize = 1536;

/// A conversation that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounded {
    /// The messages, in normal form; the first user message says what was dropped, and each shortened one what it
    /// lost.
    pub messages: Vec<Message>,
    /// Their tokens.
    pub tokens: u64,
    /// How many messages were dropped.
    pub dropped_messages: usize,
    /// Their tokens.
    pub dropped_tokens: u64,
    /// How many of the others were shortened.
    pub shortened_messages: usize,
}

/// What must be kept does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "the rules, the tools, and the shortened goal and last messages have {needed} tokens and the prompt has room for \
     {room}"
)]
pub struct ContextTooLong {
    /// The tokens of what must be kept.
    pub needed: u64,
    /// The room.
    pub room: u64,
}

/// Makes `room` tokens suffice: drops the oldest turns between the first user message and the last pair, then takes
/// the middle out of the longest of the messages that are left. The system text stays whole.
///
/// # Errors
/// What must be kept does not fit.
pub fn bound(
    messages: &[Message],
    tokenizer: Tokenizer,
    room: u64,
) -> Result<Bounded, ContextTooLong> {
    let mut kept = normalize(messages).messages;
    let whole = count_messages(tokenizer, &kept);
    let (mut dropped_messages, mut dropped_tokens) = (0_usize, 0_u64);
    if whole <= room {
        return Ok(Bounded {
            messages: kept,
            tokens: whole,
            dropped_messages,
            dropped_tokens,
            shortened_messages: 0,
        });
    }
    let opening = kept.iter().position(|message| message.role == Role::User).unwrap_or_default();
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
            return Ok(Bounded {
                messages: kept,
                tokens,
                dropped_messages,
                dropped_tokens,
                shortened_messages: 0,
            });
        }
    }
    let (messages, shortened_messages) = shorten(&kept, tokenizer, room)?;
    let tokens = count_messages(tokenizer, &messages);
    Ok(Bounded { messages, tokens, dropped_messages, dropped_tokens, shortened_messages })
}

/// The messages with the largest limit of bytes for one of them under which they fit, and how many are longer.
fn shorten(
    kept: &[Message],
    tokenizer: Tokenizer,
    room: u64,
) -> Result<(Vec<Message>, usize), ContextTooLong> {
    let capped = |limit: usize| -> Vec<Message> {
        kept.iter().map(|message| without_middle(message, limit)).collect()
    };
    let fits = |limit: usize| count_messages(tokenizer, &capped(limit)) <= room;
    if !fits(SHORTEST) {
        return Err(ContextTooLong { needed: count_messages(tokenizer, &capped(SHORTEST)), room });
    }
    let longest = kept.iter().map(|message| message.text.len()).max().unwrap_or_default();
    let (mut least, mut most) = (SHORTEST, longest.max(SHORTEST));
    while most - least > 1 {
        let middle = least + (most - least) / 2;
        if fits(middle) {
            least = middle;
        } else {
            most = middle;
        }
    }
    let messages = capped(least);
    let shortened = messages.iter().zip(kept).filter(|(short, whole)| short != whole).count();
    Ok((messages, shortened))
}

/// A message of at most `limit` bytes and a mark for what it lost; a system message as it is.
fn without_middle(message: &Message, limit: usize) -> Message {
    let text = &message.text;
    if message.role == Role::System || text.len() <= limit {
        return message.clone();
    }
    let head = text.floor_char_boundary(limit / 2);
    let tail = text.ceil_char_boundary(text.len() - (limit - limit / 2));
    let (Some(begin), Some(end)) = (text.get(..head), text.get(tail..)) else {
        return message.clone();
    };
    let lost = tail - head;
    Message::new(
        message.role,
        format!("{begin}\n[{lost} bytes of this message are not shown]\n{end}"),
    )
}
