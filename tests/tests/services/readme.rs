//! The examples of the README, taken from the page itself: what it prints is what a reader gets.

use crate::client_example::{generated, root};
use anyhow::{Context, Result, bail, ensure};
use surety_e2e::harness::{Database, Deployment, TOKEN};
use tokio::process::Command;

fn page() -> Result<String> {
    Ok(std::fs::read_to_string(root().join("README.md"))?)
}

/// The first block of this language after a heading.
fn block<'a>(page: &'a str, heading: &str, language: &str) -> Result<&'a str> {
    let section = page.split_once(&format!("\n## {heading}\n")).context("the heading")?.1;
    let opened = section.split_once(&format!("\n```{language}\n")).context("the block")?.1;
    Ok(opened.split_once("\n```").context("its end")?.0)
}

/// What is said about the verdict among some lines, without what differs between two runs.
fn results(text: &str) -> Vec<&str> {
    let said = [
        "  passed ",
        "  FAILED ",
        "  round ",
        "  strength ",
        "FAILED ",
        "  message ",
        "  internal ",
    ];
    text.lines().filter(|line| said.iter().any(|begin| line.starts_with(begin))).collect()
}

#[tokio::test]
async fn the_refused_plan_is_refused_as_the_page_prints_it() -> Result<()> {
    let page = page()?;
    let folder = tempfile::tempdir()?;
    let (plan, project) = (folder.path().join("claim.yaml"), folder.path().join("project"));
    std::fs::write(&plan, block(&page, "Example of a refused plan", "yaml")?)?;
    let fresh = root().join("examples/repair/fresh.sh");
    let fresh = Command::new(fresh).arg(&project).output().await?;
    ensure!(fresh.status.success(), "{}", String::from_utf8_lossy(&fresh.stderr));
    let deployment = Deployment::start().await?;
    let (plan, project) = (plan.to_string_lossy(), project.to_string_lossy());
    let (command, _token) = deployment.surety(&["run", &*plan, "--workspace", &*project])?;
    let ran = Command::from(command).output().await?;
    let said = String::from_utf8(ran.stdout)?;
    ensure!(ran.status.code() == Some(2), "{said}\n{}", String::from_utf8_lossy(&ran.stderr));
    let printed = block(&page, "Example of a refused plan", "console")?;
    let verdict = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("refused: "));
        line.context("no verdict").map(str::to_owned)
    };
    assert_eq!(verdict(&said)?, verdict(printed)?, "{said}");
    assert_eq!(results(&said), results(printed), "{said}");
    deployment.finish().await
}

#[tokio::test]
async fn the_python_client_prints_what_the_page_says() -> Result<()> {
    let Some(stubs) = generated().await? else { return Ok(()) };
    let page = page()?;
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    std::fs::create_dir(&data)?;
    let client = folder.path().join("client.py");
    std::fs::write(&client, block(&page, "Python client", "python")?)?;
    let mut deployment = Deployment::start_idle(Database::create().await?, &[]).await?;
    deployment.add_executor(&[]).await?;
    // The two files that `surety up` writes into its data folder.
    std::fs::write(data.join("endpoint"), format!("{}\n", deployment.planner.url()))?;
    std::fs::write(data.join("token"), format!("{TOKEN}\n"))?;
    let ran = Command::new(stubs.join("venv/bin/python"))
        .arg(&client)
        .env("PYTHONPATH", stubs.join("generated"))
        .current_dir(folder.path())
        .output()
        .await?;
    let said = String::from_utf8(ran.stdout)?;
    ensure!(ran.status.success(), "{said}\n{}", String::from_utf8_lossy(&ran.stderr));
    let Some((_, printed)) = block(&page, "Python client", "console")?.split_once("client.py\n")
    else {
        bail!("the page does not run client.py");
    };
    assert_eq!(said.trim_end(), printed);
    deployment.finish().await
}
