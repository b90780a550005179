//! Runs on git repositories: two executors that share no folder, one of them killed at each step.

mod asked;
mod forked;
mod killed;
mod origin;
pub(crate) mod served;

use anyhow::Result;
use serde_json::{Value, json};
use surety_common::wire::v1;
use surety_e2e::harness::{Database, Deployment};
use surety_e2e::script::{self, step};
use tempfile::TempDir;

/// A short age limit, so that the runs of a killed executor are soon taken over.
const QUICK: [(&str, &str); 2] = [
    ("SURETY_EXECUTOR_HEARTBEAT_AGE_LIMIT_MS", "2000"),
    ("SURETY_EXECUTOR_HEARTBEAT_INTERVAL_MS", "200"),
];

/// Executors of one deployment, each with a folder and a host label of its own.
struct Hosts {
    deployment: Deployment,
    folders: Vec<TempDir>,
    allowed: String,
}

impl Hosts {
    /// A deployment without an executor, for the repositories with this beginning.
    async fn start(allowed: &str) -> Result<Self> {
        let deployment = Deployment::start_idle(Database::create().await?, &QUICK).await?;
        Ok(Self { deployment, folders: Vec::new(), allowed: allowed.to_owned() })
    }

    /// Starts an executor on a host of its own.
    async fn add(&mut self, environment: &[(&str, &str)]) -> Result<()> {
        let folder = tempfile::tempdir()?;
        let label = format!("host-{}", self.folders.len());
        let path = folder.path().to_string_lossy().into_owned();
        let mut all = vec![
            ("SURETY_EXECUTOR_DATA_DIR", path.as_str()),
            ("SURETY_HOST_LABEL", &label),
            ("SURETY_EXECUTOR_REPOSITORIES", &self.allowed),
        ];
        all.extend_from_slice(environment);
        self.deployment.add_executor(&all).await?;
        self.folders.push(folder);
        Ok(())
    }

    /// The clones that executors have left.
    fn clones(&self) -> usize {
        let of = |folder: &TempDir| {
            let listing = std::fs::read_dir(folder.path().join("clones"));
            listing.map_or(0, Iterator::count)
        };
        self.folders.iter().map(of).sum()
    }
}

/// A line of shell, which may be run again.
fn line(text: &str) -> Value {
    script::shell(text)
}

/// Three steps, one behind the other. Each adds a line to a file that they share, so that work which is lost or
/// done twice shows.
fn three_steps() -> Value {
    let add = |name: &str| line(&format!("echo {name} >> log.txt"));
    let edit = json!({"name": "edit_file", "arguments":
        {"path": "README.md", "old_text": "old", "new_text": "new"}});
    let steps = [
        step("one", &[], &[add("one"), add("one again")]),
        step("two", &["one"], &[edit, add("two")]),
        step("three", &["two"], &[add("three")]),
    ];
    json!({"title": "Three steps", "steps": steps, "verify": [
        {"kind": "content_contains", "target": "log.txt", "params": {"contains": "three"}, "owner": "user"},
        {"kind": "command_success", "target": "grep -q new README.md", "owner": "user"},
        {"kind": "workspace_change"},
    ]})
}

/// What the three steps leave in the file.
const LOG: &str = "one\none again\ntwo\nthree\n";

/// The request for a run on a repository.
fn on(url: &str, revision: &str, plan: &Value) -> v1::CreateRunRequest {
    let repository = v1::Repository {
        url: url.to_owned(),
        revision: revision.to_owned(),
        ..v1::Repository::default()
    };
    script::repeatable(v1::CreateRunRequest {
        repository: Some(repository),
        ..script::request(plan, "")
    })
}
