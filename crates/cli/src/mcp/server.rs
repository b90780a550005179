//! The tools over the protocol.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CreateTaskResult, CustomRequest,
    CustomResult, GetTaskParams, GetTaskResult, Implementation, InitializeRequestParams,
    InitializeResult, ListToolsResult, PaginatedRequestParams, ProgressToken, ServerCapabilities,
    ServerConfig, Tool as ListedTool, ToolAnnotations, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::task_manager::{TaskExit, TaskManager, TaskOptions};
use rmcp::{ErrorData, Peer, RoleServer};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::answers::{answer_of, answered};
use super::arguments::Call;
use super::ask::ask;
use super::driver::Driver;
use super::observer::{Answer, Observer};
use super::progress::Progress;
use super::tools::{DRIVER_INSTRUCTIONS, INSTRUCTIONS, Tool};
use super::unread::refusal;
use crate::failure::Failure;

/// What long calls of a driving agent do, for its user.
const LEASES_PLAN: &str = "no plan is wanted yet";
const LEASES_STEP: &str = "no step needs a decision yet";
const DECIDES: &str = "the executor works on the decision";
/// How long the result of a task is kept.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// What the agent of a connection does.
#[derive(Debug, Clone)]
pub enum Role {
    /// It works with its own tools, and is observed.
    Observed(Arc<Observer>),
    /// It decides, and the executor acts.
    Driving(Arc<Driver>),
}

impl Role {
    /// Ends all its work.
    pub(super) fn ended(&self) -> &CancellationToken {
        match self {
            Self::Observed(observer) => observer.ended(),
            Self::Driving(driver) => driver.ended(),
        }
    }

    /// The role of a session of its own: leases are not shared, the folder that is observed is.
    fn of_session(&self, number: u64) -> Self {
        match self {
            Self::Observed(observer) => Self::Observed(Arc::clone(observer)),
            Self::Driving(driver) => Self::Driving(Arc::new(driver.of_session(number))),
        }
    }

    /// Says what the end of a connection leaves.
    pub(super) async fn disconnected(&self) {
        match self {
            Self::Observed(observer) => observer.disconnected().await,
            Self::Driving(driver) => driver.disconnected().await,
        }
    }

    const fn tools(&self) -> &'static [Tool] {
        match self {
            Self::Observed(_) => Tool::OBSERVED,
            Self::Driving(_) => Tool::DRIVING,
        }
    }
}

/// The sessions that are open, over HTTP. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Sessions(Arc<Mutex<Open>>);

#[derive(Default)]
struct Open {
    last: u64,
    roles: HashMap<u64, Role>,
}

impl Sessions {
    fn open(&self, role: &Role) -> (u64, Role) {
        let mut open = self.lock();
        open.last += 1;
        let (number, own) = (open.last, role.of_session(open.last));
        open.roles.insert(number, own.clone());
        (number, own)
    }

    /// The role of a session that ends; none where another session goes on with the same work.
    fn close(&self, number: u64) -> Option<Role> {
        let mut open = self.lock();
        let role = open.roles.remove(&number)?;
        let goes_on = matches!(role, Role::Observed(_)) && !open.roles.is_empty();
        (!goes_on).then_some(role)
    }

    /// Ends those that are open.
    pub(super) async fn end(&self) {
        let open: Vec<Role> = self.lock().roles.drain().map(|(_, role)| role).collect();
        for role in open {
            role.disconnected().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session over HTTP. Its end is that of its server.
struct Session {
    sessions: Sessions,
    begun: OnceLock<(u64, Role)>,
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some((number, _)) = self.begun.get() else { return };
        // Without a runtime the process ends, and with it every lease.
        if let (Some(role), Ok(runtime)) = (self.sessions.close(*number), Handle::try_current()) {
            runtime.spawn(async move { role.disconnected().await });
        }
    }
}

/// The server of one connection. Over HTTP it is that of one session, or of one request without a session.
#[derive(Clone)]
pub struct Server {
    role: Role,
    tasks: TaskManager,
    session: Option<Arc<Session>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("role", &self.role).finish_non_exhaustive()
    }
}

impl Server {
    /// A server of one connection. Tasks belong to it.
    #[must_use]
    pub fn new(role: Role) -> Self {
        Self { role, tasks: TaskManager::new(), session: None }
    }

    /// A server of a session over HTTP, or of a request without one: its tasks are asked for by further requests.
    pub(super) fn over_http(role: Role, tasks: TaskManager, sessions: Sessions) -> Self {
        let session = Session { sessions, begun: OnceLock::new() };
        Self { role, tasks, session: Some(Arc::new(session)) }
    }

    fn role(&self) -> &Role {
        let begun = self.session.as_ref().and_then(|session| session.begun.get());
        begun.map_or(&self.role, |(_, role)| role)
    }

    /// Whether the client of a request is not known: over HTTP without a session.
    fn is_anyones(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.begun.get().is_none())
    }
}

fn unknown(role: &Role, name: &str) -> ErrorData {
    let known: Vec<_> = role.tools().iter().map(|tool| tool.name()).collect();
    let name: String = name.chars().take(100).collect();
    ErrorData::invalid_params(
        format!("there is no tool {name:?}; there are {}", known.join(", ")),
        None,
    )
}

/// Where a client is told how far a call is, if it asked for that.
type ProgressTarget = Option<(Peer<RoleServer>, ProgressToken)>;

/// A call that may take long: its answer, or a task where the client takes tasks. The work ends early when the token that
/// it is given is cancelled.
async fn long<W>(
    tasks: TaskManager,
    status: &'static str,
    context: RequestContext<RoleServer>,
    work: impl FnOnce(ProgressTarget, CancellationToken) -> W,
) -> CallToolResponse
where
    W: Future<Output = Result<Answer, Failure>> + Send + 'static,
{
    let takes_tasks =
        context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks());
    let progress_target = progress_target(&context);
    if !takes_tasks {
        return answered(work(progress_target, context.ct).await).into();
    }
    let kept = u64::try_from(KEPT.as_millis()).unwrap_or(u64::MAX);
    let options = TaskOptions::new().with_ttl_ms(kept).with_status_message(status);
    let cancel = CancellationToken::new();
    let working = work(progress_target, cancel.clone());
    let task = tasks.spawn(options, |task| {
        Box::pin(async move {
            tokio::pin!(working);
            tokio::select! {
                ended = &mut working => Ok(answered(ended)),
                () = task.cancelled() => {
                    cancel.cancel();
                    // A round kills its commands before it ends.
                    match working.await {
                        Ok(answer) => Ok(answer_of(answer)),
                        Err(_) => Err(TaskExit::Cancelled),
                    }
                }
            }
        })
    });
    CreateTaskResult::new(task).into()
}

fn progress_target(context: &RequestContext<RoleServer>) -> ProgressTarget {
    context.meta.get_progress_token().map(|token| (context.peer.clone(), token))
}

fn listed(tool: Tool) -> ListedTool {
    let annotations = ToolAnnotations::new()
        .read_only(tool.only_reads())
        .destructive(tool.acts())
        .open_world(tool.acts());
    ListedTool::new(tool.name(), tool.description(), Arc::new(tool.schema()))
        .with_annotations(annotations)
}

impl ServerHandler for Server {
    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        if let Some(session) = &self.session {
            session.begun.get_or_init(|| session.sessions.open(&self.role));
        }
        context.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tasks().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("surety", env!("CARGO_PKG_VERSION")))
            .with_instructions(match &self.role {
                Role::Observed(_) => INSTRUCTIONS,
                Role::Driving(_) => DRIVER_INSTRUCTIONS,
            })
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.role.tools().iter().copied().map(listed).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let role = self.role();
        let found = role.tools().iter().find(|tool| tool.name() == request.name);
        let Some(tool) = found.copied() else { return Err(unknown(role, &request.name)) };
        let call = match Call::read(tool, request.arguments) {
            Ok(call) => call,
            Err(failure) => return Ok(answered(Err(failure)).into()),
        };
        let answer = match (role, call) {
            (Role::Observed(observer), Call::Status) => observer.status().await,
            (Role::Observed(observer), Call::Propose(proposed)) => observer.propose(proposed),
            (Role::Observed(observer), Call::Report(reported)) => observer.report(reported),
            (Role::Observed(observer), Call::Judge(writes)) => {
                // Before a task is named: what its client asks next finds the round at work.
                let one = match observer.one_round() {
                    Ok(one) => one,
                    Err(failure) => return Ok(answered(Err(failure)).into()),
                };
                let (tasks, observer) = (self.tasks.clone(), Arc::clone(observer));
                let work = move |progress_target: ProgressTarget, cancel: CancellationToken| async move {
                    let (_progress, listener) = progress_target.map(Progress::of_round).unzip();
                    observer.judge(one, writes, &cancel, listener).await
                };
                return Ok(long(tasks, "the checks are run", context, work).await);
            }
            (Role::Observed(observer), Call::Ask(asked)) => {
                let retry = (request.input_responses, request.request_state);
                return ask(observer, asked, retry, &context).await;
            }
            (Role::Driving(driver), Call::LeasePlan(lease)) => {
                let _progress = progress_target(&context)
                    .map(|progress_target| Progress::of_wait(progress_target, LEASES_PLAN));
                driver.lease_plan(lease, &context.ct).await
            }
            (Role::Driving(driver), Call::SubmitPlan(submitted)) => {
                driver.submit_plan(submitted, &context.ct).await
            }
            (Role::Driving(driver), Call::Lease(lease)) => {
                let _progress = progress_target(&context)
                    .map(|progress_target| Progress::of_wait(progress_target, LEASES_STEP));
                driver.lease(lease, &context.ct).await
            }
            (Role::Driving(driver), Call::Decide(made)) => {
                // Before a task is named, as above.
                let held = match driver.held() {
                    Ok(held) => held,
                    Err(failure) => return Ok(answered(Err(failure)).into()),
                };
                let (tasks, driver) = (self.tasks.clone(), Arc::clone(driver));
                let is_anyones = self.is_anyones();
                let work = move |progress_target: ProgressTarget, cancel: CancellationToken| async move {
                    let _progress = progress_target
                        .map(|progress_target| Progress::of_wait(progress_target, DECIDES));
                    driver.decide(held, made, is_anyones, &cancel).await
                };
                return Ok(long(tasks, DECIDES, context, work).await);
            }
            (Role::Driving(driver), Call::Release(release)) => {
                driver.release(release, self.is_anyones()).await
            }
            // The list of a role has no other tools.
            (Role::Observed(_) | Role::Driving(_), _) => {
                return Err(unknown(role, tool.name()));
            }
        };
        Ok(answered(answer).into())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(refusal(&request))
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.tasks.get_task(&request.task_id).map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }
}
