//! *Connect a forge* of docs/toolchain.md, taken from the page and played: its commands, its forges file and the fields of its
//! hooks connect a Gitea, a Forgejo and a GitHub.

use super::Shell;
use crate::client_example::root;
use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use surety_common::domain::toolchain::Forge;
use surety_common::wire::v1;
use surety_e2e::agent::{AGENT, PERSON};
use surety_e2e::forge::{ForgeDouble, Hook};
use surety_e2e::harness::{PATIENCE, wait_until};
use surety_e2e::toolchain::delivery::{Sent, exchange, new_id, signature};
use surety_e2e::toolchain::{LOGIN, Stage};
use tokio::process::Command;

const REPO: &str = "team/app";
/// Where the page keeps its files.
const FOLDER: &str = "/etc/surety";

/// The page, as far as it is about connecting a forge.
struct Page {
    connect: String,
    forges: String,
}

impl Page {
    fn read() -> Result<Self> {
        let page = std::fs::read_to_string(root().join("docs/toolchain.md"))?;
        let section = |heading: &str, next: &str| -> Result<String> {
            let begun = page.split_once(&format!("\n{heading}\n")).context("the heading")?.1;
            Ok(begun.split_once(&format!("\n{next}")).context("its end")?.0.to_owned())
        };
        let connect = section("## Connect a forge", "### ")?;
        let forges = section("## Forges", "### ")?;
        Ok(Self { connect, forges })
    }

    /// The commands in their order.
    fn commands(&self) -> Vec<&str> {
        let mut commands = Vec::new();
        let mut is_inside = false;
        for line in self.connect.lines().map(str::trim) {
            match line {
                "```sh" => is_inside = true,
                "```" => is_inside = false,
                "" => {}
                command if is_inside => commands.push(command),
                _ => {}
            }
        }
        commands
    }

    /// The fields of the hook of a forge, by their names.
    fn fields(&self, kind: Forge) -> Result<Vec<(&str, &str)>> {
        let begin = match kind {
            Forge::Gitea | Forge::Forgejo => "**Gitea and Forgejo**",
            Forge::Github => "**GitHub**",
        };
        let part = self.connect.split_once(begin).context("the part of the forge")?.1;
        let table = part.split_once("|---|---|\n").context("its fields")?.1;
        let rows = table.lines().take_while(|line| line.starts_with('|'));
        rows.map(|row| {
            let (field, value) = row.trim_matches('|').split_once('|').context("a field")?;
            Ok((field.trim(), value.trim()))
        })
        .collect()
    }

    /// The boxes that are chosen at a forge.
    fn boxes(&self, kind: Forge) -> Result<Vec<&str>> {
        let column = match kind {
            Forge::Gitea => 2,
            Forge::Forgejo => 3,
            Forge::Github => {
                let events = value(&self.fields(kind)?, "Events")?;
                let listed = events.split_once(": ").context("the events")?.1;
                return Ok(listed.split(", ").collect());
            }
        };
        let table = self.connect.split_once("| boxes of |").context("the boxes")?.1;
        let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        let mut boxes = Vec::new();
        for row in rows {
            let cell = row.split('|').nth(column).context("a column")?;
            // The name of a group of boxes stands before a colon.
            let after = cell.split('*').skip(2).step_by(2);
            let parts = cell.split('*').skip(1).step_by(2).zip(after);
            boxes.extend(parts.filter(|(_, after)| !after.starts_with(':')).map(|(name, _)| name));
        }
        Ok(boxes)
    }

    /// The forges file for this forge.
    fn forges_file(&self, kind: Forge, double: &ForgeDouble) -> Result<String> {
        let begun = self.forges.split_once("```toml\n").context("the file")?.1;
        let mut file = begun.split_once("```").context("its end")?.0.to_owned();
        let quoted = |login| -> Result<String> {
            Ok(format!("{:?}", double.account(login)?.display().to_string()))
        };
        for (printed, own) in [
            ("\"gitea\"", format!("\"{kind}\"")),
            ("\"https://git.example\"", format!("{:?}", double.url())),
            ("\"/run/secrets/surety-forge\"", quoted("surety")?),
            ("[agents.alice.main]", format!("[agents.{AGENT}.main]")),
            ("account = \"alice\"", format!("account = \"{LOGIN}\"")),
            ("\"/run/secrets/alice-forge\"", quoted(LOGIN)?),
            // The double serves no clones.
            ("clone_url", "# clone_url".to_owned()),
        ] {
            ensure!(file.contains(printed), "{printed} is not in {file}");
            file = file.replacen(printed, &own, 1);
        }
        Ok(file)
    }
}

fn value<'a>(fields: &[(&'a str, &'a str)], name: &str) -> Result<&'a str> {
    let found = fields.iter().find(|(field, _)| *field == name);
    Ok(found.with_context(|| format!("no field {name}"))?.1)
}

/// What the commands that begin with `export` set, once all commands of the shell were executed in the folder.
async fn exported(commands: &[&str], folder: &Path) -> Result<Vec<(String, String)>> {
    let folder = folder.to_str().context("a path")?;
    let script = commands.join("\n").replace(FOLDER, folder);
    let mut shown = String::new();
    let mut names = Vec::new();
    for command in commands {
        if let Some((name, _)) = command.strip_prefix("export ").and_then(|it| it.split_once('=')) {
            write!(shown, "\nprintf '%s\\n' \"${name}\"")?;
            names.push(name.to_owned());
        }
    }
    let ran = Command::new("bash")
        .args(["-eu", "-c", &format!("{script}{shown}")])
        .stdin(Stdio::null())
        .output()
        .await?;
    ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let values = String::from_utf8(ran.stdout)?;
    Ok(names.into_iter().zip(values.lines().map(str::to_owned)).collect())
}

fn as_words(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// Waits until `surety webhooks list` shows the delivery with which a forge tests its hook.
async fn is_listed(person: &Shell, words: &[&str], wanted: &str) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let listed = person.text(words).await?;
        let is_shown =
            |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ").contains(wanted);
        if listed.lines().any(is_shown) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{wanted} is not in {listed}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Sends the delivery with which a forge tests its hook.
async fn is_tested(
    stage: &Stage,
    kind: Forge,
    (path, (event, content_type, secret)): (&str, (&str, &str, &str)),
) -> Result<()> {
    let (body, name) = (b"{}".to_vec(), kind.as_str());
    let names = ["delivery", "event", "signature"].map(|it| format!("x-{name}-{it}"));
    let [delivery, of_event, signed] = names.each_ref().map(String::as_str);
    let tag = signature(secret, &body);
    let headers = vec![
        ("content-type", content_type.to_owned()),
        (delivery, new_id()),
        (of_event, event.to_owned()),
        (signed, tag.clone()),
        ("x-hub-signature-256", format!("sha256={tag}")),
    ];
    let test = Sent { path, headers, body };
    let answer = exchange(stage.deployment.planner.address(), &test.to_bytes()).await?;
    ensure!(answer.status == 202, "{kind}: {answer:?}");
    Ok(())
}

/// What happens on the forge is a task of the agent, and the service asks the forge and writes on it.
async fn becomes_a_task(stage: &Stage, double: &ForgeDouble, kind: Forge) -> Result<()> {
    let number = double.change(|state| {
        let texts = ("The list is slow", "It takes a minute.");
        state.open_issue(REPO, "alice", texts, (vec![LOGIN.to_owned()], Vec::new()))
    });
    let number = number.context("an issue")?;
    let deadline = Instant::now() + PATIENCE;
    let task = loop {
        let request = v1::ListTasksRequest { page_size: 10, ..Default::default() };
        let listed = stage.tasks(PERSON)?.list_tasks(request).await?.into_inner().tasks;
        if let Some(task) = listed.into_iter().next() {
            break task;
        }
        ensure!(Instant::now() < deadline, "{kind}: no task in time");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    ensure!(task.assignee == AGENT && task.number == Some(number), "{kind}: {task:#?}");
    let answer =
        stage.report(AGENT, &task.run_id, "Opened a pull request for src/list.rs.").await?;
    ensure!(!answer.accepted && answer.reason.contains("no_pull_request"), "{kind}: {answer:#?}");
    let commented = || {
        double.change(|state| {
            let comments = state.repo(REPO).map(|repo| repo.comments.clone()).unwrap_or_default();
            comments.iter().any(|it| it.author == "surety" && it.number == number)
        })
    };
    wait_until("a comment of the service", commented).await
}

async fn connects(page: &Page, kind: Forge) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let double = ForgeDouble::start().await?;
    double.repository(REPO, &[("src/list.rs", "fn list() {}\n")])?;
    std::fs::write(folder.path().join("forges.toml"), page.forges_file(kind, &double)?)?;
    let commands = page.commands();
    let (of_surety, of_shell): (Vec<_>, Vec<_>) =
        commands.iter().copied().partition(|command| command.starts_with("surety "));
    let environment = exported(&of_shell, folder.path()).await?;
    let environment: Vec<_> =
        environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let stage = Stage::start_with(&environment).await?;
    let gone = v1::DeleteAgentRequest { id: AGENT.to_owned() };
    stage.tasks(PERSON)?.delete_agent(gone).await?;
    let person = Shell::of(&stage, PERSON)?;
    let [hook, list, agent] = of_surety.as_slice() else { anyhow::bail!("{of_surety:?}") };
    let filled = |text: &str| {
        let text = text.replace("FORGE", kind.as_str());
        text.replace("AGENT", AGENT).replace("LOGIN", LOGIN)
    };
    let (hook, agent) = (filled(hook), filled(agent));
    let words = |command: &'_ str| -> Vec<String> {
        command.split_whitespace().skip(1).map(str::to_owned).collect()
    };
    let (hook, list, agent) = (words(&hook), words(list), words(&agent));
    let made = person.text(&as_words(&hook)).await?;

    // The fields of the hook at the forge.
    let fields = page.fields(kind)?;
    let printed = page.connect.split_once("Its address is `").context("the address")?.1;
    let printed = filled(printed.split_once('`').context("its end")?.0);
    let planner = stage.deployment.planner.url();
    let url = printed.replace("https://PLANNER:7401", &planner);
    let path = url.strip_prefix(&planner).context("a path")?;
    ensure!(made.contains(path), "{made} is not about {url}");
    let target = if kind == Forge::Github { "Payload URL" } else { "Target URL" };
    ensure!(value(&fields, target)? == "the address of step 3", "{fields:?}");
    ensure!(value(&fields, "Secret")? == "the content of the file of step 1", "{fields:?}");
    let content_type = value(&fields, "Content type")?.trim_matches('`');
    let secret = std::fs::read_to_string(folder.path().join("forge-secret"))?.trim().to_owned();
    double.hook(Hook { kind, url: url.clone(), secret: secret.clone() });

    // The forge tests the hook.
    let (event, reason) = match kind {
        Forge::Gitea | Forge::Forgejo => ("push", "ignored event_unknown"),
        Forge::Github => ("ping", "ignored ping"),
    };
    ensure!(page.connect.contains(reason.trim_start_matches("ignored ")), "{reason}");
    let sent = (event, content_type, secret.as_str());
    is_tested(&stage, kind, (path, sent)).await?;
    is_listed(&person, &as_words(&list), reason).await?;

    person.text(&as_words(&agent)).await?;
    becomes_a_task(&stage, &double, kind).await?;
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_gitea_is_connected_by_what_the_page_prints() -> Result<()> {
    connects(&Page::read()?, Forge::Gitea).await
}

#[tokio::test]
async fn a_forgejo_is_connected_by_what_the_page_prints() -> Result<()> {
    connects(&Page::read()?, Forge::Forgejo).await
}

#[tokio::test]
async fn a_github_is_connected_by_what_the_page_prints() -> Result<()> {
    connects(&Page::read()?, Forge::Github).await
}

#[test]
fn the_page_counts_its_commands_fields_and_boxes() -> Result<()> {
    let page = Page::read()?;
    let commands = page.commands().len();
    for (name, kind) in
        [("Gitea", Forge::Gitea), ("Forgejo", Forge::Forgejo), ("GitHub", Forge::Github)]
    {
        let (fields, boxes) = (page.fields(kind)?.len(), page.boxes(kind)?.len());
        let row = format!("| {name} | {commands} | {fields} | {boxes} |");
        ensure!(page.connect.contains(&row), "the page does not have {row}");
    }
    Ok(())
}
