//! `surety answer WAIT TEXT`

use clap::Args;
use surety_common::config::ClientConfig;
use surety_common::wire::v1;

use crate::connection::{Connection, bounded};
use crate::exit::Exit;
use crate::failure::Failure;
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

    #[command(flatten)]
    client: ClientConfig,
}

impl Answer {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        let connection = Connection::open(&self.client)?;
        let request = v1::AnswerQuestionRequest {
            wait_id: self.wait,
            answer: self.text.join(" "),
            ..Default::default()
        };
        let answer = connection.runs().answer_question(bounded(request)).await;
        let answer = answer.map_err(|status| connection.failure(&status))?.into_inner();
        let run = answer.run.unwrap_or_default();
        let shown = || format!("answered; run {} is {}", run.id, run_state(run.state()));
        output.either(&wire_json::message("Run", &run), shown)?;
        Ok(Exit::Done)
    }
}
