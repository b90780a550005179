//! What a model is told of a failed check: the end of what its command put out, without secrets, and nothing of
//! hidden checks.

use crate::model::stage::{Stage, next_plan, planned, say, stop_reason, tool, write_answer};
use anyhow::{Result, ensure};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use surety_common::wire::v1;
use surety_e2e::model_server::Settings;

const SECRET: &str = "C4nary0fTheRepairHint9zQ7";
/// What the command of the check puts out.
const SAYS: &str = "assertion failed: the widget is broken";

fn command_check(id: &str, target: &str) -> v1::AcceptCheck {
    v1::AcceptCheck {
        id: id.to_owned(),
        kind: "command_success".to_owned(),
        target: target.to_owned(),
        ..v1::AcceptCheck::default()
    }
}

#[tokio::test]
async fn a_repair_is_told_what_the_failed_command_put_out() -> Result<()> {
    let secrets = tempfile::NamedTempFile::new()?;
    fs::write(secrets.path(), SECRET)?;
    fs::set_permissions(secrets.path(), fs::Permissions::from_mode(0o600))?;
    let listed = format!("npm@*=file:{}", secrets.path().display());
    let environment = [("SURETY_EXECUTOR_SECRETS", listed.as_str())];
    let stage = Stage::start_with(Settings::default(), &environment).await?;
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("notes.txt"), format!("the token is {SECRET}\n"))?;
    stage.plays.add("told", |number, asked| match number {
        0 => next_plan(),
        1 => {
            let told = asked.last();
            assert!(told.contains("users needs") && told.contains(&format!("| {SAYS}")), "{told}");
            assert!(told.contains("| the token is [secret:npm]"), "{told}");
            assert!(told.contains("exit code 3") && told.contains("are left out"), "{told}");
            assert!(told.len() < 8000 && !told.contains("the exam says"), "{told}");
            // A model looks before it writes, and still has to know what failed.
            tool("read_file", json!({"path": "notes.txt"}))
        }
        2 => {
            let opening = asked.messages.first().map_or("", |(_, text)| text.as_str());
            assert!(opening.contains("The verdict on your work was refused"), "{opening}");
            assert!(opening.contains(&format!("| {SAYS}")), "{opening}");
            assert!(
                opening.contains("The run is accepted when: command_success sh -c"),
                "{opening}"
            );
            assert!(!opening.contains("exam"), "{opening}");
            write_answer()
        }
        _ => next_plan(),
    });
    let script =
        format!("sh -c 'test -f answer.txt && exit; seq 5000; cat notes.txt; echo {SAYS}; exit 3'");
    let exam = v1::AcceptCheck {
        overlay: [("exam.sh".to_owned(), b"echo the exam says; test -f answer.txt\n".to_vec())]
            .into(),
        ..command_check("exam", "sh exam.sh")
    };
    let plan =
        json!({"title": "t", "steps": [{"id": "s", "description": "x", "evidence": "none"}]});
    let request = v1::CreateRunRequest {
        verify: vec![command_check("users", &script), exam],
        ..planned("told", &plan, &folder.path().to_string_lossy())
    };
    let run = stage.deployment.create_run(request).await?;
    let ended = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(stop_reason(&ended)? == v1::StopReason::Accepted, "{ended:#?}");
    ensure!(stage.plays.calls("told") == 4, "{}", stage.plays.calls("told"));
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_step_that_may_not_end_is_told_what_its_check_put_out() -> Result<()> {
    let stage = Stage::start().await?;
    let folder = tempfile::tempdir()?;
    fs::write(
        folder.path().join("check.sh"),
        format!("test -f answer.txt && exit\necho {SAYS}\nexit 3\n"),
    )?;
    stage.plays.add("stopped", |number, asked| match number {
        0 => tool("glob", json!({"pattern": "*"})),
        1 => say(&json!({"action": "next_plan", "goal_check": "it is done"})),
        2 => {
            let told = asked.last();
            assert!(
                told.contains("step_check_failed") && told.contains(&format!("| {SAYS}")),
                "{told}"
            );
            assert!(told.contains("exit code 3"), "{told}");
            write_answer()
        }
        _ => next_plan(),
    });
    let check = json!({"id": "own", "kind": "command_success", "target": "sh check.sh"});
    let plan = json!({"title": "t", "steps": [{"id": "s", "description": "x", "verify": [check]}]});
    let request = planned("stopped", &plan, &folder.path().to_string_lossy());
    let run = stage.deployment.create_run(request).await?;
    let ended = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(stop_reason(&ended)? == v1::StopReason::Accepted, "{ended:#?}");
    ensure!(stage.plays.calls("stopped") == 4, "{}", stage.plays.calls("stopped"));
    stage.deployment.finish().await
}
