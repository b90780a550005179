//! The RPCs of the gate: wire to domain, one call, domain to wire.

use crate::check::http_probe::Probes;
use crate::gate::Gate;
use crate::stateless::{self, Evaluated, beside};
use chrono::{DateTime, Utc};
use std::sync::Arc;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::receipt::{ChainFinding, ChainReport};
use surety_common::domain::signature::{EvidenceReport, KeyId, TrustedKeys, check_export};
use surety_common::store::{self, TrustSource};
use surety_common::wire::caller::Caller;
use surety_common::wire::run::{DatedVerdict, verdict_of};
use surety_common::wire::status::{needs_database, to_status};
use surety_common::wire::v1::accept_gate_service_server::AcceptGateService;
use surety_common::wire::v1::internal_service_server::InternalService;
use surety_common::wire::v1::{self, verify_receipts_request::Source};
use surety_common::wire::value::id;
use tonic::{Request, Response, Status};

/// The gate's handlers.
#[derive(Clone)]
pub(crate) struct Service {
    /// None in stateless mode, which has no runs.
    gate: Option<Arc<Gate>>,
    probes: Arc<Probes>,
    /// The keys whose signatures count; none where no file names them.
    trust: Option<Arc<dyn TrustSource>>,
}

impl Service {
    /// Creates handlers over a gate.
    pub(crate) fn new(gate: Arc<Gate>) -> Self {
        Self { probes: Arc::clone(&gate.probes), trust: gate.trust.clone(), gate: Some(gate) }
    }

    /// The handlers that store no state.
    pub(crate) fn stateless(probes: Arc<Probes>, trust: Option<Arc<dyn TrustSource>>) -> Self {
        Self { gate: None, probes, trust }
    }

    /// The keys that this gate trusts.
    fn trusted(&self) -> Option<Arc<TrustedKeys>> {
        self.trust.as_ref().map(|trust| trust.trusted())
    }

    fn gate(&self, rpc: &str) -> Result<&Gate, Status> {
        self.gate.as_deref().ok_or_else(|| needs_database(rpc))
    }
}

#[tonic::async_trait]
impl AcceptGateService for Service {
    async fn evaluate(
        &self,
        request: Request<v1::EvaluateRequest>,
    ) -> Result<Response<v1::EvaluateResponse>, Status> {
        let judged = stateless::evaluate(request.into_inner(), &self.probes).await;
        let evaluated: Evaluated = judged.map_err(status)?;
        Ok(Response::new(evaluated.into()))
    }

    async fn get_verdict(
        &self,
        request: Request<v1::GetVerdictRequest>,
    ) -> Result<Response<v1::GetVerdictResponse>, Status> {
        let gate = self.gate("GetVerdict")?;
        let caller = Caller::of(&request).map_err(status)?;
        let v1::GetVerdictRequest { run_id, plan_revision } = request.into_inner();
        let run_id = id("run_id", &run_id).map_err(Fault::from).map_err(status)?;
        let (at, record) = gate.verdict(&caller, run_id, plan_revision).await.map_err(status)?;
        let signature = gate.verdict_signature(run_id, at).await.map_err(status)?;
        let mut verdict = verdict_of(run_id, at, record);
        if let Some((key_id, signature)) = signature {
            (verdict.key_id, verdict.signature) = (key_id.to_string(), signature);
        }
        Ok(Response::new(v1::GetVerdictResponse { verdict: Some(verdict) }))
    }

    async fn verify_receipts(
        &self,
        request: Request<v1::VerifyReceiptsRequest>,
    ) -> Result<Response<v1::VerifyReceiptsResponse>, Status> {
        let caller = Caller::of(&request).map_err(status)?;
        let report = match request.into_inner().source {
            Some(Source::RunId(run_id)) => {
                let gate = self.gate("VerifyReceipts of a stored run")?;
                let run_id = id("run_id", &run_id).map_err(Fault::from).map_err(status)?;
                gate.verify_receipts(&caller, run_id).await.map_err(status)?
            }
            Some(Source::Export(export)) => {
                let keys = self.trusted();
                beside(move || check_export(&export, keys.as_deref())).await.map_err(status)?
            }
            Some(Source::Receipts(chain)) => {
                let keys = self.trusted();
                let check = move || stateless::check_receipts(chain, keys.as_deref());
                beside(check).await.map_err(status)?
            }
            None => return Err(status(missing("source"))),
        };
        Ok(Response::new(verified(report)))
    }
}

#[tonic::async_trait]
impl InternalService for Service {
    async fn evaluate_run(
        &self,
        request: Request<v1::EvaluateRunRequest>,
    ) -> Result<Response<v1::EvaluateRunResponse>, Status> {
        let gate = self.gate("EvaluateRun")?;
        let caller = Caller::of(&request).map_err(status)?;
        let v1::EvaluateRunRequest { run_id, lease_epoch } = request.into_inner();
        let run_id = id("run_id", &run_id).map_err(Fault::from).map_err(status)?;
        let lease_epoch = i64::try_from(lease_epoch).unwrap_or(i64::MAX);
        let decided = gate.judge(&caller, run_id, lease_epoch).await.map_err(status)?;
        let verdict = decided.map(|(at, record)| verdict_of(run_id, at, record));
        Ok(Response::new(v1::EvaluateRunResponse { verdict }))
    }
}

impl Gate {
    /// The latest verdict on a run, or the latest on one plan revision.
    async fn verdict(
        &self,
        caller: &Caller,
        run_id: uuid::Uuid,
        plan_revision: u32,
    ) -> Result<DatedVerdict, Fault> {
        let record = self.find_for(caller, run_id).await?;
        let found = match (record.execution.counters.verdict_sequence, plan_revision) {
            (0, _) => None,
            (latest, 0) => store::verdict(&self.pool, run_id, latest).await?,
            (_, revision) => {
                store::verdict_about(&self.pool, run_id, revision, &self.actor()).await?
            }
        };
        found.ok_or_else(|| {
            Fault::new(FaultCode::VerdictNotFound, format!("run {run_id} has no such verdict"))
        })
    }

    /// The key and the signature of the verdict that was given at a time.
    async fn verdict_signature(
        &self,
        run_id: uuid::Uuid,
        at: DateTime<Utc>,
    ) -> Result<Option<(KeyId, Vec<u8>)>, Fault> {
        Ok(store::verdict_signature(&self.pool, run_id, at).await?)
    }

    async fn verify_receipts(
        &self,
        caller: &Caller,
        run_id: uuid::Uuid,
    ) -> Result<EvidenceReport, Fault> {
        self.check_reach(caller, run_id).await?;
        let signed = store::SignedRun::find(&self.pool, run_id).await?;
        let keys = self.trust.as_ref().map(|trust| trust.trusted());
        let not_found =
            || Fault::new(FaultCode::RunNotFound, format!("no run has the id {run_id}"));
        Ok(signed.ok_or_else(not_found)?.check(keys.as_deref(), |_| ()).await?)
    }
}

fn verified(report: EvidenceReport) -> v1::VerifyReceiptsResponse {
    let EvidenceReport { chain, signed_receipt_count, status, .. } = report;
    let valid = chain.is_whole();
    let ChainReport { receipt_count, chain_digest, findings } = chain;
    let finding = |ChainFinding { seq, message }| v1::ReceiptFinding { seq, message };
    v1::VerifyReceiptsResponse {
        valid,
        receipt_count,
        chain_digest,
        findings: findings.into_iter().map(finding).collect(),
        signed_receipt_count,
        signatures: Some(status.into()),
    }
}

fn status(fault: Fault) -> Status {
    to_status(&fault)
}

fn missing(field: &str) -> Fault {
    use surety_common::domain::problem::{Code, Problem};
    Problem::at(Code::FieldMissing, field, "is missing; set it").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::poll;
    use std::pin::pin;
    use surety_common::domain::identity::Role;

    /// A check of a large file takes as long as thousands of signatures do: other calls and health checks go on.
    #[test]
    fn what_comes_with_a_request_is_checked_beside_the_threads_of_the_runtime() {
        let probes = Arc::new(Probes::new(None).unwrap());
        let service = Service::stateless(probes, None);
        let path = "/surety.v1.AcceptGateService/VerifyReceipts";
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            for source in
                [Source::Export("{}\n".to_owned()), Source::Receipts(v1::ReceiptChain::default())]
            {
                // The one thread for such work is taken, so that a check beside the runtime cannot end yet.
                let (release, taken) = std::sync::mpsc::channel::<()>();
                let busy = tokio::task::spawn_blocking(move || taken.recv());
                let mut request = Request::new(v1::VerifyReceiptsRequest { source: Some(source) });
                request
                    .extensions_mut()
                    .insert(Caller::internal("reader", Role::Viewer, path).unwrap());
                let mut checking = pin!(service.verify_receipts(request));
                assert!(poll!(&mut checking).is_pending());
                drop(release);
                assert!(busy.await.unwrap().is_err());
                let report = checking.await.unwrap().into_inner();
                assert_eq!(report.signed_receipt_count, 0);
            }
        });
    }
}
