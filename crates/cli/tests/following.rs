//! Following a run over an unreliable service: the real binary watches a real server on a real
//! port, whose journal the test writes.

#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::pin::Pin;
use std::process::Output;

use futures::stream::{self, Stream};
use prost_types::Timestamp;
use surety_common::wire::server::{Server, Settings};
use surety_common::wire::status::unimplemented;
use surety_common::wire::v1;
use surety_common::wire::v1::event::Kind;
use surety_common::wire::v1::run_service_server::{RunService, RunServiceServer};
use tokio::net::TcpListener;
use tonic::{Request, Response, Status};

const RUN: &str = "01900000-0000-7000-8000-000000000001";

type Events = Pin<Box<dyn Stream<Item = Result<v1::WatchRunResponse, Status>> + Send>>;

/// A run whose journal has some events, and whose streams break off after a few of them.
struct Scripted {
    run: v1::Run,
    events: Vec<v1::Event>,
    breaks_after: usize,
}

fn state(sequence: u64, to: v1::RunState) -> v1::Event {
    v1::Event {
        sequence,
        at: Some(Timestamp { seconds: 1, nanos: 0 }),
        kind: Some(Kind::Transition(v1::Transition {
            subject: Some(v1::transition::Subject::RunId(RUN.to_owned())),
            run_from: v1::RunState::Intake.into(),
            run_to: to.into(),
            event: "moved".to_owned(),
            ..v1::Transition::default()
        })),
        ..v1::Event::default()
    }
}

fn run_in(state: v1::RunState) -> v1::Run {
    let mut run = v1::Run { id: RUN.to_owned(), ..v1::Run::default() };
    run.set_state(state);
    run
}

fn ended(state: v1::RunState) -> v1::Run {
    let mut run = run_in(state);
    run.terminal = Some(v1::Terminal { status: state.into(), ..v1::Terminal::default() });
    run
}

/// `surety watch`, against this run.
async fn watch(scripted: Scripted, words: &[&str]) -> Output {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let server = Server::new(Settings::default()).with_service(RunServiceServer::new(scripted));
    let serving = tokio::spawn(server.serve(listener, std::future::pending()));
    let nowhere = tempfile::tempdir().expect("a folder");
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_surety"))
        .args([&["watch", RUN, "--url", &url], words].concat())
        .env_remove("SURETY_TOKEN_FILE")
        .env("SURETY_DATA_DIR", nowhere.path())
        .output()
        .await
        .expect("surety watch");
    serving.abort();
    output
}

fn sequences(output: &Output) -> Vec<u64> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect()
}

#[tokio::test]
async fn a_lost_connection_is_resumed_after_the_last_event_without_a_gap_or_a_repeat() {
    let mut events: Vec<_> =
        (1..=7).map(|sequence| state(sequence, v1::RunState::Executing)).collect();
    events.push(state(8, v1::RunState::Done));
    let run = ended(v1::RunState::Done);
    let scripted = Scripted { run, events, breaks_after: 3 };
    let output = watch(scripted, &[]).await;
    assert_eq!(sequences(&output), (1..=8).collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the connection was lost"), "{said}");
}

#[tokio::test]
async fn a_run_that_waits_for_a_user_ends_the_following_without_a_terminal() {
    let cases = [(v1::WaitingOn::User, Some(4)), (v1::WaitingOn::Approver, Some(4))];
    for (waiting_on, code) in cases {
        let mut run = run_in(v1::RunState::Blocked);
        run.last_sequence = 2;
        run.blocked = Some(v1::Blocked {
            waiting_on: waiting_on.into(),
            question: "Shall I?".to_owned(),
            ..v1::Blocked::default()
        });
        let events = vec![state(1, v1::RunState::Executing), state(2, v1::RunState::Blocked)];
        let scripted = Scripted { run, events, breaks_after: 9 };
        let output = watch(scripted, &[]).await;
        assert_eq!(output.status.code(), code, "{waiting_on:?}");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("Shall I?") && said.contains("surety cancel"), "{said}");
    }
}

#[tokio::test]
async fn a_wait_that_was_answered_long_ago_does_not_end_the_following() {
    let events = vec![
        state(1, v1::RunState::Blocked),
        state(2, v1::RunState::Executing),
        state(3, v1::RunState::Cancelled),
    ];
    let run = ended(v1::RunState::Cancelled);
    let scripted = Scripted { run, events, breaks_after: 9 };
    let output = watch(scripted, &["--from", "1"]).await;
    assert_eq!((output.status.code(), sequences(&output)), (Some(3), vec![1, 2, 3]));
}

#[tonic::async_trait]
impl RunService for Scripted {
    type WatchRunStream = Events;
    type ExportReceiptsStream =
        Pin<Box<dyn Stream<Item = Result<v1::ExportReceiptsResponse, Status>> + Send>>;

    async fn get_run(
        &self,
        _: Request<v1::GetRunRequest>,
    ) -> Result<Response<v1::GetRunResponse>, Status> {
        let run = Some(self.run.clone());
        Ok(Response::new(v1::GetRunResponse { run, ..v1::GetRunResponse::default() }))
    }

    async fn watch_run(
        &self,
        request: Request<v1::WatchRunRequest>,
    ) -> Result<Response<Events>, Status> {
        let from = request.into_inner().from_sequence;
        let wanted = self.events.iter().filter(|event| event.sequence >= from).cloned();
        let mut items: Vec<_> = wanted
            .map(|event| Ok(v1::WatchRunResponse { event: Some(event), progress: None }))
            .collect();
        if items.len() > self.breaks_after {
            items.truncate(self.breaks_after);
            items.push(Err(Status::unavailable("the service stops")));
        }
        Ok(Response::new(Box::pin(stream::iter(items))))
    }

    async fn create_run(
        &self,
        _: Request<v1::CreateRunRequest>,
    ) -> Result<Response<v1::CreateRunResponse>, Status> {
        Err(unimplemented("CreateRun"))
    }

    async fn fork_run(
        &self,
        _: Request<v1::ForkRunRequest>,
    ) -> Result<Response<v1::ForkRunResponse>, Status> {
        Err(unimplemented("ForkRun"))
    }

    type GetOutputStream =
        Pin<Box<dyn Stream<Item = Result<v1::GetOutputResponse, Status>> + Send>>;

    async fn get_output(
        &self,
        _: Request<v1::GetOutputRequest>,
    ) -> Result<Response<Self::GetOutputStream>, Status> {
        Err(unimplemented("GetOutput"))
    }

    async fn list_receipts(
        &self,
        _: Request<v1::ListReceiptsRequest>,
    ) -> Result<Response<v1::ListReceiptsResponse>, Status> {
        Err(unimplemented("ListReceipts"))
    }

    async fn list_turns(
        &self,
        _: Request<v1::ListTurnsRequest>,
    ) -> Result<Response<v1::ListTurnsResponse>, Status> {
        Err(unimplemented("ListTurns"))
    }

    async fn list_runs(
        &self,
        _: Request<v1::ListRunsRequest>,
    ) -> Result<Response<v1::ListRunsResponse>, Status> {
        Err(unimplemented("ListRuns"))
    }

    async fn pause_run(
        &self,
        _: Request<v1::PauseRunRequest>,
    ) -> Result<Response<v1::PauseRunResponse>, Status> {
        Err(unimplemented("PauseRun"))
    }

    async fn resume_run(
        &self,
        _: Request<v1::ResumeRunRequest>,
    ) -> Result<Response<v1::ResumeRunResponse>, Status> {
        Err(unimplemented("ResumeRun"))
    }

    async fn cancel_run(
        &self,
        _: Request<v1::CancelRunRequest>,
    ) -> Result<Response<v1::CancelRunResponse>, Status> {
        Err(unimplemented("CancelRun"))
    }

    async fn list_waits(
        &self,
        _: Request<v1::ListWaitsRequest>,
    ) -> Result<Response<v1::ListWaitsResponse>, Status> {
        Err(unimplemented("ListWaits"))
    }

    async fn answer_question(
        &self,
        _: Request<v1::AnswerQuestionRequest>,
    ) -> Result<Response<v1::AnswerQuestionResponse>, Status> {
        Err(unimplemented("AnswerQuestion"))
    }

    async fn resolve_confirmation(
        &self,
        _: Request<v1::ResolveConfirmationRequest>,
    ) -> Result<Response<v1::ResolveConfirmationResponse>, Status> {
        Err(unimplemented("ResolveConfirmation"))
    }

    async fn revoke_grant(
        &self,
        _: Request<v1::RevokeGrantRequest>,
    ) -> Result<Response<v1::RevokeGrantResponse>, Status> {
        Err(unimplemented("RevokeGrant"))
    }

    async fn extend_budget(
        &self,
        _: Request<v1::ExtendBudgetRequest>,
    ) -> Result<Response<v1::ExtendBudgetResponse>, Status> {
        Err(unimplemented("ExtendBudget"))
    }

    async fn export_receipts(
        &self,
        _: Request<v1::ExportReceiptsRequest>,
    ) -> Result<Response<Self::ExportReceiptsStream>, Status> {
        Err(unimplemented("ExportReceipts"))
    }
}
