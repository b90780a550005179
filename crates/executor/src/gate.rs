//! The executor's way to the acceptgate.

use crate::pauses::Pauses;
use surety_common::domain::fault::{Fault, FaultClass};
use surety_common::wire::client::ServiceChannel;
use surety_common::wire::status::from_status;
use surety_common::wire::v1;
use surety_common::wire::v1::internal_service_client::InternalServiceClient;
use uuid::Uuid;

/// How many times the gate may meet a defect over one run before that is no passing one: with the
/// pauses in between, five seconds and more, in which a gate that is being replaced is back.
const MAX_DEFECTS: u32 = 8;

/// Where a verdict moved the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// It is DONE.
    Done,
    /// It is in another state, which its row says.
    Elsewhere,
}

/// The acceptgate, wherever it is. Cloning shares the connection.
#[derive(Clone)]
pub struct Gate {
    client: InternalServiceClient<ServiceChannel>,
}

impl Gate {
    /// The gate behind a channel.
    pub fn new(channel: ServiceChannel) -> Self {
        Self { client: InternalServiceClient::new(channel) }
    }

    /// Asks for the verdict on a run, again and again while the gate or its database is away. The
    /// gate moves the run itself; the call may be repeated safely.
    ///
    /// # Errors
    /// The gate's answer when trying again does not help; of class internal when it met a defect over
    /// this run too often.
    ///
    /// # Cancel safety
    /// A verdict under way is stored or is not, which the row says; one that comes later finds another
    /// version or lease there, and is lost.
    pub async fn evaluate_run(&self, run_id: Uuid, lease_epoch: i64) -> Result<Moved, Fault> {
        let mut defects = 0;
        let mut pauses = Pauses::new();
        loop {
            let request = v1::EvaluateRunRequest {
                run_id: run_id.to_string(),
                lease_epoch: u64::try_from(lease_epoch).unwrap_or_default(),
            };
            let fault = match self.client.clone().evaluate_run(request).await {
                Ok(response) => {
                    let accepted =
                        response.into_inner().verdict.is_some_and(|verdict| verdict.accepted);
                    return Ok(if accepted { Moved::Done } else { Moved::Elsewhere });
                }
                Err(status) => from_status(&status),
            };
            defects += u32::from(fault.class == FaultClass::Internal);
            if !worth_a_retry(fault.class) || defects >= MAX_DEFECTS {
                return Err(fault);
            }
            let pause = pauses.next();
            tracing::warn!(%run_id, %fault, retry_in_ms = pause.as_millis(), "waiting for the gate");
            tokio::time::sleep(pause).await;
        }
    }
}

/// Whether the same call may succeed later. An unknown caller may be one whose token file is just
/// being replaced, so that is waited for too, in the open: each try is logged.
fn worth_a_retry(class: FaultClass) -> bool {
    match class {
        FaultClass::Unavailable
        | FaultClass::DeadlineExceeded
        | FaultClass::Cancelled
        | FaultClass::ResourceExhausted
        | FaultClass::Internal
        | FaultClass::Unauthenticated => true,
        FaultClass::InvalidArgument
        | FaultClass::NotFound
        | FaultClass::AlreadyExists
        | FaultClass::FailedPrecondition
        | FaultClass::Aborted
        | FaultClass::PermissionDenied
        | FaultClass::Unimplemented => false,
    }
}
