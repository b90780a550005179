//! Conversations, and the one form in which they are sent: a system message, then user and assistant messages by
//! turns, a user message first. Templates of models refuse every other form.

/// What a caller is told when its messages were not in that form.
pub const MESSAGES_NORMALIZED: &str = "messages_normalized";

/// What stands in place of the first user message of a conversation without one; templates refuse an empty text.
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
/// one message with a blank line between their texts, and blank messages are left out. The first user message moves
/// before the messages of the assistant; a conversation without a user message is given one.
#[must_use]
pub fn normalize(messages: &[Message]) -> Normal {
    let said = |message: &&Message| !message.text.trim().is_empty();
    let of_system = messages.iter().filter(said).filter(|it| it.role == Role::System);
    let of_others = messages.iter().filter(said).filter(|it| it.role != Role::System);
    let (system, mut merged) = joined(of_system.cloned());
    let (mut turns, joined_turns) = joined(of_others.cloned());
    merged += joined_turns;
    match turns.iter().position(|it| it.role == Role::User) {
        Some(first) => {
            if let Some(moved) = turns.get_mut(..=first) {
                moved.rotate_right(1);
            }
        }
        None => turns.insert(0, Message::new(Role::User, CONTINUE)),
    }
    // The assistant's messages around the place that the user message left are neighbours now.
    let (turns, joined_again) = joined(turns.into_iter());
    merged += joined_again;
    let normal: Vec<Message> = system.into_iter().chain(turns).collect();
    let changed = normal != messages;
    Normal { messages: normal, merged, changed }
}

/// Joins neighbours of one role. Answers how many became a part of the message before.
fn joined(messages: impl Iterator<Item = Message>) -> (Vec<Message>, usize) {
    let mut all = Vec::new();
    let merged = messages.map(|message| usize::from(join(&mut all, message))).sum();
    (all, merged)
}

/// Adds a message. Answers whether it became a part of the one before, which has the same role.
fn join(normal: &mut Vec<Message>, message: Message) -> bool {
    match normal.last_mut() {
        Some(last) if last.role == message.role => {
            last.text.push_str("\n\n");
            last.text.push_str(&message.text);
            true
        }
        Some(_) | None => {
            normal.push(message);
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

    #[test]
    fn the_first_user_message_is_moved_up_and_only_a_missing_one_is_made() {
        use Role::{Assistant, System, User};
        for (roles, expected, merged) in [
            (vec![Assistant, User], vec![(User, "1"), (Assistant, "0")], 0),
            (
                vec![Assistant, User, Assistant, User, System],
                vec![(System, "4"), (User, "1"), (Assistant, "0\n\n2"), (User, "3")],
                1,
            ),
            (vec![Assistant, User, User], vec![(User, "1\n\n2"), (Assistant, "0")], 1),
            (vec![Assistant, Assistant], vec![(User, CONTINUE), (Assistant, "0\n\n1")], 1),
            (vec![], vec![(User, CONTINUE)], 0),
        ] {
            let messages: Vec<Message> = roles
                .iter()
                .enumerate()
                .map(|(place, role)| Message::new(*role, place.to_string()))
                .collect();
            let normal = normalize(&messages);
            let found: Vec<(Role, &str)> =
                normal.messages.iter().map(|it| (it.role, it.text.as_str())).collect();
            assert_eq!((found, normal.merged), (expected, merged), "{roles:?}");
        }
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
