//! Context and cost.

use super::Fixture;
use anyhow::Result;
use proptest::prelude::*;
use std::path::Path;
use surety_common::domain::messages::normalize;
use surety_e2e::model_server::{ModelServer, Reply, Script, Settings};
use surety_model::{
    ChatRequest, Endpoints, Message, Profiles, Role, Tokenizer, bound, count_messages,
};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_bounded_conversation_is_one_that_the_endpoint_takes() -> Result<()> {
    let mut messages =
        vec![Message::new(Role::System, "Rules."), Message::new(Role::User, "The goal.")];
    for turn in 0..40 {
        messages.push(Message::new(Role::Assistant, format!("I try {turn}.")));
        messages.push(Message::new(Role::User, format!("Observation {turn}: {}", "x".repeat(200))));
    }
    let bounded = bound(&messages, Tokenizer::Bytes, 2000)?;
    assert!(bounded.tokens <= 2000);
    assert!(bounded.dropped_messages >= 60, "{}", bounded.dropped_messages);
    let settings = Settings { context_tokens: 2000 + 500, ..Settings::default() };
    let fixture = Fixture::start(settings, Script::list([Reply::text("ok")]), |profile| {
        profile.max_output_tokens = 500;
    });
    let fixture = fixture.await?;
    let request = ChatRequest { messages: bounded.messages, ..ChatRequest::default() };
    assert!(!normalize(&request.messages).changed, "a bounded conversation is in normal form");
    fixture.ask_for(&request).await?;
    let asked = &fixture.server.asked()[0];
    let opening = &asked.messages[0].1;
    let said = format!("{} earlier messages", bounded.dropped_messages);
    assert!(opening.starts_with("The goal.") && opening.contains(&said), "{opening}");
    assert!(asked.last().starts_with("Observation 39"));
    Ok(())
}

#[test]
fn a_long_message_loses_its_middle_and_says_so() -> Result<()> {
    let long = |begin: &str, end: &str| format!("{begin}{}{end}", "é".repeat(8000));
    let messages = [
        Message::new(Role::System, "Rules."),
        Message::new(Role::User, long("The goal.", "Its end.")),
        Message::new(Role::Assistant, "I look."),
        Message::new(Role::User, "old"),
        Message::new(Role::Assistant, long("I write", "it.")),
        Message::new(Role::User, long("An observation", "the newest words")),
    ];
    let bounded = bound(&messages, Tokenizer::Bytes, 12_000)?;
    assert!((11_900..=12_000).contains(&bounded.tokens), "{}", bounded.tokens);
    assert_eq!((bounded.messages.len(), bounded.dropped_messages), (4, 2));
    assert_eq!(bounded.shortened_messages, 3);
    let [system, goal, said, last] = &bounded.messages[..] else { panic!("{bounded:?}") };
    assert_eq!(system.text, "Rules.");
    assert!(goal.text.starts_with("The goal.") && goal.text.contains("Its end."));
    assert!(goal.text.ends_with("2 earlier messages (42 tokens) are not shown]"), "{}", goal.text);
    assert!(said.text.starts_with("I write") && said.text.ends_with("it."));
    assert!(last.text.starts_with("An observation") && last.text.ends_with("the newest words"));
    for message in [goal, said, last] {
        assert!(message.text.contains(" bytes of this message are not shown]"));
    }
    // The rules are never shortened.
    let error = bound(&messages, Tokenizer::Bytes, 4000).expect_err("too little");
    assert!(error.needed > 4000, "{error}");
    Ok(())
}

#[tokio::test]
async fn a_cost_comes_from_the_price_table() -> Result<()> {
    let script = Script::list([Reply::text("x".repeat(40)).cached(4)]);
    let server = ModelServer::start(Settings::default(), script).await?;
    let text = format!(
        "[model.fast]\nurl = \"{}\"\nmodel = \"test-model\"\n\
         [price.test-model]\ninput = 3.0\ncached_input = 0.3\noutput = 15.0\n",
        server.url()
    );
    let endpoints = Endpoints::open(Profiles::read(&text, Path::new("models.toml"))?)?;
    let model = endpoints.model("fast")?;
    let reply = model.reply(&super::request(), &mut |_| {}, &CancellationToken::new()).await?;
    // 7 * 3 + 4 * 0.3 + 10 * 15, rounded up.
    assert_eq!((reply.usage.input, reply.usage.output, reply.cost_micros), (11, 10, 173));
    Ok(())
}

fn conversation() -> impl Strategy<Value = Vec<Message>> {
    let role = prop_oneof![Just(Role::System), Just(Role::User), Just(Role::Assistant)];
    let message = (role, "[a-z ]{0,60}").prop_map(|(role, text)| Message::new(role, text));
    prop::collection::vec(message, 0..24)
}

proptest! {
    #[test]
    fn what_is_kept_fits_and_keeps_rules_goal_and_the_newest(messages in conversation(), room in 0_u64..2000) {
        let whole = surety_common::domain::messages::normalize(&messages).messages;
        let all = count_messages(Tokenizer::Bytes, &whole);
        match bound(&messages, Tokenizer::Bytes, room) {
            Ok(bounded) => {
                prop_assert!(bounded.tokens <= room);
                prop_assert_eq!(bounded.tokens, count_messages(Tokenizer::Bytes, &bounded.messages));
                prop_assert_eq!(bounded.messages.len() + bounded.dropped_messages, whole.len());
                prop_assert_eq!(bounded.messages.last(), whole.last());
                prop_assert_eq!(bounded.dropped_messages == 0, bounded.messages == whole);
                let system = |all: &[Message]| all.iter().find(|it| it.role == Role::System).cloned();
                prop_assert_eq!(system(&bounded.messages), system(&whole));
                let again = surety_common::domain::messages::normalize(&bounded.messages);
                prop_assert!(!again.changed);
            }
            Err(error) => {
                prop_assert!(all > room, "{} fit into {}", all, room);
                prop_assert!(error.needed > error.room);
            }
        }
    }
}

#[tokio::test]
async fn a_reply_that_is_too_long_for_the_model_is_asked_for_shorter_and_that_is_remembered()
-> Result<()> {
    let said = "max_tokens is too large: 8192. This model supports at most 4096 completion tokens.";
    let replies =
        [Reply::status(400).saying(said), Reply::text("whole"), Reply::text("whole again")];
    let fixture = Fixture::with(replies).await?;
    for _ in 0..2 {
        assert!(fixture.ask_for(&super::with_schema()).await?.text.starts_with("whole"));
    }
    let asked = fixture.server.recorded();
    let asked: Vec<_> = asked.iter().map(|it| it.body["max_tokens"].as_u64()).collect();
    assert_eq!(asked, [Some(8192), Some(4096), Some(4096)]);
    // The first way to hold it to the schema was not given up for that.
    let last = fixture.server.recorded().pop().expect("a request");
    assert!(last.body.get("response_format").is_some(), "{last:?}");
    Ok(())
}
