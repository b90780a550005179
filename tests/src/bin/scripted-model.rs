//! A model endpoint on the loopback that says the replies of a file, in their order. The demo starts it.
//!
//! ```text
//!   scripted-model REPLIES.yaml        prints the endpoint's address, and serves until it is ended
//! ```
//!
//! A reply is a text, or an object, which is sent as JSON. After the last one every question is answered with HTTP 500.

use anyhow::{Context, Result};
use clap::Parser;
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;
use surety_e2e::model_server::{ModelServer, Reply, Script, Settings};

/// The name of the model.
const MODEL: &str = "scripted";

/// Serves the replies of a file as a model endpoint in the form of OpenAI's chat completions.
#[derive(Debug, Parser)]
struct Arguments {
    /// The replies: a YAML list of texts and objects.
    replies: PathBuf,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    end_with_parent()?;
    let Arguments { replies } = Arguments::parse();
    let name = replies.display().to_string();
    let text = std::fs::read_to_string(&replies).with_context(|| name.clone())?;
    let replies: Vec<Value> = serde_saphyr::from_str(&text).with_context(|| name)?;
    let replies = replies
        .iter()
        .map(|reply| Reply::text(reply.as_str().map_or_else(|| reply.to_string(), str::to_owned)));
    let settings = Settings { models: vec![MODEL.to_owned()], ..Settings::default() };
    let server = ModelServer::start(settings, Script::list(replies)).await?;
    let mut output = std::io::stdout().lock();
    writeln!(output, "{}", server.url())?;
    output.flush()?;
    tokio::signal::ctrl_c().await?;
    drop(server);
    Ok(())
}

/// A demo that is killed takes its model with it.
#[cfg(target_os = "linux")]
fn end_with_parent() -> Result<()> {
    Ok(nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGTERM)?)
}

#[cfg(not(target_os = "linux"))]
fn end_with_parent() -> Result<()> {
    Ok(())
}
