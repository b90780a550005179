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

mod ask;
mod attempts;
mod breaker;
mod call;
mod charge;
mod chat;
mod client;
mod context;
mod document;
mod endpoint;
mod endpoints;
mod error;
mod length;
mod model;
mod part;
mod participant;
mod prices;
mod probe;
mod profile;
mod reserved;
mod retry;
mod spoken;
mod tokens;
mod usage;
mod wire;

pub use ask::{Answer, Away, Question, Said, TooLong, ask};
pub use chat::{ChatModel, ChatReply, ChatRequest, OnPart, ReplyPart, ReplySchema, Replying};
pub use context::{Bounded, ContextTooLong, bound};
pub use endpoints::Endpoints;
pub use error::{Blame, ChatError, Phase};
pub use length::Length;
pub use participant::{Draining, Held, Supplier, Waiting, retry_at, serve, waits_for};
pub use profile::{
    Api, MaxTokensField, ModelUse, Price, Profile, ProfileError, Profiles, SchemaMode,
};
pub use reserved::Reserved;
pub use spoken::{Shown, Spoken};
pub use surety_common::domain::messages::{Message, Role};
pub use tokens::{Tokenizer, count_messages};
pub use usage::TokenUsage;
