//! `ToolchainService`: tasks, their histories and their agents, hooks and their deliveries, mail.

use super::page::Page;
use super::task_entry::{add, read_report, report};
use super::task_wire::{entry, read_forge, task};
use super::{Service, caller, status};
use crate::call::Call;
use crate::planner::Planner;
use crate::task::{
    self, Admitted, AdmittedTask, Mail, TASK_TYPES, TaskType, Toolchain, find_task_type,
};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use std::sync::Arc;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::identity::Object;
use surety_common::domain::machine::run::RunState;
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::toolchain::{Delivery, Reading};
use surety_common::store::{self, StoredTask, TaskFilter, TaskPage};
use surety_common::wire::caller::Caller;
use surety_common::wire::run::read_run_state;
use surety_common::wire::v1;
use surety_common::wire::v1::toolchain_service_server::ToolchainService;
use surety_common::wire::value::id;
use tonic::{Request, Response, Status};
use uuid::Uuid;

#[tonic::async_trait]
impl ToolchainService for Service {
    async fn submit_action_report(
        &self,
        request: Request<v1::SubmitActionReportRequest>,
    ) -> Result<Response<v1::SubmitActionReportResponse>, Status> {
        let caller = caller(&request)?;
        let response = self.take_report(&caller, request.into_inner()).await.map_err(status)?;
        Ok(Response::new(response))
    }

    async fn list_tasks(
        &self,
        request: Request<v1::ListTasksRequest>,
    ) -> Result<Response<v1::ListTasksResponse>, Status> {
        let caller = caller(&request)?;
        let mut request = request.into_inner();
        let page = Page::of(&mut request).map_err(status)?;
        let found = self.tasks(&caller, request, &page).await.map_err(status)?;
        let next_page_token = page.token(found.next);
        let tasks = found.tasks.into_iter().map(task).collect();
        Ok(Response::new(v1::ListTasksResponse { tasks, next_page_token }))
    }

    async fn get_task(
        &self,
        request: Request<v1::GetTaskRequest>,
    ) -> Result<Response<v1::GetTaskResponse>, Status> {
        let caller = caller(&request)?;
        let found = self.of_task(&caller, &request.into_inner().run_id).await;
        let (_, mut found) = found.map_err(status)?;
        let instructions = std::mem::take(&mut found.instructions);
        Ok(Response::new(v1::GetTaskResponse { task: Some(task(found)), instructions }))
    }

    async fn put_hook(
        &self,
        request: Request<v1::PutHookRequest>,
    ) -> Result<Response<v1::PutHookResponse>, Status> {
        let caller = caller(&request)?;
        let answer = self.store_hook(&caller, request.into_inner()).await;
        answer.map(Response::new).map_err(status)
    }

    async fn list_hooks(
        &self,
        request: Request<v1::ListHooksRequest>,
    ) -> Result<Response<v1::ListHooksResponse>, Status> {
        let caller = caller(&request)?;
        let answer = self.all_hooks(&caller).await;
        answer.map(Response::new).map_err(status)
    }

    async fn delete_hook(
        &self,
        request: Request<v1::DeleteHookRequest>,
    ) -> Result<Response<v1::DeleteHookResponse>, Status> {
        let caller = caller(&request)?;
        let answer = self.remove_hook(&caller, &request.into_inner().name).await;
        answer.map(Response::new).map_err(status)
    }

    async fn list_deliveries(
        &self,
        request: Request<v1::ListDeliveriesRequest>,
    ) -> Result<Response<v1::ListDeliveriesResponse>, Status> {
        let caller = caller(&request)?;
        let answer = self.list_stored_deliveries(&caller, request.into_inner()).await;
        answer.map(Response::new).map_err(status)
    }

    async fn get_delivery(
        &self,
        request: Request<v1::GetDeliveryRequest>,
    ) -> Result<Response<v1::GetDeliveryResponse>, Status> {
        let caller = caller(&request)?;
        let answer = self.show_delivery(&caller, &request.into_inner().delivery_id).await;
        answer.map(Response::new).map_err(status)
    }

    async fn replay_delivery(
        &self,
        request: Request<v1::ReplayDeliveryRequest>,
    ) -> Result<Response<v1::ReplayDeliveryResponse>, Status> {
        let caller = caller(&request)?;
        let answer = self.process_again(&caller, &request.into_inner().delivery_id).await;
        answer.map(Response::new).map_err(status)
    }

    async fn send_mail(
        &self,
        request: Request<v1::SendMailRequest>,
    ) -> Result<Response<v1::SendMailResponse>, Status> {
        let caller = caller(&request)?;
        let answer = self.send(&caller, request.into_inner()).await;
        answer.map(Response::new).map_err(status)
    }

    async fn list_mail(
        &self,
        request: Request<v1::ListMailRequest>,
    ) -> Result<Response<v1::ListMailResponse>, Status> {
        let caller = caller(&request)?;
        let answer = self.list_messages(&caller, request.into_inner()).await;
        answer.map(Response::new).map_err(status)
    }

    async fn read_mail(
        &self,
        request: Request<v1::ReadMailRequest>,
    ) -> Result<Response<v1::ReadMailResponse>, Status> {
        let caller = caller(&request)?;
        let answer = self.read_message(&caller, &request.into_inner().mail_id).await;
        answer.map(Response::new).map_err(status)
    }

    async fn reply_mail(
        &self,
        request: Request<v1::ReplyMailRequest>,
    ) -> Result<Response<v1::ReplyMailResponse>, Status> {
        let caller = caller(&request)?;
        let answer = self.reply(&caller, request.into_inner()).await;
        answer.map(Response::new).map_err(status)
    }

    async fn add_task_entry(
        &self,
        request: Request<v1::AddTaskEntryRequest>,
    ) -> Result<Response<v1::AddTaskEntryResponse>, Status> {
        let caller = caller(&request)?;
        let request = request.into_inner();
        let (planner, found) = self.of_task(&caller, &request.run_id).await.map_err(status)?;
        let added = add(&planner, &caller, &found, &request).await.map_err(status)?;
        Ok(Response::new(added))
    }

    async fn list_task_entries(
        &self,
        request: Request<v1::ListTaskEntriesRequest>,
    ) -> Result<Response<v1::ListTaskEntriesResponse>, Status> {
        let caller = caller(&request)?;
        let mut request = request.into_inner();
        let page = Page::of(&mut request).map_err(status)?;
        let (planner, found) = self.of_task(&caller, &request.run_id).await.map_err(status)?;
        let after = page.after().map_err(status)?.unwrap_or_default();
        let limit = page.limit;
        let listed = store::list_entries(&planner.pool, found.run_id, after, limit + 1).await;
        let mut rows = listed.map_err(status)?;
        let most = usize::try_from(limit).unwrap_or_default();
        let is_more = rows.len() > most;
        rows.truncate(most);
        let next_page_token = page.token(rows.last().filter(|_| is_more).map(|row| row.sequence));
        let entries = rows.into_iter().map(entry).collect();
        Ok(Response::new(v1::ListTaskEntriesResponse { entries, next_page_token }))
    }

    async fn submit_event(
        &self,
        request: Request<v1::SubmitEventRequest>,
    ) -> Result<Response<v1::SubmitEventResponse>, Status> {
        let caller = caller(&request)?;
        let response = self.take_event(&caller, &request.into_inner()).await.map_err(status)?;
        Ok(Response::new(response))
    }

    async fn put_agent(
        &self,
        request: Request<v1::PutAgentRequest>,
    ) -> Result<Response<v1::PutAgentResponse>, Status> {
        self.put(request).await
    }

    async fn list_agents(
        &self,
        request: Request<v1::ListAgentsRequest>,
    ) -> Result<Response<v1::ListAgentsResponse>, Status> {
        self.list(request).await
    }

    async fn delete_agent(
        &self,
        request: Request<v1::DeleteAgentRequest>,
    ) -> Result<Response<v1::DeleteAgentResponse>, Status> {
        self.delete(request).await
    }
}

impl Service {
    async fn take_report(
        &self,
        caller: &Caller,
        request: v1::SubmitActionReportRequest,
    ) -> Result<v1::SubmitActionReportResponse, Fault> {
        let (planner, found) = self.of_task(caller, &request.run_id).await?;
        if found.task_type == Mail.name() {
            let message = "a message is reported by ReadMail, and answered by ReplyMail";
            return Err(Fault::new(FaultCode::FailedPrecondition, message));
        }
        let entry = read_report(caller, &found, &request, planner.now())?;
        let call = Call::of(found.run_id, caller.name(), &request)?;
        let before: Option<v1::SubmitActionReportResponse> = planner.answered_before(&call).await?;
        if before.is_none() && found.state.is_terminal() {
            let message =
                format!("the task already ended as {}, which is final", found.state.as_str());
            return Err(Fault::new(FaultCode::RunTerminal, message));
        }
        report(&planner, &call, &entry).await?;
        let after = task::report::follow(&planner, found.run_id).await?;
        let accepted = after.state == RunState::Done;
        let reason = match (&after.terminal, accepted) {
            (_, true) => String::new(),
            (Some(terminal), false) => terminal.user_message.clone(),
            (None, false) => task::report::why_open(&planner, &after).await?,
        };
        Ok(v1::SubmitActionReportResponse { accepted, reason, task: Some(task(after)) })
    }

    async fn take_event(
        &self,
        caller: &Caller,
        request: &v1::SubmitEventRequest,
    ) -> Result<v1::SubmitEventResponse, Fault> {
        let planner = self.planner_of(caller, &Toolchain).await?;
        let v1::SubmitEventRequest { forge, event, body_json } = request;
        let forge = read_forge("forge", forge)?;
        let delivery = Delivery { forge, event, body: body_json };
        let rules = task::reading(&planner, forge, body_json.as_bytes()).await;
        let events = match delivery.read(&rules)? {
            Reading::Tasks(events) => events,
            Reading::Ignored(reason) => {
                let ignored = reason.to_string();
                return Ok(v1::SubmitEventResponse { tasks: Vec::new(), ignored });
            }
            Reading::Withdrawn(withdrawal) => {
                task::withdraw(&planner, &withdrawal).await?;
                let ignored = withdrawal.reason.to_string();
                return Ok(v1::SubmitEventResponse { tasks: Vec::new(), ignored });
            }
        };
        let origin = format!("submitted by {}", caller.name());
        let Admitted { tasks } = task::admit(&planner, &origin, &events).await?;
        let submitted = |task: AdmittedTask| v1::SubmittedEvent {
            run_id: task.run_id.map(|id| id.to_string()).unwrap_or_default(),
            result: task.state.as_str().to_owned(),
            assignee: task.assignee,
        };
        let tasks = tasks.into_iter().map(submitted).collect();
        Ok(v1::SubmitEventResponse { tasks, ignored: String::new() })
    }

    async fn tasks(
        &self,
        caller: &Caller,
        request: v1::ListTasksRequest,
        page: &Page,
    ) -> Result<TaskPage, Fault> {
        let v1::ListTasksRequest { task_type, assignee, states, .. } = request;
        let state = |number: i32| {
            read_run_state(number).ok_or_else(|| {
                Problem::at(Code::TypeMismatch, "states", "holds a number that is no state")
            })
        };
        let filter = TaskFilter {
            namespace: String::new(),
            assignee,
            states: states.into_iter().map(state).collect::<Result<_, Problem>>()?,
            before: page.after()?,
            limit: page.limit,
        };
        let mut tasks = Vec::new();
        let mut is_more = false;
        for kind in types(&task_type)? {
            let planner = match self.planner_of(caller, kind).await {
                Ok(planner) => planner,
                // Lists leave out what the caller does not reach.
                Err(fault) if fault.reason == not_reached(kind).reason => continue,
                Err(fault) => return Err(fault),
            };
            let filter = TaskFilter { namespace: kind.namespace().to_owned(), ..filter.clone() };
            let page = store::list_tasks(&planner.pool, &filter).await?;
            is_more |= page.next.is_some();
            tasks.extend(page.tasks);
        }
        tasks.sort_by_key(|task| std::cmp::Reverse(task.run_id));
        let most = usize::try_from(filter.limit).unwrap_or_default();
        is_more |= tasks.len() > most;
        tasks.truncate(most);
        let next = tasks.last().map(|task| task.run_id).filter(|_| is_more);
        Ok(TaskPage { tasks, next })
    }

    /// The task of a run, once its caller may make the call on it.
    async fn of_task(
        &self,
        caller: &Caller,
        run_id: &str,
    ) -> Result<(Arc<Planner>, StoredTask), Fault> {
        let run_id: Uuid = id("run_id", run_id)?;
        let not_found = || task::not_found(run_id);
        // All at once: while the database of one type does not answer, the tasks of the others are found.
        let mut finding: FuturesUnordered<_> =
            TASK_TYPES.iter().map(|kind| self.find_in(*kind, run_id)).collect();
        let mut away = None;
        while let Some(found) = finding.next().await {
            match found {
                Ok(Some((planner, found))) => {
                    caller.may(&Object::namespace(&found.namespace), not_found)?;
                    return Ok((planner, found));
                }
                Ok(None) => {}
                Err(fault) => away = away.or(Some(fault)),
            }
        }
        Err(away.unwrap_or_else(not_found))
    }

    /// The task of a run, if it is of this type.
    async fn find_in(
        &self,
        kind: &dyn TaskType,
        run_id: Uuid,
    ) -> Result<Option<(Arc<Planner>, StoredTask)>, Fault> {
        let planner = self.shards.of_namespace(kind.namespace()).await?;
        let found = store::find_task(&planner.pool, run_id).await?;
        Ok(found.filter(|task| task.task_type == kind.name()).map(|found| (planner, found)))
    }

    /// The planner of the tasks of a type, for a caller that reaches them.
    async fn planner_of(
        &self,
        caller: &Caller,
        kind: &dyn TaskType,
    ) -> Result<Arc<Planner>, Fault> {
        caller.may(&Object::namespace(kind.namespace()), || not_reached(kind))?;
        self.shards.of_namespace(kind.namespace()).await
    }
}

fn not_reached(kind: &dyn TaskType) -> Fault {
    let message = format!("no namespace {:?} is reached by this identity", kind.namespace());
    Fault::new(FaultCode::NamespaceNotFound, message)
}

/// The task types of a list: the named one, or all.
fn types(named: &str) -> Result<Vec<&'static dyn TaskType>, Problem> {
    if named.is_empty() {
        return Ok(TASK_TYPES.to_vec());
    }
    let found = find_task_type(named).ok_or_else(|| {
        let known: Vec<_> = TASK_TYPES.iter().map(|kind| kind.name()).collect();
        let message = format!("is no task type that is served; use one of {}", known.join(", "));
        Problem::at(Code::TypeMismatch, "task_type", message)
    })?;
    Ok(vec![found])
}
