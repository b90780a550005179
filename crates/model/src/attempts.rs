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
use crate::charge::Sent;
use crate::chat::{ChatReply, ChatRequest, OnPart, ReplyPart};
use crate::client::Client;
use crate::endpoint::Endpoint;
use crate::error::{ChatError, Phase};
use crate::part::{USUAL_TOKENS, limit_of_reply};
use crate::profile::{Api, SchemaMode};
use crate::retry::{pause, pauses};
use crate::tokens::count_messages;
use crate::usage::TokenUsage;
use crate::wire::{Arrived, End, Level, Prepared, Received};
use std::time::{Duration, Instant};
use surety_common::domain::decision::Usage;
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
    /// What tries used that broke off.
    in_vain: Usage,
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
            in_vain: Usage::default(),
        }
    }

    pub(crate) async fn run(mut self) -> Result<ChatReply, ChatError> {
        let first = self.client.profile.retry_pause;
        let mut own = pauses(first);
        let mut last: Option<ChatError> = None;
        loop {
            let failed = match self.once().await {
                Ok(received) => return self.conclude(received),
                Err(failed) => failed,
            };
            if failed.error.was_sent() {
                telemetry::count_model_failure(self.client.labels(), failed.error.code());
            }
            if let (ChatError::CircuitOpen { .. }, Some(last)) = (&failed.error, last.take()) {
                // What opened the breaker says more.
                return Err(last);
            }
            let is_last_try = self.retries >= self.client.profile.retries;
            if !self.has_budget() {
                // The caller charges what was used, and reserves anew.
                return Err(failed.error);
            }
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

    /// Whether what is reserved suffices for another try with a reply of the usual length, beside those that broke off.
    fn has_budget(&mut self) -> bool {
        if self.in_vain.is_zero() {
            return true;
        }
        let prompt = (self.normal.messages.as_slice(), self.request.schema.as_ref());
        let left = self.request.reserved.without(self.in_vain);
        let Ok(limit) = limit_of_reply(&self.client.profile, prompt, left) else { return false };
        if limit < USUAL_TOKENS.min(u64::from(self.most_output)) {
            return false;
        }
        self.most_output = self.most_output.min(u32::try_from(limit).unwrap_or(u32::MAX));
        true
    }

    fn sent(&self) -> Sent<'_> {
        Sent {
            profile: &self.client.profile,
            messages: &self.normal.messages,
            schema: self.request.schema.as_ref(),
            most_output: self.most_output,
        }
    }

    fn count(&self, usage: TokenUsage, cost_micros: u64) {
        let TokenUsage { input, cached_input, output, .. } = usage;
        let counted = ModelUsage { input, cached_input, output, cost_micros };
        telemetry::count_model_usage(self.client.labels(), counted);
    }

    /// Charges a try that broke off, and says that what arrived of it is void. A refusal is an answer, which has what it
    /// used.
    fn gave_nothing(&mut self, failed: &mut Failed, received: &Received, was_told: bool) {
        let is_refused = failed.refusal.is_some();
        let mut used = Usage::default();
        if let ChatError::Refused { usage, cost_micros, .. } = &mut failed.error {
            (*usage, *cost_micros) = self.sent().used(received);
            self.count(*usage, *cost_micros);
        } else {
            let in_vain = self.sent().used_in_vain(received, (&failed.error, is_refused));
            if let Some((usage, cost_micros)) = in_vain {
                self.count(usage, cost_micros);
                used = usage.charged(cost_micros);
            }
        }
        self.in_vain = self.in_vain.plus(used);
        if was_told || !used.is_zero() {
            (self.on_part)(ReplyPart::Restart(used));
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
    async fn once(&mut self) -> Result<Received, Failed> {
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
        let mut on_part = |part: ReplyPart<'_>| {
            if !was_told {
                // The other requests need not wait for the end of this one.
                client.endpoint().breaker().began();
            }
            was_told = true;
            on_part(part);
        };
        let mut received = Received::default();
        let calling = client.call(&asked, &mut on_part, &mut received);
        let mut found = match timeout_at(deadline, calling).await {
            Ok(found) => found,
            Err(_) => Err(late(Phase::Total)),
        };
        let asked_for = u64::from(asked.max_output_tokens);
        if let Err(failed) = &mut found {
            self.gave_nothing(failed, &received, was_told);
        }
        let length = || {
            let prompt = count_messages(client.profile.tokenizer, &self.normal.messages);
            prompt.saturating_add(asked_for)
        };
        let (endpoint, model) = (client.endpoint(), &client.profile.model);
        match found.as_ref().map_err(|failed| &failed.error) {
            Ok(()) => {
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
        found.map(|()| received)
    }

    fn conclude(self, received: Received) -> Result<ChatReply, ChatError> {
        let (usage, cost_micros) = self.sent().used(&received);
        self.count(usage, cost_micros);
        let Self { client, levels, retries, .. } = self;
        if levels.is_remembered && levels.known != Some(levels.present()) {
            client.endpoint().remember(&client.profile.model, levels.present());
        }
        let endpoint = client.endpoint().name.clone();
        let text = received.arrived.said().into_owned();
        let Arrived { end, reasoning, model, .. } = received.arrived;
        match end {
            Some(End::Refused(said)) => {
                Err(ChatError::Refused { endpoint, said, usage, cost_micros })
            }
            Some(End::Cut) => Err(ChatError::ReplyCut { endpoint, text, usage, cost_micros }),
            Some(End::Whole) | None => Ok(ChatReply {
                text,
                reasoning: Some(reasoning).filter(|thought| !thought.is_empty()),
                usage,
                cost_micros,
                model: model.unwrap_or_else(|| client.profile.model.clone()),
                endpoint,
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
