//! Chat with models behind endpoints: OpenAI-compatible chat completions and Anthropic Messages.
//!
//! ```text
//!   settings, models file --> Profiles --> Endpoints --> ChatModel::reply(request)
//!                                             |              messages in normal form, tokens bounded by the caller
//!                                             |              wire: openai | anthropic, streamed or whole
//!                                             `-- one state for each address: breaker, slots, what it offers
//! ```
//!
//! History is text: a request has system, user and assistant messages only. An error says who is at fault
//! ([`Blame`]): the endpoint (a run waits for it), the configuration (an operator corrects it), or the request.

mod chat;
mod context;
mod endpoints;
mod error;
mod profile;
mod tokens;

pub use chat::{
    ChatModel, ChatReply, ChatRequest, OnPart, ReplyPart, ReplySchema, Replying, TokenUsage,
};
pub use context::{Bounded, ContextTooLong, bound};
pub use endpoints::{Endpoints, Health};
pub use error::{Blame, ChatError, Phase};
pub use profile::{Api, ModelUse, Profile, ProfileError, Profiles};
pub use surety_common::domain::messages::{Message, Role};
pub use tokens::{Tokenizer, count_messages};
