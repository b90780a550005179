//! How many tokens a text has.

use surety_common::domain::messages::Message;

/// What a message costs beyond its text: role, separators, and the words of a template.
const PER_MESSAGE: u64 = 16;
/// How the models with the tokenizer o200k_base begin.
const O200K_MODELS: [&str; 8] =
    ["gpt-4o", "gpt-4.1", "gpt-4.5", "gpt-5", "gpt-oss", "o1", "o3", "o4"];
/// How those with cl100k_base begin.
const CL100K_MODELS: [&str; 3] = ["gpt-4", "gpt-3.5", "text-embedding"];

/// Counts the tokens of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tokenizer {
    /// That of OpenAI's models since GPT-4o, and of gpt-oss.
    O200k,
    /// That of GPT-4 and GPT-3.5.
    Cl100k,
    /// An upper bound for every tokenizer that does not rewrite its text: a token has one byte at least.
    Bytes,
}

impl Tokenizer {
    /// The tokenizer of a model by its name, a provider before a slash aside.
    #[must_use]
    pub fn of_model(model: &str) -> Self {
        let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
        let begins = |prefix: &&str| {
            name.strip_prefix(*prefix).is_some_and(|rest| {
                !rest.starts_with(|letter: char| letter.is_ascii_alphanumeric())
            })
        };
        if O200K_MODELS.iter().any(begins) {
            Self::O200k
        } else if CL100K_MODELS.iter().any(begins) {
            Self::Cl100k
        } else {
            Self::Bytes
        }
    }

    /// The name in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::O200k => "o200k_base",
            Self::Cl100k => "cl100k_base",
            Self::Bytes => "bytes",
        }
    }

    /// The tokens of a text: the model's own count, or an upper bound.
    #[must_use]
    pub fn count(self, text: &str) -> u64 {
        let count = match self {
            Self::O200k => bpe_openai::o200k_base().count(text),
            Self::Cl100k => bpe_openai::cl100k_base().count(text),
            Self::Bytes => text.len(),
        };
        u64::try_from(count).unwrap_or(u64::MAX)
    }
}

/// The tokens of a conversation, its roles and separators included.
#[must_use]
pub fn count_messages(tokenizer: Tokenizer, messages: &[Message]) -> u64 {
    messages.iter().map(|message| tokenizer.count(&message.text).saturating_add(PER_MESSAGE)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_tokenizer_is_known_by_the_name_of_the_model() {
        for (model, tokenizer) in [
            ("gpt-4o-mini", Tokenizer::O200k),
            ("openai/gpt-5.1", Tokenizer::O200k),
            ("gpt-4.1", Tokenizer::O200k),
            ("o3", Tokenizer::O200k),
            ("openai/gpt-oss-120b", Tokenizer::O200k),
            ("gpt-4-turbo", Tokenizer::Cl100k),
            ("GPT-3.5-turbo", Tokenizer::Cl100k),
            ("o1ive", Tokenizer::Bytes),
            ("qwen3-32b", Tokenizer::Bytes),
            ("claude-sonnet-4-5", Tokenizer::Bytes),
        ] {
            assert_eq!(Tokenizer::of_model(model), tokenizer, "{model}");
        }
    }

    #[test]
    fn counts_are_those_of_the_real_tokenizers() {
        for (text, o200k, cl100k) in [
            ("", 0, 0),
            ("hello world", 2, 2),
            ("tiktoken is great!", 6, 6),
            ("お誕生日おめでとう", 8, 9),
        ] {
            assert_eq!(Tokenizer::O200k.count(text), o200k, "{text}");
            assert_eq!(Tokenizer::Cl100k.count(text), cl100k, "{text}");
        }
        // One run without a break, which costs quadratic time elsewhere.
        assert!(Tokenizer::O200k.count(&"a".repeat(200_000)) < 200_000);
    }

    proptest! {
        #[test]
        fn bytes_are_never_fewer_than_tokens(text in any::<String>()) {
            let bound = Tokenizer::Bytes.count(&text);
            prop_assert!(Tokenizer::O200k.count(&text) <= bound);
            prop_assert!(Tokenizer::Cl100k.count(&text) <= bound);
        }
    }
}
