//! The forges of the configuration: which account acts for which repository.

use crate::account::{ForgeAccount, Token};
use crate::clients::Clients;
use crate::error::{ForgeError, ForgeErrorCode};
use crate::forge::Forge;
use crate::observer::CallTelemetry;
use crate::probe::{ProbeAnswer, ask, own_part};
use crate::process::Times;
use chrono::{DateTime, Utc};
use futures::future::BoxFuture;
use globset::{GlobBuilder, GlobMatcher};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use surety_common::config::{ForgeCredential, ForgeSettings, ForgesFile, Secret};
use surety_common::domain::toolchain::{
    Forge as ForgeKind, NotAsked, ProbeMode, ProbeQuestion, TaskPayload, repository_of,
};
use tokio::sync::OnceCell;

/// What the names of credentials of the forges file begin with. The name of a configured secret has no slash.
const CLONE_SECRET: &str = "forges-file/";
/// What a credential is read for.
const CLONE: &str = "clone";

/// Where a repository is cloned from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloneSource {
    /// The address.
    pub url: String,
    /// The name of the agent's credential in the forges file; none where the file has none.
    pub secret: Option<String>,
    /// Whether the address is reached with a credential.
    pub takes_credential: bool,
}

/// An account of the service.
pub enum ServiceAccount<'a> {
    /// It is known.
    Known(&'a str),
    /// The forge with this name is to be asked for it; none where it does not say.
    Asked(&'a str, BoxFuture<'a, Option<String>>),
}

/// The forges of a process, with their clients.
#[derive(Debug, Clone, Default)]
pub struct Forges {
    known: Arc<Vec<Known>>,
    /// None where no forge is configured.
    clients: Option<Clients>,
}

struct Known {
    settings: ForgeSettings,
    globs: Vec<(usize, GlobMatcher)>,
    service: Arc<dyn Forge>,
    /// The account of `service`, once it is known.
    own_account: OnceCell<String>,
    /// By agent.
    agents: BTreeMap<String, Agent>,
}

struct Agent {
    credential: ForgeCredential,
    forge: Arc<dyn Forge>,
}

/// What the forge shows of a task, and what follows from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probed {
    /// Whether a failure refuses the task, or is recorded only.
    pub mode: ProbeMode,
    /// The answer.
    pub answer: ProbeAnswer,
}

/// What a failure does, the client that asks, and the question.
type ToAsk = (ProbeMode, Arc<dyn Forge>, ProbeQuestion);

impl Forges {
    /// Opens a client for each account of the file. No forge is asked.
    ///
    /// # Errors
    /// `config_invalid` for an address or a glob that cannot be used.
    pub fn open(file: &ForgesFile) -> Result<Self, ForgeError> {
        if file.forges.is_empty() {
            // To make clients reads all authorities of the machine.
            return Ok(Self::default());
        }
        let clients = Clients::new(Arc::new(CallTelemetry), Times::default())?;
        Self::open_with(file, &clients)
    }

    /// As [`Self::open`], with these clients.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with(file: &ForgesFile, clients: &Clients) -> Result<Self, ForgeError> {
        let known = |settings: &ForgeSettings| {
            let open = |account: Option<&str>, credential_file: &Path| {
                clients.open(account_of(settings, (account, credential_file)))
            };
            let of_forge = file.agents.iter().filter(|it| it.forge == settings.name);
            let agents = of_forge.map(|credential| {
                let forge = open(Some(&credential.account), &credential.credential_file)?;
                Ok((credential.agent.clone(), Agent { credential: credential.clone(), forge }))
            });
            Ok(Known {
                globs: settings.repositories.iter().filter_map(|glob| matcher(glob)).collect(),
                service: open(settings.account.as_deref(), &settings.credential_file)?,
                own_account: OnceCell::new(),
                agents: agents.collect::<Result<_, ForgeError>>()?,
                settings: settings.clone(),
            })
        };
        let known: Result<Vec<Known>, ForgeError> = file.forges.iter().map(known).collect();
        Ok(Self { known: Arc::new(known?), clients: Some(clients.clone()) })
    }

    /// Whether no forge is configured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The forge of a repository as the service's account sees it; of several, the one with the longest glob.
    #[must_use]
    pub fn service(&self, kind: ForgeKind, repo: &str) -> Option<(&ForgeSettings, Arc<dyn Forge>)> {
        let known = self.of(kind, repo)?;
        Some((&known.settings, Arc::clone(&known.service)))
    }

    /// The accounts of the service on the forges of a kind. A forge is asked once where its settings do not name the
    /// account, and again where it did not answer.
    #[must_use]
    pub fn own_accounts(&self, kind: ForgeKind) -> Vec<ServiceAccount<'_>> {
        let of_kind = self.known.iter().filter(|known| known.settings.kind == kind);
        of_kind.map(Known::own_account).collect()
    }

    /// The addresses of the forges of a kind.
    #[must_use]
    pub fn servers(&self, kind: ForgeKind) -> Vec<String> {
        let of_kind = self.known.iter().filter(|known| known.settings.kind == kind);
        of_kind.map(|known| known.settings.url.clone()).collect()
    }

    /// The forge of a repository as an agent's own account sees it, by the agent's id or its account.
    #[must_use]
    pub fn of_agent(&self, kind: ForgeKind, repo: &str, assignee: &str) -> Option<Arc<dyn Forge>> {
        let known = self.of(kind, repo)?;
        Some(Arc::clone(&known.agent(assignee)?.forge))
    }

    /// The forge of a repository as another account sees it, whose token is in a file; none where no forge is configured
    /// for it.
    ///
    /// # Errors
    /// `config_invalid` for an address that cannot be used.
    pub fn with_credential(
        &self,
        kind: ForgeKind,
        repo: &str,
        (account, credential_file): (&str, &Path),
    ) -> Result<Option<Arc<dyn Forge>>, ForgeError> {
        let Some((known, clients)) = self.of(kind, repo).zip(self.clients.as_ref()) else {
            return Ok(None);
        };
        let account = Some(account).filter(|account| !account.is_empty());
        clients.open(account_of(&known.settings, (account, credential_file))).map(Some)
    }

    /// Where the repository of a task is cloned from by an agent; none where its forge names no address for clones.
    #[must_use]
    pub fn clone_source(&self, kind: ForgeKind, repo: &str, agent: &str) -> Option<CloneSource> {
        let known = self.of(kind, repo)?;
        let base = known.settings.clone_url.as_deref()?;
        let is_folder = base.starts_with("file://");
        let of_file = known.agent(agent).filter(|_| !is_folder);
        Some(CloneSource {
            url: format!("{base}/{repo}.git"),
            secret: of_file.map(|agent| clone_secret(&agent.credential)),
            takes_credential: !is_folder,
        })
    }

    /// The credential with a name of [`Self::clone_source`], read from its file now; none for a name of another kind. It
    /// blocks.
    ///
    /// # Errors
    /// `credential_unreadable`, and for a name that the file has no more.
    pub fn clone_credential(&self, name: &str) -> Option<Result<Secret, ForgeError>> {
        if !name.starts_with(CLONE_SECRET) {
            return None;
        }
        let mut agents = self.known.iter().flat_map(|known| {
            known.agents.values().map(move |agent| (&known.settings, &agent.credential))
        });
        let found = agents.find(|(_, credential)| clone_secret(credential) == name);
        let Some((settings, credential)) = found else {
            let message =
                "the forges file has no such credential of an agent; add [agents.ID.FORGE]";
            let code = ForgeErrorCode::CredentialUnreadable;
            return Some(Err(ForgeError::new(code, "", CLONE, message.to_owned())));
        };
        let account =
            account_of(settings, (Some(&credential.account), &credential.credential_file));
        Some(account.token(CLONE).map(Token::into_secret))
    }

    /// Whether the gate asks the forge of a repository about tasks.
    #[must_use]
    pub fn probe_mode(&self, kind: ForgeKind, repo: &str) -> ProbeMode {
        self.of(kind, repo).map_or(ProbeMode::Off, |known| known.settings.probe)
    }

    /// The account of an agent on the forge of a repository; none where the file has no credential of it.
    #[must_use]
    pub fn account_of_agent(&self, kind: ForgeKind, repo: &str, agent: &str) -> Option<&str> {
        let agent = self.of(kind, repo)?.agents.get(agent)?;
        Some(agent.credential.account.as_str())
    }

    /// The agent with an account on the forge of a repository; none where the file has no credential of it.
    #[must_use]
    pub fn agent_of_account(&self, kind: ForgeKind, repo: &str, account: &str) -> Option<&str> {
        let agent = self.of(kind, repo)?.with_account(account)?;
        Some(agent.credential.agent.as_str())
    }

    /// Asks the forge, by the service's account, what it shows of a task of these accounts. `since` is the forge's time
    /// of the event.
    pub async fn probe(
        &self,
        payload: &TaskPayload,
        accounts: &[String],
        since: DateTime<Utc>,
    ) -> Probed {
        match self.question(payload, accounts, since) {
            Ok((mode, forge, question)) => {
                Probed { mode, answer: ask(forge.as_ref(), &question).await }
            }
            Err((mode, reason)) => Probed { mode, answer: ProbeAnswer::NotAsked(reason) },
        }
    }

    /// Asks the forge, by the service's account, whether the own part of a task of these accounts holds and only CI or a
    /// reviewer is missing. None where it is not asked, or does not say.
    pub async fn own_part(
        &self,
        payload: &TaskPayload,
        accounts: &[String],
        since: DateTime<Utc>,
    ) -> Option<bool> {
        let (_, forge, question) = self.question(payload, accounts, since).ok()?;
        own_part(forge.as_ref(), &question).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "forge: whether a task waits for CI or a reviewer is not known; its assignee's word counts");
            None
        })
    }

    /// The question about a task, and the client that asks it.
    fn question(
        &self,
        payload: &TaskPayload,
        accounts: &[String],
        since: DateTime<Utc>,
    ) -> Result<ToAsk, (ProbeMode, NotAsked)> {
        let repo = repository_of(payload).ok_or((ProbeMode::Off, NotAsked::SubjectUnknown))?;
        let kind = ForgeKind::from_text(&payload.source);
        let (settings, forge) = kind
            .and_then(|kind| self.service(kind, &repo))
            .ok_or((ProbeMode::Off, NotAsked::NotConfigured))?;
        let mode = settings.probe;
        if mode == ProbeMode::Off {
            return Err((mode, NotAsked::NotConfigured));
        }
        let question =
            ProbeQuestion::of(payload, accounts, since).map_err(|reason| (mode, reason))?;
        Ok((mode, forge, question))
    }

    fn of(&self, kind: ForgeKind, repo: &str) -> Option<&Known> {
        let length = |known: &Known| {
            let fits = known.globs.iter().filter(|(_, glob)| glob.is_match(repo));
            fits.map(|(length, _)| *length).max()
        };
        let of_kind = self.known.iter().filter(|known| known.settings.kind == kind);
        let fitting = of_kind.filter_map(|known| Some((length(known)?, known)));
        // Of equally long globs the first by name.
        fitting.rev().max_by_key(|(length, _)| *length).map(|(_, known)| known)
    }
}

impl Known {
    fn own_account(&self) -> ServiceAccount<'_> {
        let named = self.settings.account.as_deref();
        if let Some(account) = named.or_else(|| self.own_account.get().map(String::as_str)) {
            return ServiceAccount::Known(account);
        }
        let asking = async {
            match self.own_account.get_or_try_init(|| self.service.current_user()).await {
                Ok(account) => Some(account.clone()),
                Err(error) => {
                    tracing::warn!(
                        forge = self.settings.name, %error,
                        "forge: the account of the service is not known; set `account` of the forge, so that its own \
                         comments are ignored"
                    );
                    None
                }
            }
        };
        ServiceAccount::Asked(&self.settings.name, Box::pin(asking))
    }

    fn agent(&self, assignee: &str) -> Option<&Agent> {
        self.agents.get(assignee).or_else(|| self.with_account(assignee))
    }

    fn with_account(&self, account: &str) -> Option<&Agent> {
        let mut agents = self.agents.values();
        agents.find(|agent| agent.credential.account.eq_ignore_ascii_case(account))
    }
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Known").field("settings", &self.settings).finish_non_exhaustive()
    }
}

fn clone_secret(credential: &ForgeCredential) -> String {
    format!("{CLONE_SECRET}{}/{}", credential.forge, credential.agent)
}

fn account_of(
    settings: &ForgeSettings,
    (account, credential_file): (Option<&str>, &Path),
) -> ForgeAccount {
    ForgeAccount {
        forge: settings.name.clone(),
        kind: settings.kind,
        url: settings.url.clone(),
        credential_file: credential_file.to_owned(),
        account: account.map(str::to_owned),
    }
}

/// The configuration has compiled each glob, so none is left out here.
fn matcher(glob: &str) -> Option<(usize, GlobMatcher)> {
    let compiled = GlobBuilder::new(glob).literal_separator(true).build().ok()?;
    Some((glob.len(), compiled.compile_matcher()))
}
