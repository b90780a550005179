//! The tools of each namespace: the built-in ones, and those that workers offer.
//!
//! ```text
//!   worker_tool (what workers say) + namespace_policy (who may, and what counts) --> one Registry a namespace
//! ```
//!
//! While runs are worked on, the tables are read once a second at most; a process at rest does not read them.

use super::{Registry, WorkerSpec, WorkerTool};
use jsonschema::Validator;
use sqlx::PgPool;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use surety_common::clock;
use surety_common::domain::policy::NamespacePolicy;
use surety_common::domain::tool_workers::entry_of;
use surety_common::store::{self, KnownTool, StoreError};
use tokio::sync::Mutex;

/// For how long what was read counts.
const FRESH: Duration = Duration::from_secs(1);
/// The age from which on a caller waits for one that reads at the moment.
const STALE: Duration = Duration::from_secs(2);

/// The times of tools of workers.
#[derive(Debug, Clone, Copy)]
pub struct ToolboxTimes {
    /// How long a tool stays listed after its last worker left.
    pub listed: Duration,
    /// The time limit of a call of a tool that names none.
    pub call_timeout: Duration,
}

/// The tools by namespace.
pub struct Toolbox {
    builtin: Arc<Registry>,
    /// Where tools of workers stand; none without a database.
    source: Option<(PgPool, ToolboxTimes)>,
    known: RwLock<Known>,
    reading: Mutex<Reading>,
}

#[derive(Default)]
struct Known {
    by_namespace: HashMap<String, Arc<Registry>>,
    read_at: Option<Instant>,
}

/// What was read last, so that it is neither sent nor compiled again.
#[derive(Default)]
struct Reading {
    rows: Vec<KnownTool>,
    specs: HashMap<String, Compiled>,
    policies: HashMap<String, (i64, Arc<NamespacePolicy>)>,
}

#[derive(Clone)]
struct Compiled {
    spec: Arc<WorkerSpec>,
    schema: Arc<Validator>,
}

impl Toolbox {
    /// The built-in tools alone.
    pub fn builtin(builtin: Arc<Registry>) -> Self {
        Self { builtin, source: None, known: RwLock::default(), reading: Mutex::default() }
    }

    /// The built-in tools, and those that workers offer in a database.
    pub fn with_workers(builtin: Arc<Registry>, pool: PgPool, times: ToolboxTimes) -> Self {
        Self { source: Some((pool, times)), ..Self::builtin(builtin) }
    }

    /// The tools of a namespace, as they were read last.
    pub fn of(&self, namespace: &str) -> Arc<Registry> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.by_namespace.get(namespace).unwrap_or(&self.builtin))
    }

    /// The tools that every namespace has.
    pub fn of_all(&self) -> &Arc<Registry> {
        &self.builtin
    }

    /// Reads the tools of workers, unless that was done in the last second. While the database does not answer, what
    /// is known counts.
    pub async fn refresh(&self) {
        let Some(age) = self.age() else { return self.read_since(None).await };
        if age >= STALE {
            self.read_since(None).await;
        } else if age >= FRESH
            && let Ok(reading) = self.reading.try_lock()
        {
            self.read(reading).await;
        }
    }

    /// Reads the tools of workers as they are now.
    pub async fn refresh_now(&self) {
        self.read_since(Some(Instant::now())).await;
    }

    fn age(&self) -> Option<Duration> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.read_at.map(|at| at.elapsed())
    }

    /// Reads, unless another caller began to after `since`, or in the last second.
    async fn read_since(&self, since: Option<Instant>) {
        let reading = self.reading.lock().await;
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).read_at;
        let enough = known.is_some_and(|at| match since {
            Some(since) => at >= since,
            None => at.elapsed() < FRESH,
        });
        if !enough {
            self.read(reading).await;
        }
    }

    async fn read(&self, mut reading: tokio::sync::MutexGuard<'_, Reading>) {
        let Some((pool, times)) = &self.source else { return };
        let begun = Instant::now();
        let found = reading.read(pool, times.listed).await;
        let tools = match found {
            Ok(false) => None,
            Ok(true) => Some(reading.registries(&self.builtin, times.call_timeout)),
            Err(error) => {
                tracing::warn!(%error, "tools: those of workers could not be read; the last known ones count");
                None
            }
        };
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.read_at = Some(begun);
        if let Some(tools) = tools {
            known.by_namespace = tools;
        }
    }
}

impl Reading {
    /// Reads the rows. Returns whether they are others than before.
    async fn read(&mut self, pool: &PgPool, listed: Duration) -> Result<bool, StoreError> {
        let now = clock::now();
        let since = now - chrono::TimeDelta::from_std(listed).unwrap_or_default();
        let digests: Vec<String> = self.specs.keys().cloned().collect();
        let mut rows = store::known_tools(pool, since, &digests).await?;
        for row in &mut rows {
            if let Some(text) = row.spec.take() {
                match compile(&text) {
                    Ok(compiled) => drop(self.specs.insert(row.spec_digest.clone(), compiled)),
                    Err(why) => {
                        let KnownTool { namespace, tool, identity, .. } = row;
                        tracing::error!(
                            namespace,
                            tool,
                            identity,
                            why,
                            "tools: a stored tool of a worker cannot be used"
                        );
                    }
                }
            }
            let version = self.policies.get(&row.namespace).map_or(-1, |(version, _)| *version);
            if version != row.policy_version {
                let found = store::find_policy(pool, &row.namespace).await?;
                let policy = Arc::new(found.map(|found| found.policy).unwrap_or_default());
                self.policies.insert(row.namespace.clone(), (row.policy_version, policy));
            }
        }
        if self.rows == rows {
            return Ok(false);
        }
        self.rows = rows;
        let digests: HashSet<&str> = self.rows.iter().map(|row| row.spec_digest.as_str()).collect();
        self.specs.retain(|digest, _| digests.contains(digest.as_str()));
        let namespaces: HashSet<&str> =
            self.rows.iter().map(|row| row.namespace.as_str()).collect();
        self.policies.retain(|namespace, _| namespaces.contains(namespace.as_str()));
        Ok(true)
    }

    fn registries(&self, builtin: &Registry, timeout: Duration) -> HashMap<String, Arc<Registry>> {
        let mut tools: HashMap<&str, Vec<_>> = HashMap::new();
        let mut seen = HashSet::new();
        for row in &self.rows {
            let KnownTool { namespace, tool, identity, spec_digest, .. } = row;
            let policy = self.policies.get(namespace);
            let entry = policy.and_then(|(_, policy)| entry_of(&policy.tool_workers, tool));
            let Some(entry) = entry.filter(|entry| entry.admits(identity)) else { continue };
            let Some(Compiled { spec, schema }) = self.specs.get(spec_digest) else { continue };
            // The rows are in the order of their announcements, the latest first.
            if seen.insert((namespace, tool)) {
                let tool = Arc::new(WorkerTool::new(entry, identity, spec, timeout));
                tools.entry(namespace).or_default().push((tool, Arc::clone(schema)));
            }
        }
        let registry = |(namespace, tools): (&str, Vec<_>)| {
            (namespace.to_owned(), Arc::new(builtin.with_workers(tools)))
        };
        tools.into_iter().map(registry).collect()
    }
}

fn compile(text: &str) -> Result<Compiled, String> {
    let spec: WorkerSpec = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let schema = spec.compiled()?;
    Ok(Compiled { spec: Arc::new(spec), schema })
}
