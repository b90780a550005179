//! Prompts of an operator's folder: the model gets their text in place of the built-in ones.

use crate::model::stage::{Stage, next_plan, one_step, say, stop_reason, unplanned, write_answer};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::fs;
use std::path::Path;
use surety_common::domain::json::sha256_hex;
use surety_common::wire::v1;
use surety_common::wire::v1::event::Kind;
use surety_e2e::harness::{Database, Process, Service};
use surety_e2e::model_server::{Reply, Settings};

/// The prompts by name. Each has the words without which replies cannot be read.
const PROMPTS: [(&str, &str); 3] = [
    (
        "plan/v1",
        "House prompt of planning. Answer with title, steps (id, description, dependencies) and verify.",
    ),
    (
        "replan/v1",
        "House prompt of patches. Answer with remove_steps, update_steps, add_steps and reason.",
    ),
    (
        "step/v1",
        "House prompt of steps. Answer with action (continue with a tool_call, ask_user, confirm, next_plan with a \
         goal_check, done, abort).",
    ),
];

fn text(name: &str) -> &'static str {
    PROMPTS.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text)
}

fn write_prompt(folder: &Path, name: &str, text: &str) -> Result<()> {
    let path = folder.join(format!("{name}.md"));
    fs::create_dir_all(path.parent().context("a folder")?)?;
    Ok(fs::write(path, format!("\n{text}\n\n"))?)
}

#[tokio::test]
async fn a_model_gets_the_prompts_of_the_operators_folder_and_the_journal_names_their_digests()
-> Result<()> {
    let folder = tempfile::tempdir()?;
    for (name, text) in PROMPTS {
        write_prompt(folder.path(), name, text)?;
    }
    let path = folder.path().to_string_lossy().into_owned();
    let environment = [("SURETY_MODEL_PROMPTS_DIR", path.as_str())];
    let stage = Stage::start_with(Settings::default(), &environment).await?;
    stage.plays.add("prompted", |number, asked| {
        let is = |name: &str| asked.system.starts_with(text(name));
        match number {
            0 if is("plan/v1") => say(&one_step()),
            1 if is("step/v1") => say(&json!({"control": "replan", "reason": "the folder"})),
            2 if is("replan/v1") => {
                let update = json!({"id": "s", "description": "write answer.txt here"});
                say(&json!({"update_steps": [update], "reason": "the folder"}))
            }
            3 if is("step/v1") => write_answer(),
            4 if is("step/v1") => next_plan(),
            _ => Reply::status(400).saying("another prompt is expected"),
        }
    });
    let workspace = tempfile::tempdir()?;
    let request = unplanned("prompted", &workspace.path().to_string_lossy());
    let run = stage.deployment.create_run(request).await?;
    let ended = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(stop_reason(&ended)? == v1::StopReason::Accepted, "{ended:#?}");
    let asked = stage.asked("prompted");
    ensure!(asked.len() == 5, "{asked:#?}");
    for asked in &asked {
        // The tools follow the prompt of the folder as they do the built-in one, which is gone.
        ensure!(asked.system.contains("- write_file: "), "{}", asked.system);
        for built_in in ["You plan the work", "You change the plan", "You decide the next action"] {
            ensure!(!asked.system.contains(built_in), "{}", asked.system);
        }
    }
    let models =
        stage.deployment.events(&run.id).await?.into_iter().filter_map(|event| match event.kind {
            Some(Kind::PlanStored(plan)) => plan.model,
            Some(Kind::Turn(turn)) => turn.model,
            _ => None,
        });
    let models: Vec<_> = models.map(|model| (model.prompt, model.prompt_digest)).collect();
    let expected = ["plan/v1", "step/v1", "replan/v1", "step/v1", "step/v1"]
        .map(|name| (name.to_owned(), sha256_hex(text(name).as_bytes())));
    ensure!(models == expected, "{models:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_folder_of_prompts_that_cannot_be_used_is_named_at_the_start() -> Result<()> {
    let database = Database::create().await?;
    for (name, text, said) in [
        ("step/v9", "x", "replaces no prompt"),
        ("plan/v1", "Plan as you like.", "does not name title"),
        ("step/v1", "", "is empty"),
    ] {
        let folder = tempfile::tempdir()?;
        write_prompt(folder.path(), name, text)?;
        let path = folder.path().to_string_lossy().into_owned();
        let environment = [
            ("SURETY_MODEL_PROMPTS_DIR", path.as_str()),
            ("SURETY_MODEL_URL", "http://127.0.0.1:1/v1"),
            ("SURETY_MODEL_NAME", "m"),
        ];
        let service = if name == "plan/v1" { Service::Planner } else { Service::Executor };
        let named = |line: &str| line.contains(said) && line.contains(&format!("{name}.md"));
        // It may say where it listens before it reads the prompts.
        match Process::start(service, &database, &environment).await {
            Err(refused) => {
                let refused = format!("{refused:#}");
                ensure!(named(&refused), "{name}: {refused}");
            }
            Ok(mut process) => {
                process.wait_for_line(named).await?;
                ensure!(!process.wait_for_exit().await?.success(), "{name}: it went on");
            }
        }
    }
    database.drop().await
}
