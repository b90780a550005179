//! Runs git for the clone of a run, in the sandbox.

use super::clone::CloneFolder;
use super::entries::{Changed, link_file};
use super::failure::GitFailure;
use super::push::{Pushed, Target, read_push};
use crate::blocking::blocking;
use crate::git_reader::text;
use crate::tool::process::{self, CommandRequest, Ending, Finished};
use crate::tool::{Environment, Folder, RunSecrets, Sandbox, ToolContext, ToolError, WriteScope};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use surety_common::config::Secret;
use surety_common::domain::fault::FaultCode;
use surety_common::domain::network::AllowedHost;
use surety_common::domain::receipt::Command;
use surety_common::domain::redact::{Redactor, SHORTEST_SECRET};
use surety_common::domain::repository::{
    Repository, RepositoryRemote, RepositoryScheme, is_object_name, remote_of,
};
use surety_common::domain::run::NetworkPolicy;
use surety_sandbox::LimitHit;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const COMMON: &str = include_str!("common.sh");
const LIST: &str = include_str!("list.sh");
const OPEN: &str = include_str!("open.sh");
const HASH: &str = include_str!("hash.sh");
const COMMIT: &str = include_str!("commit.sh");
const PUSH: &str = include_str!("push.sh");
const DIFFERENCE: &str = include_str!("difference.sh");
const FETCH: &str = include_str!("fetch.sh");

/// The longest time of one call of git.
const TIME_LIMIT: Duration = Duration::from_secs(600);
/// The exit code of a clone that is too large.
const TOO_LARGE: i32 = 4;
/// The user name of a credential that names none. Forges ask for any name beside a token.
const TOKEN_USER: &str = "x-access-token";
/// The variables with a credential, which git's helper prints.
const CREDENTIAL: [&str; 2] = ["SURETY_GIT_USER", "SURETY_GIT_PASSWORD"];
const CREDENTIAL_HELPER: &str = "!credential() { test \\\"$1\\\" = get && printf 'username=%s\\\\npassword=%s\\\\n' \
     \\\"$SURETY_GIT_USER\\\" \\\"$SURETY_GIT_PASSWORD\\\"; }; credential";

/// What an executor allows its runs on repositories.
#[derive(Debug, Clone)]
pub struct GitHost {
    /// The beginnings of the addresses of repositories.
    pub allowed: Vec<String>,
    /// MiB of disk for one clone.
    pub disk_mib: u64,
    /// The folder of the clones.
    pub clones: PathBuf,
}

/// A user name and a password, or a token.
#[derive(Debug, Clone)]
pub(crate) struct Credential {
    user: String,
    password: Secret,
}

impl Credential {
    /// Reads `USER:PASSWORD`, or a token. None for a value that git cannot be given.
    pub(crate) fn read(value: &str) -> Option<Self> {
        if value.contains(['\n', '\r', '\0']) {
            return None;
        }
        let (user, password) = value.split_once(':').unwrap_or((TOKEN_USER, value));
        Some(Self { user: user.to_owned(), password: Secret::new(password) })
    }
}

/// git, for the clone of one run.
pub(crate) struct Git {
    pub(crate) sandbox: Sandbox,
    pub(crate) environment: Arc<Environment>,
    pub(crate) secrets: Arc<RunSecrets>,
    pub(crate) repository: Repository,
    pub(crate) credential: Option<Credential>,
    pub(crate) disk_mib: u64,
    pub(crate) cancel: CancellationToken,
    pub(crate) kill: CancellationToken,
}

/// What a call of git is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GitCall {
    /// Only files of the clone.
    Local,
    /// Reads the repository.
    Read,
    /// Writes the repository.
    Write,
}

impl Git {
    /// The references of the repository that match patterns, as git lists them.
    pub(crate) async fn list(
        &self,
        clone: &CloneFolder,
        patterns: &[String],
    ) -> Result<String, GitFailure> {
        let mut arguments = vec![self.repository.url.clone()];
        arguments.extend_from_slice(patterns);
        let finished = self.run(clone, (LIST, &arguments), GitCall::Read).await?;
        succeeded(&finished)?;
        Ok(String::from_utf8_lossy(&finished.stdout).into_owned())
    }

    /// Fetches the start and the commit to go on from, and writes the files of the latter.
    pub(crate) async fn open(
        &self,
        clone: &CloneFolder,
        (start, target): (&str, &str),
        branch: &str,
    ) -> Result<(), GitFailure> {
        let limit_kib = self.disk_mib.saturating_mul(1024).to_string();
        let arguments =
            [self.repository.url.as_str(), &limit_kib, start, target, branch].map(str::to_owned);
        let finished = self.run(clone, (OPEN, &arguments), GitCall::Read).await?;
        if finished.exit_code == TOO_LARGE {
            return Err(self.too_large());
        }
        succeeded(&finished)
    }

    /// Makes a commit of the workspace on top of `head`: the files of `from` with these changes. Answers `head` where
    /// its files are the same.
    pub(crate) async fn commit(
        &self,
        clone: &CloneFolder,
        (from, head): (&str, &str),
        (changed, message): (Changed, String),
    ) -> Result<String, GitFailure> {
        let folder = clone.path().to_owned();
        let changed = blocking(move || -> Result<Changed, ToolError> {
            let links = folder.join("links");
            make_folder(&links)?;
            for (number, added) in changed.added().iter().enumerate() {
                if let Some(target) = &added.target {
                    write(&folder.join(link_file(number)), target)?;
                }
            }
            write(&folder.join("paths.txt"), &changed.paths())?;
            write(&folder.join("message.txt"), message.as_bytes())?;
            Ok(changed)
        })
        .await??;
        let finished = self.run(clone, (HASH, &[]), GitCall::Local).await?;
        succeeded(&finished)?;
        let objects = String::from_utf8_lossy(&finished.stdout).into_owned();
        let Some(entries) = changed.entries(&objects) else {
            return Err(GitFailure::Passing("git did not store each changed file".to_owned()));
        };
        let place = clone.path().join("entries.bin");
        blocking(move || write(&place, &entries)).await??;
        let arguments = [from, head].map(str::to_owned);
        let finished = self.run(clone, (COMMIT, &arguments), GitCall::Local).await?;
        succeeded(&finished)?;
        let commit = String::from_utf8_lossy(&finished.stdout).trim().to_owned();
        if is_object_name(&commit) {
            return Ok(commit);
        }
        Err(GitFailure::Passing("git named no commit".to_owned()))
    }

    /// Moves a reference of the repository.
    pub(crate) async fn push(
        &self,
        clone: &CloneFolder,
        target: &Target,
    ) -> Result<Pushed, GitFailure> {
        let Target { reference, old, new, gone } = target;
        let mut arguments =
            [self.repository.url.as_str(), reference, old, new].map(str::to_owned).to_vec();
        if !gone.is_empty() {
            arguments.push(gone.clone());
        }
        let finished = self.run(clone, (PUSH, &arguments), GitCall::Write).await?;
        let [stdout, stderr] =
            [&finished.stdout, &finished.stderr].map(|said| String::from_utf8_lossy(said));
        read_push(reference, (finished.exit_code, &stdout, &stderr))
    }

    /// Has a commit of the repository in the clone.
    pub(crate) async fn fetch(&self, clone: &CloneFolder, commit: &str) -> Result<(), GitFailure> {
        let arguments = [self.repository.url.as_str(), commit].map(str::to_owned);
        succeeded(&self.run(clone, (FETCH, &arguments), GitCall::Read).await?)
    }

    /// The changed lines of each file between two commits, as git lists them.
    pub(crate) async fn difference(
        &self,
        clone: &CloneFolder,
        start: &str,
        commit: &str,
    ) -> Result<Vec<u8>, GitFailure> {
        let arguments = [start, commit].map(str::to_owned);
        let finished = self.run(clone, (DIFFERENCE, &arguments), GitCall::Local).await?;
        succeeded(&finished)?;
        Ok(finished.stdout)
    }

    /// What git is told, in place of every configuration of the machine.
    pub(crate) fn configuration(&self) -> String {
        let mut text = "[safe]\n\tdirectory = *\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n\
             [advice]\n\tdetachedHead = false\n[init]\n\tdefaultBranch = main\n\
             [core]\n\tautocrlf = false\n\tprotectHFS = false\n\tprotectNTFS = false\n\
             [credential]\n\thelper =\n[protocol]\n\tallow = never\n"
            .to_owned();
        let Ok(remote) = remote_of(&self.repository.url) else { return text };
        let scheme = match remote.scheme {
            RepositoryScheme::Https => "https",
            RepositoryScheme::Http => "http",
            RepositoryScheme::File => "file",
        };
        text.push_str(&format!("[protocol \"{scheme}\"]\n\tallow = always\n"));
        if self.credential.is_some() {
            let end = self.repository.url.len() - remote.path.len();
            let origin = self.repository.url.get(..end).unwrap_or_default();
            text.push_str(&format!(
                "[credential \"{origin}\"]\n\thelper = \"{CREDENTIAL_HELPER}\"\n"
            ));
        }
        text
    }

    async fn run(
        &self,
        clone: &CloneFolder,
        (script, arguments): (&str, &[String]),
        call: GitCall,
    ) -> Result<Finished, GitFailure> {
        let mut environment = Environment::clone(&self.environment);
        if let Some(Credential { user, password }) = &self.credential
            && call != GitCall::Local
        {
            let [name, secret] = CREDENTIAL;
            environment = environment.holding(name, user).holding(secret, password.expose());
        }
        let mut argv = ["sh", "-c"].map(str::to_owned).to_vec();
        argv.extend([format!("{COMMON}{script}"), "git".to_owned(), text(clone.path())?]);
        argv.extend_from_slice(arguments);
        let context = ToolContext {
            folder: Arc::new(Folder::given(clone.path().to_owned())),
            write_scope: Arc::new(WriteScope::whole()),
            environment: Arc::clone(&self.environment),
            sandbox: Arc::new(self.confined(call)),
            view: None,
            call_id: Uuid::now_v7(),
            shell_allowed: true,
            verify_tools: Arc::default(),
            secrets: Arc::clone(&self.secrets),
            servers: crate::tool::RunServers::default(),
            forge: crate::tool::RunForge::default(),
            deadline: Instant::now() + TIME_LIMIT,
            cancel: self.cancel.clone(),
            kill: self.kill.clone(),
        };
        let command = Command::Argv(argv);
        let request = CommandRequest { command, folder: clone.path().to_owned(), environment };
        let finished = process::run(&context, &request).await?;
        self.judge(call, finished)
    }

    /// A call that was ended from outside is no answer of git.
    fn judge(&self, call: GitCall, mut finished: Finished) -> Result<Finished, GitFailure> {
        self.conceal(&mut finished.stderr);
        if call == GitCall::Write {
            self.conceal(&mut finished.stdout);
        }
        match (finished.ending, finished.limit) {
            (Ending::Cancel, _) => return Err(ToolError::called_off().into()),
            (Ending::Itself, Some(LimitHit::Disk | LimitHit::DiskFiles)) => {
                return Err(self.too_large());
            }
            (Ending::Deadline, _) => {
                let limit_s = TIME_LIMIT.as_secs();
                return Err(GitFailure::Passing(format!("git took more than {limit_s} s")));
            }
            (Ending::Itself, _) => {}
        }
        if let Some(host) = finished.hosts_refused.first() {
            let why =
                format!("the address leads to {host}, which is another host or a private address");
            return Err(GitFailure::Final(FaultCode::RepositoryRefused, why));
        }
        Ok(finished)
    }

    /// Takes the password alone out of what git says: the executor's redactor knows it with the user name.
    fn conceal(&self, said: &mut Vec<u8>) {
        let Some(credential) = &self.credential else { return };
        if credential.password.expose().len() < SHORTEST_SECRET {
            return;
        }
        let redactor =
            Redactor::new([(self.repository.secret.as_str(), credential.password.expose())]);
        if let Some(without) = redactor.redacted(said) {
            *said = without;
        }
    }

    fn too_large(&self) -> GitFailure {
        let why = format!(
            "the clone needs more than {} MiB; its operator raises SURETY_EXECUTOR_REPOSITORY_MIB",
            self.disk_mib
        );
        GitFailure::Final(FaultCode::RepositoryTooLarge, why)
    }

    /// The sandbox of one call: it reaches the host of the repository alone, or the folder.
    fn confined(&self, call: GitCall) -> Sandbox {
        let limit = self.disk_mib.saturating_mul(1 << 20);
        let sandbox = self.sandbox.with_disk(limit);
        let Ok(remote) = remote_of(&self.repository.url) else { return sandbox };
        let folder = || PathBuf::from(Path::new(remote.path));
        match (call, remote.scheme) {
            (GitCall::Local, _) => sandbox,
            (GitCall::Read, RepositoryScheme::File) => sandbox.reading([folder()]),
            (GitCall::Write, RepositoryScheme::File) => sandbox.writing([folder()]),
            (GitCall::Read | GitCall::Write, RepositoryScheme::Https | RepositoryScheme::Http) => {
                sandbox.on_network(network(&remote))
            }
        }
    }
}

/// The host of the repository alone.
fn network(remote: &RepositoryRemote<'_>) -> NetworkPolicy {
    let own = match remote.scheme {
        RepositoryScheme::Http => 80,
        RepositoryScheme::Https | RepositoryScheme::File => 443,
    };
    let port = remote.port.unwrap_or(own);
    let is_loopback =
        remote.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    if is_loopback {
        // Programs reach the loopback without the proxy.
        return NetworkPolicy::HostLoopback(vec![port]);
    }
    let host = AllowedHost { name: remote.host.to_owned(), port: Some(port) };
    NetworkPolicy::Hosts(vec![host])
}

fn succeeded(finished: &Finished) -> Result<(), GitFailure> {
    match finished.exit_code {
        0 => Ok(()),
        _ => Err(GitFailure::of(&String::from_utf8_lossy(&finished.stderr))),
    }
}

fn make_folder(path: &Path) -> Result<(), ToolError> {
    crate::scratch::make(path).map_err(|error| ToolError::io(path.display(), &error))
}

fn write(path: &Path, content: &[u8]) -> Result<(), ToolError> {
    fs::write(path, content).map_err(|error| ToolError::io(path.display(), &error))
}
