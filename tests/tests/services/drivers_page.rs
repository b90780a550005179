//! The steps of docs/drivers.md, taken from the page itself: what a reader types leads to an accepted run.

use crate::client_example::{generated, root};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use surety_e2e::harness::{Deployment, binary};
use tokio::process::Command;

/// The blocks of the numbered steps, without their indentation.
fn steps() -> Result<[String; 3]> {
    let page = std::fs::read_to_string(root().join("docs/drivers.md"))?;
    let section =
        page.split_once("\n## A working agent in ten minutes\n").context("the heading")?.1;
    let section = section.split_once("\n## ").context("the next heading")?.0;
    let blocks = section.split("   ```text\n").skip(1).map(|rest| {
        let block = rest.split_once("   ```").map(|(block, _)| block).unwrap_or_default();
        block.lines().map(|line| format!("{}\n", line.trim_start())).collect::<String>()
    });
    let blocks: Vec<String> = blocks.collect();
    <[String; 3]>::try_from(blocks).ok().context("the page has another number of steps")
}

/// A shell that plays a step with the programs of this build.
fn shell(deployment: &Deployment, step: &str) -> Result<(Command, tempfile::NamedTempFile)> {
    let (surety, token) = deployment.surety(&[])?;
    let program = binary("surety")?;
    let folder = program.parent().and_then(Path::to_str).context("a folder")?.to_owned();
    let mut command = Command::new("sh");
    command.args(["-e", "-c", step]).current_dir(root()).kill_on_drop(true);
    for (name, value) in surety.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{folder}:{path}"));
    Ok((command, token))
}

#[tokio::test]
async fn the_steps_of_the_page_lead_to_an_accepted_run() -> Result<()> {
    let Some(stubs) = generated().await? else { return Ok(()) };
    let mut deployment = Deployment::start().await?;
    let address = deployment.first_executor()?.address().to_owned();
    let folder = tempfile::tempdir()?;
    let (token_file, project) = (folder.path().join("token"), folder.path().join("project"));
    let [make_token, start_agent, run] = steps()?.map(|step| {
        step.replace("TOKEN_FILE", &token_file.to_string_lossy())
            .replace("127.0.0.1:7402", &address)
            .replace("/tmp/project", &project.to_string_lossy())
            .replace("target/stubs/python", &stubs.to_string_lossy())
    });
    let (mut command, _token) = shell(&deployment, &make_token)?;
    let made = command.output().await?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    // The code is generated already, once for all tests; other tests read it now.
    let start_agent = start_agent.strip_prefix("scripts/stubs.sh python\n").context("the code")?;
    let start_agent = start_agent.replace("\n$P/", "\nexec $P/");
    let (mut command, _token) = shell(&deployment, &start_agent)?;
    let agent = command.spawn()?;
    let (mut command, _token) = shell(&deployment, &run)?;
    let said = command.output().await?;
    drop(agent);
    let is_accepted = said.status.success();
    let (said, errors) =
        (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    ensure!(is_accepted && said.contains("accepted"), "{said}\n{errors}");
    deployment.finish().await
}
