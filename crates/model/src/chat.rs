//! A request, its reply, and who answers it.

use crate::error::ChatError;
use crate::length::Length;
use crate::profile::Profile;
use crate::reserved::Reserved;
use crate::usage::TokenUsage;
use futures::future::BoxFuture;
use serde_json::Value;
use surety_common::domain::decision::Usage;
use surety_common::domain::messages::Message;
use tokio_util::sync::CancellationToken;

/// What a model is asked.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChatRequest {
    /// The conversation. It is sent in normal form: see [`surety_common::domain::messages::normalize`].
    pub messages: Vec<Message>,
    /// The form of the reply. Endpoints that cannot hold a model to it are not told: the caller validates the text.
    pub schema: Option<ReplySchema>,
    /// The most tokens of the reply; none for the profile's limit.
    pub max_output_tokens: Option<u32>,
    /// The temperature; none for the profile's.
    pub temperature: Option<f64>,
    /// What the run's budgets have reserved: all tries together use no more.
    pub reserved: Reserved,
}

/// The form of a reply.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplySchema {
    /// A name of letters, digits, `_` and `-`, at most 64 of them.
    pub name: String,
    /// The JSON Schema.
    pub schema: Value,
}

/// A whole reply. One that a token limit cut is an error: [`ChatError::ReplyCut`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatReply {
    /// What the model said; with a forced function its arguments, as JSON.
    pub text: String,
    /// What the model thought, where the endpoint tells it apart.
    pub reasoning: Option<String>,
    /// The tokens of the try that was answered. Those of tries that broke off come with [`ReplyPart::Restart`].
    pub usage: TokenUsage,
    /// What they cost by the price table, in millionths of its currency; 0 without a price.
    pub cost_micros: u64,
    /// The model as the endpoint names it.
    pub model: String,
    /// The endpoint's name, such as `127.0.0.1:8000/v1`.
    pub endpoint: String,
    /// How often the request was sent again.
    pub retries: u32,
}

/// A part of a reply, as it arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyPart<'a> {
    /// More of the text.
    Text(&'a str),
    /// More of the thinking.
    Reasoning(&'a str),
    /// The try broke off: what arrived before is void. It is charged with this all the same.
    Restart(Usage),
}

/// Takes the parts of a reply. It must not block.
pub type OnPart<'a> = &'a mut (dyn FnMut(ReplyPart<'_>) + Send);

/// A reply on its way. Dropping it closes the connection.
pub type Replying<'a> = BoxFuture<'a, Result<ChatReply, ChatError>>;

/// A model behind an endpoint.
pub trait ChatModel: Send + Sync {
    /// The profile.
    fn profile(&self) -> &Profile;

    /// The reply to `request`, whole; `on_part` is told of its parts as they arrive. Ends with
    /// [`ChatError::Cancelled`] once `cancel` is cancelled, with the connection closed.
    fn reply<'a>(
        &'a self,
        request: &'a ChatRequest,
        on_part: OnPart<'a>,
        cancel: &'a CancellationToken,
    ) -> Replying<'a>;

    /// How long a request may be, where the endpoint found one too long.
    fn length(&self) -> Option<Length>;

    /// Whether the endpoint answers, takes the key and knows the model, without a reply of the model. Requests that are
    /// kept back because the endpoint failed ask this to find out that it is back.
    fn probe<'a>(&'a self, cancel: &'a CancellationToken) -> BoxFuture<'a, Result<(), ChatError>>;
}
