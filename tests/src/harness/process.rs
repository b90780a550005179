//! One service as a process.

use super::{Database, PATIENCE};
use crate::script::Trail;
use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;
use surety_common::wire::token::Token;
use tempfile::NamedTempFile;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::oneshot;

/// The log of a service whose speed is measured: its own lines, and the one that says where it listens.
pub const QUIET_LOG: &str = "warn,surety_common::wire::server=info,surety_planner=info,surety_executor=info,\
     surety_acceptgate=info";
/// A command line that a service is started behind.
pub const WRAPPER: &str = "SURETY_TEST_WRAPPER";

/// The variable that names the file with tokens.
const TOKEN_FILE: &str = "SURETY_TOKEN_FILE";
/// What every service over a database knows, and every client of a deployment shows, where a test says
/// nothing else: alone in its file it has the roles of a person and of a service.
pub const TOKEN: &str = "e2e-0123456789abcdef0123456789abcdef0123456789abcdef";

/// The token of the tests.
///
/// # Errors
/// It is none.
pub fn token() -> Result<Token> {
    Ok(Token::new(TOKEN)?)
}

/// The file with the token of the tests, made once a process.
fn token_file() -> Result<&'static Path> {
    static FILE: OnceLock<Option<NamedTempFile>> = OnceLock::new();
    let made = FILE.get_or_init(|| {
        // Only its owner reads a file that is made this way.
        let mut file = NamedTempFile::new().ok()?;
        writeln!(file, "{TOKEN}").ok()?;
        Some(file)
    });
    Ok(made.as_ref().context("the token file cannot be made")?.path())
}

/// Which service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// The planner.
    Planner,
    /// The executor.
    Executor,
    /// The acceptgate.
    Gate,
}

impl Service {
    const fn binary(self) -> &'static str {
        match self {
            Self::Planner => "surety-planner",
            Self::Executor => "surety-executor",
            Self::Gate => "surety-acceptgate",
        }
    }

    const fn listen_variable(self) -> &'static str {
        match self {
            Self::Planner => "SURETY_PLANNER_LISTEN",
            Self::Executor => "SURETY_EXECUTOR_LISTEN",
            Self::Gate => "SURETY_GATE_LISTEN",
        }
    }
}

/// A running service. It is killed with the value's end.
pub struct Process {
    child: Child,
    address: String,
    log: Arc<Mutex<Vec<String>>>,
}

impl Process {
    /// Starts a service on a free port and waits until it says where it listens.
    ///
    /// # Errors
    /// The binary is not built, or the process ended or said nothing in time; the error shows its
    /// log.
    pub async fn start(
        service: Service,
        database: &Database,
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        Self::start_on(service, "127.0.0.1:0", database.url(), environment).await
    }

    /// Starts a service without a database, on a free port.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub async fn start_stateless(service: Service, environment: &[(&str, &str)]) -> Result<Self> {
        Self::launch(service, "127.0.0.1:0", None, environment).await
    }

    /// As [`Process::start`], on an address of the caller's choice.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub async fn start_on(
        service: Service,
        listen: &str,
        database_url: &str,
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        Self::launch(service, listen, Some(database_url), environment).await
    }

    async fn launch(
        service: Service,
        listen: &str,
        database_url: Option<&str>,
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        let mut command = self::command(service, environment)?;
        match database_url {
            Some(url) => command.env("DATABASE_URL", url).env(TOKEN_FILE, token_file()?),
            None => command.env_remove("DATABASE_URL").env_remove(TOKEN_FILE),
        };
        let mut child = command
            .env(service.listen_variable(), listen)
            .env("SURETY_LOG", "info")
            .env("SURETY_LOG_FORMAT", "json")
            .env("SURETY_SANDBOX_WRITABLE", Trail::parent())
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let log = Arc::new(Mutex::new(Vec::new()));
        let stderr = child.stderr.take().context("the process has no standard error")?;
        let (found, address) = oneshot::channel();
        tokio::spawn(read_log(stderr, Arc::clone(&log), found));
        let said = tokio::time::timeout(PATIENCE, address).await;
        match said {
            Ok(Ok(address)) => Ok(Self { child, address, log }),
            Ok(Err(_)) | Err(_) => {
                bail!("{} did not start: {:#?}", service.binary(), lines(&log))
            }
        }
    }

    /// Runs a service that is expected to end by itself, and gives its exit code and its log.
    ///
    /// # Errors
    /// It did not end in time.
    pub async fn run_to_end(
        service: Service,
        listen: &str,
        environment: &[(&str, &str)],
    ) -> Result<(Option<i32>, String)> {
        let ending = Command::new(binary(service.binary())?)
            .env(service.listen_variable(), listen)
            .env_remove("DATABASE_URL")
            .env_remove(TOKEN_FILE)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(PATIENCE, ending).await??;
        Ok((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()))
    }

    /// Whether it has ended.
    ///
    /// # Errors
    /// The operating system does not say.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.end()?.is_some())
    }

    /// How it ended; none when it has not.
    ///
    /// # Errors
    /// The operating system does not say.
    pub fn end(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits until it has ended by itself.
    ///
    /// # Errors
    /// It did not in time.
    pub async fn wait_for_exit(&mut self) -> Result<ExitStatus> {
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        Ok(ended.context("the process did not end")??)
    }

    /// Where it listens, as a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where it listens, as host and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its process id.
    ///
    /// # Errors
    /// It has ended.
    pub fn pid(&self) -> Result<Pid> {
        let id = self.child.id().context("the process has ended")?;
        Ok(Pid::from_raw(i32::try_from(id)?))
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// It has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(self.pid()?, signal)?)
    }

    /// Kills it at once and waits for its end.
    ///
    /// # Errors
    /// The operating system refused.
    pub async fn kill(&mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Asks it to stop and waits for its end.
    ///
    /// # Errors
    /// It did not end in time.
    pub async fn stop(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::SIGTERM)?;
        tokio::time::timeout(PATIENCE, self.child.wait())
            .await
            .with_context(|| format!("the process did not stop: {:#?}", lines(&self.log)))?
            .map_err(Into::into)
    }

    /// What it has logged so far.
    pub fn log(&self) -> Vec<String> {
        lines(&self.log)
    }

    /// What the process answers to one HTTP request, as plain as a probe makes it.
    ///
    /// # Errors
    /// Nothing answers.
    pub async fn get(&self, path: &str) -> Result<String> {
        let mut stream = tokio::net::TcpStream::connect(&self.address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    /// Waits until a logged line fulfils a condition.
    ///
    /// # Errors
    /// None did in time.
    pub async fn wait_for_line(&self, wanted: impl Fn(&str) -> bool) -> Result<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(line) = self.log().into_iter().find(|line| wanted(line)) {
                return Ok(line);
            }
            if Instant::now() > deadline {
                bail!("no such line in time: {:#?}", self.log());
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

fn lines(log: &Mutex<Vec<String>>) -> Vec<String> {
    log.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The service's program, or what `SURETY_TEST_WRAPPER` in its environment names with the program
/// as its last argument: for one that runs in another network.
fn command(service: Service, environment: &[(&str, &str)]) -> Result<Command> {
    let program = binary(service.binary())?;
    let wrapper = environment.iter().find(|(name, _)| *name == WRAPPER).map(|(_, words)| *words);
    let mut words = wrapper.unwrap_or_default().split_whitespace();
    let Some(first) = words.next() else { return Ok(Command::new(program)) };
    let mut command = Command::new(first);
    command.args(words).arg(program);
    Ok(command)
}

/// Gathers the log, and says the first address in it.
async fn read_log(
    stderr: ChildStderr,
    log: Arc<Mutex<Vec<String>>>,
    found: oneshot::Sender<String>,
) {
    let mut found = Some(found);
    let mut reader = BufReader::new(stderr).lines();
    while let Ok(Some(line)) = reader.next_line().await {
        if let Some(address) = address_in(&line)
            && let Some(found) = found.take()
        {
            // A starter that gave up needs no address.
            drop(found.send(address));
        }
        log.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

fn address_in(line: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(line).ok()?;
    let message = value.pointer("/message")?.as_str()?;
    if !message.ends_with("listening") {
        return None;
    }
    value.pointer("/address")?.as_str().map(str::to_owned)
}

/// A binary of this workspace, beside the test's own.
///
/// # Errors
/// It is not built.
pub fn binary(name: &str) -> Result<PathBuf> {
    let test = std::env::current_exe()?;
    let folder = test
        .ancestors()
        .find(|folder| folder.join(name).is_file())
        .with_context(|| format!("{name} is not built; run `cargo build --workspace` first"))?;
    Ok(folder.join(name))
}
