//! `surety approve` and `surety deny`

use std::io::{BufRead, IsTerminal};
use std::time::Duration;

use clap::Args;
use surety_common::config::ClientConfig;
use surety_common::wire::v1;

use super::tokens::{read_duration, wire_duration};
use crate::answering::{asked, resolve};
use crate::connection::{Connection, bounded};
use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::output::{Output, note};
use crate::report;
use crate::text::{run_state, waiting_on};
use crate::wire_json;

/// How many calls a grant covers where the approver does not say it.
const DEFAULT_USES: u32 = 10;

/// Answers a confirmation once it is shown: of one tool call, or of what the verdict of a run is in doubt about.
#[derive(Debug, Args)]
struct Answering {
    /// The wait's id from `surety waits`, or the run: an id, a unique beginning of one, or `last`.
    #[arg(value_name = "RUN|WAIT")]
    subject: String,

    /// Answer without a question where this is the digest of what is asked, as it was shown before.
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,

    /// Answer without a question, whatever is asked.
    #[arg(long)]
    yes: bool,

    /// A comment, stored with the answer.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    comment: String,

    #[command(flatten)]
    client: ClientConfig,
}

/// Approves what a confirmation shows.
#[derive(Debug, Args)]
pub struct Approval {
    #[command(flatten)]
    answering: Answering,

    /// Approve later calls of the same tool as well, which are then made without a question; only for a tool call.
    #[arg(long)]
    grant: bool,

    /// How many calls the grant covers, this one included; 1 to 1000.
    #[arg(long, value_name = "NUMBER", default_value_t = DEFAULT_USES, requires = "grant")]
    uses: u32,

    /// How long the grant lasts, such as 90s, 30m, 2h or 1d; without it as long as the run's `confirm_ttl`.
    #[arg(long = "for", value_name = "TIME", value_parser = read_duration, requires = "grant")]
    lasting: Option<Duration>,

    /// What an argument of later calls must match; repeatable. `*` stays inside a folder, `**` does not. A list of strings
    /// has a pattern for each element, such as `argv=["cargo","test","**"]`. Other arguments must be as they are shown.
    #[arg(long = "arg", value_name = "NAME=PATTERN", value_parser = read_argument, requires = "grant")]
    arguments: Vec<(String, String)>,
}

/// Denies what a confirmation shows.
#[derive(Debug, Args)]
pub struct Denial {
    #[command(flatten)]
    answering: Answering,

    /// End the run as well, with `confirmation_denied`; only for a tool call.
    #[arg(long)]
    stop: bool,
}

impl Denial {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        let answer = Answer { word: v1::ConfirmationAnswer::Deny, stop: self.stop, grant: None };
        self.answering.answer(answer, output).await
    }
}

/// What is answered.
struct Answer {
    word: v1::ConfirmationAnswer,
    /// Whether a denial ends the run.
    stop: bool,
    /// What is granted with the approval of a call.
    grant: Option<v1::GrantTerms>,
}

impl Approval {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        let terms = v1::GrantTerms {
            arguments: self.arguments.into_iter().collect(),
            uses: self.uses,
            ttl: self.lasting.map(wire_duration),
        };
        let grant = self.grant.then_some(terms);
        let answer = Answer { word: v1::ConfirmationAnswer::Approve, stop: false, grant };
        self.answering.answer(answer, output).await
    }
}

impl Answering {
    async fn answer(self, answer: Answer, output: Output) -> Result<Exit, Failure> {
        let Answer { word: answer, stop, grant } = answer;
        let connection = Connection::open(&self.client)?;
        let wait = self.find(&connection).await?;
        let shown = asked(&connection, &wait).await?;
        if !output.json {
            output.line(&shown)?;
            if let Some(terms) = &grant {
                output.line(&report::terms(terms))?;
            }
        }
        self.confirm(&wait, answer)?;
        let request = v1::ResolveConfirmationRequest {
            wait_id: wait.id.clone(),
            answer: answer.into(),
            call_digest: wait.call_digest.clone(),
            comment: self.comment,
            stop,
            grant,
            ..Default::default()
        };
        let run = resolve(&connection, request).await?;
        let made = run.grants.iter().find(|grant| grant.id == wait.id);
        let shown = || {
            let granted = made.map(|grant| format!(" and granted as {}", grant.id));
            let word = format!("{}{}", word(answer), granted.unwrap_or_default());
            format!("{word}; run {} is {}", run.id, run_state(run.state()))
        };
        output.either(&wire_json::message("Run", &run), shown)?;
        Ok(Exit::Done)
    }

    /// The wait that is named, or that of the run that is.
    async fn find(&self, connection: &Connection) -> Result<v1::Wait, Failure> {
        let mut waits = open_waits(connection, &[v1::WaitingOn::Approver]).await?;
        waits.retain(|wait| !wait.call_digest.is_empty());
        let named = self.subject.trim().to_ascii_lowercase();
        if let Some(at) = waits.iter().position(|wait| wait.id == named) {
            return Ok(waits.swap_remove(at));
        }
        let run_id = connection.resolve(&self.subject).await?;
        match waits.into_iter().find(|wait| wait.run_id == run_id) {
            Some(wait) => Ok(wait),
            None => Err(not_asked(connection, &run_id).await),
        }
    }

    fn confirm(&self, wait: &v1::Wait, answer: v1::ConfirmationAnswer) -> Result<(), Failure> {
        if let Some(digest) = &self.digest {
            if *digest == wait.call_digest {
                return Ok(());
            }
            let message = format!("the digest of what is asked is {}", wait.call_digest);
            let advice = "Look at it again: it is not what the given digest is of.";
            return Err(Failure::new(Code::ValueInvalid, message, advice).at("digest"));
        }
        if self.yes {
            return Ok(());
        }
        let stdin = std::io::stdin();
        if stdin.is_terminal() {
            note(&format!("Type yes to {} exactly this:", verb(answer)));
            let mut line = String::new();
            let read = stdin.lock().read_line(&mut line);
            if read.is_ok() && line.trim() == "yes" {
                return Ok(());
            }
            let message = format!("nothing was answered: {:?} is not yes", line.trim());
            let advice = "The wait stays open. Run the command again, and type yes.";
            return Err(Failure::new(Code::Usage, message, advice));
        }
        let message = "there is no terminal to confirm on";
        let advice = format!("Add --digest {} to answer exactly this.", wait.call_digest);
        Err(Failure::new(Code::Usage, message, advice))
    }
}

/// The name of an argument and its pattern.
fn read_argument(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, pattern)) if !name.is_empty() => Ok((name.to_owned(), pattern.to_owned())),
        Some(_) | None => Err(format!("{text:?} is no argument; write it as NAME=PATTERN")),
    }
}

fn verb(answer: v1::ConfirmationAnswer) -> &'static str {
    match answer {
        v1::ConfirmationAnswer::Approve => "approve",
        v1::ConfirmationAnswer::Deny | v1::ConfirmationAnswer::Unspecified => "deny",
    }
}

fn word(answer: v1::ConfirmationAnswer) -> &'static str {
    match answer {
        v1::ConfirmationAnswer::Approve => "approved",
        v1::ConfirmationAnswer::Deny | v1::ConfirmationAnswer::Unspecified => "denied",
    }
}

/// The open waits for one of these parties, of all where none is named.
async fn open_waits(
    connection: &Connection,
    parties: &[v1::WaitingOn],
) -> Result<Vec<v1::Wait>, Failure> {
    let mut request = v1::ListWaitsRequest::default();
    request.waiting_on.extend(parties.iter().map(|party| i32::from(*party)));
    let mut waits = Vec::new();
    loop {
        let answer = connection.runs().list_waits(bounded(request.clone())).await;
        let page = answer.map_err(|status| connection.failure(&status))?.into_inner();
        waits.extend(page.waits);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return Ok(waits);
        }
    }
}

/// Why nothing is to be confirmed of this run, or wait.
async fn not_asked(connection: &Connection, id: &str) -> Failure {
    let unclear = |message: String, advice: String| Failure::new(Code::RunUnclear, message, advice);
    let waits = match open_waits(connection, &[]).await {
        Ok(waits) => waits,
        Err(failure) => return failure,
    };
    if let Some(wait) = waits.iter().find(|wait| wait.id == id || wait.run_id == id) {
        let (v1::Wait { id, run_id, .. }, on) = (wait, waiting_on(wait.waiting_on()));
        if wait.kind() == v1::WaitKind::Question {
            let message = format!("run {run_id} asks a question, and waits for no confirmation");
            return unclear(message, format!("Answer it: surety answer {id} TEXT"));
        }
        let message = format!("run {run_id} waits for no confirmation: it waits on {on}");
        return unclear(message, "`surety waits` shows what ends the wait.".to_owned());
    }
    match connection.run(id, v1::RunView::Basic).await {
        Ok(answer) => {
            let run = answer.run.unwrap_or_default();
            let state = run_state(run.state());
            let is = if run.terminal.is_some() { "ended as" } else { "is" };
            unclear(
                format!("run {id} {is} {state}, and waits for no confirmation"),
                format!("What was answered before: surety show {id}"),
            )
        }
        Err(status) if status.code() == tonic::Code::NotFound => unclear(
            format!("no open wait and no run has the id {id}"),
            "A wait that was answered is not open; list the open ones with `surety waits`."
                .to_owned(),
        ),
        Err(status) => connection.failure(&status),
    }
}
