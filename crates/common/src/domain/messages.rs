//! Conversations, and the one form in which they are sent: a system message, then user and assistant messages by
//! turns, a user message first. Templates of models refuse every other form.

/// What a caller is told when its messages were not in that form.
pub const MESSAGES_NORMALIZED: &str = "messages_normalized";

/// What stands in place of a first user message that is missing; templates refuse an empty text.
const CONTINUE: &str = "Continue.";

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The rules.
    System,
    /// The goal, observations, corrections.
    User,
    /// The model, or another driver.
    Assistant,
}

impl Role {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The author.
    pub role: Role,
    /// The text.
    pub text: String,
}

impl Message {
    /// A message of `role`.
    pub fn new(role: Role, text: impl Into<String>) -> Self {
        Self { role, text: text.into() }
    }
}

/// Messages in the form in which they are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Normal {
    /// The messages.
    pub messages: Vec<Message>,
    /// How many of them became a part of the message before.
    pub merged: usize,
    /// Whether anything was changed: [`MESSAGES_NORMALIZED`].
    pub changed: bool,
}

/// Brings messages into that form. No text is lost: system texts move to the front, neighbours of one role become
/// one message with a blank line between their texts, blank messages are left out, and a conversation that does not
/// begin with a user message is given one.
#[must_use]
pub fn normalize(messages: &[Message]) -> Normal {
    let mut normal: Vec<Message> = Vec::with_capacity(messages.len() + 1);
    let mut merged = 0;
    let said = |message: &&Message| !message.text.trim().is_empty();
    for message in messages.iter().filter(said).filter(|it| it.role == Role::System) {
        merged += usize::from(join(&mut normal, message));
    }
    let rest = messages.iter().filter(said).filter(|it| it.role != Role::System);
    for message in rest {
        let is_first = normal.last().is_none_or(|last| last.role == Role::System);
        if is_first && message.role == Role::Assistant {
            normal.push(Message::new(Role::User, CONTINUE));
        }
        merged += usize::from(join(&mut normal, message));
    }
    if normal.last().is_none_or(|last| last.role == Role::System) {
        normal.push(Message::new(Role::User, CONTINUE));
    }
    let changed = normal != messages;
    Normal { messages: normal, merged, changed }
}

/// Adds a message. Answers whether it became a part of the one before, which has the same role.
fn join(normal: &mut Vec<Message>, message: &Message) -> bool {
    match normal.last_mut() {
        Some(last) if last.role == message.role => {
            last.text.push_str("\n\n");
            last.text.push_str(&message.text);
            true
        }
        Some(_) | None => {
            normal.push(message.clone());
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn conversation() -> impl Strategy<Value = Vec<Message>> {
        let role = prop_oneof![Just(Role::System), Just(Role::User), Just(Role::Assistant)];
        let message = (role, "[a-z \n]{0,12}").prop_map(|(role, text)| Message::new(role, text));
        prop::collection::vec(message, 0..16)
    }

    proptest! {
        #[test]
        fn every_conversation_gets_the_form_and_loses_no_text(messages in conversation()) {
            let Normal { messages: normal, merged, changed } = normalize(&messages);
            prop_assert!(merged <= messages.len());
            let rules = normal.iter().take_while(|it| it.role == Role::System).count();
            prop_assert!(rules <= 1);
            for (place, message) in normal.iter().skip(rules).enumerate() {
                let expected = if place % 2 == 0 { Role::User } else { Role::Assistant };
                prop_assert_eq!(message.role, expected);
                prop_assert!(!message.text.trim().is_empty());
            }
            prop_assert!(normal.len() > rules, "a user message is there");
            prop_assert_eq!(changed, normal != messages);
            // The texts of each role stand in their order.
            for role in [Role::System, Role::User, Role::Assistant] {
                let all: Vec<&str> = normal
                    .iter()
                    .filter(|it| it.role == role)
                    .map(|it| it.text.as_str())
                    .collect();
                let all = all.join("\n\n");
                let mut rest = all.as_str();
                for message in messages.iter().filter(|it| it.role == role && !it.text.trim().is_empty()) {
                    let at = rest.find(&message.text);
                    prop_assert!(at.is_some(), "{:?} is lost", message.text);
                    rest = &rest[at.unwrap_or_default() + message.text.len()..];
                }
            }
            let again = normalize(&normal);
            prop_assert!(!again.changed, "the form is stable");
        }
    }
}
