//! What a request used, in tokens and by the price table: as the endpoint counted it, else an upper bound.

use crate::chat::ReplySchema;
use crate::error::{ChatError, Phase};
use crate::profile::{Price, Profile, SchemaMode};
use crate::tokens::count_messages;
use crate::usage::TokenUsage;
use crate::wire::{Counted, FUNCTION_MEANING, Received};
use surety_common::domain::messages::Message;

/// What a form of the reply costs beyond its text: the words by which an endpoint tells the model of a function.
const PER_FORM: u64 = 512;

/// An endpoint is believed up to so many times what is counted here of the prompt, and asked for of the reply. Tokens of
/// English have about four bytes (OpenAI, "What are tokens and how to count them?"), so counts of two tokenizers, one of which may
/// count bytes, are about four times apart. Twice that leaves space for what an endpoint adds to a prompt, and for thinking
/// that its limit of a reply does not bound.
const MOST_TIMES: u64 = 8;

/// What was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) messages: &'a [Message],
    pub(crate) schema: Option<&'a ReplySchema>,
    /// The most tokens of the reply that were asked for.
    pub(crate) most_output: u32,
}

/// The most tokens that an endpoint counts for a prompt: the conversation, and the form of the reply, which endpoints
/// write into it.
#[must_use]
pub(crate) fn count_prompt(
    profile: &Profile,
    messages: &[Message],
    schema: Option<&ReplySchema>,
) -> u64 {
    let tokenizer = profile.tokenizer;
    let schema = schema.filter(|_| profile.schema != SchemaMode::Never);
    let of_form = schema.map_or(0, |ReplySchema { name, schema }| {
        let texts = [name.as_str(), &schema.to_string(), FUNCTION_MEANING];
        texts.map(|text| tokenizer.count(text)).into_iter().fold(PER_FORM, u64::saturating_add)
    });
    count_messages(tokenizer, messages).saturating_add(of_form)
}

impl Sent<'_> {
    /// What a request used that has a reply, and its cost in millionths.
    pub(crate) fn used(&self, received: &Received) -> (TokenUsage, u64) {
        let counted = self.believed(received.arrived.usage);
        let output = counted.output.unwrap_or_else(|| self.bound(received));
        self.charged(counted, output)
    }

    /// What a request used whose answer broke off; none where there is nothing of an answer. Of a streamed reply that is
    /// what arrived. One that is not streamed may have had every token that was asked for.
    pub(crate) fn used_in_vain(
        &self,
        received: &Received,
        (error, is_refused): (&ChatError, bool),
    ) -> Option<(TokenUsage, u64)> {
        let Received { arrived, has_begun } = received;
        let is_late = matches!(
            error,
            ChatError::Timeout { phase: Phase::FirstByte | Phase::Idle | Phase::Total, .. }
        );
        let has_answer = *has_begun || is_late && !self.profile.stream;
        // An error in place of a reply.
        let Counted { input, output, .. } = arrived.usage;
        let is_nothing = arrived.len() == 0 && input.or(output).is_none();
        let is_no_reply = is_refused || matches!(error, ChatError::BadReply { .. });
        if !has_answer || is_no_reply && is_nothing {
            return None;
        }
        let counted = self.believed(arrived.usage);
        let output = match self.profile.stream {
            // What was counted at the beginning of a stream is not all.
            true => counted.output.unwrap_or_default().max(self.bound(received)),
            false => counted.output.unwrap_or_else(|| u64::from(self.most_output)),
        };
        let (usage, cost) = self.charged(counted, output);
        Some((TokenUsage { is_estimate: true, ..usage }, cost))
    }

    /// The most tokens of what arrived: no more than were asked for.
    fn bound(&self, received: &Received) -> u64 {
        let arrived = &received.arrived;
        [arrived.text.as_str(), &arrived.reasoning]
            .into_iter()
            .chain(arrived.calls.texts())
            .map(|text| self.profile.tokenizer.count(text))
            .fold(0, u64::saturating_add)
            .min(u64::from(self.most_output))
    }

    fn prompt(&self) -> u64 {
        count_prompt(self.profile, self.messages, self.schema)
    }

    /// What is believed of the endpoint's counts. Others count as not reported.
    fn believed(&self, counted: Counted) -> Counted {
        let asked_for = self.prompt().saturating_add(u64::from(self.most_output));
        let most = asked_for.saturating_mul(MOST_TIMES);
        let plausible = |tokens: Option<u64>| tokens.filter(|tokens| *tokens <= most);
        let (input, output) = (plausible(counted.input), plausible(counted.output));
        let of_cache = counted.cached.saturating_add(counted.cache_writes);
        let (cached, cache_writes) = match input {
            Some(input) if of_cache <= input => (counted.cached, counted.cache_writes),
            Some(_) | None => (0, 0),
        };
        let believed = Counted { input, output, cached, cache_writes, is_odd: false };
        if believed != counted {
            tracing::warn!(
                profile = self.profile.name,
                input = ?counted.input,
                output = ?counted.output,
                cached = counted.cached,
                most,
                "model: the endpoint's counts of tokens cannot be right, so an upper bound is charged; check the usage \
                 that it reports"
            );
        }
        believed
    }

    fn charged(&self, counted: Counted, output: u64) -> (TokenUsage, u64) {
        let Counted { input, cached, cache_writes, .. } = counted;
        let usage = TokenUsage {
            input: input.unwrap_or_else(|| self.prompt()),
            output,
            cached_input: cached,
            is_estimate: input.is_none() || counted.output.is_none(),
        };
        let cost = self.profile.price.map_or(0, |price| cost(price, usage, cache_writes));
        (usage, cost)
    }
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
    use crate::wire::Arrived;
    use surety_common::domain::messages::Role;

    #[test]
    fn counts_that_cannot_be_right_are_charged_as_an_upper_bound() {
        let profile = Profile::at("fast", "http://127.0.0.1:1/v1", "test-model");
        let messages = [Message::new(Role::User, "x".repeat(84))];
        let sent = Sent { profile: &profile, messages: &messages, schema: None, most_output: 20 };
        // The prompt has 100 tokens, the reply 5.
        let usage = |input, output, cached| {
            let counted = Counted { input, output, cached, ..Counted::default() };
            let arrived =
                Arrived { text: "reply".to_owned(), usage: counted, ..Arrived::default() };
            let (usage, _) = sent.used(&Received { arrived, has_begun: true });
            (usage.input, usage.output, usage.cached_input, usage.is_estimate)
        };
        for (reported, charged) in [
            ((Some(960), Some(7), 60), (960, 7, 60, false)),
            ((Some(30), Some(960), 0), (30, 960, 0, false)),
            ((Some(961), Some(7), 60), (100, 7, 0, true)),
            ((Some(30), Some(u64::MAX), 0), (30, 5, 0, true)),
            ((Some(u64::MAX), Some(u64::MAX), u64::MAX), (100, 5, 0, true)),
            ((Some(30), Some(7), 31), (30, 7, 0, false)),
            ((None, None, 0), (100, 5, 0, true)),
        ] {
            let (input, output, cached) = reported;
            assert_eq!(usage(input, output, cached), charged, "{reported:?}");
        }
    }

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
