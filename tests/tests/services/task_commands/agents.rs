//! `surety agents put|list|remove`

use super::{Shell, row};
use anyhow::{Result, ensure};
use surety_e2e::agent::{AGENT, FOREIGN, OTHER, PERSON};
use surety_e2e::toolchain::Stage;

#[tokio::test]
async fn agents_are_registered_listed_replaced_and_removed_by_commands() -> Result<()> {
    let stage = Stage::start().await?;
    let person = Shell::of(&stage, PERSON)?;
    let put = [
        "agents",
        "put",
        "third",
        "--account",
        "gitea:Carl",
        "--account",
        "github:carl-h",
        "--role",
        "reviewer,infra",
        "--language",
        "zh",
        "--concurrency",
        "3",
        "--credential",
        "carl-token",
    ];
    ensure!(person.text(&put).await? == "agent third is registered\n");
    let listed = person.text(&["agents", "list"]).await?;
    let expected =
        ["third", "gitea:carl,github:carl-h", "reviewer,infra", "zh", "3", "carl-token", "remote"];
    ensure!(row(&listed, "third")? == expected, "{listed}");
    let listed = person.json(&["agents", "list"]).await?;
    let ids: Vec<_> = listed.as_array().into_iter().flatten().map(|it| it["id"].clone()).collect();
    ensure!(ids == [AGENT, OTHER, "third"], "{listed}");
    ensure!(listed[2]["accounts"][0]["login"] == "carl" && listed[2]["concurrency"] == 3);

    // The same id again replaces it.
    let replaced = person.json(&["agents", "put", "third", "--role", "developer"]).await?;
    ensure!(replaced["accounts"].as_array().is_some_and(Vec::is_empty), "{replaced}");
    ensure!(replaced["roles"][0] == "developer" && replaced["language"] == "en", "{replaced}");

    for (words, code) in [
        (["agents", "put", "third", "--account", "gitea:bob"], "account_taken"),
        (["agents", "put", "third", "--account", "gitea:a b"], "type_mismatch"),
        (["agents", "put", "third", "--role", "boss"], "type_mismatch"),
        (["agents", "put", "third", "--driver", "model"], "feature_not_served"),
        (["agents", "put", "third", "--driver", "script"], "usage"),
        (["agents", "put", "third", "--account", "gitlab:carl"], "usage"),
        (["agents", "put", "third", "--concurrency", "0"], "usage"),
        (["agents", "put", "third", "--language", "fr"], "usage"),
        (["agents", "put", "a b", "--language", "en"], "type_mismatch"),
    ] {
        person.refuses(&words, code).await?;
    }
    let agent = Shell::of(&stage, AGENT)?;
    agent.refuses(&["agents", "put", "third"], "permission_denied").await?;
    agent.refuses(&["agents", "remove", "third"], "permission_denied").await?;
    Shell::of(&stage, FOREIGN)?.refuses(&["agents", "list"], "permission_denied").await?;

    ensure!(person.text(&["agents", "remove", "third"]).await? == "agent third is removed\n");
    person.refuses(&["agents", "remove", "third"], "agent_unknown").await?;
    let listed = person.text(&["agents", "list"]).await?;
    ensure!(row(&listed, "third").is_err() && row(&listed, AGENT).is_ok(), "{listed}");
    stage.deployment.finish().await
}
