//! The connection to the service: its address, its token, and its errors.

use std::time::Duration;

use surety_common::config::ClientConfig;
use surety_common::domain::fault::FaultClass;
use surety_common::wire::client::{ServiceChannel, Transport, channel_over, is_loopback};
use surety_common::wire::status::from_status;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::admin_service_client::AdminServiceClient;
use surety_common::wire::v1::planner_service_client::PlannerServiceClient;
use surety_common::wire::v1::run_service_client::RunServiceClient;
use surety_common::wire::v1::toolchain_service_client::ToolchainServiceClient;
use tonic::{Request, Status};

use crate::failure::{Code, Failure, is_unreachable};
use crate::folder::DataFolder;

const DEFAULT_URL: &str = "http://127.0.0.1:7401";
/// The largest message that a service may be configured to send, in bytes.
const MAX_ANSWER_BYTES: usize = 268_435_456;
/// The time limit of a call.
const CALL_DEADLINE: Duration = Duration::from_secs(30);
/// The size and the number of pages that are searched for a prefix.
const PAGE_SIZE: u32 = 1_000;
const MOST_PAGES: usize = 20;
/// The most runs that an error names when a prefix is ambiguous.
const MOST_NAMED: usize = 5;

/// A service and the token for it.
#[derive(Clone)]
pub struct Connection {
    url: String,
    runs: RunServiceClient<ServiceChannel>,
    admin: AdminServiceClient<ServiceChannel>,
    plans: PlannerServiceClient<ServiceChannel>,
    tasks: ToolchainServiceClient<ServiceChannel>,
}

impl Connection {
    /// Resolves address and token; does not connect yet.
    ///
    /// # Errors
    /// The address or the token cannot be used.
    pub fn open(config: &ClientConfig) -> Result<Self, Failure> {
        let folder = DataFolder::choose(&config.folder).ok();
        let noted = folder.as_ref().and_then(DataFolder::noted_endpoint);
        let url = config.address.url.clone().or(noted);
        let url = url.unwrap_or_else(|| DEFAULT_URL.to_owned());
        let secret = match config.token()? {
            Some(secret) => Some(secret),
            // The local token is only for the local machine: another service must not receive it.
            None => match folder.map(|folder| folder.token()).filter(|path| path.exists()) {
                Some(path) if is_loopback(&url) => {
                    Some(surety_common::config::read_client_token(&path)?)
                }
                Some(_) | None => None,
            },
        };
        let token = secret.map(|secret| Token::new(secret.expose())).transpose()?;
        let transport = Transport::of_client(&config.tls)?;
        let channel = channel_over(&url, token.as_ref(), &transport)?;
        let runs = RunServiceClient::new(channel.clone());
        let runs = runs.max_decoding_message_size(MAX_ANSWER_BYTES);
        let plans = PlannerServiceClient::new(channel.clone());
        let plans = plans.max_decoding_message_size(MAX_ANSWER_BYTES);
        let tasks = ToolchainServiceClient::new(channel.clone());
        let tasks = tasks.max_decoding_message_size(MAX_ANSWER_BYTES);
        let admin = AdminServiceClient::new(channel).max_decoding_message_size(MAX_ANSWER_BYTES);
        Ok(Self { url, runs, admin, plans, tasks })
    }

    /// The client of the run service.
    #[must_use]
    pub fn runs(&self) -> RunServiceClient<ServiceChannel> {
        self.runs.clone()
    }

    /// The client of tokens, policies and the audit.
    #[must_use]
    pub fn admin(&self) -> AdminServiceClient<ServiceChannel> {
        self.admin.clone()
    }

    /// The client of plans.
    #[must_use]
    pub fn plans(&self) -> PlannerServiceClient<ServiceChannel> {
        self.plans.clone()
    }

    /// The client of tasks and their agents.
    #[must_use]
    pub fn tasks(&self) -> ToolchainServiceClient<ServiceChannel> {
        self.tasks.clone()
    }

    /// The failure of a refused call.
    #[must_use]
    pub fn failure(&self, status: &Status) -> Failure {
        Failure::from_service(&self.url, status)
    }

    /// One run.
    ///
    /// # Errors
    /// The service's error.
    pub async fn run(&self, run_id: &str, view: v1::RunView) -> Result<v1::GetRunResponse, Status> {
        let request = v1::GetRunRequest { run_id: run_id.to_owned(), view: view.into() };
        let answer = self.runs().get_run(bounded(request)).await?;
        Ok(answer.into_inner())
    }

    /// All events of a run so far.
    ///
    /// # Errors
    /// The service's error.
    pub async fn journal(&self, run_id: &str) -> Result<Vec<v1::Event>, Failure> {
        let failure = |status: Status| self.failure(&status);
        let request =
            v1::WatchRunRequest { run_id: run_id.to_owned(), ..v1::WatchRunRequest::default() };
        let answer = self.runs().watch_run(bounded(request)).await.map_err(failure)?;
        let mut stream = answer.into_inner();
        let mut events = Vec::new();
        while let Some(item) = stream.message().await.map_err(failure)? {
            events.extend(item.event);
        }
        Ok(events)
    }

    /// The id of the run with this name: an id, a unique beginning of one, or `last`.
    ///
    /// # Errors
    /// No run matches, or several do.
    pub async fn resolve(&self, named: &str) -> Result<String, Failure> {
        let named = named.trim().to_ascii_lowercase();
        if uuid::Uuid::try_parse(&named).is_ok() {
            return Ok(named);
        }
        if named == "last" {
            let page = self.page(1, String::new()).await?;
            let newest = page.runs.into_iter().next().map(|run| run.id);
            return newest
                .ok_or_else(|| unclear("there is no run yet", "Create one with `surety run`."));
        }
        if named.is_empty() || !named.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') {
            return Err(unclear(
                format!("{named:?} is not a run id"),
                "Use an id, the beginning of one, or `last`.",
            ));
        }
        let found = self.beginning_with(&named).await?;
        match found.as_slice() {
            [only] => Ok(only.clone()),
            [] => Err(unclear(
                format!("no run's id begins with {named}"),
                "List the runs with `surety runs`.",
            )),
            several => Err(unclear(
                format!("several runs' ids begin with {named}: {}", several.join(", ")),
                "Use more characters of the id.",
            )),
        }
    }

    async fn beginning_with(&self, prefix: &str) -> Result<Vec<String>, Failure> {
        let mut found = Vec::new();
        let mut token = String::new();
        for _ in 0..MOST_PAGES {
            let page = self.page(PAGE_SIZE, token).await?;
            let fitting = page.runs.into_iter().map(|run| run.id);
            found.extend(fitting.filter(|id| id.starts_with(prefix)));
            found.truncate(MOST_NAMED);
            token = page.next_page_token;
            if token.is_empty() || found.len() == MOST_NAMED {
                break;
            }
        }
        Ok(found)
    }

    async fn page(
        &self,
        page_size: u32,
        page_token: String,
    ) -> Result<v1::ListRunsResponse, Failure> {
        let request = v1::ListRunsRequest { page_size, page_token, ..Default::default() };
        let answer = self.runs().list_runs(bounded(request)).await;
        Ok(answer.map_err(|status| self.failure(&status))?.into_inner())
    }
}

fn unclear(message: impl Into<String>, advice: &str) -> Failure {
    Failure::new(Code::RunUnclear, message, advice)
}

/// A request with a time limit.
pub fn bounded<M>(message: M) -> Request<M> {
    let mut request = Request::new(message);
    request.set_timeout(CALL_DEADLINE);
    request
}

/// Whether the service is temporarily unable to answer.
#[must_use]
pub fn is_passing(status: &Status) -> bool {
    let fault = from_status(status);
    fault.class == FaultClass::Unavailable && !is_unreachable(&fault)
}

/// Whether a stream that ended with this status can be resumed.
#[must_use]
pub fn is_lost(status: &Status) -> bool {
    use tonic::Code::{Aborted, Cancelled, DeadlineExceeded, Internal, Unavailable, Unknown};
    matches!(
        status.code(),
        Unavailable | Aborted | Cancelled | DeadlineExceeded | Internal | Unknown
    )
}
