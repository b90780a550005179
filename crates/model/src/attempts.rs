//! The tries of one request: retries after failures of the endpoint, and other ways to ask for a form of the reply
//! where the endpoint does not take the first.
//!
//! ```text
//!   slot --> breaker --> call --ok--------------------------> reply, the way is remembered
//!     ^                   |--schema refused (400, 404, 500)--> the next way: format, function, nothing
//!     |                   `--endpoint failed--> pause --.
//!     '-------------------------------------------------'
//! ```

use crate::call::Failed;
use crate::chat::{ChatReply, ChatRequest, OnPart, ReplyPart};
use crate::client::Client;
use crate::endpoint::Endpoint;
use crate::error::{ChatError, Phase};
use crate::profile::{Api, Price, SchemaMode};
use crate::retry::{pause, pauses};
use crate::tokens::count_messages;
use crate::usage::TokenUsage;
use crate::wire::{Arrived, Counted, End, Level, Prepared};
use std::time::{Duration, Instant};
use surety_common::domain::messages::{Normal, normalize};
use surety_common::telemetry::{self, ModelUsage};
use tokio::time::{Instant as Clock, sleep, timeout_at};

/// A longer pause that an endpoint asks for is not waited for here: the caller comes back.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The ways to ask for a form, those that are left.
struct Levels {
    left: &'static [Level],
    /// The way that succeeded before.
    known: Option<Level>,
    /// Whether the way that succeeds is remembered.
    is_remembered: bool,
    /// How often this way was answered with 500.
    failures: u32,
}

impl Levels {
    fn of(client: &Client, request: &ChatRequest) -> Self {
        let all: &[Level] = match client.profile.api {
            Api::OpenAi => &[Level::Format, Level::Function, Level::Nothing],
            Api::Anthropic => &[Level::Function, Level::Nothing],
        };
        let fixed: &[Level] = match (request.schema.is_some(), client.profile.schema) {
            (false, _) | (true, SchemaMode::Never) => &[Level::Nothing],
            (true, SchemaMode::Format) => &[Level::Format],
            (true, SchemaMode::Function) => &[Level::Function],
            (true, SchemaMode::Auto) => {
                let known = client.endpoint().level(&client.profile.model);
                // The endpoint may have another backend by now, or not take another schema: the lower ways stay.
                let first = known.and_then(|known| all.iter().position(|level| *level == known));
                let left = all.get(first.unwrap_or_default()..).unwrap_or(all);
                return Self { left, known, is_remembered: true, failures: 0 };
            }
        };
        Self { left: fixed, known: None, is_remembered: false, failures: 0 }
    }

    fn present(&self) -> Level {
        self.left.first().copied().unwrap_or(Level::Nothing)
    }

    /// Goes on to the next way where this one may be what was refused. HTTP 500 must come twice: an endpoint that
    /// fails for a moment must not lose the way for good.
    fn goes_on(&mut self, failed: &Failed, is_last_try: bool) -> bool {
        let Some(refusal) = &failed.refusal else { return false };
        let [_, rest @ ..] = self.left else { return false };
        if rest.is_empty() || !refusal.may_refuse_schema() {
            return false;
        }
        if refusal.status == 500 && self.failures == 0 && !is_last_try {
            self.failures += 1;
            return false;
        }
        // A known way that fails is left for this request only: the failure may be one of the moment.
        self.is_remembered &= refusal.status != 500 || self.known.is_none();
        self.left = rest;
        self.failures = 0;
        true
    }
}

/// The tries of one request.
pub(crate) struct Attempts<'a> {
    client: &'a Client,
    request: &'a ChatRequest,
    on_part: OnPart<'a>,
    normal: Normal,
    levels: Levels,
    /// The end of the total time, which begins with the first slot.
    deadline: Option<Clock>,
    retries: u32,
    /// The most tokens of the reply that are asked for.
    most_output: u32,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(client: &'a Client, request: &'a ChatRequest, on_part: OnPart<'a>) -> Self {
        let normal = normalize(&request.messages);
        if normal.changed {
            telemetry::count_normalized();
        }
        Self {
            client,
            request,
            on_part,
            normal,
            levels: Levels::of(client, request),
            deadline: None,
            retries: 0,
            most_output: {
                let asked = request.max_output_tokens.unwrap_or(client.profile.max_output_tokens);
                let known = client.endpoint().most_output(&client.profile.model);
                known.map_or(asked, |known| asked.min(known))
            },
        }
    }

    pub(crate) async fn run(mut self) -> Result<ChatReply, ChatError> {
        let first = self.client.profile.retry_pause;
        let mut own = pauses(first);
        let mut last: Option<ChatError> = None;
        loop {
            let failed = match self.once().await {
                Ok(arrived) => return self.conclude(arrived),
                Err(failed) => failed,
            };
            telemetry::count_model_failure(self.client.labels(), failed.error.code());
            if let (ChatError::CircuitOpen { .. }, Some(last)) = (&failed.error, last.take()) {
                // What opened the breaker says more.
                return Err(last);
            }
            let is_last_try = self.retries >= self.client.profile.retries;
            if self.asks_for_less(&failed) || self.levels.goes_on(&failed, is_last_try) {
                continue;
            }
            let asked = failed.error.retry_after();
            let pause = pause(own.next().unwrap_or(first), asked, first);
            let is_late = asked.is_some_and(|asked| asked > LONGEST_PAUSE)
                || self.deadline.is_some_and(|deadline| Clock::now() + pause >= deadline);
            if is_last_try || is_late || !is_retryable(&failed) {
                return Err(failed.error);
            }
            self.retries += 1;
            tracing::warn!(
                endpoint = self.client.endpoint().name,
                code = failed.error.code(),
                retry = self.retries,
                pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
                "a request to a model is sent again"
            );
            last = Some(failed.error);
            sleep(pause).await;
        }
    }

    /// Whether a shorter reply is asked for, because the model gives none of this length.
    fn asks_for_less(&mut self, failed: &Failed) -> bool {
        let refusal = failed.refusal.as_deref();
        let shorter = refusal.and_then(|refusal| refusal.shorter_reply(self.most_output));
        if let Some(shorter) = shorter {
            self.client.endpoint().bound_output(&self.client.profile.model, shorter);
            self.most_output = shorter;
        }
        shorter.is_some()
    }

    /// Keeps every request for this model back until the time that the endpoint names.
    fn hold_back(&self, error: &ChatError) {
        if let ChatError::RateLimited { retry_after: Some(after), .. }
        | ChatError::Overloaded { retry_after: Some(after), .. } = error
        {
            let (endpoint, until) = (self.client.endpoint(), Clock::now() + *after);
            endpoint.hold_back(&self.client.profile.model, until, error);
        }
    }

    /// One request, in a slot of the endpoint.
    async fn once(&mut self) -> Result<Arrived, Failed> {
        let client = self.client;
        let late = |phase| client.late(phase, client.profile.total_timeout);
        // A busy endpoint is not a slow one: the time in the queue does not count for the reply.
        let queue_end =
            self.deadline.unwrap_or_else(|| Clock::now() + client.profile.total_timeout);
        let _slot = loop {
            allowed(client, self.deadline).await?;
            let slot = timeout_at(queue_end, client.endpoint().slots.acquire()).await;
            // The semaphore is never closed.
            let slot = slot.map_err(|_| late(Phase::Queue))?;
            if client.endpoint().held_back(&client.profile.model).is_none() {
                break slot;
            }
        };
        let deadline =
            *self.deadline.get_or_insert_with(|| Clock::now() + client.profile.total_timeout);
        let admitted = Admitted::enter(client.endpoint());
        client.endpoint().show_breaker();
        let admitted = admitted?;
        let asked = Prepared {
            profile: &client.profile,
            messages: &self.normal.messages,
            schema: self.request.schema.as_ref(),
            level: self.levels.present(),
            max_output_tokens: self.most_output,
            temperature: self.request.temperature.or(client.profile.temperature),
        };
        let mut was_told = false;
        let on_part = &mut *self.on_part;
        let mut told = |part: ReplyPart<'_>| {
            if !was_told {
                // The other requests need not wait for the end of this one.
                client.endpoint().breaker().began();
            }
            was_told = true;
            on_part(part);
        };
        let found = match timeout_at(deadline, client.call(&asked, &mut told)).await {
            Ok(found) => found,
            Err(_) => Err(late(Phase::Total)),
        };
        if found.is_err() && was_told {
            (self.on_part)(ReplyPart::Restart);
        }
        let length = || {
            let prompt = count_messages(client.profile.tokenizer, &self.normal.messages);
            prompt.saturating_add(u64::from(asked.max_output_tokens))
        };
        let (endpoint, model) = (client.endpoint(), &client.profile.model);
        match found.as_ref().map_err(|failed| &failed.error) {
            Ok(_) => {
                endpoint.answered(model);
                if endpoint.length(model).is_some() {
                    endpoint.was_taken(model, length());
                }
            }
            Err(ChatError::ContextTooLong { .. }) => endpoint.was_too_long(model, length()),
            Err(error) => self.hold_back(error),
        }
        admitted.leave(found.as_ref().err());
        client.endpoint().show_breaker();
        found
    }

    fn conclude(self, arrived: Arrived) -> Result<ChatReply, ChatError> {
        let Self { client, normal, levels, retries, .. } = self;
        if levels.is_remembered && levels.known != Some(levels.present()) {
            client.endpoint().remember(&client.profile.model, levels.present());
        }
        let endpoint = client.endpoint().name.clone();
        let (usage, cost_micros) = usage(client, &normal, &arrived);
        let TokenUsage { input, cached_input, output, .. } = usage;
        let counted = ModelUsage { input, cached_input, output, cost_micros };
        telemetry::count_model_usage(client.labels(), counted);
        let text = arrived.said().to_owned();
        match arrived.end {
            Some(End::Refused(said)) => Err(ChatError::Refused { endpoint, said }),
            Some(End::Cut) => Err(ChatError::ReplyCut { endpoint, text, usage, cost_micros }),
            Some(End::Whole) | None => Ok(ChatReply {
                text,
                reasoning: Some(arrived.reasoning).filter(|thought| !thought.is_empty()),
                usage,
                cost_micros,
                model: arrived.model.unwrap_or_else(|| client.profile.model.clone()),
                endpoint,
                messages_normalized: normal.changed,
                retries,
            }),
        }
    }
}

/// Waits until the endpoint allows a request.
async fn allowed(client: &Client, deadline: Option<Clock>) -> Result<(), Failed> {
    let profile = &client.profile;
    let endpoint = client.endpoint();
    let Some((until, mut error)) = endpoint.held_back(&profile.model) else { return Ok(()) };
    let left = until.saturating_duration_since(Clock::now());
    if left <= LONGEST_PAUSE && deadline.is_none_or(|deadline| until < deadline) {
        // Those that are kept back come with a random part each, not all at once.
        let first = profile.retry_pause;
        sleep(pause(pauses(first).next().unwrap_or(first), Some(left), first)).await;
        return Ok(());
    }
    if endpoint.is_probe_due(&profile.model) && client.ask_for_model().await.is_ok() {
        endpoint.end_hold(&profile.model);
        return Ok(());
    }
    if let ChatError::RateLimited { retry_after, .. } | ChatError::Overloaded { retry_after, .. } =
        &mut error
    {
        *retry_after = Some(left);
    }
    Err(Failed::new(error))
}

/// Whether the same request may be answered a moment later.
fn is_retryable(failed: &Failed) -> bool {
    let is_out = failed.refusal.as_ref().is_some_and(|refusal| refusal.is_out_of_quota());
    match &failed.error {
        ChatError::Timeout { phase, .. } => match phase {
            Phase::Connect | Phase::FirstByte | Phase::Idle => true,
            Phase::Total | Phase::Queue => false,
        },
        ChatError::RateLimited { .. } => !is_out,
        ChatError::Unreachable { .. }
        | ChatError::Overloaded { .. }
        | ChatError::BadReply { .. } => true,
        ChatError::Unauthorized { .. }
        | ChatError::ModelUnknown { .. }
        | ChatError::ReplyCut { .. }
        | ChatError::Refused { .. }
        | ChatError::CircuitOpen { .. }
        | ChatError::ContextTooLong { .. }
        | ChatError::BadRequest { .. }
        | ChatError::Cancelled { .. } => false,
    }
}

/// A request that the breaker let through.
struct Admitted<'a> {
    endpoint: &'a Endpoint,
    is_reported: bool,
}

impl<'a> Admitted<'a> {
    fn enter(endpoint: &'a Endpoint) -> Result<Self, Failed> {
        let mut breaker = endpoint.breaker();
        match breaker.admit(Instant::now()) {
            Ok(()) => Ok(Self { endpoint, is_reported: false }),
            Err(retry_after) => Err(Failed::new(ChatError::CircuitOpen {
                endpoint: endpoint.name.clone(),
                failures: breaker.failures(),
                retry_after,
            })),
        }
    }

    /// Says how it went. An endpoint that refuses a request is up.
    fn leave(mut self, failed: Option<&Failed>) {
        let mut breaker = self.endpoint.breaker();
        match failed.map(|failed| &failed.error) {
            Some(ChatError::Timeout { phase: Phase::Total | Phase::Queue, .. }) => {
                breaker.abandoned(Instant::now());
            }
            Some(
                ChatError::Timeout { .. }
                | ChatError::Unreachable { .. }
                | ChatError::Overloaded { .. },
            ) => breaker.failed(Instant::now()),
            Some(_) | None => breaker.succeeded(),
        }
        drop(breaker);
        self.is_reported = true;
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        if !self.is_reported {
            self.endpoint.breaker().abandoned(Instant::now());
        }
    }
}

/// What the endpoint counted, or upper bounds, and what it costs in millionths.
fn usage(client: &Client, normal: &Normal, arrived: &Arrived) -> (TokenUsage, u64) {
    let Counted { input, output, cached, cache_writes } = arrived.usage;
    let tokenizer = client.profile.tokenizer;
    let said = || {
        [&arrived.text, &arrived.arguments, &arrived.reasoning]
            .iter()
            .map(|text| tokenizer.count(text))
            .fold(0, u64::saturating_add)
    };
    let usage = TokenUsage {
        input: input.unwrap_or_else(|| count_messages(tokenizer, &normal.messages)),
        output: output.unwrap_or_else(said),
        cached_input: cached,
        is_estimate: input.is_none() || output.is_none(),
    };
    let cost = client.profile.price.map_or(0, |price| cost(price, usage, cache_writes));
    (usage, cost)
}

/// The cost in millionths, rounded up.
fn cost(price: Price, usage: TokenUsage, cache_writes: u64) -> u64 {
    cost_nanos(price, usage, cache_writes).div_ceil(1000)
}

/// The cost in thousandths of a millionth.
pub(crate) fn cost_nanos(price: Price, usage: TokenUsage, cache_writes: u64) -> u64 {
    let plain = usage.input.saturating_sub(usage.cached_input).saturating_sub(cache_writes);
    let parts = [
        (plain, price.input_nanos),
        (usage.cached_input, price.cached_input_nanos),
        (cache_writes, price.cache_write_nanos),
        (usage.output, price.output_nanos),
    ];
    let nanos = parts.iter().map(|(tokens, nanos)| tokens.saturating_mul(*nanos));
    nanos.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_rounded_up_and_cached_tokens_have_their_own_price() {
        let price = Price {
            input_nanos: 3000,
            cached_input_nanos: 300,
            cache_write_nanos: 3750,
            output_nanos: 15_000,
        };
        let usage = TokenUsage { input: 1000, output: 10, cached_input: 600, is_estimate: false };
        // 300 * 3 + 600 * 0.3 + 100 * 3.75 + 10 * 15 = 1605 millionths.
        assert_eq!(cost(price, usage, 100), 1605);
        let one = TokenUsage { input: 1, output: 0, cached_input: 1, is_estimate: false };
        assert_eq!(cost(price, one, 0), 1);
    }
}
