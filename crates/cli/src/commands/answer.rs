//! `surety answer WAIT TEXT`

use clap::Args;
use surety_common::config::ClientConfig;

use crate::answering::answer;
use crate::connection::Connection;
use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::text::run_state;
use crate::wire_json;

/// Answers a question of a run.
#[derive(Debug, Args)]
pub struct Answer {
    /// The wait's id, from `surety waits`.
    wait: String,

    /// The answer; one of the choices, if the question has some. A question about a call without a recorded
    /// outcome has `repeat`, `happened` and `fail`.
    #[arg(required = true, num_args = 1..)]
    text: Vec<String>,

    /// The digest of the question, from `surety waits`: another question is then refused.
    #[arg(long)]
    digest: Option<String>,

    #[command(flatten)]
    client: ClientConfig,
}

impl Answer {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        // The service takes an empty digest for none, and would compare nothing.
        if self.digest.as_deref() == Some("") {
            let message = "the digest is empty, and no question has that digest";
            let advice = "Give the digest that `surety waits` shows, or leave --digest out.";
            return Err(Failure::new(Code::ValueInvalid, message, advice).at("digest"));
        }
        let connection = Connection::open(&self.client)?;
        let asked = (self.wait, self.digest.unwrap_or_default());
        let run = answer(&connection, asked, self.text.join(" ")).await?;
        let shown = || format!("answered; run {} is {}", run.id, run_state(run.state()));
        output.either(&wire_json::message("Run", &run), shown)?;
        Ok(Exit::Done)
    }
}
