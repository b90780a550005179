//! What goes wrong between a request and its reply.

use crate::usage::TokenUsage;
use std::time::Duration;
use thiserror::Error;

/// Who can do something about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The endpoint is down or has no room: a run waits for it, and the same request can be sent again later.
    Endpoint,
    /// The configuration is wrong: an operator corrects it.
    Configuration,
    /// This request or its reply: another request may be answered.
    Request,
    /// The caller gave up.
    Caller,
}

/// What took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Opening the connection.
    Connect,
    /// The first byte of the answer.
    FirstByte,
    /// The next byte of the answer.
    Idle,
    /// The whole reply, all tries together.
    Total,
    /// A free slot of the endpoint.
    Queue,
}

impl Phase {
    /// The name in messages and in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::FirstByte => "first_byte",
            Self::Idle => "idle",
            Self::Total => "total",
            Self::Queue => "queue",
        }
    }
}

/// Why there is no reply. No variant holds a key; what an endpoint said is bounded and redacted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ChatError {
    /// The key is missing, wrong, or may not use the model.
    #[error(
        "the endpoint {endpoint} refuses the key of the profile {profile:?} (HTTP {status}): {said}. Correct its \
         key_file or key_env, or the rights of the key"
    )]
    Unauthorized {
        /// The endpoint.
        endpoint: String,
        /// The profile.
        profile: String,
        /// The HTTP status.
        status: u16,
        /// What the endpoint said.
        said: String,
    },
    /// The endpoint does not have the model, or the address is wrong.
    #[error(
        "the endpoint {endpoint} does not know the model {model:?} of the profile {profile:?}: {said}. Correct \
         `model`, or `url` where the address has another path"
    )]
    ModelUnknown {
        /// The endpoint.
        endpoint: String,
        /// The profile.
        profile: String,
        /// The model.
        model: String,
        /// What the endpoint said, or the models that it has.
        said: String,
    },
    /// The token limit ended the reply; it is not whole and must not be read as such.
    #[error("the reply of {endpoint} was cut by its token limit after {} bytes. Ask for a shorter one", text.len())]
    ReplyCut {
        /// The endpoint.
        endpoint: String,
        /// What arrived.
        text: String,
        /// What it cost.
        usage: TokenUsage,
        /// The same by the price table, in millionths.
        cost_micros: u64,
    },
    /// The model or the endpoint's content filter refused.
    #[error("the endpoint {endpoint} refused to reply: {said}")]
    Refused {
        /// The endpoint.
        endpoint: String,
        /// What it said.
        said: String,
        /// What it cost.
        usage: TokenUsage,
        /// The same by the price table, in millionths.
        cost_micros: u64,
    },
    /// The endpoint was too slow.
    #[error("the endpoint {endpoint} was too slow: the time for {} is {limit:?}", phase.as_str())]
    Timeout {
        /// The endpoint.
        endpoint: String,
        /// What took too long.
        phase: Phase,
        /// How long it may take.
        limit: Duration,
    },
    /// Too many requests, or the quota is used up.
    #[error("the endpoint {endpoint} limits the rate of requests: {said}")]
    RateLimited {
        /// The endpoint.
        endpoint: String,
        /// When it may be asked again, where it said so.
        retry_after: Option<Duration>,
        /// What it said.
        said: String,
    },
    /// No connection, or it broke.
    #[error("the endpoint {endpoint} cannot be reached: {reason}")]
    Unreachable {
        /// The endpoint.
        endpoint: String,
        /// The cause.
        reason: String,
    },
    /// The endpoint failed with a status of 500 and above.
    #[error("the endpoint {endpoint} failed (HTTP {status}): {said}")]
    Overloaded {
        /// The endpoint.
        endpoint: String,
        /// The HTTP status.
        status: u16,
        /// When it may be asked again, where it said so.
        retry_after: Option<Duration>,
        /// What it said.
        said: String,
    },
    /// The circuit breaker is open after several failures: the endpoint is not asked.
    #[error(
        "the endpoint {endpoint} failed {failures} times in a row and is asked again in {retry_after:?}"
    )]
    CircuitOpen {
        /// The endpoint.
        endpoint: String,
        /// The failures.
        failures: u32,
        /// When it is asked again.
        retry_after: Duration,
    },
    /// The answer breaks the protocol.
    #[error("the endpoint {endpoint} answered what is no reply: {reason}")]
    BadReply {
        /// The endpoint.
        endpoint: String,
        /// What is wrong.
        reason: String,
    },
    /// The prompt and the reply do not fit the model's context.
    #[error("the request is too long for the model behind {endpoint}: {said}")]
    ContextTooLong {
        /// The endpoint.
        endpoint: String,
        /// What it said.
        said: String,
    },
    /// The endpoint refuses the request for another reason.
    #[error("the endpoint {endpoint} refuses the request (HTTP {status}): {said}")]
    BadRequest {
        /// The endpoint.
        endpoint: String,
        /// The HTTP status.
        status: u16,
        /// What it said.
        said: String,
    },
    /// The caller cancelled.
    #[error("the request to {endpoint} was cancelled")]
    Cancelled {
        /// The endpoint.
        endpoint: String,
    },
}

impl ChatError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unauthorized { .. } => "model_unauthorized",
            Self::ModelUnknown { .. } => "model_unknown",
            Self::ReplyCut { .. } => "model_reply_cut",
            Self::Refused { .. } => "model_refused",
            Self::Timeout { .. } => "model_timeout",
            Self::RateLimited { .. } => "model_rate_limited",
            Self::Unreachable { .. } => "model_unreachable",
            Self::Overloaded { .. } => "model_overloaded",
            Self::CircuitOpen { .. } => "model_circuit_open",
            Self::BadReply { .. } => "model_bad_reply",
            Self::ContextTooLong { .. } => "model_context_too_long",
            Self::BadRequest { .. } => "model_bad_request",
            Self::Cancelled { .. } => "model_cancelled",
        }
    }

    /// Whether the endpoint was asked: a circuit breaker, or a queue that did not move, keeps a request back.
    #[must_use]
    pub const fn was_sent(&self) -> bool {
        match self {
            Self::CircuitOpen { .. } => false,
            Self::Timeout { phase, .. } => !matches!(phase, Phase::Queue),
            Self::Unauthorized { .. }
            | Self::ModelUnknown { .. }
            | Self::ReplyCut { .. }
            | Self::Refused { .. }
            | Self::RateLimited { .. }
            | Self::Unreachable { .. }
            | Self::Overloaded { .. }
            | Self::BadReply { .. }
            | Self::ContextTooLong { .. }
            | Self::BadRequest { .. }
            | Self::Cancelled { .. } => true,
        }
    }

    /// Who can do something about it.
    #[must_use]
    pub const fn blame(&self) -> Blame {
        match self {
            Self::Unauthorized { .. } | Self::ModelUnknown { .. } => Blame::Configuration,
            Self::Timeout { .. }
            | Self::RateLimited { .. }
            | Self::Unreachable { .. }
            | Self::Overloaded { .. }
            | Self::CircuitOpen { .. } => Blame::Endpoint,
            Self::ReplyCut { .. }
            | Self::Refused { .. }
            | Self::BadReply { .. }
            | Self::ContextTooLong { .. }
            | Self::BadRequest { .. } => Blame::Request,
            Self::Cancelled { .. } => Blame::Caller,
        }
    }

    /// The endpoint's name.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        match self {
            Self::Unauthorized { endpoint, .. }
            | Self::ModelUnknown { endpoint, .. }
            | Self::ReplyCut { endpoint, .. }
            | Self::Refused { endpoint, .. }
            | Self::Timeout { endpoint, .. }
            | Self::RateLimited { endpoint, .. }
            | Self::Unreachable { endpoint, .. }
            | Self::Overloaded { endpoint, .. }
            | Self::CircuitOpen { endpoint, .. }
            | Self::BadReply { endpoint, .. }
            | Self::ContextTooLong { endpoint, .. }
            | Self::BadRequest { endpoint, .. }
            | Self::Cancelled { endpoint } => endpoint,
        }
    }

    /// When the endpoint may be asked again, where that is known.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Overloaded { retry_after, .. } => {
                *retry_after
            }
            Self::CircuitOpen { retry_after, .. } => Some(*retry_after),
            Self::Unauthorized { .. }
            | Self::ModelUnknown { .. }
            | Self::ReplyCut { .. }
            | Self::Refused { .. }
            | Self::Timeout { .. }
            | Self::Unreachable { .. }
            | Self::BadReply { .. }
            | Self::ContextTooLong { .. }
            | Self::BadRequest { .. }
            | Self::Cancelled { .. } => None,
        }
    }
}
