//! `RunService`.

use super::full_view::{full_view, present};
use super::page::Page;
use super::request::Sender;
use super::{NamedRun, Service, caller, overlays, request, status, waits, work};
use crate::call::Call;
use crate::intake::{self, Accepted, RunRequest};
use crate::planner::Planner;
use crate::runs::{Watch, Watched, not_found};
use crate::shards::{ListedRun, RunList};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};
use surety_common::domain::fault::{Fault, FaultClass, FaultCode};
use surety_common::domain::identity::Object;
use surety_common::domain::journal::Wanted;
use surety_common::domain::problem::{Code, Problem, Warning};
use surety_common::domain::verification::Sight;
use surety_common::store::{self, RunFilter, RunOwner, SignedRun, StoreError};
use surety_common::wire::caller::Caller;
use surety_common::wire::event::event;
use surety_common::wire::run::{read_run_state, run, trace_id};
use surety_common::wire::trace::TraceContext;
use surety_common::wire::v1;
use surety_common::wire::v1::create_run_request::PlanSource;
use surety_common::wire::v1::export_receipts_response::Line;
use surety_common::wire::v1::run_service_server::RunService;
use surety_common::wire::value::{id, moment};
use surety_common::wire::verdict::read_stop_reason;
use tonic::{Request, Response, Status};
use uuid::Uuid;

#[tonic::async_trait]
impl RunService for Service {
    async fn create_run(
        &self,
        request: Request<v1::CreateRunRequest>,
    ) -> Result<Response<v1::CreateRunResponse>, Status> {
        let caller_trace =
            request.extensions().get::<TraceContext>().map(|trace| trace.traceparent().to_owned());
        let (order, warnings) =
            self.read_run_request(request, caller_trace).await.map_err(status)?;
        let owner =
            RunOwner { namespace: order.namespace.clone(), submitter: order.submitter.clone() };
        let planner = self.shards.of_namespace(&order.namespace).await.map_err(status)?;
        let accepted = intake::create(&planner, order).await.map_err(status)?;
        let (run, existed) = match accepted {
            Accepted::Made(record) => {
                self.shards.remember(record.spec.id, owner);
                (run(*record, None), false)
            }
            Accepted::Existed(id) => (shown(&planner, id).await?, true),
        };
        Ok(Response::new(v1::CreateRunResponse {
            run: Some(run),
            warnings: warnings.into_iter().map(Into::into).collect(),
            existed,
        }))
    }

    async fn fork_run(
        &self,
        request: Request<v1::ForkRunRequest>,
    ) -> Result<Response<v1::ForkRunResponse>, Status> {
        let caller = caller(&request)?;
        let caller_trace =
            request.extensions().get::<TraceContext>().map(|trace| trace.traceparent().to_owned());
        let request = request.into_inner();
        let NamedRun { id, planner: source, sight, namespace, .. } =
            self.of_run(&caller, &request.run_id).await?;
        request::check_open(&namespace).map_err(status)?;
        let planner = self.shards.of_namespace(&namespace).await.map_err(status)?;
        let fork =
            request::read_fork(request, caller.name(), sight, caller_trace).map_err(status)?;
        let (run, existed) =
            match intake::fork((&source, &planner), id, fork).await.map_err(status)? {
                Accepted::Made(record) => {
                    let owner = RunOwner { namespace, submitter: caller.name().to_owned() };
                    self.shards.remember(record.spec.id, owner);
                    (run(*record, None), false)
                }
                Accepted::Existed(id) => (shown(&planner, id).await?, true),
            };
        Ok(Response::new(v1::ForkRunResponse { run: Some(run), existed }))
    }

    async fn get_run(
        &self,
        request: Request<v1::GetRunRequest>,
    ) -> Result<Response<v1::GetRunResponse>, Status> {
        let caller = caller(&request)?;
        let v1::GetRunRequest { run_id, view } = request.into_inner();
        let NamedRun { id, planner, sight, .. } = self.of_run(&caller, &run_id).await?;
        if view == i32::from(v1::RunView::Full) {
            return full_view(&planner, id, sight).await.map(Response::new).map_err(status);
        }
        let record = planner.find(id).await.map_err(status)?;
        let verdict = planner.verdict(&record).await.map_err(status)?;
        let run = present(&planner, record, verdict).await.map_err(status)?;
        Ok(Response::new(v1::GetRunResponse { run: Some(run), ..Default::default() }))
    }

    async fn list_receipts(
        &self,
        request: Request<v1::ListReceiptsRequest>,
    ) -> Result<Response<v1::ListReceiptsResponse>, Status> {
        let caller = caller(&request)?;
        let mut request = request.into_inner();
        let page = Page::of(&mut request).map_err(status)?;
        let NamedRun { id, planner, sight, .. } = self.of_run(&caller, &request.run_id).await?;
        let found = work::page(&planner, id, Wanted::Receipts, &page).await?;
        let receipts = found.events.into_iter();
        let receipt = |event| work::receipt_in(event, sight, &found.proofs);
        let receipts = receipts.filter_map(receipt).collect();
        let next_page_token = page.token(found.next);
        Ok(Response::new(v1::ListReceiptsResponse { receipts, next_page_token }))
    }

    async fn list_turns(
        &self,
        request: Request<v1::ListTurnsRequest>,
    ) -> Result<Response<v1::ListTurnsResponse>, Status> {
        let caller = caller(&request)?;
        let mut request = request.into_inner();
        let page = Page::of(&mut request).map_err(status)?;
        let NamedRun { id, planner, .. } = self.of_run(&caller, &request.run_id).await?;
        let found = work::page(&planner, id, Wanted::Turns, &page).await?;
        let turns = found.events.into_iter().filter_map(work::turn_in).collect();
        let next_page_token = page.token(found.next);
        Ok(Response::new(v1::ListTurnsResponse { turns, next_page_token }))
    }

    type GetOutputStream = BoxStream<'static, Result<v1::GetOutputResponse, Status>>;

    async fn get_output(
        &self,
        request: Request<v1::GetOutputRequest>,
    ) -> Result<Response<Self::GetOutputStream>, Status> {
        let caller = caller(&request)?;
        let request = request.into_inner();
        let NamedRun { id, planner, sight, .. } = self.of_run(&caller, &request.run_id).await?;
        let parts = work::output(&planner, id, &request, sight).await.map_err(status)?;
        Ok(Response::new(work::stream(parts, request.offset).boxed()))
    }

    async fn list_runs(
        &self,
        request: Request<v1::ListRunsRequest>,
    ) -> Result<Response<v1::ListRunsResponse>, Status> {
        let reached = caller(&request)?.reached();
        let mut request = request.into_inner();
        let page = Page::of(&mut request).map_err(status)?;
        let filter = filter(request, reached, &page).map_err(status)?;
        let RunList { runs, unreadable, next } =
            self.shards.list_runs(&filter).await.map_err(status)?;
        let shown = |ListedRun { record, absent }| {
            let run = run(record, None);
            v1::Run { blocked: run.blocked.or(absent), ..run }
        };
        Ok(Response::new(v1::ListRunsResponse {
            runs: runs.into_iter().map(shown).collect(),
            next_page_token: page.token(next),
            unreadable_run_ids: unreadable.iter().map(Uuid::to_string).collect(),
        }))
    }

    type WatchRunStream = BoxStream<'static, Result<v1::WatchRunResponse, Status>>;

    async fn watch_run(
        &self,
        request: Request<v1::WatchRunRequest>,
    ) -> Result<Response<Self::WatchRunStream>, Status> {
        let caller = caller(&request)?;
        let v1::WatchRunRequest { run_id, from_sequence, follow, progress } = request.into_inner();
        let NamedRun { id, planner, sight, .. } = self.of_run(&caller, &run_id).await?;
        let from = i64::try_from(from_sequence).unwrap_or(i64::MAX);
        let Watch { trace_parent, events } =
            planner.watch(id, from, (follow, progress)).await.map_err(status)?;
        let trace_id = trace_id(&trace_parent).to_owned();
        let stream = events.map(move |found| match found {
            Ok(Watched::Event(found)) => {
                let event = Some(event(id, &trace_id, work::shown(*found, sight)));
                Ok(v1::WatchRunResponse { event, progress: None })
            }
            Ok(Watched::Progress(progress)) => {
                Ok(v1::WatchRunResponse { event: None, progress: Some(progress) })
            }
            Err(fault) => Err(status(fault)),
        });
        Ok(Response::new(stream.boxed()))
    }

    async fn cancel_run(
        &self,
        request: Request<v1::CancelRunRequest>,
    ) -> Result<Response<v1::CancelRunResponse>, Status> {
        let caller = caller(&request)?;
        let request = request.into_inner();
        let NamedRun { id, planner, .. } = self.of_run(&caller, &request.run_id).await?;
        let call = Call::of(id, caller.name(), &request).map_err(status)?;
        let reason = request::read_reason(&request.reason).map_err(status)?;
        let run = planner.cancel(id, &call, &reason).await.map_err(status)?;
        Ok(Response::new(v1::CancelRunResponse { run: Some(run) }))
    }

    async fn list_waits(
        &self,
        request: Request<v1::ListWaitsRequest>,
    ) -> Result<Response<v1::ListWaitsResponse>, Status> {
        let reached = caller(&request)?.reached();
        let page =
            waits::page(&self.shards, reached, request.into_inner()).await.map_err(status)?;
        Ok(Response::new(page))
    }

    async fn answer_question(
        &self,
        request: Request<v1::AnswerQuestionRequest>,
    ) -> Result<Response<v1::AnswerQuestionResponse>, Status> {
        let caller = caller(&request)?;
        let request = request.into_inner();
        let wait_id = id("wait_id", &request.wait_id).map_err(status)?;
        let NamedRun { id, planner, .. } = self.of_wait(&caller, wait_id).await.map_err(status)?;
        let call = Call::of(wait_id, caller.name(), &request).map_err(status)?;
        let answer = request::read_answer(&request.answer).map_err(status)?;
        let answer = (answer, request.question_digest.as_str());
        let run = planner.answer(id, wait_id, &call, answer).await.map_err(status)?;
        Ok(Response::new(v1::AnswerQuestionResponse { run: Some(run) }))
    }

    async fn pause_run(
        &self,
        request: Request<v1::PauseRunRequest>,
    ) -> Result<Response<v1::PauseRunResponse>, Status> {
        let caller = caller(&request)?;
        let request = request.into_inner();
        let NamedRun { id, planner, .. } = self.of_run(&caller, &request.run_id).await?;
        let call = Call::of(id, caller.name(), &request).map_err(status)?;
        let reason = request::read_reason(&request.reason).map_err(status)?;
        let run = planner.pause(id, &call, &reason).await.map_err(status)?;
        Ok(Response::new(v1::PauseRunResponse { run: Some(run) }))
    }

    async fn resume_run(
        &self,
        request: Request<v1::ResumeRunRequest>,
    ) -> Result<Response<v1::ResumeRunResponse>, Status> {
        let caller = caller(&request)?;
        let request = request.into_inner();
        let NamedRun { id, planner, .. } = self.of_run(&caller, &request.run_id).await?;
        let call = Call::of(id, caller.name(), &request).map_err(status)?;
        let reason = request::read_reason(&request.reason).map_err(status)?;
        let run = planner.resume(id, &call, &reason).await.map_err(status)?;
        Ok(Response::new(v1::ResumeRunResponse { run: Some(run) }))
    }

    async fn resolve_confirmation(
        &self,
        request: Request<v1::ResolveConfirmationRequest>,
    ) -> Result<Response<v1::ResolveConfirmationResponse>, Status> {
        let caller = caller(&request)?;
        let request = request.into_inner();
        let wait_id = id("wait_id", &request.wait_id).map_err(status)?;
        let NamedRun { id, planner, .. } = self.of_wait(&caller, wait_id).await.map_err(status)?;
        let call = Call::of(wait_id, caller.name(), &request).map_err(status)?;
        let answer = request::read_confirmation(request).map_err(status)?;
        let run = planner.resolve(id, wait_id, &call, &answer).await.map_err(status)?;
        Ok(Response::new(v1::ResolveConfirmationResponse { run: Some(run) }))
    }

    async fn revoke_grant(
        &self,
        request: Request<v1::RevokeGrantRequest>,
    ) -> Result<Response<v1::RevokeGrantResponse>, Status> {
        let caller = caller(&request)?;
        let request = request.into_inner();
        let NamedRun { id: run_id, planner, .. } = self.of_run(&caller, &request.run_id).await?;
        let grant_id = id("grant_id", &request.grant_id).map_err(status)?;
        let call = Call::of(run_id, caller.name(), &request).map_err(status)?;
        let run = planner.revoke_grant(run_id, grant_id, &call).await.map_err(status)?;
        Ok(Response::new(v1::RevokeGrantResponse { run: Some(run) }))
    }

    async fn extend_budget(
        &self,
        request: Request<v1::ExtendBudgetRequest>,
    ) -> Result<Response<v1::ExtendBudgetResponse>, Status> {
        let caller = caller(&request)?;
        let request = request.into_inner();
        let NamedRun { id, planner, .. } = self.of_run(&caller, &request.run_id).await?;
        let call = Call::of(id, caller.name(), &request).map_err(status)?;
        let extension = request::read_extension(&request).map_err(status)?;
        let run = planner.extend_budget(id, &call, extension).await.map_err(status)?;
        Ok(Response::new(v1::ExtendBudgetResponse { run: Some(run) }))
    }

    type ExportReceiptsStream = BoxStream<'static, Result<v1::ExportReceiptsResponse, Status>>;

    async fn export_receipts(
        &self,
        request: Request<v1::ExportReceiptsRequest>,
    ) -> Result<Response<Self::ExportReceiptsStream>, Status> {
        let caller = caller(&request)?;
        let run_id = request.into_inner().run_id;
        let NamedRun { id, planner, sight, .. } = self.of_run(&caller, &run_id).await?;
        if has_hidden_checks(&planner, id, sight).await.map_err(status)? {
            return Err(status(overlays::hidden("a part of the evidence")));
        }
        let signed = planner.signed(id).await.map_err(status)?;
        let lines = stream::try_unfold(Some((signed, true)), exported);
        let lines = lines.map_err(status).try_flatten();
        let answers = lines.map_ok(|line| v1::ExportReceiptsResponse { line: Some(line) });
        Ok(Response::new(answers.boxed()))
    }
}

impl Service {
    /// An order, once its caller may create runs in its namespace.
    async fn read_run_request(
        &self,
        request: Request<v1::CreateRunRequest>,
        caller_trace: Option<String>,
    ) -> Result<(Box<RunRequest>, Vec<Warning>), Fault> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let namespace = request::named(request.namespace.clone())?;
        let role = caller.may(&Object::namespace(&namespace), || no_namespace(&namespace))?;
        let planner = self.shards.of_namespace(&namespace).await?;
        let policy = planner.policies.find(&namespace).await?;
        let sender = Sender::new(caller.name(), role, policy).with_model(self.has_model);
        let is_text = matches!(request.plan_source, Some(PlanSource::PlanText(_)));
        if !is_text || request.workspace.is_empty() {
            return request::read_run_request(request, &sender, caller_trace);
        }
        // A check that is a path is looked at in the workspace.
        let read = move || request::read_run_request(request, &sender, caller_trace);
        let failed =
            |error: tokio::task::JoinError| Fault::new(FaultCode::Internal, error.to_string());
        tokio::task::spawn_blocking(read).await.map_err(failed)?
    }

    /// The run that waits with this id, once the caller may make the call on it.
    async fn of_wait(&self, caller: &Caller, wait_id: Uuid) -> Result<NamedRun, Fault> {
        let not_found = || {
            let message = format!(
                "no open wait has the id {wait_id}; it was answered, or its time passed: read the run's state"
            );
            Fault::new(FaultCode::WaitNotFound, message).with_field("wait_id")
        };
        let run_id = self.shards.of_wait(wait_id).await?.ok_or_else(not_found)?;
        self.find_run(caller, run_id)
            .await
            .map_err(|fault| if fault.class == FaultClass::NotFound { not_found() } else { fault })
    }
}

pub(super) fn no_namespace(namespace: &str) -> Fault {
    let message = format!("no namespace {namespace:?} is reached by this identity");
    Fault::new(FaultCode::NamespaceNotFound, message).with_field("namespace")
}

/// Whether a run may have checks that a caller may not see: any, where its rows do not read.
async fn has_hidden_checks(planner: &Planner, id: Uuid, sight: Sight) -> Result<bool, Fault> {
    let record = match store::find_run(&planner.pool, id).await {
        Ok(record) => record.ok_or_else(|| not_found(id))?,
        Err(StoreError::Corrupt { .. }) => return Ok(sight != Sight::All),
        Err(error) => return Err(error.into()),
    };
    let mut checks = record.plan.iter().flat_map(|plan| plan.all_checks());
    Ok(checks.any(|check| check.is_hidden() && !sight.covers(check.owner)))
}

/// The state of an export, and whether it is at its first line; none after its last line.
type Exporting = Option<(SignedRun, bool)>;

/// The next lines of an export.
async fn exported(
    exporting: Exporting,
) -> Result<Option<(impl Stream<Item = Result<Line, Status>>, Exporting)>, StoreError> {
    let Some((mut run, begins)) = exporting else { return Ok(None) };
    let (lines, exporting) = if begins {
        (run.head().map(Line::EvidenceJson).to_vec(), Some((run, false)))
    } else if let Some(row) = run.next().await? {
        (run.lines(&row).into_iter().map(kind_of_line).collect(), Some((run, false)))
    } else {
        (run.tail().into_iter().map(kind_of_line).collect(), None)
    };
    Ok(Some((stream::iter(lines.into_iter().map(Ok)), exporting)))
}

/// The lines begin with their first key, because they are canonical.
fn kind_of_line(line: String) -> Line {
    if line.starts_with("{\"payload\":") {
        return Line::EnvelopeJson(line);
    }
    if line.starts_with("{\"chain_end\":") {
        return Line::EndJson(line);
    }
    let others = [
        "{\"proof\":",
        "{\"run\":",
        "{\"task\":",
        "{\"plan\":",
        "{\"commit\":",
        "{\"verdict\":",
        "{\"anchor\":",
        "{\"entry\":",
        "{\"state\":",
    ];
    match others.iter().any(|other| line.starts_with(other)) {
        true => Line::EvidenceJson(line),
        false => Line::ReceiptJson(line),
    }
}

/// A run in its current state.
pub(super) async fn shown(planner: &Planner, id: Uuid) -> Result<v1::Run, Status> {
    let record = planner.find(id).await.map_err(status)?;
    let verdict = planner.verdict(&record).await.map_err(status)?;
    Ok(run(record, verdict))
}

fn filter(
    request: v1::ListRunsRequest,
    reached: Vec<String>,
    page: &Page,
) -> Result<RunFilter, Fault> {
    let v1::ListRunsRequest {
        namespace,
        states,
        labels,
        stop_reasons,
        created_from,
        created_before,
        ..
    } = request;
    let stop_reasons = stop_reasons
        .into_iter()
        .map(|number| read_stop_reason(number).map_err(|error| error.under("stop_reasons").into()))
        .collect::<Result<Vec<_>, Fault>>()?;
    let at = |field, at: Option<_>| at.map(|at| moment(field, at)).transpose();
    let states = states
        .into_iter()
        .map(|number| {
            read_run_state(number).ok_or_else(|| {
                Problem::at(Code::TypeMismatch, "states", format!("{number} is not a run state"))
            })
        })
        .collect::<Result<Vec<_>, Problem>>()?;
    Ok(RunFilter {
        namespace: request::wanted_namespace(namespace)?,
        reached,
        states,
        labels: request::checked_labels(labels)?,
        stop_reasons,
        created_from: at("created_from", created_from)?,
        created_before: at("created_before", created_before)?,
        before: page.after()?,
        limit: page.limit,
    })
}
