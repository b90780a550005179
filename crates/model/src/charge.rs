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
        let Counted { output, .. } = received.arrived.usage;
        self.counted(received, output.unwrap_or_else(|| self.bound(received)))
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
        let is_nothing = arrived.len() == 0 && arrived.usage == Counted::default();
        let is_no_reply = is_refused || matches!(error, ChatError::BadReply { .. });
        if !has_answer || is_no_reply && is_nothing {
            return None;
        }
        let output = match self.profile.stream {
            // What was counted at the beginning of a stream is not all.
            true => arrived.usage.output.unwrap_or_default().max(self.bound(received)),
            false => arrived.usage.output.unwrap_or_else(|| u64::from(self.most_output)),
        };
        let (usage, cost) = self.counted(received, output);
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

    fn counted(&self, received: &Received, output: u64) -> (TokenUsage, u64) {
        let Counted { input, output: counted, cached, cache_writes } = received.arrived.usage;
        let usage = TokenUsage {
            input: input.unwrap_or_else(|| count_prompt(self.profile, self.messages, self.schema)),
            output,
            cached_input: cached,
            is_estimate: input.is_none() || counted.is_none(),
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
