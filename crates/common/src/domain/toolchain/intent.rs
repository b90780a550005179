//! What a comment asks for, by its words.

use super::words::words;
use std::fmt;

words! {
    /// The likely intent of a mention.
    Intent {
        /// It asks for a review.
        Review = "review",
        /// It asks for approval.
        Approval = "approval",
        /// It asks a question.
        Question = "question",
        /// It asks for work.
        Request = "request",
        /// It informs.
        Fyi = "fyi",
    }
}

/// The words of each intent, in the order in which they are looked for.
const WORDS: [(Intent, &[&str]); 4] = [
    (Intent::Fyi, &["fyi", "for your information", "heads up", "供参考", "知会", "仅通知"]),
    (Intent::Review, &["review", "take a look", "look at this", "评审", "审查", "看一下", "看看"]),
    (Intent::Approval, &["approve", "approval", "sign off", "lgtm?", "批准", "通过吗", "同意"]),
    (Intent::Question, &["?", "？", "why", "how", "what", "为什么", "怎么", "是否", "吗"]),
];

/// Whether a text has a word, as a word of its own: `show` asks nothing, and `reviewed` asks for no review. Languages without
/// spaces have it anywhere.
fn has(text: &str, word: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let (begins, ends) = (is_letter(word.chars().next()), is_letter(word.chars().last()));
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).and_then(|before| before.chars().last());
        let after = text.get(at + word.len()..).and_then(|after| after.chars().next());
        let is_part = (begins && is_letter(before)) || (ends && is_letter(after));
        !is_part
    })
}

impl Intent {
    /// The intent of a comment's text; without a known word it is a request.
    pub fn of(text: &str) -> Self {
        let text = text.to_lowercase();
        let found = WORDS.iter().find(|(_, words)| words.iter().any(|word| has(&text, word)));
        found.map_or(Self::Request, |(intent, _)| *intent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_an_intent_are_no_parts_of_other_words() {
        for (text, intent) in [
            ("@bob show the log of the preview", Intent::Request),
            ("@bob I reviewed this, please rebase", Intent::Request),
            ("@bob please review", Intent::Review),
            ("@bob Review: the list", Intent::Review),
            ("@bob how does it work", Intent::Question),
            ("@bob it is approved", Intent::Request),
            ("@bob please approve.", Intent::Approval),
            ("@bob 请评审一下", Intent::Review),
            ("@bob 这样可以吗", Intent::Question),
            ("FYI: it is merged", Intent::Fyi),
        ] {
            assert_eq!(Intent::of(text), intent, "{text}");
        }
    }
}
