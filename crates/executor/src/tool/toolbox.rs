//! The tools of each namespace: the built-in ones, those of MCP servers, and those that workers offer.
//!
//! ```text
//!   built-in + MCP servers of the namespace (offered by the catalog) ----------+
//!   worker_tool (what workers say) + namespace_policy (who may, and what counts) --> one Registry a namespace
//! ```
//!
//! While runs are worked on, the tables are read once a second at most; a process at rest does not read them.

use super::mcp::{McpHost, McpTool};
use super::{Registry, Tool, WorkerSpec, WorkerTool};
use sqlx::PgPool;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use surety_common::clock;
use surety_common::domain::policy::NamespacePolicy;
use surety_common::domain::tool_workers::entry_of;
use surety_common::schema::Schema;
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
    /// Those of one namespace in place of the built-in ones.
    special: Option<Special>,
    /// The MCP servers of the configuration.
    servers: McpHost,
    /// Where tools of workers stand; none without a database.
    source: Option<(PgPool, ToolboxTimes)>,
    known: RwLock<Known>,
    reading: Mutex<Reading>,
}

/// The built-in tools of one namespace.
struct Special {
    namespace: &'static str,
    tools: Arc<Registry>,
}

#[derive(Default)]
struct Known {
    by_namespace: HashMap<String, Arc<Registry>>,
    bases: Bases,
    read_at: Option<Instant>,
}

/// The tools without those of workers.
#[derive(Default)]
struct Bases {
    /// By the namespaces that servers name.
    named: HashMap<String, Arc<Registry>>,
    /// In every other namespace; none while no server offers anything.
    other: Option<Arc<Registry>>,
}

impl Bases {
    fn of<'b>(&'b self, namespace: &str, builtin: &'b Arc<Registry>) -> &'b Arc<Registry> {
        self.named.get(namespace).or(self.other.as_ref()).unwrap_or(builtin)
    }
}

/// What was read last, so that it is neither sent nor compiled again.
#[derive(Default)]
struct Reading {
    /// The tools of MCP servers, by server.
    servers: BTreeMap<String, Vec<Arc<McpTool>>>,
    rows: Vec<KnownTool>,
    specs: HashMap<String, Compiled>,
    policies: HashMap<String, (i64, Arc<NamespacePolicy>)>,
}

#[derive(Clone)]
struct Compiled {
    spec: Arc<WorkerSpec>,
    schema: Arc<Schema>,
}

impl Toolbox {
    /// The built-in tools alone.
    pub fn builtin(builtin: Arc<Registry>) -> Self {
        Self {
            builtin,
            special: None,
            servers: McpHost::default(),
            source: None,
            known: RwLock::default(),
            reading: Mutex::default(),
        }
    }

    /// The same with MCP servers, which offer their tools later.
    #[must_use]
    pub fn with_servers(self, servers: McpHost) -> Self {
        Self { servers, ..self }
    }

    /// The same, with other built-in tools in one namespace.
    #[must_use]
    pub fn with_special(self, namespace: &'static str, tools: Arc<Registry>) -> Self {
        let special = Some(Special { namespace, tools });
        let toolbox = Self { special, ..self };
        let bases = Reading::default().bases(&toolbox.builtin, toolbox.special.as_ref());
        let known = RwLock::new(Known { bases, ..Known::default() });
        Self { known, ..toolbox }
    }

    /// The MCP servers of the configuration.
    pub(crate) const fn servers(&self) -> &McpHost {
        &self.servers
    }

    /// Whether no worker may serve a tool of this name.
    pub fn is_reserved(&self, name: &str) -> bool {
        let special = self.special.as_ref();
        self.builtin.is_reserved(name)
            || special.is_some_and(|special| special.tools.is_reserved(name))
            || self.servers.reserves(name)
    }

    /// Takes what an MCP server offers from now on, instead of what it offered before, and stores it for models that plan
    /// in the namespaces that it serves.
    ///
    /// # Errors
    /// It is offered, and could not be stored.
    pub(super) async fn offer(
        &self,
        (server, namespaces): (&str, Option<&[String]>),
        tools: Vec<McpTool>,
    ) -> Result<(), StoreError> {
        let shown: Vec<(String, String)> = tools
            .iter()
            .map(|tool| (tool.spec().name.clone(), tool.spec().description.clone()))
            .collect();
        self.take_offer(server, tools).await;
        match &self.source {
            Some((pool, _)) => {
                store::show_server_tools(pool, server, namespaces, &shown, clock::now()).await
            }
            None => Ok(()),
        }
    }

    async fn take_offer(&self, server: &str, tools: Vec<McpTool>) {
        let mut reading = self.reading.lock().await;
        let tools = tools.into_iter().map(Arc::new).collect();
        reading.servers.insert(server.to_owned(), tools);
        let bases = reading.bases(&self.builtin, self.special.as_ref());
        let timeout = self.source.as_ref().map_or(Duration::ZERO, |(_, times)| times.call_timeout);
        let by_namespace = reading.registries(&bases, &self.builtin, timeout);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        (known.by_namespace, known.bases) = (by_namespace, bases);
    }

    /// The built-in tools, and those that workers offer in a database.
    pub fn with_workers(builtin: Arc<Registry>, pool: PgPool, times: ToolboxTimes) -> Self {
        Self { source: Some((pool, times)), ..Self::builtin(builtin) }
    }

    /// The tools of a namespace, as they were read last.
    pub fn of(&self, namespace: &str) -> Arc<Registry> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let base = || known.bases.of(namespace, &self.builtin);
        Arc::clone(known.by_namespace.get(namespace).unwrap_or_else(base))
    }

    /// The tools that every namespace has.
    pub fn of_all(&self) -> &Arc<Registry> {
        &self.builtin
    }

    /// Reads the tools of workers, unless that was done in the last second. While the database does not answer, what
    /// is known counts.
    pub async fn refresh(&self) {
        let Some(age) = self.age() else { return Box::pin(self.read_since(None)).await };
        if age >= STALE {
            Box::pin(self.read_since(None)).await;
        } else if age >= FRESH
            && let Ok(reading) = self.reading.try_lock()
        {
            Box::pin(self.read(reading)).await;
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
            Ok(true) => {
                let bases = reading.bases(&self.builtin, self.special.as_ref());
                Some(reading.registries(&bases, &self.builtin, times.call_timeout))
            }
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

    fn bases(&self, builtin: &Registry, special: Option<&Special>) -> Bases {
        let all = || self.servers.values().flatten();
        let with = |namespace: Option<&str>| {
            let own = special.filter(|special| namespace == Some(special.namespace));
            let base = own.map_or(builtin, |special| &*special.tools);
            Arc::new(base.with_servers(all().filter(|tool| tool.serves(namespace))))
        };
        let mut names: HashSet<&str> =
            all().flat_map(|tool| tool.namespaces()).map(String::as_str).collect();
        names.extend(special.map(|special| special.namespace));
        let named = names.into_iter().map(|name| (name.to_owned(), with(Some(name))));
        let other = all().any(|tool| tool.serves(None)).then(|| with(None));
        Bases { named: named.collect(), other }
    }

    fn registries(
        &self,
        bases: &Bases,
        builtin: &Arc<Registry>,
        timeout: Duration,
    ) -> HashMap<String, Arc<Registry>> {
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
            (namespace.to_owned(), Arc::new(bases.of(namespace, builtin).with_workers(tools)))
        };
        tools.into_iter().map(registry).collect()
    }
}

fn compile(text: &str) -> Result<Compiled, String> {
    let spec: WorkerSpec = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let schema = spec.compiled()?;
    Ok(Compiled { spec: Arc::new(spec), schema })
}
