//! Both forms, streamed and whole.

use super::{Fixture, anthropic, request};
use anyhow::{Context, Result};
use surety_e2e::model_server::{Finish, Reply, Script, Settings};
use surety_model::{Api, ChatError, ChatRequest, Message, Profile, Role};

const TEXT: &str = "{\"action\": \"done\", \"speak\": \"Fertig. 完了 🎉\"}";

#[tokio::test]
async fn a_reply_is_the_same_in_both_forms_streamed_and_whole() -> Result<()> {
    for api in [Api::OpenAi, Api::Anthropic] {
        for stream in [true, false] {
            let reply = Reply::text(TEXT).thinking("Let me see.").cached(3);
            let fixture = Fixture::start(Settings::default(), Script::list([reply]), |profile| {
                profile.api = api;
                profile.stream = stream;
            });
            let fixture = fixture.await?;
            let (reply, text, thinking, restarts) = fixture.parts().await;
            let reply = reply?;
            assert_eq!((reply.text.as_str(), text.as_str()), (TEXT, TEXT), "{api:?} {stream}");
            assert_eq!(reply.reasoning.as_deref(), Some("Let me see."));
            assert_eq!((thinking.as_str(), restarts), ("Let me see.", 0));
            let usage = reply.usage;
            // The server counts four bytes a token: the prompt has 27 and 13.
            assert_eq!((usage.input, usage.cached_input, usage.is_estimate), (7 + 4, 3, false));
            assert_eq!(usage.output, u64::try_from(TEXT.len().div_ceil(4) + 3)?);
            assert_eq!((reply.model.as_str(), reply.retries), ("test-model", 0));
            assert_eq!(reply.endpoint, format!("{}/v1", fixture.server.address()));
            let asked = fixture.server.asked();
            assert_eq!(asked[0].stream, stream);
            assert_eq!(asked[0].system, "Reply with one JSON object.");
            assert_eq!(asked[0].messages, [("user".to_owned(), "Fix the test.".to_owned())]);
        }
    }
    Ok(())
}

#[tokio::test]
async fn thinking_is_kept_apart_in_each_field_that_servers_use() -> Result<()> {
    for stream in [true, false] {
        for field in ["reasoning_content", "reasoning"] {
            let reply = Reply::text("").thinking("Only thoughts.").thinking_in(field);
            let fixture = Fixture::start(Settings::default(), Script::list([reply]), |profile| {
                profile.stream = stream;
            });
            let reply = fixture.await?.ask().await?;
            assert_eq!(
                (reply.text.as_str(), reply.reasoning.as_deref()),
                ("", Some("Only thoughts."))
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_reply_that_its_token_limit_cut_is_an_error_with_the_text_and_its_cost() -> Result<()> {
    for api in [Api::OpenAi, Api::Anthropic] {
        for stream in [true, false] {
            let reply = Reply::text("{\"action\": \"done\", \"speak\": \"a long one\"}");
            let fixture = Fixture::start(Settings::default(), Script::list([reply]), |profile| {
                profile.api = api;
                profile.stream = stream;
            });
            let fixture = fixture.await?;
            let request = ChatRequest { max_output_tokens: Some(4), ..request() };
            let error = fixture.ask_for(&request).await.expect_err("a cut reply");
            assert_eq!(error.code(), "model_reply_cut");
            let ChatError::ReplyCut { text, usage, .. } = error else { panic!("{error:?}") };
            assert_eq!((text.as_str(), usage.output), ("{\"action\": \"done", 4));
            assert_eq!(fixture.requests(), 1, "a cut reply is not asked for again");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_refusal_of_the_model_is_an_error() -> Result<()> {
    for change in [|_: &mut Profile| {}, anthropic] {
        let script = Script::list([Reply::text("I can").finish(Finish::Filter)]);
        let fixture = Fixture::start(Settings::default(), script, change).await?;
        assert_eq!(fixture.ask().await.expect_err("a refusal").code(), "model_refused");
    }
    Ok(())
}

#[tokio::test]
async fn messages_out_of_form_are_sent_in_form() -> Result<()> {
    for change in [|_: &mut Profile| {}, anthropic] {
        let fixture =
            Fixture::start(Settings::default(), Script::list([Reply::text("ok")]), change);
        let fixture = fixture.await?;
        let messages = [
            (Role::Assistant, "I begin."),
            (Role::System, "One."),
            (Role::User, "A"),
            (Role::User, "B"),
            (Role::System, "Two."),
            (Role::Assistant, " "),
            (Role::Assistant, "I go on."),
            (Role::User, "C"),
        ];
        let messages = messages.map(|(role, text)| Message::new(role, text)).to_vec();
        fixture.ask_for(&ChatRequest { messages, ..ChatRequest::default() }).await?;
        let asked = &fixture.server.asked()[0];
        assert_eq!(asked.system, "One.\n\nTwo.");
        let said: Vec<(&str, &str)> =
            { asked.messages.iter() }.map(|(role, text)| (role.as_str(), text.as_str())).collect();
        let wanted = [("user", "A\n\nB"), ("assistant", "I begin.\n\nI go on."), ("user", "C")];
        assert_eq!(said, wanted);
    }
    Ok(())
}

#[tokio::test]
async fn the_rules_and_the_last_message_are_marked_for_anthropics_cache() -> Result<()> {
    let script = Script::list([Reply::text("ok")]);
    let fixture = Fixture::start(Settings::default(), script, anthropic).await?;
    fixture.ask().await?;
    let body = &fixture.server.asked()[0].body;
    for place in ["/system/0/cache_control/type", "/messages/0/content/0/cache_control/type"] {
        assert_eq!(body.pointer(place).and_then(|it| it.as_str()), Some("ephemeral"), "{place}");
    }
    Ok(())
}

#[tokio::test]
async fn what_one_turn_marks_for_the_cache_begins_the_next_one() -> Result<()> {
    let script = Script::list([Reply::text("ok"), Reply::text("ok")]);
    let fixture = Fixture::start(Settings::default(), script, anthropic).await?;
    let mut history = vec![
        Message::new(Role::System, "Rules."),
        Message::new(Role::User, "The goal."),
        Message::new(Role::Assistant, "I look."),
        Message::new(Role::User, "A file."),
    ];
    for left in [9, 8] {
        let mut messages = history.clone();
        messages.push(Message::new(Role::User, format!("{left} turns are left.")));
        let request = ChatRequest { messages, ..ChatRequest::default() };
        fixture.ask_for(&request).await?;
        history.push(Message::new(Role::Assistant, "I look again."));
        history.push(Message::new(Role::User, "Another file."));
    }
    let said = |message: &serde_json::Value| {
        let content = &message["content"];
        if content.is_array() { content[0]["text"].clone() } else { content.clone() }
    };
    let asked = fixture.server.asked();
    let messages = |number: usize| asked[number].body["messages"].as_array().cloned();
    let (first, second) = (messages(0).unwrap(), messages(1).unwrap());
    let marked = first.iter().rposition(|it| it["content"][0]["cache_control"].is_object());
    assert_eq!(marked, Some(1), "{first:#?}");
    for place in 0..=1 {
        assert_eq!(said(&first[place]), said(&second[place]));
    }
    Ok(())
}

#[tokio::test]
async fn tokens_that_are_not_reported_are_counted_as_an_upper_bound() -> Result<()> {
    for change in [|_: &mut Profile| {}, anthropic] {
        let script = Script::list([Reply::text("four").without_usage()]);
        let usage = Fixture::start(Settings::default(), script, change).await?.ask().await?.usage;
        assert!(usage.is_estimate);
        assert_eq!((usage.input, usage.output), (27 + 13 + 2 * 16, 4));
    }
    Ok(())
}

#[tokio::test]
async fn replies_of_small_servers_are_read() -> Result<()> {
    let whole = r#"{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}"#;
    let piece = r#"data: {"choices":[{"delta":{"content":"ok"}}]}"#;
    let done = "data: [DONE]";
    let both = r#"data: {"choices":[{"delta":{"content":"k"},"message":{"content":"ok"},"finish_reason":"stop"}]}"#;
    let first = r#"data: {"choices":[{"delta":{"content":"o"},"message":{"content":"o"}}]}"#;
    let none = r#"data: {"choices":null}"#;
    let parts = r#"data: {"choices":[{"delta":{"content":[
        {"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"ok"}]},"finish_reason":"stop"}]}"#
        .replace('\n', "");
    for (body, kind) in [
        (whole.to_owned(), ""),
        (whole.to_owned(), "text/plain; charset=utf-8"),
        (format!("{piece}\n\n{done}\n\n"), ""),
        (format!("{piece}\n\n{done}\n\n"), "text/event-stream"),
        (format!("{first}\n\n{both}\n\n{done}\n\n"), "text/event-stream"),
        (format!("{none}\n\n{piece}\n\n{done}\n\n"), "text/event-stream"),
        (format!("{parts}\n\n{done}\n\n"), "text/event-stream"),
    ] {
        let fixture = Fixture::with([Reply::raw(200, &body).header("content-type", kind)]).await?;
        let (reply, text, _, _) = fixture.parts().await;
        let reply = reply.with_context(|| format!("{kind}: {body}"))?;
        assert_eq!((reply.text.as_str(), text.as_str()), ("ok", "ok"), "{kind}: {body}");
        assert_eq!(fixture.requests(), 1, "{kind}: {body}");
    }
    Ok(())
}
