//! A server whose one run and its journal the test writes.

use std::pin::Pin;
use std::sync::Arc;

use futures::stream::{self, Stream};
use surety_common::wire::server::{ServeError, Server, Settings};
use surety_common::wire::v1;
use surety_common::wire::v1::run_service_server::{RunService, RunServiceServer};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tonic::{Request, Response, Status};

type Events = Pin<Box<dyn Stream<Item = Result<v1::WatchRunResponse, Status>> + Send>>;

/// A run whose journal has some events, and whose streams break off after a few of them.
pub(crate) struct Scripted {
    pub(crate) run: v1::Run,
    pub(crate) events: Vec<v1::Event>,
    pub(crate) breaks_after: usize,
    /// Where set, each GetRun waits for its answer.
    pub(crate) hold: Option<Arc<Hold>>,
}

/// Holds answers of GetRun back.
#[derive(Default)]
pub(crate) struct Hold {
    /// A GetRun has arrived.
    pub(crate) asked: Notify,
    /// Lets one answer go.
    pub(crate) answer: Notify,
}

/// Serves a run at an address of this machine.
pub(crate) async fn serve(scripted: Scripted) -> (String, JoinHandle<Result<(), ServeError>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let server = Server::new(Settings::default()).with_service(RunServiceServer::new(scripted));
    (url, tokio::spawn(server.serve(listener, std::future::pending())))
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
        if let Some(hold) = &self.hold {
            hold.asked.notify_one();
            hold.answer.notified().await;
        }
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
        Err(Status::unimplemented("CreateRun"))
    }

    async fn fork_run(
        &self,
        _: Request<v1::ForkRunRequest>,
    ) -> Result<Response<v1::ForkRunResponse>, Status> {
        Err(Status::unimplemented("ForkRun"))
    }

    type GetOutputStream =
        Pin<Box<dyn Stream<Item = Result<v1::GetOutputResponse, Status>> + Send>>;

    async fn get_output(
        &self,
        _: Request<v1::GetOutputRequest>,
    ) -> Result<Response<Self::GetOutputStream>, Status> {
        Err(Status::unimplemented("GetOutput"))
    }

    async fn list_receipts(
        &self,
        _: Request<v1::ListReceiptsRequest>,
    ) -> Result<Response<v1::ListReceiptsResponse>, Status> {
        Err(Status::unimplemented("ListReceipts"))
    }

    async fn list_turns(
        &self,
        _: Request<v1::ListTurnsRequest>,
    ) -> Result<Response<v1::ListTurnsResponse>, Status> {
        Err(Status::unimplemented("ListTurns"))
    }

    async fn list_runs(
        &self,
        _: Request<v1::ListRunsRequest>,
    ) -> Result<Response<v1::ListRunsResponse>, Status> {
        Err(Status::unimplemented("ListRuns"))
    }

    async fn pause_run(
        &self,
        _: Request<v1::PauseRunRequest>,
    ) -> Result<Response<v1::PauseRunResponse>, Status> {
        Err(Status::unimplemented("PauseRun"))
    }

    async fn resume_run(
        &self,
        _: Request<v1::ResumeRunRequest>,
    ) -> Result<Response<v1::ResumeRunResponse>, Status> {
        Err(Status::unimplemented("ResumeRun"))
    }

    async fn cancel_run(
        &self,
        _: Request<v1::CancelRunRequest>,
    ) -> Result<Response<v1::CancelRunResponse>, Status> {
        Err(Status::unimplemented("CancelRun"))
    }

    async fn list_waits(
        &self,
        _: Request<v1::ListWaitsRequest>,
    ) -> Result<Response<v1::ListWaitsResponse>, Status> {
        Err(Status::unimplemented("ListWaits"))
    }

    async fn answer_question(
        &self,
        _: Request<v1::AnswerQuestionRequest>,
    ) -> Result<Response<v1::AnswerQuestionResponse>, Status> {
        Err(Status::unimplemented("AnswerQuestion"))
    }

    async fn resolve_confirmation(
        &self,
        _: Request<v1::ResolveConfirmationRequest>,
    ) -> Result<Response<v1::ResolveConfirmationResponse>, Status> {
        Err(Status::unimplemented("ResolveConfirmation"))
    }

    async fn revoke_grant(
        &self,
        _: Request<v1::RevokeGrantRequest>,
    ) -> Result<Response<v1::RevokeGrantResponse>, Status> {
        Err(Status::unimplemented("RevokeGrant"))
    }

    async fn extend_budget(
        &self,
        _: Request<v1::ExtendBudgetRequest>,
    ) -> Result<Response<v1::ExtendBudgetResponse>, Status> {
        Err(Status::unimplemented("ExtendBudget"))
    }

    async fn export_receipts(
        &self,
        _: Request<v1::ExportReceiptsRequest>,
    ) -> Result<Response<Self::ExportReceiptsStream>, Status> {
        Err(Status::unimplemented("ExportReceipts"))
    }
}
