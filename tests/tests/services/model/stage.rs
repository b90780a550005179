//! A deployment whose runs a scripted model server drives.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use surety_common::wire::v1;
use surety_e2e::harness::Deployment;
use surety_e2e::model_server::{Asked, ModelServer, Reply, Script, Settings};
use surety_e2e::script::Trail;
use tempfile::NamedTempFile;

/// The model's name.
pub(crate) const MODEL: &str = "test-model";

/// What a model says: the number of the question in its run, and the question.
pub(crate) type Play = Box<dyn FnMut(usize, &Asked) -> Reply + Send>;

/// The plays by the goal of their runs, and how often each was asked.
#[derive(Clone, Default)]
pub(crate) struct Plays(Arc<Mutex<BTreeMap<String, (usize, Play)>>>);

impl Plays {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (usize, Play)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what is said in a run with this goal.
    pub(crate) fn add(
        &self,
        goal: &str,
        play: impl FnMut(usize, &Asked) -> Reply + Send + 'static,
    ) {
        self.lock().insert(goal.to_owned(), (0, Box::new(play)));
    }

    /// How often the model was asked in a run with this goal.
    pub(crate) fn calls(&self, goal: &str) -> usize {
        self.lock().get(goal).map_or(0, |(count, _)| *count)
    }

    /// All of them as one script.
    pub(crate) fn script(&self) -> Script {
        let plays = self.clone();
        Script::function(move |asked| {
            let mut plays = plays.lock();
            match plays.get_mut(&goal_of(asked)) {
                None => Reply::status(500).saying("no play has this goal"),
                Some((count, play)) => {
                    let number = *count;
                    *count += 1;
                    play(number, asked)
                }
            }
        })
    }
}

/// The goal of the run that a question is about.
pub(crate) fn goal_of(asked: &Asked) -> String {
    let first = asked.messages.first().map_or("", |(_, text)| text.as_str());
    let line = first.lines().find_map(|line| line.strip_prefix("Goal of the run: "));
    line.unwrap_or_default().to_owned()
}

/// Whether a question asks for a plan or a patch.
pub(crate) fn is_planning(asked: &Asked) -> bool {
    asked.system.starts_with("You plan") || asked.system.starts_with("You change the plan")
}

/// The services, and the model server that they ask.
pub(crate) struct Stage {
    pub(crate) deployment: Deployment,
    pub(crate) server: ModelServer,
    pub(crate) plays: Plays,
    _profiles: Option<NamedTempFile>,
}

impl Stage {
    pub(crate) async fn start() -> Result<Self> {
        Self::start_with(Settings::default(), &[]).await
    }

    /// With further environment variables for the services.
    pub(crate) async fn start_with(
        settings: Settings,
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        let plays = Plays::default();
        let server = ModelServer::start(settings, plays.script()).await?;
        let url = server.url();
        let mut all = vec![("SURETY_MODEL_URL", url.as_str()), ("SURETY_MODEL_NAME", MODEL)];
        all.extend_from_slice(environment);
        let deployment = Deployment::start_with(&all).await?;
        Ok(Self { deployment, server, plays, _profiles: None })
    }

    /// With further lines of the endpoint's profile.
    pub(crate) async fn start_profiled(settings: Settings, lines: &str) -> Result<Self> {
        let file = NamedTempFile::new()?;
        std::fs::write(file.path(), format!("[model.default]\n{lines}"))?;
        let path = file.path().to_string_lossy().into_owned();
        let stage = Self::start_with(settings, &[("SURETY_MODEL_PROFILES_FILE", &path)]).await?;
        // An executor reads it after it has said where it listens.
        Ok(Self { _profiles: Some(file), ..stage })
    }

    /// The questions of a run with this goal, in order.
    pub(crate) fn asked(&self, goal: &str) -> Vec<Asked> {
        self.server.asked().into_iter().filter(|asked| goal_of(asked) == goal).collect()
    }
}

/// The end of a run.
pub(crate) fn stop_reason(run: &v1::Run) -> Result<v1::StopReason> {
    Ok(run.terminal.as_ref().context("the run has not ended")?.stop_reason())
}

/// A reply that calls a tool.
pub(crate) fn tool(name: &str, arguments: Value) -> Reply {
    say(&json!({"action": "continue", "tool_call": {"name": name, "arguments": arguments}}))
}

/// A reply that writes the file that checks look for.
pub(crate) fn write_answer() -> Reply {
    tool("write_file", json!({"path": "answer.txt", "content": "42\n"}))
}

/// A reply that ends a step.
pub(crate) fn next_plan() -> Reply {
    say(
        &json!({"action": "next_plan", "speak": "The answer is written.", "goal_check": "answer.txt is there"}),
    )
}

/// A reply of JSON.
pub(crate) fn say(value: &Value) -> Reply {
    Reply::text(value.to_string())
}

/// A configuration with the MCP server of the tests under the name `t`.
pub(crate) fn mcp_servers(trail: &Trail) -> Result<NamedTempFile> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/services/mcp_tools");
    let script = folder.join("server.py").display().to_string();
    let marks = trail.path("").display().to_string();
    let system = Path::new("/usr/bin/python3");
    let python = if system.exists() { "/usr/bin/python3" } else { "python3" };
    let command = json!([python, script, "--marks", marks]);
    let folder = folder.display().to_string();
    let file = NamedTempFile::new()?;
    let entry = format!(
        "[mcp.t]\ncommand = {command}\nread_only = [{folder:?}]\nnamespaces = [\"default\"]\n\
         [mcp.t.tools.crash_once]\nidempotent = true\n"
    );
    std::fs::write(file.path(), entry)?;
    Ok(file)
}

/// A plan of one step.
pub(crate) fn one_step() -> Value {
    json!({"title": "Write the answer", "steps": [{"id": "s", "description": "write answer.txt"}]})
}

/// A request for a run of a model, with a plan.
pub(crate) fn planned(goal: &str, plan: &Value, folder: &str) -> v1::CreateRunRequest {
    v1::CreateRunRequest {
        plan_source: Some(v1::create_run_request::PlanSource::PlanText(plan.to_string())),
        ..unplanned(goal, folder)
    }
}

/// A request for a run of a model, which plans as well.
pub(crate) fn unplanned(goal: &str, folder: &str) -> v1::CreateRunRequest {
    v1::CreateRunRequest {
        goal: goal.to_owned(),
        driver: v1::Driver::Model.into(),
        workspace: folder.to_owned(),
        ..v1::CreateRunRequest::default()
    }
}

/// A check of the user that a file is there.
pub(crate) fn file_check(path: &str) -> v1::AcceptCheck {
    v1::AcceptCheck {
        id: "users".to_owned(),
        kind: "file_exists".to_owned(),
        target: path.to_owned(),
        ..v1::AcceptCheck::default()
    }
}
