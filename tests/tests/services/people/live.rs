//! A person follows a run at a terminal, and answers it with keys.

use super::{Stage, confirming};
use anyhow::{Context, Result, ensure};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, Termios, tcgetattr};
use nix::unistd::Pid;
use serde_json::json;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use surety_common::wire::v1;
use surety_e2e::harness::{Deployment, wait_until};
use surety_e2e::model_server::{Asked, ModelServer, Reply, Script, Settings};
use surety_e2e::script::{plan, request, step, write};

const DAY_S: i64 = 24 * 3600;
/// How programs enter and leave a screen of their own.
const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

/// A pseudo-terminal with a program on it.
pub(super) struct Terminal {
    child: Child,
    keys: File,
    /// The program's side, which tells the settings of the terminal.
    inner: OwnedFd,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    pub(super) fn start(mut command: Command) -> Result<Self> {
        let size = Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None)?;
        let child = command
            .stdin(pty.slave.try_clone()?)
            .stdout(pty.slave.try_clone()?)
            .stderr(pty.slave.try_clone()?)
            .env("TERM", "xterm-256color")
            .spawn()?;
        let (mut output, keys) = (File::from(pty.master.try_clone()?), File::from(pty.master));
        let written = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&written);
        // The thread ends with the terminal.
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut part) {
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                all.extend_from_slice(part.get(..length).unwrap_or_default());
            }
        });
        Ok(Self { child, keys, inner: pty.slave, written })
    }

    /// All that was written so far, with the sequences that steer the terminal.
    pub(super) fn text(&self) -> String {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&written).into_owned()
    }

    pub(super) async fn shows(&self, text: &str) -> Result<()> {
        let seen = wait_until(text, || self.text().contains(text)).await;
        seen.with_context(|| format!("{:?}", self.text()))
    }

    pub(super) fn press(&mut self, key: &str) -> Result<()> {
        Ok(self.keys.write_all(key.as_bytes())?)
    }

    fn settings(&self) -> Result<Termios> {
        Ok(tcgetattr(&self.inner)?)
    }

    pub(super) async fn end(&mut self) -> Result<ExitStatus> {
        let status = Mutex::new(None);
        let child = Mutex::new(&mut self.child);
        wait_until("the program ended", || {
            let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
            let ended = child.try_wait().ok().flatten();
            *status.lock().unwrap_or_else(PoisonError::into_inner) = ended;
            ended.is_some()
        })
        .await?;
        let status = status.into_inner().unwrap_or_else(PoisonError::into_inner);
        status.context("a status")
    }
}

/// A run of one step whose call waits for an approval, with two checks.
async fn waiting(stage: &Stage) -> Result<v1::Run> {
    let mut plan = plan(&[step("only", &[], &[write("a.txt", "a")])]);
    plan["verify"] = json!([
        {"id": "written", "kind": "file_exists", "target": "a.txt"},
        {"id": "holds", "kind": "command_success", "target": "test -s a.txt"},
    ]);
    stage.scripted(&plan, confirming(&["write_file"]), DAY_S).await
}

#[tokio::test]
async fn a_key_approves_the_call_that_is_shown_and_the_checks_stand_at_the_end() -> Result<()> {
    let stage = Stage::new().await?;
    let run = waiting(&stage).await?;
    let (command, _token) = stage.deployment.surety(&["watch", &run.id])?;
    let mut terminal = Terminal::start(command)?;
    for part in [ENTER, "write_file {", "\"a.txt\"", "[a] approve", "[d] deny", "[p] pause"] {
        terminal.shows(part).await?;
    }
    ensure!(!terminal.settings()?.local_flags.contains(LocalFlags::ICANON), "keys come at once");
    terminal.press("a")?;
    let status = terminal.end().await?;
    ensure!(status.success(), "{status}: {}", terminal.text());
    terminal.shows(LEAVE).await?;
    terminal.shows("is DONE after").await?;
    let text = terminal.text();
    let (_, after) = text.rsplit_once(LEAVE).context("an end")?;
    for part in
        ["✓ only", "holds  ", "command `test -s a.txt` exit 0", "passed  written", "accepted"]
    {
        ensure!(after.contains(part), "{part}: {after}");
    }
    let settings = terminal.settings()?.local_flags;
    ensure!(settings.contains(LocalFlags::ICANON | LocalFlags::ECHO), "{settings:?}");
    let said = stage.said(&run).await?;
    ensure!(said.len() == 1 && said.iter().all(|it| it.summary.contains("alice approved")));
    stage.deployment.finish().await
}

#[tokio::test]
async fn leaving_gives_the_terminal_back_and_the_run_waits_on() -> Result<()> {
    let stage = Stage::new().await?;
    let run = waiting(&stage).await?;
    // Ctrl-C is a key here: the terminal sends no signal for it. SIGTERM comes from another program.
    for key in [Some("q"), Some("\u{3}"), None] {
        let (command, _token) = stage.deployment.surety(&["watch", &run.id])?;
        let mut terminal = Terminal::start(command)?;
        terminal.shows("[q] leave").await?;
        match key {
            Some(key) => terminal.press(key)?,
            None => kill(Pid::from_raw(i32::try_from(terminal.child.id())?), Signal::SIGTERM)?,
        }
        let status = terminal.end().await?;
        ensure!(status.code() == Some(130), "{status}");
        terminal.shows(LEAVE).await?;
        terminal.shows("The run continues").await?;
        let settings = terminal.settings()?.local_flags;
        ensure!(settings.contains(LocalFlags::ICANON | LocalFlags::ECHO), "{settings:?}");
    }
    let wait = stage.asked(&run).await?;
    stage.resolve(&wait, super::DENY).await?;
    stage.deployment.wait_for_end(&run.id).await?;
    stage.deployment.finish().await
}

#[tokio::test]
async fn the_words_of_a_model_are_seen_while_they_arrive() -> Result<()> {
    let decision = json!({
        "action": "continue",
        "speak": "First I read the parser. ".repeat(200),
        "tool_call": {"name": "list_dir", "arguments": {"path": "."}},
    });
    // The reply never ends: what is seen of it was seen before its turn.
    let reply = move |_: &Asked| Reply::text(decision.to_string()).stall_after(8000);
    let server = ModelServer::start(Settings::default(), Script::function(reply)).await?;
    let url = server.url();
    let environment = [("SURETY_MODEL_URL", url.as_str()), ("SURETY_MODEL_NAME", "test-model")];
    let deployment = Deployment::start_with(&environment).await?;
    let plan = plan(&[json!({"id": "s", "description": "repair the parser"})]);
    let request = v1::CreateRunRequest { driver: v1::Driver::Model.into(), ..request(&plan, "") };
    let run = deployment.create_run(request).await?;
    let (command, _token) = deployment.surety(&["watch", &run.id])?;
    let mut terminal = Terminal::start(command)?;
    terminal.shows("> First I read the parser.").await?;
    let listed = deployment.command_line(&["waits"]).await?;
    ensure!(listed.contains("First I read the parser."), "{listed}");
    let journal = deployment.command_line(&["show", &run.id]).await?;
    ensure!(!journal.contains("First I read"), "words are not journalled: {journal}");
    terminal.press("q")?;
    terminal.end().await?;
    deployment.command_line(&["cancel", &run.id]).await?;
    deployment.wait_for_end(&run.id).await?;
    deployment.finish().await
}

#[tokio::test]
async fn the_words_of_a_plan_are_seen_while_a_model_makes_it() -> Result<()> {
    let words = "Read the parser and repair it. ".repeat(200);
    let step = json!({"id": "a", "description": words});
    let text = json!({"steps": [step], "title": "A repaired parser"}).to_string();
    // The plan never ends: what is seen of it was seen before it was stored.
    let reply = move |_: &Asked| Reply::text(&text).stall_after(30_000);
    let server = ModelServer::start(Settings::default(), Script::function(reply)).await?;
    let url = server.url();
    let environment = [("SURETY_MODEL_URL", url.as_str()), ("SURETY_MODEL_NAME", "test-model")];
    let deployment = Deployment::start_with(&environment).await?;
    let request = v1::CreateRunRequest {
        goal: "repair the parser".to_owned(),
        driver: v1::Driver::Model.into(),
        ..v1::CreateRunRequest::default()
    };
    let run = deployment.create_run(request).await?;
    let (command, _token) = deployment.surety(&["watch", &run.id])?;
    let mut terminal = Terminal::start(command)?;
    for part in ["there is no plan yet", "Read the parser and repair it."] {
        terminal.shows(part).await?;
    }
    let shown = deployment.command_line(&["show", &run.id]).await?;
    ensure!(!shown.contains("Read the parser"), "words are not journalled: {shown}");
    terminal.press("q")?;
    terminal.end().await?;
    deployment.command_line(&["cancel", &run.id]).await?;
    deployment.wait_for_end(&run.id).await?;
    deployment.finish().await
}
