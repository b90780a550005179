//! The tools on real folders and with real processes.

mod commands;
mod files;
mod http;
mod patches;
mod scans;
mod symbols;
mod timing;

use crate::tool::{
    BuiltinSettings, Effect, Environment, ErrorCode, Folder, Registry, RegistryError, Sandbox,
    Tool, ToolContext, ToolError, ToolOutcome, ToolSpec, WriteScope,
};
use futures::future::{self, BoxFuture, FutureExt};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use surety_common::config::SandboxConfig;
use surety_common::domain::json::{self, Value};
use surety_common::domain::receipt::Fact;
use tempfile::TempDir;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// A workspace in its own folder, beside a folder that it must not access.
struct ToolFixture {
    _folder: TempDir,
    root: PathBuf,
    outside: PathBuf,
    registry: Registry,
    ctx: ToolContext,
}

impl ToolFixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let (root, outside) = (base.join("work"), base.join("outside"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret.txt"), "secret").unwrap();
        let sandbox = Sandbox::probe(&sandbox_config(), &base.join("data"), Vec::new()).unwrap();
        let ctx = ToolContext {
            sandbox: Arc::new(sandbox),
            folder: Arc::new(Folder::given(root.clone())),
            write_scope: Arc::new(WriteScope::whole()),
            environment: Arc::new(Environment::of_process()),
            view: None,
            call_id: Uuid::from_u128(7),
            shell_allowed: false,
            verify_tools: Arc::default(),
            secrets: Arc::default(),
            servers: crate::tool::RunServers::default(),
            forge: crate::tool::RunForge::default(),
            deadline: Instant::now() + Duration::from_secs(120),
            cancel: CancellationToken::new(),
            kill: CancellationToken::new(),
        };
        Self {
            _folder: folder,
            root,
            outside,
            registry: Registry::with_builtin(&BuiltinSettings::default()).unwrap(),
            ctx,
        }
    }

    fn scoped(globs: &[&str]) -> Self {
        let mut fixture = Self::new();
        let globs: Vec<String> = globs.iter().map(ToString::to_string).collect();
        fixture.ctx.write_scope = Arc::new(WriteScope::new(&globs).unwrap());
        fixture
    }

    fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap()
    }

    async fn call(&self, name: &str, args: serde_json::Value) -> ToolOutcome {
        let args = value(&args);
        assert_eq!(self.registry.validate(name, &args), Ok(()));
        let tool = self.registry.get(name).unwrap();
        let mut ctx = self.ctx.clone();
        if let Some(asked) = tool.requested_timeout(&args) {
            ctx.deadline = ctx.deadline.min(Instant::now() + asked);
        }
        tool.call(&ctx, &args).await
    }

    fn intend(&self, name: &str, args: serde_json::Value) -> Result<Effect, ToolError> {
        self.registry.get(name).unwrap().intend(&self.ctx, &value(&args))
    }
}

fn sandbox_config() -> SandboxConfig {
    SandboxConfig {
        sandbox: "auto".to_owned(),
        sandbox_allow_none: false,
        sandbox_read_only: None,
        sandbox_writable: None,
        sandbox_processes: None,
        sandbox_memory_mib: None,
        sandbox_disk_mib: 1024,
    }
}

fn value(args: &serde_json::Value) -> Value {
    json::parse(&args.to_string()).unwrap().value
}

fn output(outcome: &ToolOutcome) -> &str {
    std::str::from_utf8(&outcome.output).unwrap()
}

fn observed(path: &str, exists: bool) -> Fact {
    Fact::FileObserved { path: path.to_owned(), exists }
}

fn written(path: &str, before: Option<&str>, after: &str) -> Fact {
    let digest = |text: &str| json::sha256_hex(text.as_bytes());
    Fact::FileWritten {
        path: path.to_owned(),
        before_digest: before.map(digest),
        after_digest: Some(digest(after)),
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Waits until a condition holds, with a deadline.
async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn the_built_in_tools_are_listed_by_name_with_their_annotations() {
    let registry = Registry::with_builtin(&BuiltinSettings::default()).unwrap();
    let told: Vec<_> = registry
        .specs()
        .map(|spec| (spec.name.as_str(), spec.annotations.read_only, spec.scan))
        .collect();
    assert_eq!(
        told,
        [
            ("apply_patch", false, false),
            ("edit_file", false, false),
            ("find_symbol", true, true),
            ("glob", true, true),
            ("grep", true, true),
            ("http_get", true, false),
            ("list_dir", true, false),
            ("noop", true, false),
            ("read_file", true, false),
            ("read_output", true, false),
            ("run_command", false, false),
            ("sleep", true, false),
            ("todo", true, false),
            ("verify", false, false),
            ("write_file", false, false),
        ]
    );
}

#[test]
fn a_name_can_be_registered_once() {
    let mut registry = Registry::with_builtin(&BuiltinSettings::default()).unwrap();
    let again = registry.get("noop").unwrap();
    assert!(registry.register(again).is_err());
}

#[test]
fn arguments_that_do_not_match_are_refused_with_their_path() {
    let registry = Registry::with_builtin(&BuiltinSettings::default()).unwrap();
    for (name, args, fits) in [
        ("noop", serde_json::json!({}), true),
        ("noop", serde_json::json!({"wait_ms": 100}), true),
        ("noop", serde_json::json!({"wait_ms": 60_000}), false),
        ("noop", serde_json::json!({"x": 1}), false),
        ("read_file", serde_json::json!({"path": "a"}), true),
        ("read_file", serde_json::json!({"path": 5}), false),
        ("read_file", serde_json::json!({"path": "a", "offset": 0}), false),
        ("run_command", serde_json::json!({"argv": []}), false),
        ("run_command", serde_json::json!({"argv": "ls"}), false),
        ("run_command", serde_json::json!({"command": "ls"}), true),
        ("run_command", serde_json::json!({"argv": ["a"], "command": "ls"}), false),
        ("write_file", serde_json::json!({"path": "a"}), false),
        ("nothing", serde_json::json!({}), false),
    ] {
        let answer = registry.validate(name, &value(&args));
        assert_eq!(answer.is_ok(), fits, "{name} {args}: {answer:?}");
    }
    let wrong =
        registry.validate("read_file", &value(&serde_json::json!({"path": 5}))).unwrap_err();
    assert!(wrong[0].starts_with("/path: "), "{wrong:?}");
}

/// A tool that consists only of an argument schema.
struct WithSchema(ToolSpec);

impl Tool for WithSchema {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call<'a>(&'a self, _: &'a ToolContext, _: &'a Value) -> BoxFuture<'a, ToolOutcome> {
        future::ready(ToolOutcome::done("", Vec::new(), Vec::new())).boxed()
    }
}

fn registered(schema: serde_json::Value) -> Result<Registry, RegistryError> {
    let noop = Registry::with_builtin(&BuiltinSettings::default())?.get("noop").unwrap();
    let spec = ToolSpec { name: "f".to_owned(), input_schema: schema, ..noop.spec().clone() };
    let mut registry = Registry::default();
    registry.register(Arc::new(WithSchema(spec)))?;
    Ok(registry)
}

#[test]
fn an_integer_too_large_for_a_double_stays_an_integer() {
    let schema = serde_json::json!({"properties": {"id": {"type": "integer"}}});
    let registry = registered(schema).unwrap();
    for id in ["18446744073709551615", "123456789012345678901234567890"] {
        let arguments = json::parse(&format!("{{\"id\":{id}}}")).unwrap().value;
        assert_eq!(registry.validate("f", &arguments), Ok(()), "{id}");
    }
}

#[test]
fn an_invalid_schema_and_one_with_external_references_are_refused() {
    for schema in [
        serde_json::json!({"type": "sausage"}),
        serde_json::json!({"$ref": "http://127.0.0.1:1/schema.json"}),
        serde_json::json!({"$ref": "file:///etc/passwd"}),
    ] {
        assert!(registered(schema.clone()).is_err(), "{schema}");
    }
}

#[test]
fn at_most_five_errors_are_reported() {
    let required: Vec<String> = (0..9).map(|n| format!("field{n}")).collect();
    let registry = registered(serde_json::json!({"required": required})).unwrap();
    let arguments = json::parse("{}").unwrap().value;
    assert_eq!(registry.validate("f", &arguments).unwrap_err().len(), 5);
}

#[tokio::test]
async fn a_cancelled_call_does_nothing() {
    let fixture = ToolFixture::new();
    fixture.ctx.cancel.cancel();
    let args = serde_json::json!({"path": "a.txt", "content": "x"});
    let outcome = fixture.call("write_file", args).await;
    assert_eq!(outcome.error_code, Some(ErrorCode::Cancelled));
    assert!(names_in(&fixture.root).is_empty());
}

#[tokio::test]
async fn a_requested_wait_is_kept_and_ends_with_its_call() {
    let mut fixture = ToolFixture::new();
    let asked = Instant::now();
    let outcome = fixture.call("noop", serde_json::json!({"wait_ms": 20})).await;
    assert!(outcome.success && asked.elapsed() >= Duration::from_millis(20));
    let long = serde_json::json!({"wait_ms": 10_000});
    fixture.ctx.deadline = Instant::now();
    assert!(fixture.call("noop", long.clone()).await.timed_out);
    fixture.ctx.cancel.cancel();
    let outcome = fixture.call("noop", long).await;
    assert_eq!(outcome.error_code, Some(ErrorCode::Cancelled));
}

#[tokio::test]
async fn a_scan_past_its_deadline_fails_with_a_timeout() {
    let mut fixture = ToolFixture::new();
    fixture.put("a.txt", "x");
    fixture.ctx.deadline = Instant::now();
    let outcome = fixture.call("grep", serde_json::json!({"pattern": "x"})).await;
    assert_eq!(outcome.error_code, Some(ErrorCode::Timeout));
    assert!(outcome.timed_out);
}
