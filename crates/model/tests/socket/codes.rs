//! The codes of errors on the page `docs/models.md`.

use anyhow::Result;
use std::path::Path;
use surety_model::{Blame, ChatError, Phase, TokenUsage};

fn page() -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/models.md");
    Ok(std::fs::read_to_string(path)?)
}

/// One error of each code.
fn errors() -> Vec<ChatError> {
    let text = String::new;
    let (endpoint, profile, model, said, reason) = (text(), text(), text(), text(), text());
    let time = std::time::Duration::ZERO;
    let usage = TokenUsage::default();
    let end = endpoint.clone();
    vec![
        ChatError::Unauthorized {
            endpoint: text(),
            profile: profile.clone(),
            status: 401,
            said: text(),
        },
        ChatError::ModelUnknown { endpoint: text(), profile, model, said: text() },
        ChatError::ReplyCut { endpoint: text(), text: text(), usage, cost_micros: 0 },
        ChatError::Refused { endpoint: text(), said: text(), usage, cost_micros: 0 },
        ChatError::Timeout { endpoint: text(), phase: Phase::Idle, limit: time },
        ChatError::RateLimited { endpoint: text(), retry_after: None, said: text() },
        ChatError::Unreachable { endpoint: text(), reason: text() },
        ChatError::Overloaded { endpoint: text(), status: 500, retry_after: None, said: text() },
        ChatError::CircuitOpen { endpoint: text(), failures: 1, retry_after: time },
        ChatError::BadReply { endpoint: text(), reason },
        ChatError::ContextTooLong { endpoint: text(), said: text() },
        ChatError::BadRequest { endpoint, status: 400, said },
        ChatError::Cancelled { endpoint: end },
    ]
}

#[test]
fn a_request_that_was_kept_back_is_no_request_that_failed() {
    let kept_back: Vec<_> = errors().into_iter().filter(|error| !error.was_sent()).collect();
    assert!(matches!(kept_back[..], [ChatError::CircuitOpen { .. }]), "{kept_back:?}");
    let waited = |phase| {
        let endpoint = String::new();
        ChatError::Timeout { endpoint, phase, limit: std::time::Duration::ZERO }.was_sent()
    };
    assert_eq!([waited(Phase::Queue), waited(Phase::Connect)], [false, true]);
}

#[test]
fn the_page_names_every_code_and_who_is_to_act() -> Result<()> {
    let page = page()?;
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| `model_"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let documented: Vec<(&str, &str)> =
        rows.iter().map(|row| (row[1].trim_matches('`'), row[2])).collect();
    let blame = |blame: Blame| match blame {
        Blame::Endpoint => "the endpoint: the run waits",
        Blame::Configuration => "the operator",
        Blame::Request => "the request",
        Blame::Caller => "the caller",
    };
    let mut known: Vec<(&str, &str)> =
        errors().iter().map(|error| (error.code(), blame(error.blame()))).collect();
    known.extend([
        ("model_profile_unknown", "the operator"),
        ("model_configuration_invalid", "the operator"),
    ]);
    assert_eq!(documented, known);
    Ok(())
}
