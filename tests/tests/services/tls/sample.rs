//! A port in this process whose one call answers the name of its caller.

use anyhow::{Result, bail};
use surety_common::domain::identity::{Identity, Namespaces, Role};
use surety_common::tls::Tls;
use surety_common::wire::caller::Caller;
use surety_common::wire::client::{ServiceChannel, Transport, channel_over};
use surety_common::wire::server::{Authentication, Server, Settings, bind};
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::accept_gate_service_client::AcceptGateServiceClient;
use surety_common::wire::v1::accept_gate_service_server::{
    AcceptGateService, AcceptGateServiceServer,
};
use tonic::{Request, Response, Status};

/// The token that the port knows, and the name of its identity.
pub(crate) const TOKEN: &str = "right";
pub(crate) const NAME: &str = "token";

#[derive(Clone)]
struct Sample;

#[tonic::async_trait]
impl AcceptGateService for Sample {
    async fn evaluate(
        &self,
        request: Request<v1::EvaluateRequest>,
    ) -> Result<Response<v1::EvaluateResponse>, Status> {
        let caller = Caller::of(&request).map_err(|fault| Status::internal(fault.message))?;
        let problem = v1::Problem { message: caller.name().to_owned(), ..v1::Problem::default() };
        let outcome = Some(v1::evaluate_response::Outcome::Problem(problem));
        Ok(Response::new(v1::EvaluateResponse { outcome, ..v1::EvaluateResponse::default() }))
    }

    async fn get_verdict(
        &self,
        _: Request<v1::GetVerdictRequest>,
    ) -> Result<Response<v1::GetVerdictResponse>, Status> {
        Err(Status::not_found("none"))
    }

    async fn verify_receipts(
        &self,
        _: Request<v1::VerifyReceiptsRequest>,
    ) -> Result<Response<v1::VerifyReceiptsResponse>, Status> {
        Err(Status::not_found("none"))
    }
}

/// Serves on a free port, and answers the port's URL.
pub(crate) async fn serve(tls: Tls) -> Result<String> {
    let identity = Identity::new(NAME, [Role::Viewer], Namespaces::Every)?;
    let authentication = Authentication::stateless(&[(Token::new(TOKEN)?.hash(), identity)]);
    let settings = Settings { authentication, tls: Some(tls), ..Settings::default() };
    let listener = bind("127.0.0.1:0".parse()?, true).await?;
    let address = listener.local_addr()?;
    let server = Server::new(settings).with_service(AcceptGateServiceServer::new(Sample));
    tokio::spawn(server.serve(listener, std::future::pending()));
    Ok(format!("https://{address}"))
}

pub(crate) type Client = AcceptGateServiceClient<ServiceChannel>;

pub(crate) fn client(url: &str, transport: &Transport, token: Option<&str>) -> Result<Client> {
    let token = token.map(Token::new).transpose()?;
    Ok(AcceptGateServiceClient::new(channel_over(url, token.as_ref(), transport)?))
}

/// The name of the caller, as the port sees it.
pub(crate) async fn name_of(mut client: Client) -> Result<String> {
    let answer = client.evaluate(v1::EvaluateRequest::default()).await?.into_inner();
    match answer.outcome {
        Some(v1::evaluate_response::Outcome::Problem(problem)) => Ok(problem.message),
        other => bail!("the sample answers a problem: {other:?}"),
    }
}

/// The status of a refused call.
pub(crate) async fn refusal(client: Client) -> Status {
    let refused = name_of(client).await.expect_err("a refusal");
    refused.downcast().expect("a status")
}
