//! Plans for tests, and what their commands leave behind.

use serde_json::{Value, json};
use std::path::PathBuf;
use surety_common::wire::v1;

/// A step that depends on others and makes these calls. One that only calls `noop`, which is no
/// evidence, needs none.
pub fn step(id: &str, dependencies: &[&str], calls: &[Value]) -> Value {
    let works = calls.iter().any(|call| call["name"] != "noop");
    let evidence = if works || calls.is_empty() { "required" } else { "none" };
    json!({"id": id, "description": format!("step {id}"), "dependencies": dependencies,
           "evidence": evidence, "script": calls})
}

/// A step that says what it writes, so that others may run beside it.
pub fn scoped(mut step: Value, globs: &[&str]) -> Value {
    step["write_scope"] = json!(globs);
    step
}

/// A plan whose only check is a final text.
pub fn plan(steps: &[Value]) -> Value {
    json!({"title": "A test", "steps": steps, "verify": [{"kind": "output_only", "owner": "plan"}]})
}

/// A call that does nothing.
pub fn noop() -> Value {
    json!({"name": "noop", "arguments": {}})
}

/// A call that runs a line of shell, for a minute at most.
pub fn shell(line: &str) -> Value {
    json!({"name": "run_command", "arguments": {"argv": ["sh", "-c", line], "timeout_s": 60}})
}

/// A call that writes a file.
pub fn write(path: &str, content: &str) -> Value {
    json!({"name": "write_file", "arguments": {"path": path, "content": content}})
}

/// The request that creates a run of a plan in a workspace.
pub fn request(plan: &Value, workspace: &str) -> v1::CreateRunRequest {
    v1::CreateRunRequest {
        plan_source: Some(v1::create_run_request::PlanSource::PlanText(plan.to_string())),
        workspace: workspace.to_owned(),
        ..v1::CreateRunRequest::default()
    }
}

/// The same, which allows that its lines of shell are run again after a crash.
pub fn repeatable(request: v1::CreateRunRequest) -> v1::CreateRunRequest {
    let repeatable_commands = vec!["sh".to_owned()];
    let policy = v1::Policy { repeatable_commands, ..request.policy.unwrap_or_default() };
    v1::CreateRunRequest { policy: Some(policy), ..request }
}

/// A folder outside every workspace, where commands leave marks and wait for permission to
/// continue. Its removal ends every waiting command.
pub struct Trail {
    folder: tempfile::TempDir,
}

impl Trail {
    /// An empty one.
    ///
    /// # Errors
    /// No folder can be made.
    pub fn new() -> std::io::Result<Self> {
        std::fs::create_dir_all(Self::parent())?;
        Ok(Self { folder: tempfile::tempdir_in(Self::parent())? })
    }

    /// The folder of all trails, which the commands of tests may write to.
    pub fn parent() -> PathBuf {
        std::env::temp_dir().join("surety-trails")
    }

    /// A place in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A line of shell that leaves one mark under `name`: the idempotency key of its call.
    pub fn mark(&self, name: &str) -> String {
        format!("echo \"$SURETY_IDEMPOTENCY_KEY\" >> '{}'", self.path(name).display())
    }

    /// A line of shell that leaves one mark under `name` and then waits for [`Trail::let_go`].
    pub fn mark_and_wait(&self, name: &str) -> String {
        let folder = self.folder.path().display();
        let mark = self.mark(name);
        format!("{mark}; while [ -d '{folder}' ] && [ ! -e '{folder}/go' ]; do sleep 0.02; done")
    }

    /// Lets every waiting command continue.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn let_go(&self) -> std::io::Result<()> {
        std::fs::write(self.path("go"), "")
    }

    /// How many marks were left under `name`.
    pub fn marks(&self, name: &str) -> usize {
        self.keys(name).len()
    }

    /// The keys of the calls that left marks under `name`.
    pub fn keys(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}
