//! Settings of models that cannot be used are named at the start, with what to do.

use anyhow::{Result, ensure};
use surety_e2e::harness::{Database, Process, Service};
use tempfile::NamedTempFile;

/// Variables, and what is said of them.
type Case<'a> = (&'a [(&'a str, &'a str)], [&'a str; 2]);

#[tokio::test]
async fn a_service_names_the_setting_of_a_model_that_cannot_be_used_and_does_not_start()
-> Result<()> {
    let database = Database::create().await?;
    let file = NamedTempFile::new()?;
    std::fs::write(
        file.path(),
        "[use]\nplan = \"strong\"\n[model.fast]\nurl = \"http://127.0.0.1:1/v1\"\nmodel = \"m\"\n",
    )?;
    let profiles = file.path().display().to_string();
    let url = ("SURETY_MODEL_URL", "http://127.0.0.1:1/v1");
    let name = ("SURETY_MODEL_NAME", "m");
    let cases: [Case<'_>; 4] = [
        (
            &[("SURETY_MODEL_URL", "127.0.0.1:1/v1"), name],
            ["SURETY_MODEL_URL", "http:// or https://"],
        ),
        (&[url], ["is missing", "SURETY_MODEL_NAME"]),
        (
            &[url, name, ("SURETY_MODEL_KEY_FILE", "/no/such/key")],
            ["/no/such/key", "Create the file"],
        ),
        (&[("SURETY_MODEL_PROFILES_FILE", &profiles)], ["no model profile", "Name one of them"]),
    ];
    for (environment, said) in cases {
        for service in [Service::Planner, Service::Executor] {
            // It may say where it listens before it looks at its models.
            let refused = match Process::start(service, &database, environment).await {
                Err(refused) => format!("{refused:#}"),
                Ok(mut process) => {
                    let named = |line: &str| said.iter().all(|said| line.contains(said));
                    let line = process.wait_for_line(named).await?;
                    ensure!(!process.wait_for_exit().await?.success(), "it went on: {line}");
                    line
                }
            };
            ensure!(said.iter().all(|said| refused.contains(said)), "{said:?}: {refused}");
        }
    }
    database.drop().await
}
