//! The file with the forges, and with the credentials of agents on them.
//!
//! ```text
//!   [forge.main]
//!   kind = "gitea"
//!   url = "https://git.example"
//!   credential_file = "/run/secrets/surety-forge"
//!   repositories = ["team/*"]
//!   probe = "required"
//!   clone_url = "https://git.example"
//!
//!   [agents.alice.main]
//!   account = "alice"
//!   credential_file = "/run/secrets/alice-forge"
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use globset::GlobBuilder;
use serde::Deserialize;

use super::error::ConfigError;
use crate::domain::repository::{RepositoryScheme, read_repository, remote_of};
use crate::domain::toolchain::{Forge, ProbeMode, is_login};

/// The most forges and the most credentials of one file.
const MOST: usize = 1_024;
/// The longest name of a forge or an agent, in bytes.
const LONGEST_NAME: usize = 64;

/// A forge as its operator describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeSettings {
    /// Its name in logs, metrics and errors.
    pub name: String,
    /// Its kind.
    pub kind: Forge,
    /// The address at which people see it.
    pub url: String,
    /// The account of the service; the forge is asked where it is not named.
    pub account: Option<String>,
    /// The file with the service's token.
    pub credential_file: PathBuf,
    /// The repositories, as globs of `owner/name`; `*` stands for one part.
    pub repositories: Vec<String>,
    /// Whether the gate asks the forge about tasks.
    pub probe: ProbeMode,
    /// What stands before `/OWNER/NAME.git` in the addresses of its repositories; none where tasks get no clone.
    pub clone_url: Option<String>,
}

/// The credential of an agent on one forge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeCredential {
    /// The agent.
    pub agent: String,
    /// The forge, by its name.
    pub forge: String,
    /// The agent's account there.
    pub account: String,
    /// The file with the account's token.
    pub credential_file: PathBuf,
}

/// What a forges file holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ForgesFile {
    /// The forges, by name.
    pub forges: Vec<ForgeSettings>,
    /// The credentials of agents.
    pub agents: Vec<ForgeCredential>,
}

impl ForgesFile {
    /// The files that no command of a run may read.
    pub fn secret_files(&self) -> impl Iterator<Item = &Path> {
        let of_forges = self.forges.iter().map(|forge| forge.credential_file.as_path());
        of_forges.chain(self.agents.iter().map(|agent| agent.credential_file.as_path()))
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    forge: BTreeMap<String, RawForge>,
    #[serde(default)]
    agents: BTreeMap<String, BTreeMap<String, RawCredential>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawForge {
    kind: String,
    url: String,
    account: Option<String>,
    credential_file: PathBuf,
    repositories: Vec<String>,
    probe: Option<String>,
    clone_url: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCredential {
    account: String,
    credential_file: PathBuf,
}

/// Where a file cannot be used, and why.
type Wrong = (String, String);

/// Reads the forges in the file at `path`.
///
/// # Errors
/// The file cannot be read, does not parse, or has a key with an unusable value.
pub(super) fn read_forges(path: &Path) -> Result<ForgesFile, ConfigError> {
    let text = fs::read_to_string(path)
        .map_err(|source| ConfigError::ForgesUnreadable { path: path.to_owned(), source })?;
    read(&text).map_err(|(place, why)| ConfigError::ForgesInvalid {
        path: path.to_owned(),
        place,
        why,
    })
}

fn read(text: &str) -> Result<ForgesFile, Wrong> {
    let RawFile { forge, agents } = toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        (format!("line {line}"), format!("does not read: {}", error.message().trim()))
    })?;
    if forge.is_empty() {
        let why = "is not there: name a forge as [forge.NAME], or do not set the file";
        return Err(("forge".to_owned(), why.to_owned()));
    }
    let credentials: usize = agents.values().map(BTreeMap::len).sum();
    if forge.len() > MOST || credentials > MOST {
        let why = format!("has more than {MOST} forges or credentials; leave some out");
        return Err(("forge".to_owned(), why));
    }
    let forges: Vec<ForgeSettings> =
        forge.into_iter().map(|(name, raw)| settings(name, raw)).collect::<Result<_, _>>()?;
    let mut all = Vec::new();
    for (agent, accounts) in agents {
        for (forge, raw) in accounts {
            let at = format!("agents.{agent}.{forge}");
            let credential = credential(agent.clone(), forge, raw);
            let credential = credential.map_err(|(key, why)| (format!("{at}{key}"), why))?;
            if !forges.iter().any(|forge| forge.name == credential.forge) {
                let why = "names a forge that the file does not have; add it as [forge.NAME]";
                return Err((at, why.to_owned()));
            }
            all.push(credential);
        }
    }
    Ok(ForgesFile { forges, agents: all })
}

fn settings(name: String, raw: RawForge) -> Result<ForgeSettings, Wrong> {
    let at = format!("forge.{name}");
    let wrong = |key: &str, why: &str| (format!("{at}{key}"), why.to_owned());
    if !is_name(&name) {
        return Err(wrong("", "has a name of other characters than letters, digits, `-` and `_`"));
    }
    let kind = Forge::from_text(&raw.kind)
        .ok_or_else(|| wrong(".kind", "is none of gitea, forgejo and github"))?;
    if !["https://", "http://"].iter().any(|scheme| raw.url.starts_with(scheme)) {
        return Err(wrong(".url", "does not begin with https://; write the forge's own address"));
    }
    let probe = match raw.probe.as_deref() {
        None => ProbeMode::Required,
        Some(word) => ProbeMode::from_text(word)
            .ok_or_else(|| wrong(".probe", "is none of required, recorded and off"))?,
    };
    if raw.repositories.is_empty() {
        return Err(wrong(".repositories", "is empty; name repositories, as in [\"team/*\"]"));
    }
    for glob in &raw.repositories {
        GlobBuilder::new(glob)
            .literal_separator(true)
            .build()
            .map_err(|error| wrong(".repositories", &format!("has a wrong glob: {error}")))?;
    }
    if let Some(address) = &raw.clone_url {
        check_clone_url(address).map_err(|why| wrong(".clone_url", &why))?;
    }
    if raw.account.as_deref().is_some_and(|account| !is_login(account)) {
        return Err(wrong(".account", "is no name of an account"));
    }
    let credential_file =
        absolute(raw.credential_file).map_err(|why| wrong(".credential_file", why))?;
    let RawForge { url, account, repositories, clone_url, .. } = raw;
    let clone_url = clone_url.map(|address| address.trim_end_matches('/').to_owned());
    Ok(ForgeSettings { name, kind, url, account, credential_file, repositories, probe, clone_url })
}

/// Whether repositories can be cloned below an address, with the credentials of agents.
fn check_clone_url(address: &str) -> Result<(), String> {
    let repository = format!("{}/owner/name.git", address.trim_end_matches('/'));
    let remote = remote_of(&repository).map_err(str::to_owned)?;
    // A folder is reached without a credential.
    let secret = if remote.scheme == RepositoryScheme::File { "" } else { "credential" };
    let checked = read_repository("clone_url", (&repository, "", secret));
    checked.map(drop).map_err(|problem| problem.message)
}

fn credential(agent: String, forge: String, raw: RawCredential) -> Result<ForgeCredential, Wrong> {
    let wrong = |key: &str, why: &str| (key.to_owned(), why.to_owned());
    if !is_name(&agent) {
        return Err(wrong(
            "",
            "has an agent of other characters than letters, digits, `-` and `_`",
        ));
    }
    if !is_login(&raw.account) {
        return Err(wrong(".account", "is no name of an account"));
    }
    let credential_file =
        absolute(raw.credential_file).map_err(|why| wrong(".credential_file", why))?;
    Ok(ForgeCredential { agent, forge, account: raw.account, credential_file })
}

fn is_name(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=LONGEST_NAME).contains(&text.len()) && text.chars().all(letter)
}

fn absolute(path: PathBuf) -> Result<PathBuf, &'static str> {
    if path.is_absolute() { Ok(path) } else { Err("is no absolute path; begin it with /") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "
[forge.main]
kind = \"gitea\"
url = \"https://git.example\"
credential_file = \"/run/forge\"
repositories = [\"team/*\"]
[agents.alice.main]
account = \"alice\"
credential_file = \"/run/alice\"
";

    #[test]
    fn a_forge_has_a_credential_and_repositories() {
        let file = read(GOOD).expect("a file");
        let [main] = file.forges.as_slice() else { panic!("{file:?}") };
        assert_eq!((main.kind, main.probe), (Forge::Gitea, ProbeMode::Required));
        let [alice] = file.agents.as_slice() else { panic!("{file:?}") };
        assert_eq!((alice.agent.as_str(), alice.forge.as_str()), ("alice", "main"));
        let files: Vec<_> = file.secret_files().collect();
        assert_eq!(files, [Path::new("/run/forge"), Path::new("/run/alice")]);
    }

    #[test]
    fn a_wrong_file_is_named_by_its_key() {
        for (from, to, place) in [
            ("kind = \"gitea\"", "kind = \"gitlab\"", "forge.main.kind"),
            ("https://", "ftp://", "forge.main.url"),
            ("[\"team/*\"]", "[]", "forge.main.repositories"),
            ("[\"team/*\"]", "[\"team/[\"]", "forge.main.repositories"),
            ("[\"team/*\"]", "[\"team/*\"]\nprobe = \"maybe\"", "forge.main.probe"),
            ("[\"team/*\"]", "[\"team/*\"]\nclone_url = \"ssh://a\"", "forge.main.clone_url"),
            ("[\"team/*\"]", "[\"team/*\"]\nclone_url = \"http://a.org\"", "forge.main.clone_url"),
            ("\"/run/forge\"", "\"run/forge\"", "forge.main.credential_file"),
            ("alice.main", "alice.other", "agents.alice.other"),
            ("account = \"alice\"", "account = \"a b\"", "agents.alice.main.account"),
            ("\"/run/alice\"", "\"alice\"", "agents.alice.main.credential_file"),
            ("kind = \"gitea\"", "kind = \"gitea\"\ntoken = \"x\"", "line 4"),
            (GOOD, "", "forge"),
        ] {
            let text = GOOD.replace(from, to);
            let (found, why) = read(&text).expect_err(&text);
            assert_eq!(found, place, "{why}");
        }
    }
}
