//! Asks a service whether it is serving, by the standard gRPC health service. It needs no token.

use std::time::Duration;

use surety_common::wire::client::{Transport, channel_over};
use tonic::Request;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::failure::Failure;

/// A service that is serving answers at once.
const DEADLINE: Duration = Duration::from_secs(4);

/// Whether the service at this address is serving.
///
/// # Errors
/// The address is invalid, or no service answers.
pub async fn serving(url: &str, transport: &Transport) -> Result<bool, Failure> {
    let mut client = HealthClient::new(channel_over(url, None, transport)?);
    let mut request = Request::new(HealthCheckRequest { service: String::new() });
    request.set_timeout(DEADLINE);
    let answer = tokio::time::timeout(DEADLINE, client.check(request))
        .await
        .unwrap_or_else(|_| Err(tonic::Status::deadline_exceeded("4 s are over")));
    let answer = answer.map_err(|status| Failure::from_service(url, &status))?;
    Ok(answer.into_inner().status() == ServingStatus::Serving)
}
