//! Leases of `surety mcp --drive` whose client gave the call up, at an executor that answers when the test says so.

use crate::client::{Called, Client};
use crate::support::Home;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use surety_common::wire::server::{Server, Settings};
use surety_common::wire::v1;
use surety_common::wire::v1::executor_service_server::{ExecutorService, ExecutorServiceServer};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;
use tonic::{Request, Response, Status};

const PATIENCE: Duration = Duration::from_secs(60);

/// Holds each lease back until it may be answered, and tells what is released.
struct Executor {
    asked: Notify,
    answer: Notify,
    released: mpsc::UnboundedSender<v1::StepFence>,
}

#[tonic::async_trait]
impl ExecutorService for Executor {
    async fn lease_step(
        &self,
        _: Request<v1::LeaseStepRequest>,
    ) -> Result<Response<v1::LeaseStepResponse>, Status> {
        self.asked.notify_one();
        self.answer.notified().await;
        let lease = v1::StepLease {
            run_id: "run".to_owned(),
            step_id: "a".to_owned(),
            lease_epoch: 7,
            ..v1::StepLease::default()
        };
        let (lease, context) = (Some(lease), Some(v1::StepContext::default()));
        Ok(Response::new(v1::LeaseStepResponse { lease, context, ..Default::default() }))
    }

    async fn release_step(
        &self,
        request: Request<v1::ReleaseStepRequest>,
    ) -> Result<Response<v1::ReleaseStepResponse>, Status> {
        let fence = request.into_inner().fence.unwrap_or_default();
        self.released.send(fence).expect("the test listens");
        Ok(Response::new(v1::ReleaseStepResponse::default()))
    }

    async fn heartbeat(
        &self,
        _: Request<v1::HeartbeatRequest>,
    ) -> Result<Response<v1::HeartbeatResponse>, Status> {
        Ok(Response::new(v1::HeartbeatResponse::default()))
    }

    async fn parse_decision(
        &self,
        _: Request<v1::ParseDecisionRequest>,
    ) -> Result<Response<v1::ParseDecisionResponse>, Status> {
        Err(Status::unimplemented("ParseDecision"))
    }

    async fn submit_decision(
        &self,
        _: Request<v1::SubmitDecisionRequest>,
    ) -> Result<Response<v1::SubmitDecisionResponse>, Status> {
        Err(Status::unimplemented("SubmitDecision"))
    }

    async fn record_receipt(
        &self,
        _: Request<v1::RecordReceiptRequest>,
    ) -> Result<Response<v1::RecordReceiptResponse>, Status> {
        Err(Status::unimplemented("RecordReceipt"))
    }
}

#[test]
fn a_lease_that_is_cancelled_while_it_is_made_is_given_back() {
    let runtime = Runtime::new().unwrap();
    let (released, mut given_back) = mpsc::unbounded_channel();
    let executor = Arc::new(Executor { asked: Notify::new(), answer: Notify::new(), released });
    let served = Arc::clone(&executor);
    let url = runtime.block_on(async move {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = ExecutorServiceServer::from_arc(served);
        let server = Server::new(Settings::default()).with_service(service);
        tokio::spawn(server.serve(listener, std::future::pending()));
        url
    });
    let home = Home::without_git();
    let mut client = Client::open(&home, &["--drive", &url]);
    let lease = json!({"name": "surety_lease", "arguments": {}});
    let id = client.send("tools/call", lease.clone());
    runtime.block_on(async { timeout(PATIENCE, executor.asked.notified()).await }).unwrap();
    client.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough"}));
    // The cancellation has arrived where a later request is answered. The step is leased only then.
    client.request("tools/list", json!({}));
    executor.answer.notify_one();
    let fence = runtime.block_on(async { timeout(PATIENCE, given_back.recv()).await });
    let fence = fence.expect("the step is given back").unwrap();
    assert_eq!((fence.step_id.as_str(), fence.lease_epoch), ("a", 7));
    // Nothing is held, so that the next call leases.
    let id = client.send("tools/call", lease);
    executor.answer.notify_one();
    let answer = client.answer(id);
    let leased = Called::of(&answer["result"]).ok();
    assert_eq!(leased.value["leased"], true, "{leased:#?}");
    client.end();
    let fence = runtime.block_on(async { timeout(PATIENCE, given_back.recv()).await });
    assert!(fence.is_ok(), "the end of the connection gives it back");
}
