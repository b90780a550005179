//! `GetServerInfo`: what a service serves, and what is in force.

use crate::domain::limits::{LimitRange, Limits};
use crate::domain::policy::NamespacePolicy;
use crate::domain::run::Policy;
use crate::store;
use crate::wire::status::to_status;
use crate::wire::v1;
use crate::wire::v1::server_info_service_server::ServerInfoService;
use crate::wire::value::whole_seconds;
use sqlx::PgPool;
use tonic::{Request, Response, Status};

/// The calls that no service serves yet, one a line. The baseline of `buf breaking` excludes the messages
/// that only these calls use.
const NOT_SERVED: &str = include_str!("../../../../../proto/not_served.txt");

/// The features that clients may ask for by name.
const FEATURES: [&str; 8] = [
    "confirmations",
    "expected_version",
    "export_receipts",
    "output_ranges",
    "pause",
    "replan",
    "request_id",
    "user_testimony",
];

/// A service, as it describes itself.
#[derive(Debug, Clone)]
pub struct ServerInfo {
    /// `planner`, `executor` or `acceptgate`.
    pub service: &'static str,
    /// The program's version.
    pub version: &'static str,
    /// How the commands that it starts are confined.
    pub sandbox: v1::SandboxLevel,
    /// The parts that the strongest level has and this one lacks.
    pub sandbox_missing: Vec<String>,
    /// The database; none in stateless mode.
    pub pool: Option<PgPool>,
    /// Whether a model is configured, so that runs can have the driver `model`.
    pub has_model: bool,
}

/// Answers `GetServerInfo` on one port.
#[derive(Debug, Clone)]
pub(super) struct InfoService {
    pub(super) info: ServerInfo,
    /// The gRPC services on the port.
    pub(super) services: Vec<&'static str>,
    pub(super) max_message_bytes: usize,
}

/// The calls that no service serves yet, by their full names.
pub fn not_served() -> impl Iterator<Item = &'static str> {
    NOT_SERVED.lines().filter(|line| !line.is_empty())
}

#[tonic::async_trait]
impl ServerInfoService for InfoService {
    async fn get_server_info(
        &self,
        _: Request<v1::GetServerInfoRequest>,
    ) -> Result<Response<v1::GetServerInfoResponse>, Status> {
        let ServerInfo { service, version, sandbox, sandbox_missing, pool, has_model } = &self.info;
        let model = has_model.then_some(v1::Driver::Model);
        let drivers = [v1::Driver::Script].into_iter().chain(model).chain([v1::Driver::Remote]);
        let schema_version = match pool {
            Some(pool) => Some(store::schema_version(pool).await),
            None => None,
        };
        let schema_version =
            schema_version.transpose().map_err(|error| to_status(&error.into()))?;
        let mut services: Vec<String> =
            self.services.iter().map(|name| (*name).to_owned()).collect();
        services.sort();
        let here = |rpc: &&str| services.iter().any(|name| rpc.split('/').next() == Some(name));
        Ok(Response::new(v1::GetServerInfoResponse {
            service: (*service).to_owned(),
            version: (*version).to_owned(),
            not_served: not_served().filter(here).map(str::to_owned).collect(),
            services,
            features: FEATURES.map(str::to_owned).to_vec(),
            drivers: drivers.map(Into::into).collect(),
            limits: Limits::default().in_force().map(limit).collect(),
            policy_keys: Policy::KEYS.map(str::to_owned).to_vec(),
            namespace_policy_keys: NamespacePolicy::KEYS.map(str::to_owned).to_vec(),
            sandbox: (*sandbox).into(),
            sandbox_missing: sandbox_missing.clone(),
            stateless: pool.is_none(),
            schema_version: schema_version
                .map(|version| u64::try_from(version).unwrap_or_default()),
            max_message_bytes: u64::try_from(self.max_message_bytes).unwrap_or(u64::MAX),
        }))
    }
}

fn limit(range: LimitRange) -> v1::LimitInfo {
    use v1::limit_info::Range;
    let LimitRange { name, value, low, high, is_duration } = range;
    let range = if is_duration {
        Range::Duration(v1::DurationRange {
            default_value: Some(whole_seconds(value)),
            min: Some(whole_seconds(low)),
            max: Some(whole_seconds(high)),
        })
    } else {
        Range::Count(v1::CountRange { default_value: value, min: low, max: high })
    };
    v1::LimitInfo { name: name.to_owned(), range: Some(range) }
}
