//! The part of a run's budgets that a request may use: its prompt, and what is left of it for the reply.

use crate::charge::{cost_nanos, count_prompt};
use crate::chat::ReplySchema;
use crate::profile::{Price, Profile};
use crate::reserved::Reserved;
use crate::usage::TokenUsage;
use surety_common::domain::decision::Usage;
use surety_common::domain::execution::budget::ReplyNeed;
use surety_common::domain::messages::Message;

/// The fewest tokens of a reply: with less a decision is cut, so the model is not asked.
const FEWEST_TOKENS: u64 = 512;
/// A reply that may have fewer tokens is likely to be cut, so that more is asked for where the budget has it.
pub(crate) const USUAL_TOKENS: u64 = 2048;

/// The most tokens of the reply to a prompt, which has as many as it can have: a call stays inside what is reserved.
///
/// # Errors
/// What is reserved is too little: what is needed.
pub(crate) fn limit_of_reply(
    profile: &Profile,
    (messages, schema): (&[Message], Option<&ReplySchema>),
    reserved: Reserved,
) -> Result<u64, ReplyNeed> {
    let most = u64::from(profile.max_output_tokens);
    let prompt = count_prompt(profile, messages, schema);
    let Reserved { tokens, cost_micros, is_most } = reserved;
    let by_tokens = tokens.map_or(most, |tokens| tokens.saturating_sub(prompt));
    let by_cost = match (cost_micros, profile.price) {
        (Some(micros), Some(price)) => affordable(price, prompt, micros).unwrap_or(most),
        (Some(_) | None, None) | (None, Some(_)) => most,
    };
    let limit = most.min(by_tokens).min(by_cost);
    let wanted = if is_most { FEWEST_TOKENS } else { USUAL_TOKENS };
    if limit >= wanted.min(most) {
        return Ok(limit);
    }
    let need = |output: u64| Usage {
        tokens: prompt.saturating_add(output),
        cost_micros: profile.price.map_or(0, |price| cost_of(price, prompt, output)),
    };
    Err(ReplyNeed { least: need(FEWEST_TOKENS.min(most)), most: need(most) })
}

/// How many tokens of a reply so much pays for beside its prompt; none where they cost nothing.
fn affordable(price: Price, prompt: u64, micros: u64) -> Option<u64> {
    // Rounded once only: what is reserved for a reply suffices for it.
    match micros.saturating_mul(1000).checked_sub(nanos_of(price, prompt, 0)) {
        None => Some(0),
        Some(left) => left.checked_div(price.output_nanos),
    }
}

/// The cost of a call in millionths, with the whole prompt at its dearest price.
fn cost_of(price: Price, prompt: u64, output: u64) -> u64 {
    nanos_of(price, prompt, output).div_ceil(1000)
}

fn nanos_of(price: Price, prompt: u64, output: u64) -> u64 {
    let input_nanos = price.input_nanos.max(price.cache_write_nanos);
    let usage = TokenUsage { input: prompt, output, ..TokenUsage::default() };
    cost_nanos(Price { input_nanos, ..price }, usage, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use surety_common::domain::messages::Role;

    /// A prompt of at most 4000 tokens.
    fn prompt() -> Vec<Message> {
        vec![Message::new(Role::System, "x".repeat(4000 - 16))]
    }

    fn profile(price: Option<Price>) -> Profile {
        Profile { price, ..Profile::at("fast", "http://127.0.0.1:1/v1", "test-model") }
    }

    #[test]
    fn a_reply_has_what_the_budget_leaves_beside_the_prompt() {
        let profile = profile(None);
        for (tokens, is_most, limit) in [
            (None, false, Ok(8192)),
            (Some(100_000), false, Ok(8192)),
            (Some(10_000), false, Ok(6000)),
            (Some(5000), false, Err((4512, 12_192))),
            (Some(5000), true, Ok(1000)),
            (Some(4511), true, Err((4512, 12_192))),
            (Some(100), false, Err((4512, 12_192))),
        ] {
            let reserved = Reserved { tokens, is_most, cost_micros: None };
            let found = limit_of_reply(&profile, (&prompt(), None), reserved);
            let found = found.map_err(|need| (need.least.tokens, need.most.tokens));
            assert_eq!(found, limit, "{tokens:?}");
        }
    }

    #[test]
    fn no_call_uses_more_than_is_reserved_however_few_bytes_a_token_has() {
        let schema = ReplySchema { name: "decision".to_owned(), schema: json!({"type": "object"}) };
        let digits = "7f3a90c1".repeat(2000);
        for schema in [None, Some(&schema)] {
            let messages = [Message::new(Role::User, digits.clone())];
            let profile = profile(None);
            let reserved = Reserved { tokens: Some(20_000), is_most: true, ..Reserved::default() };
            let limit = limit_of_reply(&profile, (&messages, schema), reserved).expect("a reply");
            // A tokenizer that knows no such text makes a token of each byte.
            let form =
                schema.map_or(0, |schema| schema.schema.to_string().len() + schema.name.len());
            let most = u64::try_from(digits.len() + form).expect("a length") + limit;
            assert!(most < 20_000, "{most}");
        }
        let left = Reserved { tokens: Some(9000), cost_micros: Some(10), is_most: false };
        let used = Usage { tokens: 8000, cost_micros: 20 };
        let expected = Reserved { tokens: Some(1000), cost_micros: Some(0), is_most: true };
        assert_eq!(left.without(used), expected);
        assert_eq!(left.without(Usage::default()), left);
        assert_eq!(Reserved::default().without(used).tokens, None);
    }

    #[test]
    fn a_reply_fits_what_is_reserved_for_it_to_the_last_millionth() {
        for (input_nanos, output_nanos) in [(1, 1), (3, 7), (999, 1001), (1250, 10_000)] {
            let price = Price { input_nanos, output_nanos, ..Price::default() };
            let profile = profile(Some(price));
            let asked = |cost_micros: u64| {
                let reserved = Reserved { cost_micros: Some(cost_micros), ..Reserved::default() };
                limit_of_reply(&profile, (&prompt(), None), Reserved { is_most: true, ..reserved })
            };
            let need = asked(0).expect_err("nothing is reserved");
            for part in [need.least, need.most] {
                asked(part.cost_micros).unwrap_or_else(|need| panic!("{price:?}: {need:?}"));
            }
        }
    }

    #[test]
    fn a_budget_of_cost_bounds_a_reply_by_its_price_and_one_without_a_price_does_not() {
        let price = Price { input_nanos: 1000, output_nanos: 10_000, ..Price::default() };
        // The prompt costs 4000 millionths, a token of the reply 10.
        for (price, micros, limit) in [
            (Some(price), 1_000_000, Ok(8192)),
            (Some(price), 34_000, Ok(3000)),
            (Some(price), 1, Err((4000 + 5120, 4000 + 81_920))),
            (None, 1, Ok(8192)),
            (Some(Price::default()), 1, Ok(8192)),
        ] {
            let reserved = Reserved { cost_micros: Some(micros), ..Reserved::default() };
            let found = limit_of_reply(&profile(price), (&prompt(), None), reserved);
            let found = found.map_err(|need| (need.least.cost_micros, need.most.cost_micros));
            assert_eq!(found, limit, "{micros}");
        }
    }
}
