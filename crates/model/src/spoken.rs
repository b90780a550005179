//! The words in a reply while it arrives, for people who watch a run.

use crate::chat::ReplyPart;

/// The most bytes of a reply that are looked at.
const MOST_REPLY: usize = 64 << 10;
/// The most bytes of words that are shown: the last ones.
const MOST_WORDS: usize = 1000;

/// Which values of an object are words for people, by their keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// Those of the first key that is there: what a decision says, else its reason.
    First(&'static [&'static str]),
    /// Those of all keys in their order: the title and the steps of a plan.
    All(&'static [&'static str]),
}

/// A reply as far as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spoken {
    shown: Shown,
    text: String,
    is_new: bool,
}

impl Spoken {
    /// A reply that has not begun.
    #[must_use]
    pub const fn new(shown: Shown) -> Self {
        Self { shown, text: String::new(), is_new: false }
    }

    /// Takes a part of the reply, as it arrives. Answers whether it may change the words.
    pub fn take(&mut self, part: ReplyPart<'_>) -> bool {
        match part {
            ReplyPart::Text(text) if self.text.len() < MOST_REPLY => {
                self.text.push_str(text);
                self.is_new = true;
            }
            ReplyPart::Restart(_) => self.text.clear(),
            ReplyPart::Text(_) | ReplyPart::Reasoning(_) => return false,
        }
        true
    }

    /// The words so far, on one line; none where nothing arrived since, or it has no words.
    pub fn news(&mut self) -> Option<String> {
        std::mem::take(&mut self.is_new)
            .then(|| spoken(&self.text, self.shown))
            .filter(|words| !words.is_empty())
    }
}

/// The words in a reply so far: of an object those for people, of any other text the text.
fn spoken(reply: &str, shown: Shown) -> String {
    let words = match reply.find('{') {
        None => reply.to_owned(),
        Some(object) => {
            let object = reply.get(object..).unwrap_or_default();
            match shown {
                Shown::First(keys) => {
                    keys.iter().find_map(|key| value_of(object, key)).unwrap_or_default()
                }
                Shown::All(keys) => values_of(object, keys).join("; "),
            }
        }
    };
    let line = words.split_whitespace().collect::<Vec<_>>().join(" ").replace('\0', "\u{fffd}");
    let from = line.ceil_char_boundary(line.len().saturating_sub(MOST_WORDS));
    line.get(from..).unwrap_or_default().to_owned()
}

/// The strings behind any of the keys, as far as they have arrived.
fn values_of(object: &str, keys: &[&str]) -> Vec<String> {
    let (mut values, mut rest) = (Vec::new(), object);
    loop {
        let places = keys.iter().filter_map(|key| Some((rest.find(key)?, key)));
        let Some((at, key)) = places.min() else { return values };
        let Some(from) = rest.get(at..) else { return values };
        values.extend(value_of(from, key));
        rest = from.get(key.len()..).unwrap_or_default();
    }
}

/// The string behind a key, as far as it has arrived; none before it began, or where it is empty.
fn value_of(object: &str, key: &str) -> Option<String> {
    let (_, rest) = object.split_once(key)?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let mut value = String::new();
    let mut letters = rest.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => match letters.next() {
                Some('n' | 'r' | 't' | 'b' | 'f') => value.push(' '),
                // A pair of surrogates is shown as two unknown characters: the decision has the right one.
                Some('u') => {
                    let digits: String = letters.by_ref().take(4).collect();
                    let number = u32::from_str_radix(&digits, 16).ok();
                    value.push(number.and_then(char::from_u32).unwrap_or('\u{fffd}'));
                }
                Some(letter) => value.push(letter),
                None => break,
            },
            letter => value.push(letter),
        }
    }
    Some(value).filter(|value| !value.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_common::domain::decision::Usage;

    const DECISION: Shown = Shown::First(&["\"speak\"", "\"reason\""]);
    const PLAN: Shown = Shown::All(&["\"title\"", "\"description\""]);

    #[test]
    fn words_are_those_for_people_as_far_as_they_arrived() {
        for (reply, words) in [
            ("I look", "I look"),
            ("{\"action\": \"continue\", \"sp", ""),
            (r#"{"speak": "I lo"#, "I lo"),
            (r#"{"speak": "I look\nat \"a\" \u00e4\u12"#, "I look at \"a\" ä\u{12}"),
            (r#"{"speak": "done", "reason": "why"}"#, "done"),
            (r#"{"speak": "", "reason": "why"#, "why"),
            (r#"{"tool_call": {"arguments": {"content": "a \"speak\": \"no\""#, ""),
            ("```json\n{\"reason\" : \"b\\", "b"),
        ] {
            assert_eq!(spoken(reply, DECISION), words, "{reply}");
        }
        let long = format!("{{\"speak\": \"{}end", "ä ".repeat(2 * MOST_WORDS));
        let words = spoken(&long, DECISION);
        assert!(words.len() <= MOST_WORDS && words.ends_with("end"));
        for (reply, words) in [
            ("I plan", "I plan"),
            (r#"{"title": "Rep"#, "Rep"),
            (r#"{"title": "Repair", "steps": [{"id": "a", "descr"#, "Repair"),
            (
                r#"{"title": "Repair", "steps": [{"id": "a", "description": "read it"}, {"description": "wri"#,
                "Repair; read it; wri",
            ),
            (
                r#"{"steps": [{"description": "say \"title\": \"x\"", "id": "a"}]}"#,
                r#"say "title": "x""#,
            ),
        ] {
            assert_eq!(spoken(reply, PLAN), words, "{reply}");
        }
    }

    #[test]
    fn words_are_told_once_and_a_restart_voids_them() {
        let mut spoken = Spoken::new(DECISION);
        assert!(spoken.take(ReplyPart::Text("one")));
        assert!(spoken.take(ReplyPart::Restart(Usage::default())));
        assert!(!spoken.take(ReplyPart::Reasoning("hm")));
        assert_eq!(spoken.news(), None, "nothing arrived since");
        spoken.take(ReplyPart::Text("two"));
        assert_eq!(spoken.news().as_deref(), Some("two"));
        assert_eq!(spoken.news(), None, "it was said");
    }
}
