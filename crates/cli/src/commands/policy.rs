//! `surety policy show|set`

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use surety_common::config::ClientConfig;
use surety_common::domain::check::{AcceptCheck, Author, read_checks};
use surety_common::domain::command::command_line;
use surety_common::domain::json::Value;
use surety_common::domain::tool_workers::{ENTRY_KEYS, read_entries};
use surety_common::domain::verify_tool::read_line;
use surety_common::wire::v1;

use crate::connection::{Connection, bounded};
use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::plan_file::{IN_DOUBT, folder_of, know_checks, read_beside, read_value_at, resolve};
use crate::text::{day_and_time, harmless, one_line};
use crate::wire_json;

/// Shows and sets what a namespace asks of every run.
#[derive(Debug, Args)]
pub struct Policy {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Show the policy of a namespace.
    Show {
        /// The namespace.
        #[arg(value_name = "NAMESPACE", default_value = "default")]
        namespace: String,

        #[command(flatten)]
        client: Box<ClientConfig>,
    },
    /// Change keys of a namespace's policy; keys that are not named stay as they are.
    Set(Box<Set>),
}

#[derive(Debug, Args)]
struct Set {
    /// The namespace.
    #[arg(value_name = "NAMESPACE")]
    namespace: String,

    /// The highest value of a limit, such as max_run_rounds=100; without a value the ceiling is taken away.
    #[arg(long, value_name = "LIMIT=VALUE", value_parser = read_ceiling)]
    ceiling: Vec<(String, Option<u64>)>,

    /// Whether the commands of checks are always run by the runner itself.
    #[arg(long, value_name = "true|false")]
    refuse_receipts_only: Option<bool>,

    /// Whether no run may declare commands that are safe to run again.
    #[arg(long, value_name = "true|false")]
    refuse_repeatable_commands: Option<bool>,

    /// Whether commands reach no network: a run's `network` may only be `none`.
    #[arg(long, value_name = "true|false")]
    refuse_network: Option<bool>,

    /// Whether commands always run in a sandbox: `sandbox: none` is refused.
    #[arg(long, value_name = "true|false")]
    refuse_unsandboxed: Option<bool>,

    /// Whether commands of every run need the sandbox's level full.
    #[arg(long, value_name = "true|false")]
    require_full_sandbox: Option<bool>,

    /// Whether a verdict that rests on checks of the plan alone is refused.
    #[arg(long, value_name = "true|false")]
    require_independent: Option<bool>,

    /// The folders of executors in which workspaces lie, absolute paths separated by colons; empty allows
    /// every folder.
    #[arg(long, value_name = "FOLDERS")]
    workspace_roots: Option<String>,

    /// Whether the creator of a run may not answer what its verdict is in doubt about.
    #[arg(long, value_name = "true|false")]
    four_eyes: Option<bool>,

    /// The most lenient `in_doubt` of a run: refuse, ask or allow; empty allows every one.
    #[arg(long, value_name = "VALUE", value_parser = read_in_doubt)]
    in_doubt: Option<v1::InDoubt>,

    /// The cautions that refuse in every run, separated by commas; empty is none beside the default ones.
    #[arg(long, value_name = "CAUTIONS")]
    refuse_on: Option<String>,
    /// A glob of check inputs of every run; repeat it for more. All are replaced; an empty one takes them away.
    #[arg(long, value_name = "GLOB")]
    protect: Vec<String>,

    /// Whether no run may name check inputs that it changes.
    #[arg(long, value_name = "true|false")]
    refuse_may_change: Option<bool>,

    /// A glob that bounds what runs may change; repeat it for more. All are replaced; an empty one takes them away.
    #[arg(long, value_name = "GLOB")]
    may_change_within: Vec<String>,

    /// A line that prepares the view of every run's checks, such as `npm ci`; repeat it for more. All are replaced; an
    /// empty one takes them away.
    #[arg(long, value_name = "LINE")]
    prepare: Vec<String>,

    /// A verification command of every run, such as `lint=npm run lint` or `types=tsc --project {scope}`: one program
    /// with its arguments, without a shell; repeat it for more. All are replaced; an empty one takes them away.
    #[arg(long, value_name = "NAME=COMMAND", value_parser = read_verify_tool)]
    verify_tool: Vec<Option<v1::VerifyTool>>,

    /// A tool of which each call needs a confirmation in every run, such as run_command or `write_*`; repeat it for
    /// more. All are replaced; an empty one takes them away.
    #[arg(long, value_name = "TOOL")]
    confirm_tools: Vec<String>,

    /// Whether calls of every tool that may destroy data need a confirmation.
    #[arg(long, value_name = "true|false")]
    confirm_destructive: Option<bool>,

    /// Whether calls of every tool with effects outside the workspace need a confirmation.
    #[arg(long, value_name = "true|false")]
    confirm_open_world: Option<bool>,

    /// The file with the checks of every run, a list in YAML or JSON; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    checks: Option<PathBuf>,

    /// The file that says which identities may serve which tools as workers, a list in YAML or JSON; `-` is standard
    /// input.
    #[arg(long, value_name = "FILE")]
    tool_workers: Option<PathBuf>,

    #[command(flatten)]
    client: ClientConfig,
}

impl Policy {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        match self.command {
            PolicyCommand::Show { namespace, client } => show(&client, namespace, output).await,
            PolicyCommand::Set(set) => set.run(output).await,
        }
    }
}

async fn read(
    connection: &Connection,
    namespace: &str,
) -> Result<v1::GetNamespacePolicyResponse, Failure> {
    let request = v1::GetNamespacePolicyRequest { namespace: namespace.to_owned() };
    let answer = connection.admin().get_namespace_policy(bounded(request)).await;
    Ok(answer.map_err(|status| connection.failure(&status))?.into_inner())
}

async fn show(client: &ClientConfig, namespace: String, output: Output) -> Result<Exit, Failure> {
    let connection = Connection::open(client)?;
    let found = read(&connection, &namespace).await?;
    output.either(&wire_json::message("GetNamespacePolicyResponse", &found), || {
        let head = match found.version {
            0 => format!("namespace {} has no policy of its own", harmless(&namespace)),
            version => format!(
                "namespace {}, version {version}, set by {} at {}",
                harmless(&namespace),
                harmless(&found.updated_by),
                day_and_time(found.updated_at.as_ref())
            ),
        };
        format!("{head}\n{}", as_text(&found.policy.clone().unwrap_or_default()))
    })?;
    Ok(Exit::Done)
}

impl Set {
    async fn run(self, output: Output) -> Result<Exit, Failure> {
        let connection = Connection::open(&self.client)?;
        let found = read(&connection, &self.namespace).await?;
        let expected_version = Some(found.version);
        let namespace = self.namespace.clone();
        let policy = Some(self.applied(found.policy.unwrap_or_default())?);
        let request = v1::SetNamespacePolicyRequest {
            namespace,
            policy,
            expected_version,
            ..Default::default()
        };
        let answer = connection.admin().set_namespace_policy(bounded(request)).await;
        let stored = answer.map_err(|status| connection.failure(&status))?.into_inner();
        output.either(&wire_json::message("SetNamespacePolicyResponse", &stored), || {
            let policy = as_text(&stored.policy.clone().unwrap_or_default());
            format!("version {}\n{policy}", stored.version)
        })?;
        Ok(Exit::Done)
    }

    fn applied(self, mut policy: v1::NamespacePolicy) -> Result<v1::NamespacePolicy, Failure> {
        for (name, value) in self.ceiling {
            match value {
                Some(value) => policy.ceilings.insert(name, value),
                None => policy.ceilings.remove(&name),
            };
        }
        for (key, asked) in [
            (&mut policy.refuse_receipts_only, self.refuse_receipts_only),
            (&mut policy.refuse_repeatable_commands, self.refuse_repeatable_commands),
            (&mut policy.refuse_network, self.refuse_network),
            (&mut policy.refuse_unsandboxed, self.refuse_unsandboxed),
            (&mut policy.require_full_sandbox, self.require_full_sandbox),
            (&mut policy.require_independent, self.require_independent),
            (&mut policy.four_eyes, self.four_eyes),
            (&mut policy.refuse_may_change, self.refuse_may_change),
            (&mut policy.confirm_destructive, self.confirm_destructive),
            (&mut policy.confirm_open_world, self.confirm_open_world),
        ] {
            *key = asked.unwrap_or(*key);
        }
        if let Some(roots) = self.workspace_roots {
            let named = roots.split(':').filter(|root| !root.is_empty());
            policy.workspace_roots = named.map(str::to_owned).collect();
        }
        if let Some(most) = self.in_doubt {
            policy.set_in_doubt(most);
        }
        if let Some(codes) = self.refuse_on {
            let codes = codes.split(',').map(str::trim).filter(|code| !code.is_empty());
            policy.refuse_on = codes.map(str::to_owned).collect();
        }
        for (key, asked) in [
            (&mut policy.protect, self.protect),
            (&mut policy.may_change_within, self.may_change_within),
            (&mut policy.prepare, self.prepare),
            (&mut policy.confirm_tools, self.confirm_tools),
        ] {
            if !asked.is_empty() {
                *key = asked.into_iter().filter(|glob| !glob.is_empty()).collect();
            }
        }
        if !self.verify_tool.is_empty() {
            policy.verify_tools = self.verify_tool.into_iter().flatten().collect();
        }
        if let Some(file) = self.checks {
            let mut value = read_value_at(&file)?;
            let checks = know_checks(&value, "checks").and_then(|()| {
                resolve(&mut value, &|path| read_beside(folder_of(&file), path))?;
                checks_of(&value)
            });
            policy.checks = checks.map_err(|failure| failure.in_file(&file))?;
        }
        if let Some(file) = self.tool_workers {
            policy.tool_workers =
                tool_workers_of(read_value_at(&file)?).map_err(|failure| failure.in_file(&file))?;
        }
        Ok(policy)
    }
}

fn checks_of(value: &Value) -> Result<Vec<v1::AcceptCheck>, Failure> {
    if value.as_array().is_none() && !value.is_null() {
        let message = "the file holds no list of checks";
        return Err(Failure::new(Code::ValueInvalid, message, "Write a list, one check an item."));
    }
    let (checks, _) = read_checks(value, "checks", Author::Operator)?;
    Ok(checks.into_iter().map(sent).collect())
}

fn tool_workers_of(value: Value) -> Result<Vec<v1::ToolWorkerPolicy>, Failure> {
    let refused = |message: String| {
        let advice = format!("Write a list, one tool an item, with {}.", ENTRY_KEYS.join(", "));
        Failure::new(Code::ValueInvalid, message, advice)
    };
    let entries = value.as_array().unwrap_or_default();
    if value.as_array().is_none() && !value.is_null() {
        return Err(refused("the file holds no list of tools".to_owned()));
    }
    for (place, entry) in entries.iter().enumerate() {
        let Some(members) = entry.as_object() else {
            return Err(refused(format!("item {place} of the file is no object")));
        };
        let known = |key: &str| ENTRY_KEYS.contains(&key);
        if let Some((key, _)) = members.iter().find(|(key, _)| !known(key)) {
            return Err(refused(format!("item {place} of the file has the unknown key {key:?}")));
        }
    }
    let policy = Value::Object(vec![("tool_workers".to_owned(), value)]);
    Ok(read_entries(&policy).into_iter().map(Into::into).collect())
}

/// A check with the files of its overlay, which answers do not have.
fn sent(check: AcceptCheck) -> v1::AcceptCheck {
    let files = check.overlay.files().cloned();
    let mut sent = v1::AcceptCheck::from(check);
    if let Some(files) = files {
        sent.overlay =
            files.iter().map(|(path, content)| (path.clone(), content.clone())).collect();
        sent.overlay_digest.clear();
    }
    sent
}

fn as_text(policy: &v1::NamespacePolicy) -> String {
    let ceilings: &BTreeMap<String, u64> = &policy.ceilings;
    let mut lines: Vec<String> =
        ceilings.iter().map(|(name, value)| format!("ceilings.{name}  {value}")).collect();
    for (key, value) in [
        ("refuse_receipts_only", policy.refuse_receipts_only),
        ("refuse_repeatable_commands", policy.refuse_repeatable_commands),
        ("refuse_network", policy.refuse_network),
        ("refuse_unsandboxed", policy.refuse_unsandboxed),
        ("require_full_sandbox", policy.require_full_sandbox),
        ("require_independent", policy.require_independent),
        ("four_eyes", policy.four_eyes),
        ("refuse_may_change", policy.refuse_may_change),
        ("confirm_destructive", policy.confirm_destructive),
        ("confirm_open_world", policy.confirm_open_world),
    ] {
        lines.push(format!("{key}  {value}"));
    }
    let roots = policy.workspace_roots.iter().map(|root| harmless(root));
    lines.push(format!("workspace_roots  {}", roots.collect::<Vec<_>>().join(":")));
    let in_doubt = IN_DOUBT.iter().find(|(_, value)| *value == policy.in_doubt());
    lines
        .push(format!("in_doubt  {}", in_doubt.map_or("", |(word, _)| word)).trim_end().to_owned());
    let refuse_on = harmless(&policy.refuse_on.join(","));
    lines.push(format!("refuse_on  {refuse_on}").trim_end().to_owned());
    for (key, globs) in [
        ("protect", &policy.protect),
        ("may_change_within", &policy.may_change_within),
        ("confirm_tools", &policy.confirm_tools),
    ] {
        let globs = globs.iter().map(|glob| harmless(glob));
        lines.push(format!("{key}  {}", globs.collect::<Vec<_>>().join(" ")));
    }
    lines.extend(policy.prepare.iter().map(|line| format!("prepare  {}", one_line(line))));
    for entry in &policy.tool_workers {
        let identities = entry.identities.join(",");
        lines.push(one_line(&format!("tool_workers  {}  {identities}", entry.tool)));
    }
    let tool = |tool: &v1::VerifyTool| {
        one_line(&format!("verify_tool  {}  {}", tool.name, command_line(&tool.argv)))
    };
    lines.extend(policy.verify_tools.iter().map(tool));
    lines.push(format!("checks  {}", policy.checks.len()));
    let check = |check: &v1::AcceptCheck| one_line(&format!("  {} {}", check.kind, check.target));
    lines.extend(policy.checks.iter().map(check));
    lines.join("\n")
}

/// A limit's name and its ceiling; `NAME=` takes the ceiling away.
fn read_ceiling(text: &str) -> Result<(String, Option<u64>), String> {
    let refused = || format!("{text:?} is no ceiling; write it as max_run_rounds=100");
    let (name, value) = text.split_once('=').ok_or_else(refused)?;
    if value.is_empty() {
        return Ok((name.to_owned(), None));
    }
    let value = value.parse().map_err(|_| refused())?;
    Ok((name.to_owned(), Some(value)))
}

/// A verification command with its name; an empty text is none.
fn read_verify_tool(text: &str) -> Result<Option<v1::VerifyTool>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let refused = || format!("{text:?} names no command; write it as lint=npm run lint");
    let (name, line) = text.split_once('=').ok_or_else(refused)?;
    let argv = read_line(line).map_err(|why| format!("{line:?} is no command: {why}"))?;
    Ok(Some(v1::VerifyTool { name: name.to_owned(), argv, timeout: None }))
}

/// The most lenient `in_doubt`; an empty text takes the ceiling away.
fn read_in_doubt(text: &str) -> Result<v1::InDoubt, String> {
    if text.is_empty() {
        return Ok(v1::InDoubt::Unspecified);
    }
    let found = IN_DOUBT.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
    found.ok_or_else(|| format!("{text:?} is none of ask, refuse, allow"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_is_set_or_taken_away() {
        assert_eq!(read_ceiling("max_replans=0"), Ok(("max_replans".to_owned(), Some(0))));
        assert_eq!(read_ceiling("max_replans="), Ok(("max_replans".to_owned(), None)));
        for text in ["max_replans", "max_replans=many", "max_replans=-1"] {
            assert!(read_ceiling(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_verification_command_is_one_program() {
        let read = read_verify_tool("lint=npm run 'a b' {scope}").unwrap().unwrap();
        assert_eq!((read.name.as_str(), read.argv.len()), ("lint", 4));
        assert_eq!(read_verify_tool(""), Ok(None));
        for text in ["lint", "lint=", "lint=a | b"] {
            assert!(read_verify_tool(text).is_err(), "{text}");
        }
    }
}
