//! A worker that serves the tool of a case, and says of each call what the case says.

use super::case::Case;
use super::driven::facts;
use super::place::Place;
use crate::agent::WORKER;
use crate::harness::Deployment;
use crate::worker::{Worker, announce, entry, result};
use anyhow::{Context, Result};
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};
use surety_common::wire::v1;
use surety_common::wire::v1::connect_response::Message;
use tokio::task::JoinHandle;

/// The tool that workers of cases serve.
const TOOL: &str = "remote_build";

/// The worker of one case, until it is dropped.
pub(super) struct Served {
    task: JoinHandle<()>,
    refused: Arc<Mutex<Vec<String>>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Served {
    /// Admits a worker in the case's namespace, and connects it.
    pub(super) async fn begin(
        deployment: &Deployment,
        place: &Place,
        case: &Case,
        namespace: &str,
    ) -> Result<Self> {
        let policy = v1::NamespacePolicy {
            tool_workers: vec![entry(TOOL, WORKER)],
            ..v1::NamespacePolicy::default()
        };
        let request = v1::SetNamespacePolicyRequest {
            namespace: namespace.to_owned(),
            policy: Some(policy),
            ..v1::SetNamespacePolicyRequest::default()
        };
        deployment.admin()?.set_namespace_policy(request).await?;
        let executor = deployment.executors.first().context("no executor runs")?;
        let tool = v1::Tool { name: TOOL.to_owned(), ..v1::Tool::default() };
        let announce =
            v1::Announce { namespaces: vec![namespace.to_owned()], ..announce(namespace, &[tool]) };
        let worker = Worker::connect(executor, WORKER, announce).await?;
        let refused = Arc::default();
        let (workspace, says) = (place.workspace(), case.worker.clone());
        let task = tokio::spawn({
            let refused = Arc::clone(&refused);
            async move {
                if let Err(error) = serve(worker, &workspace, &says, &refused).await {
                    let error = format!("the worker of the case: {error:#}");
                    refused.lock().unwrap_or_else(PoisonError::into_inner).push(error);
                }
            }
        });
        Ok(Self { task, refused })
    }

    /// Why results were refused.
    pub(super) fn refused(&self) -> Vec<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Answers calls; the last thing that the case says is said of all further ones, too.
async fn serve(
    mut worker: Worker,
    workspace: &std::path::Path,
    says: &[Value],
    refused: &Mutex<Vec<String>>,
) -> Result<()> {
    let mut place = 0;
    let mut last = None;
    loop {
        match worker.next().await? {
            Message::Invocation(call) => {
                let said = says.get(place).or(says.last()).unwrap_or(&Value::Null);
                place += 1;
                if let Some(line) = said["outside"].as_str() {
                    let shell = tokio::process::Command::new("sh")
                        .args(["-c", line])
                        .current_dir(workspace)
                        .status();
                    shell.await?;
                }
                worker.answer(answer(&call, said)?).await?;
                last = Some(call);
            }
            Message::Refused(why) => {
                refused.lock().unwrap_or_else(PoisonError::into_inner).push(why.message);
                // What is left of the lie is that the call succeeded.
                if let Some(call) = last.take() {
                    worker.answer(result(&call, "")).await?;
                }
            }
            Message::Announced(_)
            | Message::Cancel(_)
            | Message::Stored(_)
            | Message::Draining(_) => {}
        }
    }
}

fn answer(call: &v1::ToolInvocation, said: &Value) -> Result<v1::ToolResult> {
    let output = said["output"].as_str().unwrap_or("all tests passed");
    let mut answer = result(call, output);
    answer.facts = facts(said)?.into_iter().map(|fact| v1::Fact { fact: Some(fact) }).collect();
    answer.fence = said["fence"].as_u64().unwrap_or(answer.fence);
    Ok(answer)
}
