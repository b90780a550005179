//! What tries cost that broke off.

use super::{Fixture, anthropic, request};
use anyhow::Result;
use std::time::Duration;
use surety_common::domain::decision::Usage;
use surety_e2e::model_server::{Reply, Script, Settings};
use surety_model::{
    ChatError, ChatReply, ChatRequest, Price, ReplyPart, Reserved, Tokenizer, count_messages,
};
use tokio_util::sync::CancellationToken;

/// The reply, and what each try that broke off is charged with.
async fn charged(
    fixture: &Fixture,
    request: &ChatRequest,
) -> (Result<ChatReply, ChatError>, Vec<Usage>) {
    let mut charges = Vec::new();
    let mut on_part = |part: ReplyPart<'_>| {
        if let ReplyPart::Restart(used) = part {
            charges.push(used);
        }
    };
    let reply = fixture.model.reply(request, &mut on_part, &CancellationToken::new()).await;
    (reply, charges)
}

fn prompt() -> u64 {
    count_messages(Tokenizer::Bytes, &request().messages)
}

#[tokio::test]
async fn a_stream_that_breaks_costs_its_prompt_and_what_arrived() -> Result<()> {
    let long = "a".repeat(700);
    for broken in [Reply::text(&long).without_end(), Reply::text(&long).malformed()] {
        let fixture = Fixture::with([broken, Reply::text("whole")]).await?;
        let (reply, charges) = charged(&fixture, &request()).await;
        // What the endpoint counted is the reply's own.
        assert_eq!(reply?.usage.input, 11);
        assert_eq!(charges.len(), 1, "{charges:?}");
        let tokens = charges[0].tokens;
        assert!((prompt() + 100..=prompt() + 700).contains(&tokens), "{tokens} of {}", prompt());
    }
    Ok(())
}

#[tokio::test]
async fn what_an_endpoint_counts_at_the_beginning_of_a_stream_is_not_all_of_a_reply() -> Result<()>
{
    let long = "a".repeat(700);
    let script = Script::list([Reply::text(&long).without_end(), Reply::text("whole")]);
    let fixture = Fixture::start(Settings::default(), script, |profile| {
        anthropic(profile);
        profile.price = Some(Price { input_nanos: 1000, output_nanos: 5000, ..Price::default() });
    });
    let fixture = fixture.await?;
    let (_, charges) = charged(&fixture, &request()).await;
    let [Usage { tokens, cost_micros }] = charges[..] else { panic!("{charges:?}") };
    assert!((11 + 100..=11 + 700).contains(&tokens), "{tokens}");
    assert_eq!(cost_micros, 11 + 5 * (tokens - 11));
    Ok(())
}

#[tokio::test]
async fn a_reply_that_is_not_streamed_may_have_had_all_its_tokens() -> Result<()> {
    // The part before the break is on its way when the connection breaks.
    let broken = Reply::text("a long text").cut_after(20).every(Duration::from_millis(50));
    let script = Script::list([broken, Reply::text("whole")]);
    let fixture = Fixture::start(Settings::default(), script, |profile| {
        profile.stream = false;
        profile.max_output_tokens = 300;
    });
    let fixture = fixture.await?;
    let (reply, charges) = charged(&fixture, &request()).await;
    assert_eq!(reply?.text, "whole");
    assert_eq!(charges, [Usage { tokens: prompt() + 300, cost_micros: 0 }]);
    Ok(())
}

#[tokio::test]
async fn an_endpoint_that_refuses_costs_nothing_and_a_filtered_prompt_is_charged() -> Result<()> {
    for refused in [
        Reply::status(500),
        Reply::status(429).header("retry-after", "0"),
        Reply::raw(200, "<html>").header("content-type", "text/html"),
        Reply::raw(200, r#"{"status": "maintenance"}"#).header("content-type", "application/json"),
    ] {
        let fixture = Fixture::with([refused, Reply::text("whole")]).await?;
        let (reply, charges) = charged(&fixture, &request()).await;
        assert_eq!((reply?.text.as_str(), charges.as_slice()), ("whole", [].as_slice()));
    }
    let filtered = r#"{"error": {"code": "content_filter", "message": "filtered"}}"#;
    let fixture = Fixture::with([Reply::raw(400, filtered)]).await?;
    let (reply, _) = charged(&fixture, &request()).await;
    let Err(ChatError::Refused { usage, .. }) = reply else { panic!("{reply:?}") };
    assert_eq!((usage.input, usage.output, usage.is_estimate), (prompt(), 0, true));
    Ok(())
}

#[tokio::test]
async fn tries_of_one_request_use_no_more_than_is_reserved_for_it() -> Result<()> {
    let long = "a".repeat(700);
    // Both prompts, as much as the endpoint may have made of the first reply, and the second one.
    let two = 2 * prompt() + 600 + 600;
    for (tokens, tries, most) in [(two - 1, 1, None), (two, 2, Some(600))] {
        let script = Script::list([Reply::text(&long).without_end(), Reply::text("whole")]);
        let fixture = Fixture::start(Settings::default(), script, |profile| {
            profile.max_output_tokens = 600;
        });
        let fixture = fixture.await?;
        let reserved = Reserved { tokens: Some(tokens), ..Reserved::default() };
        let (reply, charges) = charged(&fixture, &ChatRequest { reserved, ..request() }).await;
        assert_eq!(fixture.requests(), tries, "{tokens}: {reply:?}");
        assert_eq!(charges, [Usage { tokens: prompt() + 600, cost_micros: 0 }]);
        let second = fixture.server.asked().get(1).and_then(|asked| asked.max_tokens);
        assert_eq!((reply.is_ok(), second), (tries == 2, most));
    }
    Ok(())
}
