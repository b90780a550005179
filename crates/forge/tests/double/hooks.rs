//! The deliveries of the forge are signed, and are what the reader of events takes.

use super::{Fixture, KINDS, REPO};
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use surety_common::domain::toolchain::{Delivery, EventType, Forge as ForgeKind, Reading, Rules};
use surety_e2e::forge::{Delivered, Hook};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// An address that answers 204 to every request.
async fn sink() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/webhooks/x", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = vec![0; 65_536];
            drop(stream.read(&mut buffer).await);
            drop(stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").await);
        }
    });
    Ok(url)
}

fn event_of(kind: ForgeKind, delivered: &Delivered) -> Result<Option<EventType>> {
    let headers: BTreeMap<&str, &str> =
        delivered.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let found = |names: &[&str]| names.iter().find_map(|name| headers.get(name).copied());
    let event = found(kind.event_headers()).context("an event")?;
    found(kind.delivery_headers()).context("an id")?;
    found(kind.signature_headers()).context("a signature")?;
    let reading = Delivery { forge: kind, event, body: &delivered.body }.read(&Rules::default());
    Ok(match reading? {
        Reading::Tasks(tasks) => tasks.first().map(|task| task.event_type),
        Reading::Ignored(_) | Reading::Withdrawn(_) => None,
    })
}

#[tokio::test]
async fn what_happens_is_delivered_as_each_forge_does() -> Result<()> {
    for kind in KINDS {
        let fixture = Fixture::start(kind).await?;
        fixture.double.hook(Hook {
            kind,
            url: sink().await?,
            secret: "s3cret-of-the-hook".to_owned(),
        });
        let double = &fixture.double;
        double.change(|state| {
            let pull = state.repo(REPO).and_then(|repo| repo.pulls.get_mut(&fixture.pull));
            pull.map(|pull| pull.reviewers = vec!["dana".to_owned(), "robin".to_owned()])
        });
        double
            .change(|state| state.review(REPO, "robin", (fixture.pull, "REQUEST_CHANGES", "No.")));
        double.change(|state| state.review(REPO, "robin", (fixture.pull, "APPROVE", "Yes.")));
        double.change(|state| state.comment(REPO, "robin", (fixture.pull, "One more thing.")));
        double.change(|state| state.status(REPO, "surety", (&fixture.commit, "test", "failure")));
        double.change(|state| {
            let to = (vec!["alice".to_owned()], Vec::new());
            state.open_issue(REPO, "robin", ("Totals are wrong", ""), to)
        });
        fixture.git.commit("fix/7-totals", &[("more", "\n")], "More")?;
        double.change(surety_e2e::forge::State::notice_pushes);
        let delivered = double.delivered(7).await?;
        let mut events = Vec::new();
        for one in &delivered {
            assert_eq!(one.status, 204);
            events.extend(event_of(kind, one)?);
        }
        events.sort();
        let expected = [
            EventType::ReviewApproved,
            EventType::ChangesRequested,
            EventType::CommitsPushed,
            EventType::ReviewComment,
            EventType::CiFailed,
            EventType::IssueAssigned,
        ];
        assert_eq!(events, expected, "{kind}");
        // GitHub takes a reviewer from the list with the review; Gitea and Forgejo list those that reviewed, too.
        let bodies = delivered.iter().map(|one| serde_json::from_str::<Value>(&one.body));
        let bodies = bodies.collect::<Result<Vec<_>, _>>()?;
        let pushed = bodies.iter().find(|body| {
            body["action"].as_str().is_some_and(|action| action.starts_with("synchronize"))
        });
        let listed = &pushed.context("a push")?["pull_request"]["requested_reviewers"];
        let listed = listed.as_array().context("a list")?;
        let logins: Vec<_> = listed.iter().filter_map(|it| it["login"].as_str()).collect();
        let is_github = kind == ForgeKind::Github;
        assert_eq!(logins, if is_github { vec!["dana"] } else { vec!["dana", "robin"] }, "{kind}");
    }
    Ok(())
}
