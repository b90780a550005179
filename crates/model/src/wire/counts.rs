//! Counts of tokens as endpoints write them.

use serde_json::{Number, Value};

/// The largest whole number that a float tells apart from the next one: 2^53.
const LARGEST_FLOAT: f64 = 9_007_199_254_740_992.0;

/// A field of a usage; `is_odd` becomes true where it has a value that is no count. Such a field is as good as none: a
/// reply is not lost for the sake of its numbers.
pub(super) fn count(usage: &Value, field: &str, is_odd: &mut bool) -> Option<u64> {
    let value = usage.get(field).filter(|value| !value.is_null())?;
    let count = value.as_number().and_then(whole);
    *is_odd |= count.is_none();
    count
}

/// A number that is whole and not negative; 5.0 is 5.
fn whole(number: &Number) -> Option<u64> {
    number.as_u64().or_else(|| {
        let float = number.as_f64()?;
        let is_whole = float.fract() == 0.0 && (0.0..=LARGEST_FLOAT).contains(&float);
        is_whole.then_some(float as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Api;
    use crate::wire::form::take_whole;
    use crate::wire::{Arrived, Counted};

    #[test]
    fn counts_are_whole_numbers_that_are_not_negative() {
        for (value, expected) in [
            ("5", (Some(5), false)),
            ("5.0", (Some(5), false)),
            ("1e3", (Some(1000), false)),
            ("0", (Some(0), false)),
            ("18446744073709551615", (Some(u64::MAX), false)),
            ("null", (None, false)),
            ("-5", (None, true)),
            ("5.5", (None, true)),
            ("1e300", (None, true)),
            ("\"5\"", (None, true)),
            ("{}", (None, true)),
        ] {
            let usage = serde_json::from_str(&format!("{{\"a\": {value}}}")).unwrap();
            let mut is_odd = false;
            let count = count(&usage, "a", &mut is_odd);
            assert_eq!((count, is_odd), expected, "{value}");
        }
        let mut is_odd = false;
        assert_eq!((count(&Value::from("x"), "a", &mut is_odd), is_odd), (None, false));
    }

    #[test]
    fn a_reply_with_odd_counts_is_read() {
        let openai = r#"{"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": -5, "completion_tokens": 2.0, "prompt_tokens_details": {"cached_tokens": "x"}}}"#;
        let anthropic = r#"{"content": [{"type": "text", "text": "a"}], "stop_reason": "end_turn",
            "usage": {"input_tokens": -5, "output_tokens": 2.0, "cache_read_input_tokens": [1]}}"#;
        for (api, body) in [(Api::OpenAi, openai), (Api::Anthropic, anthropic)] {
            let mut arrived = Arrived::default();
            take_whole(api, body.as_bytes(), &mut arrived, &mut |_| {}).unwrap();
            let expected = Counted { output: Some(2), is_odd: true, ..Counted::default() };
            assert_eq!((arrived.said().as_ref(), arrived.usage), ("a", expected));
            let bodies =
                [body.replace(r#"{"cached_tokens": "x"}"#, "7"), body.replace("-5", "null")];
            for body in bodies {
                take_whole(api, body.as_bytes(), &mut arrived, &mut |_| {}).unwrap();
            }
        }
    }
}
