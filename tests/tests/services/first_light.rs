//! The spine, over three real processes.

use anyhow::Result;
use serde_json::json;
use surety_common::wire::v1;
use surety_e2e::harness::Deployment;

#[tokio::test]
async fn a_plan_is_carried_to_an_accepted_verdict() -> Result<()> {
    let deployment = Deployment::start().await?;
    let workspace = tempfile::tempdir()?;
    let plan = json!({
        "title": "Write a note",
        "steps": [
            {"id": "write", "description": "write it", "script": [
                {"name": "write_file", "arguments": {"path": "note.txt", "content": "hello\n"}}]},
            {"id": "look", "description": "look at it", "dependencies": ["write"], "script": [
                {"name": "read_file", "arguments": {"path": "note.txt"}}]}
        ],
        "verify": [
            {"kind": "file_exists", "target": "note.txt"},
            {"kind": "content_contains", "target": "note.txt", "params": {"contains": "hello"}},
            {"kind": "workspace_change"}
        ]
    });
    let run = deployment.create(&plan, &workspace.path().to_string_lossy()).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    let events = deployment.events(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?} {events:#?}");
    assert!(run.verdict.is_some_and(|verdict| verdict.accepted));
    deployment.database.drop().await
}
