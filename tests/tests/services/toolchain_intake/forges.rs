//! Deliveries of GitHub and Forgejo over HTTP, from the recorded ones: each is stored under its id and event, becomes its
//! tasks, and is none when it is sent again.

use super::sender::Intake;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use surety_common::domain::toolchain::{Delivery, Forge, Reading, Rules, ToolchainEvent};
use surety_common::wire::v1::{self, DeliveryState};
use surety_e2e::harness::Database;
use surety_e2e::toolchain::delivery::{OLD, Sent, new_id, signature};

const RECORDED: [(Forge, &str); 2] = [
    (
        Forge::Github,
        include_str!("../../../../crates/common/tests/forge_events/fixtures/github.jsonl"),
    ),
    (
        Forge::Forgejo,
        include_str!("../../../../crates/common/tests/forge_events/fixtures/forgejo.jsonl"),
    ),
];

/// A delivery, and the events that it becomes.
struct Recorded {
    event: String,
    body: String,
    events: Vec<ToolchainEvent>,
}

/// The first delivery of each event that becomes tasks. Each is of a repository of its own, so that none leaves another one
/// nothing to do.
fn recorded(forge: Forge, rows: &str) -> Result<Vec<Recorded>> {
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    for (place, line) in rows.lines().enumerate() {
        let mut row: Value = serde_json::from_str(line)?;
        let event = row["event"].as_str().context("an event")?.to_owned();
        row["payload"]["repository"]["full_name"] = json!(format!("team/app-{place}"));
        let body = row["payload"].to_string();
        let reading = Delivery { forge, event: &event, body: &body }.read(&Rules::default());
        let Ok(Reading::Tasks(events)) = reading else { continue };
        if events.first().is_some_and(|first| seen.insert((event.clone(), first.event_type))) {
            found.push(Recorded { event, body, events });
        }
    }
    Ok(found)
}

fn sent<'a>(forge: Forge, id: &str, Recorded { event, body, .. }: &Recorded) -> Sent<'a> {
    let body = body.clone().into_bytes();
    let signed = signature(OLD, &body);
    let mut headers = vec![("content-type", "application/json".to_owned())];
    let path = if forge == Forge::Github {
        headers.extend([
            ("x-github-event", event.clone()),
            ("x-github-delivery", id.to_owned()),
            ("x-hub-signature-256", format!("sha256={signed}")),
        ]);
        "/webhooks/github/main"
    } else {
        headers.extend([
            ("x-forgejo-event", event.clone()),
            ("x-forgejo-delivery", id.to_owned()),
            ("x-forgejo-signature", signed.clone()),
            // Forgejo sends the headers of the others too; they decide nothing.
            ("x-gitea-event", "push".to_owned()),
            ("x-github-event", "push".to_owned()),
            ("x-hub-signature-256", "sha256=00".to_owned()),
        ]);
        "/webhooks/forgejo/main"
    };
    Sent { path, headers, body }
}

async fn becomes_its_tasks(intake: &Intake, forge: Forge, one: &Recorded, id: &str) -> Result<()> {
    let found = intake.processed().await?;
    let stored = found.iter().find(|stored| stored.forge_delivery_id == id).context("no row")?;
    let shown = (stored.event.as_str(), stored.state(), stored.run_ids.len());
    let expected = (one.event.as_str(), DeliveryState::Processed, one.events.len());
    ensure!(shown == expected, "{stored:#?} is not {expected:?}");
    let mut made = Vec::new();
    for run_id in &stored.run_ids {
        let request = v1::GetTaskRequest { run_id: run_id.clone() };
        let task = intake.toolchain()?.get_task(request).await?.into_inner().task;
        let task = task.context("no task")?;
        ensure!(task.source == forge.as_str(), "{task:#?}");
        made.push((task.event_type, task.addressee));
    }
    let of = |event: &ToolchainEvent| (event.event_type.to_string(), event.assignee.to_string());
    let mut wanted: Vec<_> = one.events.iter().map(of).collect();
    made.sort();
    wanted.sort();
    ensure!(made == wanted, "{made:?} is not {wanted:?}");
    Ok(())
}

#[tokio::test]
async fn signed_deliveries_of_github_and_forgejo_become_their_tasks_once() -> Result<()> {
    for (forge, rows) in RECORDED {
        let database = Database::create().await?;
        let intake = Intake::start(&database, &[]).await?;
        let of_wire = if forge == Forge::Github { v1::Forge::Github } else { v1::Forge::Forgejo };
        intake.put("main", of_wire, &["old"]).await?;
        let all = recorded(forge, rows)?;
        ensure!(all.len() >= 8, "{forge} has {} kinds of deliveries", all.len());
        for one in &all {
            let id = new_id();
            let first = sent(forge, &id, one);
            let answer = intake.send(&first).await?;
            ensure!(answer.status == 202 && answer.body["state"] == "stored", "{answer:?}");
            becomes_its_tasks(&intake, forge, one, &id).await?;
            let answer = intake.send(&first).await?;
            ensure!(answer.body["state"] == "repeated", "{}: {answer:?}", one.event);
            let other = new_id();
            let answer = intake.send(&sent(forge, &other, one)).await?;
            ensure!(answer.body["state"] == "stored", "{}: {answer:?}", one.event);
            let found = intake.processed().await?;
            let again = found.iter().find(|stored| stored.forge_delivery_id == other);
            let end = again.map(|again| (again.state(), again.reason.as_str()));
            ensure!(end == Some((DeliveryState::Repeated, "same_content")), "{again:#?}");
        }
        let found = intake.deliveries().await?;
        ensure!(found.iter().all(|one| one.forge() == of_wire) && found.len() == 2 * all.len());
        database.drop().await?;
    }
    Ok(())
}
