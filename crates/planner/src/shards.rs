//! The databases that a planner serves, and the selection of one for a call.
//!
//! ```text
//!   a namespace   --> the database configured for it, else the primary one
//!   a run, a wait --> all databases are queried at once, and the answer is cached
//!   a list        --> the namespace's database; without a namespace all, their pages merged
//! ```
//!
//! With one database no query is needed. An unavailable database affects only its own runs, and
//! calls that cannot be answered without it.

use crate::merge::{PageBounds, merge};
use crate::{Planner, Upkeep};
use futures::StreamExt;
use futures::future::{join_all, try_join_all};
use futures::stream::FuturesUnordered;
use hashlink::LruCache;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::iter::once;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use surety_common::clock::PRIMARY_SHARD;
use surety_common::config::{NamespaceDatabase, Secret};
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::store::{self, PoolSize, RunFilter, RunPage, StoreError, WaitPage, Waiting};
use tokio::sync::SetOnce;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The pause between two attempts to connect to an unavailable database, and the retry delay for
/// callers.
const RETRY: Duration = Duration::from_secs(2);
/// The number of runs whose database is cached.
const REMEMBERED: usize = 16_384;
/// The most namespaces of a database in an error message.
const NAMED: usize = 8;

/// One database, and its planner.
pub(crate) struct Shard {
    shard_index: usize,
    /// The database's name in messages, by its namespaces.
    whose: String,
    url: Secret,
    /// None until the first connection to the database.
    planner: SetOnce<Arc<Planner>>,
    size: PoolSize,
}

/// All databases of a planner.
pub(crate) struct Shards {
    primary: Arc<Shard>,
    others: Vec<Arc<Shard>>,
    /// The shards of the configured namespaces.
    by_namespace: HashMap<String, Arc<Shard>>,
    /// The shards of the runs that were requested last.
    known: Mutex<LruCache<Uuid, Arc<Shard>>>,
}

impl Shards {
    /// The primary database, which is connected, and the others, each once and not connected yet.
    pub(crate) fn of(
        primary: Arc<Planner>,
        home_url: &str,
        databases: &[NamespaceDatabase],
        size: PoolSize,
    ) -> Self {
        let whose_primary = primary.whose.clone();
        let (url, planner) = (Secret::new(home_url), SetOnce::new_with(Some(primary)));
        let primary = Arc::new(Shard {
            shard_index: PRIMARY_SHARD,
            whose: whose_primary,
            url,
            planner,
            size,
        });
        let (mut others, mut by_namespace) = (Vec::new(), HashMap::new());
        for (shard_index, NamespaceDatabase { namespaces, url }) in
            (PRIMARY_SHARD + 1..).zip(databases)
        {
            let shard = if *url == primary.url {
                Arc::clone(&primary)
            } else {
                let (whose, planner) = (whose(namespaces), SetOnce::new());
                let shard = Arc::new(Shard { shard_index, whose, url: url.clone(), planner, size });
                others.push(Arc::clone(&shard));
                shard
            };
            let named = namespaces.iter().map(|namespace| (namespace.clone(), Arc::clone(&shard)));
            by_namespace.extend(named);
        }
        let known = Mutex::new(LruCache::new(REMEMBERED));
        Self { primary, others, by_namespace, known }
    }

    /// The shards other than the primary one.
    pub(crate) fn others(&self) -> impl Iterator<Item = Arc<Shard>> {
        self.others.iter().cloned()
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Shard>> {
        once(&self.primary).chain(&self.others)
    }

    fn named(&self, namespace: &str) -> &Arc<Shard> {
        self.by_namespace.get(namespace).unwrap_or(&self.primary)
    }

    /// The planner of the database where new runs of a namespace are created.
    ///
    /// # Errors
    /// `database_unavailable` when it is not connected yet.
    pub(crate) async fn of_namespace(&self, namespace: &str) -> Result<Arc<Planner>, Fault> {
        let shard = self.named(namespace);
        shard.planner().await.map_err(|fault| about(&shard.whose, fault))
    }

    /// The planner of the database that has a run; the primary one when none has it.
    ///
    /// # Errors
    /// `database_unavailable` when none has it and one could not be queried.
    pub(crate) async fn of_run(&self, run_id: Uuid) -> Result<Arc<Planner>, Fault> {
        self.with_run(run_id).await?.planner().await
    }

    async fn with_run(&self, run_id: Uuid) -> Result<Arc<Shard>, Fault> {
        if self.others.is_empty() {
            return Ok(Arc::clone(&self.primary));
        }
        let known = self.lock_known().get(&run_id).cloned();
        if let Some(shard) = known {
            return Ok(shard);
        }
        let has_it =
            move |planner: Arc<Planner>| async move { store::has_run(&planner.pool, run_id).await };
        let Some(shard) = self.first_with(has_it).await? else {
            return Ok(Arc::clone(&self.primary));
        };
        self.lock_known().insert(run_id, Arc::clone(&shard));
        Ok(shard)
    }

    fn lock_known(&self) -> std::sync::MutexGuard<'_, LruCache<Uuid, Arc<Shard>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The planner of the database whose run waits with this id; the primary one when none does.
    ///
    /// # Errors
    /// As [`Self::of_run`].
    pub(crate) async fn of_wait(&self, wait_id: Uuid) -> Result<Arc<Planner>, Fault> {
        if self.others.is_empty() {
            return self.primary.planner().await;
        }
        let has_it = move |planner: Arc<Planner>| async move {
            Ok(store::find_wait(&planner.pool, wait_id).await?.is_some())
        };
        let shard = self.first_with(has_it).await?.unwrap_or_else(|| Arc::clone(&self.primary));
        shard.planner().await
    }

    /// The first shard that answers true; none when all answer false.
    ///
    /// # Errors
    /// `database_unavailable`, naming those that could not be queried, when the others answer
    /// false.
    async fn first_with<F: Future<Output = Result<bool, StoreError>>>(
        &self,
        ask: impl Fn(Arc<Planner>) -> F,
    ) -> Result<Option<Arc<Shard>>, Fault> {
        let asked = self.all().map(|shard| asked(Arc::clone(shard), &ask));
        let mut asked: FuturesUnordered<_> = asked.collect();
        let (mut silent, mut why) = (Vec::new(), None);
        while let Some((shard, answer)) = asked.next().await {
            match answer {
                Ok(true) => return Ok(Some(shard)),
                Ok(false) => {}
                Err(fault) => {
                    silent.push(shard.whose.clone());
                    why.get_or_insert(fault);
                }
            }
        }
        why.map_or(Ok(None), |fault| Err(about(&silent.join(" and "), fault)))
    }

    /// A page of runs.
    ///
    /// # Errors
    /// `database_unavailable`, naming the database, when one of the queried ones is unavailable.
    pub(crate) async fn list_runs(&self, filter: &RunFilter) -> Result<RunPage, Fault> {
        let list = |planner: Arc<Planner>| async move {
            let RunPage { runs, next } = store::list_runs(&planner.pool, filter).await?;
            Ok((runs, next.map(Reverse)))
        };
        let pages = self.ask_for_pages(self.listed(&filter.namespace), list).await?;
        let bounds =
            PageBounds { rows: filter.limit, bytes: store::LIST_BYTES, of: store::listed_bytes };
        let (runs, next) = merge(pages, |run| Reverse(run.spec.id), &bounds);
        Ok(RunPage { runs, next: next.map(|Reverse(id)| id) })
    }

    /// A page of waiting runs: of one run, of a namespace, or of all.
    ///
    /// # Errors
    /// As [`Self::list_runs`].
    pub(crate) async fn list_waits(
        &self,
        namespace: &str,
        run_id: Option<Uuid>,
        after: Option<Uuid>,
        limit: i64,
    ) -> Result<WaitPage, Fault> {
        let asked = match run_id {
            Some(run_id) => vec![self.with_run(run_id).await?],
            None => self.listed(namespace),
        };
        let list = |planner: Arc<Planner>| async move {
            let page = store::list_waits(&planner.pool, namespace, run_id, after, limit).await?;
            Ok((page.waiting, page.next))
        };
        let pages = self.ask_for_pages(asked, list).await?;
        let of = |waiting: &Waiting| store::listed_bytes(&waiting.run);
        let bounds = PageBounds { rows: limit, bytes: store::LIST_BYTES, of };
        let (waiting, next) = merge(pages, |waiting| waiting.run.spec.id, &bounds);
        Ok(WaitPage { waiting, next })
    }

    /// The databases of a list.
    fn listed(&self, namespace: &str) -> Vec<Arc<Shard>> {
        match namespace {
            "" => self.all().cloned().collect(),
            namespace => vec![Arc::clone(self.named(namespace))],
        }
    }

    /// A page of each database. One unavailable database fails the list, because an incomplete list
    /// would be wrong.
    async fn ask_for_pages<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        shards: Vec<Arc<Shard>>,
        ask: impl Fn(Arc<Planner>) -> F,
    ) -> Result<Vec<T>, Fault> {
        let alone = self.others.is_empty();
        let pages = shards.into_iter().map(|shard| {
            let asked = asked(shard, &ask);
            async move {
                let (shard, page) = asked.await;
                page.map_err(|fault| if alone { fault } else { about(&shard.whose, fault) })
            }
        });
        try_join_all(pages).await
    }

    /// Closes every connection.
    pub(crate) async fn close(&self) {
        let reached = self.all().filter_map(|shard| shard.planner.get());
        join_all(reached.map(|planner| planner.pool.close())).await;
    }
}

impl Shard {
    /// # Errors
    /// `database_unavailable` when it was not reached yet.
    async fn planner(&self) -> Result<Arc<Planner>, Fault> {
        if let Some(planner) = self.planner.get() {
            return Ok(Arc::clone(planner));
        }
        // The same time limit as for a connection of its pool.
        timeout(self.size.acquire_timeout, self.planner.wait()).await.cloned().map_err(|_| {
            let message = "it is not connected yet; the planner's log has the reason";
            let retry_after_ms = u64::try_from(RETRY.as_millis()).unwrap_or(u64::MAX);
            let fault = Fault::new(FaultCode::DatabaseUnavailable, message);
            fault.with_retry_after_ms(retry_after_ms)
        })
    }

    /// Connects, however long that takes, and then runs the planner's background tasks.
    pub(crate) async fn keep(self: Arc<Self>, upkeep: Upkeep, shutdown: CancellationToken) {
        let pool = loop {
            match store::open(self.shard_index, self.url.expose(), self.size).await {
                Ok(pool) => break pool,
                // Even a permanent error of one database must not end the service of the others.
                Err(error) => {
                    tracing::warn!(%error, database = self.whose, "shards: the database is unavailable; retrying")
                }
            }
            tokio::time::sleep(RETRY).await;
        };
        let planner = upkeep.start(pool, self.shard_index, self.whose.clone(), shutdown).await;
        if self.planner.set(Arc::clone(&planner)).is_ok() {
            tracing::info!(database = self.whose, "shards: connected to the database");
        }
        upkeep.go_on(planner).await;
    }
}

/// A shard with its answer, or with the reason why it has none.
async fn asked<T, F: Future<Output = Result<T, StoreError>>>(
    shard: Arc<Shard>,
    ask: impl Fn(Arc<Planner>) -> F,
) -> (Arc<Shard>, Result<T, Fault>) {
    let answer = match shard.planner().await {
        Ok(planner) => ask(planner).await.map_err(Fault::from),
        Err(fault) => Err(fault),
    };
    (shard, answer)
}

/// The same fault, with the name of the database.
fn about(whose: &str, fault: Fault) -> Fault {
    Fault { message: format!("{whose}: {}", fault.message), ..fault }
}

/// A database's name in an error: its namespaces, never its address.
fn whose(namespaces: &[String]) -> String {
    let named: Vec<_> = namespaces.iter().take(NAMED).map(String::as_str).collect();
    let more = match namespaces.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("the database of {}{more}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::postgres::PgPoolOptions;

    fn named(namespaces: &[&str], url: &str) -> NamespaceDatabase {
        let namespaces = namespaces.iter().map(|name| (*name).to_owned()).collect();
        NamespaceDatabase { namespaces, url: Secret::new(url) }
    }

    #[tokio::test]
    async fn a_namespace_selects_its_configured_database_and_each_database_is_listed_once() {
        let primary_url = "postgres://127.0.0.1:1/primary";
        let pool = PgPoolOptions::new().connect_lazy(primary_url).unwrap();
        let primary =
            Planner::start(pool, PRIMARY_SHARD, "the primary one".into(), CancellationToken::new());
        let databases = [
            named(&["a", "b"], "postgres://127.0.0.1:1/ab"),
            named(&["c"], primary_url),
            named(&["d"], "postgres://127.0.0.1:1/d"),
        ];
        let size = PoolSize { connections: 2, acquire_timeout: Duration::from_millis(1) };
        let shards = Shards::of(Arc::new(primary), primary_url, &databases, size);
        let shard_index = |namespace| shards.named(namespace).shard_index;
        assert_eq!(
            ["a", "b", "c", "d", "A", ""].map(shard_index),
            [1, 1, PRIMARY_SHARD, 3, PRIMARY_SHARD, PRIMARY_SHARD]
        );
        assert_eq!(
            shards.all().map(|shard| shard.shard_index).collect::<Vec<_>>(),
            [PRIMARY_SHARD, 1, 3]
        );
        assert!(shards.of_namespace("c").await.is_ok());
        let fault = shards.of_namespace("b").await.err().unwrap();
        assert!(fault.message.starts_with("the database of a, b: "), "{fault:?}");
    }
}
