//! The databases that a planner serves, and the selection of one for a call.
//!
//! ```text
//!   a namespace   --> the database configured for it, else the primary one
//!   a run, a wait --> all databases are queried at once, and the answer is cached
//!   a list        --> the namespace's database; without a namespace all, their pages merged
//! ```
//!
//! The database and the owner of a run are cached. An unavailable database affects only its own runs, and
//! calls that cannot be answered without it.

use crate::absent_hosts::blocked_by_absent_hosts;
use crate::merge::{PageBounds, merge};
use crate::planner::Planner;
use crate::tokens::Tokens;
use crate::upkeep::Upkeep;
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
use surety_common::domain::run::RunRecord;
use surety_common::store::{
    self, AuditRow, PoolSize, RunFilter, RunOwner, RunPage, Scope, StoreError, WaitFilter,
    WaitPage, Waiting,
};
use surety_common::wire::v1;
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
    /// The namespaces that are named for it; none for the primary one.
    namespaces: Vec<String>,
    url: Secret,
    /// None until the first connection to the database.
    planner: SetOnce<Arc<Planner>>,
    size: PoolSize,
}

/// A page of a list of runs.
pub(crate) struct RunList {
    pub(crate) runs: Vec<ListedRun>,
    /// Those whose rows cannot be decoded.
    pub(crate) unreadable: Vec<Uuid>,
    pub(crate) next: Option<Uuid>,
}

/// A run of a list.
pub(crate) struct ListedRun {
    pub(crate) record: RunRecord,
    /// What it waits for that no executor may claim.
    pub(crate) absent: Option<v1::Blocked>,
}

/// A run that was found.
#[derive(Clone)]
pub(crate) struct Found {
    shard: Arc<Shard>,
    /// To whom it belongs.
    pub(crate) owner: Arc<RunOwner>,
}

/// All databases of a planner.
pub(crate) struct Shards {
    primary: Arc<Shard>,
    others: Vec<Arc<Shard>>,
    /// The shards of the configured namespaces.
    by_namespace: HashMap<String, Arc<Shard>>,
    /// Where the runs are that were asked for last, and whose. Neither ever changes.
    known: Mutex<LruCache<Uuid, Found>>,
}

impl Shards {
    /// The primary database, which is connected, and the others, each once and not connected yet.
    pub(crate) fn of(
        primary: Arc<Planner>,
        primary_url: &str,
        databases: &[NamespaceDatabase],
        size: PoolSize,
    ) -> Self {
        let whose_primary = primary.whose.clone();
        let (url, planner) = (Secret::new(primary_url), SetOnce::new_with(Some(primary)));
        let primary = Arc::new(Shard {
            shard_index: PRIMARY_SHARD,
            whose: whose_primary,
            namespaces: Vec::new(),
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
                let (namespaces, url) = (namespaces.clone(), url.clone());
                let shard = Shard { shard_index, whose, namespaces, url, planner, size };
                let shard = Arc::new(shard);
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

    /// A run and the planner of its database; none when no database has it.
    ///
    /// # Errors
    /// `database_unavailable` when none has it and one could not be queried.
    pub(crate) async fn of_run(
        &self,
        run_id: Uuid,
    ) -> Result<Option<(Found, Arc<Planner>)>, Fault> {
        let Some(found) = self.with_run(run_id).await? else { return Ok(None) };
        let planner = found.shard.planner().await?;
        Ok(Some((found, planner)))
    }

    async fn with_run(&self, run_id: Uuid) -> Result<Option<Found>, Fault> {
        let known = self.lock_known().get(&run_id).cloned();
        if known.is_some() {
            return Ok(known);
        }
        let owner = move |planner: Arc<Planner>| async move {
            store::find_owner(&planner.pool, run_id).await
        };
        let Some((shard, owner)) = self.first_with(owner).await? else { return Ok(None) };
        let found = Found { shard, owner: Arc::new(owner) };
        self.lock_known().insert(run_id, found.clone());
        Ok(Some(found))
    }

    /// Remembers a run that was just made in the database of its namespace.
    pub(crate) fn remember(&self, run_id: Uuid, owner: RunOwner) {
        let shard = Arc::clone(self.named(&owner.namespace));
        self.lock_known().insert(run_id, Found { shard, owner: Arc::new(owner) });
    }

    fn lock_known(&self) -> std::sync::MutexGuard<'_, LruCache<Uuid, Found>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The planner of the primary database.
    ///
    /// # Errors
    /// `database_unavailable` when it was not reached yet.
    pub(crate) async fn primary(&self) -> Result<Arc<Planner>, Fault> {
        self.primary.planner().await
    }

    /// Copies the primary database's tokens to the others, as far as they were reached.
    ///
    /// # Errors
    /// `database_unavailable`, naming the database, when one cannot be reached now.
    pub(crate) async fn copy_tokens(&self) -> Result<(), Fault> {
        let primary = self.primary.planner().await?;
        for shard in &self.others {
            let Some(planner) = shard.planner.get() else { continue };
            store::copy_tokens(&primary.pool, &planner.pool, &shard.namespaces)
                .await
                .map_err(|error| about(&shard.whose, error.into()))?;
        }
        Ok(())
    }

    /// The newest changes of what is administered, of all databases.
    ///
    /// # Errors
    /// As [`Self::list_runs`].
    pub(crate) async fn list_audit(
        &self,
        reached: &[String],
        before: Option<Uuid>,
        limit: i64,
    ) -> Result<Vec<AuditRow>, Fault> {
        let list = |planner: Arc<Planner>| async move {
            store::list_audit(&planner.pool, reached, before, limit).await
        };
        let pages = self.ask_for_pages(self.listed("", reached), list).await?;
        let mut rows: Vec<AuditRow> = pages.into_iter().flatten().collect();
        rows.sort_by_key(|row| Reverse(row.id));
        rows.truncate(usize::try_from(limit).unwrap_or_default());
        Ok(rows)
    }

    /// The run that waits with this id; none when no run does.
    ///
    /// # Errors
    /// As [`Self::of_run`].
    pub(crate) async fn of_wait(&self, wait_id: Uuid) -> Result<Option<Uuid>, Fault> {
        let run_id = move |planner: Arc<Planner>| async move {
            store::find_wait(&planner.pool, wait_id).await
        };
        Ok(self.first_with(run_id).await?.map(|(_, run_id)| run_id))
    }

    /// The first that has what is asked for; none when no database has it.
    ///
    /// # Errors
    /// `database_unavailable`, naming those that could not be asked, when the others have it not.
    async fn first_with<T, F: Future<Output = Result<Option<T>, StoreError>>>(
        &self,
        ask: impl Fn(Arc<Planner>) -> F,
    ) -> Result<Option<(Arc<Shard>, T)>, Fault> {
        let asked = self.all().map(|shard| asked(Arc::clone(shard), &ask));
        let mut asked: FuturesUnordered<_> = asked.collect();
        let (mut silent, mut why) = (Vec::new(), None);
        while let Some((shard, answer)) = asked.next().await {
            match answer {
                Ok(Some(found)) => return Ok(Some((shard, found))),
                Ok(None) => {}
                Err(fault) => {
                    silent.push(shard.whose.clone());
                    why.get_or_insert(fault);
                }
            }
        }
        let alone = self.others.is_empty();
        why.map_or(Ok(None), |fault| {
            Err(if alone { fault } else { about(&silent.join(" and "), fault) })
        })
    }

    /// A page of runs.
    ///
    /// # Errors
    /// `database_unavailable`, naming the database, when one of the queried ones is unavailable.
    pub(crate) async fn list_runs(&self, filter: &RunFilter) -> Result<RunList, Fault> {
        let list = |planner: Arc<Planner>| async move {
            let RunPage { runs, unreadable, next } =
                store::list_runs(&planner.pool, filter).await?;
            let mut blocked = blocked_by_absent_hosts(&planner, &runs).await?;
            let listed = runs.into_iter().map(|record| {
                let absent = blocked.remove(&record.spec.id);
                ListedRun { record, absent }
            });
            Ok(((listed.collect(), next.map(Reverse)), unreadable))
        };
        let pages =
            self.ask_for_pages(self.listed(&filter.namespace, &filter.reached), list).await?;
        let (pages, unreadable): (Vec<_>, Vec<_>) = pages.into_iter().unzip();
        let of = |listed: &ListedRun| store::listed_bytes(&listed.record);
        let bounds = PageBounds { rows: filter.limit, bytes: store::LIST_BYTES, of };
        let (runs, next) = merge(pages, |listed| Reverse(listed.record.spec.id), &bounds);
        let next = next.map(|Reverse(id)| id);
        // Those behind the end of this page are on the next one.
        let is_here = |id: &Uuid| next.is_none_or(|next| *id >= next);
        let mut unreadable: Vec<Uuid> = unreadable.into_iter().flatten().filter(is_here).collect();
        unreadable.sort_by_key(|id| Reverse(*id));
        Ok(RunList { runs, unreadable, next })
    }

    /// A page of waiting runs: of one run, of a namespace, or of all.
    ///
    /// # Errors
    /// As [`Self::list_runs`].
    pub(crate) async fn list_waits(&self, filter: &WaitFilter) -> Result<WaitPage, Fault> {
        let asked = match filter.run_id {
            Some(run_id) => match self.with_run(run_id).await? {
                Some(found) => vec![found.shard],
                None => return Ok(WaitPage { waiting: Vec::new(), next: None }),
            },
            None => self.listed(&filter.namespace, &filter.reached),
        };
        let list = |planner: Arc<Planner>| async move {
            let page = store::list_waits(&planner.pool, filter).await?;
            Ok((page.waiting, page.next))
        };
        let pages = self.ask_for_pages(asked, list).await?;
        let of = |waiting: &Waiting| store::listed_bytes(&waiting.run);
        let bounds = PageBounds { rows: filter.limit, bytes: store::LIST_BYTES, of };
        let (waiting, next) = merge(pages, |waiting| waiting.run.spec.id, &bounds);
        Ok(WaitPage { waiting, next })
    }

    /// The databases in which a planning agent waits for work.
    ///
    /// # Errors
    /// `database_unavailable` when none of them is connected yet.
    pub(crate) async fn offering(&self, scope: &Scope) -> Result<Vec<Arc<Planner>>, Fault> {
        let mut planners = Vec::new();
        let mut failed = None;
        for shard in self.offering_of(scope) {
            match shard.planner().await {
                Ok(planner) => planners.push(planner),
                Err(fault) => failed = Some(about(&shard.whose, fault)),
            }
        }
        match failed {
            Some(fault) if planners.is_empty() => Err(fault),
            Some(_) | None => Ok(planners),
        }
    }

    /// The databases in which the waits of a scope may be.
    fn offering_of(&self, scope: &Scope) -> Vec<Arc<Shard>> {
        let mut shards: Vec<Arc<Shard>> = Vec::new();
        let named = scope.namespaces.iter().map(|namespace| Arc::clone(self.named(namespace)));
        for shard in named {
            if !shards.iter().any(|listed| Arc::ptr_eq(listed, &shard)) {
                shards.push(shard);
            }
        }
        match shards.is_empty() {
            true => self.listed("", &scope.reached),
            false => shards,
        }
    }

    /// The databases of a list.
    fn listed(&self, namespace: &str, reached: &[String]) -> Vec<Arc<Shard>> {
        match (namespace, reached) {
            ("", []) => self.all().cloned().collect(),
            // A run may be in the primary database from the time before its namespace moved.
            ("", reached) => {
                let mut shards = vec![Arc::clone(&self.primary)];
                for shard in reached.iter().map(|namespace| self.named(namespace)) {
                    if !shards.iter().any(|listed| Arc::ptr_eq(listed, shard)) {
                        shards.push(Arc::clone(shard));
                    }
                }
                shards
            }
            (namespace, _) => vec![Arc::clone(self.named(namespace))],
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
        join_all(reached.map(|planner| store::close(&planner.pool))).await;
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
    pub(crate) async fn keep(
        self: Arc<Self>,
        upkeep: Upkeep,
        tokens: Tokens,
        shutdown: CancellationToken,
    ) {
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
        tokens.reach(&pool, &self.namespaces).await;
        let pool_of_tokens = pool.clone();
        let planner = upkeep.start(pool, self.shard_index, self.whose.clone(), shutdown).await;
        if self.planner.set(Arc::clone(&planner)).is_ok() {
            tracing::info!(database = self.whose, "shards: connected to the database");
        }
        tokio::join!(upkeep.go_on(planner), tokens.go_on(pool_of_tokens, self.namespaces.clone()));
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
    use crate::planner::{Keys, ShardIdentity, TaskSetup};
    use sqlx::postgres::PgPoolOptions;

    fn named(namespaces: &[&str], url: &str) -> NamespaceDatabase {
        let namespaces = namespaces.iter().map(|name| (*name).to_owned()).collect();
        NamespaceDatabase { namespaces, url: Secret::new(url) }
    }

    #[tokio::test]
    async fn a_namespace_selects_its_configured_database_and_each_database_is_listed_once() {
        let primary_url = "postgres://127.0.0.1:1/primary";
        let pool = PgPoolOptions::new().connect_lazy(primary_url).unwrap();
        let (whose, host_label) = ("the primary one".into(), "here".into());
        let shard = ShardIdentity { shard_index: PRIMARY_SHARD, whose, host_label };
        let (tasks, keys) = (TaskSetup::for_tests(), Keys::default());
        let primary = Planner::start(pool, shard, tasks, keys, CancellationToken::new());
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
