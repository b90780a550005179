//! What a comment asks for, by its words.

use super::language::Language;
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

    /// What a response has to do.
    pub const fn guidance(self, language: Language) -> &'static str {
        match language {
            Language::En => self.english(),
            Language::Zh => self.chinese(),
        }
    }

    const fn english(self) -> &'static str {
        match self {
            Self::Review => {
                "Review what the comment points at, and reply there with what you found."
            }
            Self::Approval => {
                "Check what is to be approved, and reply there with your decision and its reason."
            }
            Self::Question => "Answer the question in a reply to the comment.",
            Self::Request => {
                "Do what the comment asks within your role, and reply there with what you did."
            }
            Self::Fyi => "Confirm in a reply to the comment what follows from it for your work.",
        }
    }

    const fn chinese(self) -> &'static str {
        match self {
            Self::Review => "评审评论所指的内容，并在该评论下回复你的结论。",
            Self::Approval => "检查待批准的内容，并在该评论下回复你的决定和理由。",
            Self::Question => "在该评论下回复，回答问题。",
            Self::Request => "在你的角色范围内完成评论的要求，并在该评论下回复你做了什么。",
            Self::Fyi => "在该评论下回复，确认它对你的工作意味着什么。",
        }
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
