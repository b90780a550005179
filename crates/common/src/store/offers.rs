//! The long poll of participants: one loop finds offered waits for all of this process's callers.
//!
//! ```text
//!   caller --want--> Offers --one statement--> which namespaces offer waits
//!                      |---- for those that a caller reaches: the most urgent waits
//!                      +---- one statement: the leases, one wait for each caller
//! ```
//!
//! Between namespaces the waits are taken in turns, within one by priority and then age. A scan that finds
//! nothing is one statement, for any number of callers and of waits that are not offered. Callers that name the same
//! namespaces and labels share a statement.

use super::StoreError;
use super::dedicated_connection::DedicatedConnection;
use super::scans::{OfferedIn, Scanner, Turns, scan_until};
use super::wait::{
    HeldLease, LeaseOrder, OfferedWait, WaitLease, lease_waits, offered_namespaces,
    offered_task_waits, offered_waits, release_wait,
};
use super::wake::Wakeups;
use crate::clock;
use crate::domain::execution::wait_rows::WaitKind;
use crate::domain::labels::carries;
use crate::domain::toolchain::is_task_namespace;
use chrono::{DateTime, Utc};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The most waits of one namespace that one scan offers.
const MOST: usize = 256;

/// What a participant takes; by default every wait.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope {
    /// The namespaces that its identity reaches; empty for all.
    pub reached: Vec<String>,
    /// Only these; empty for all of them.
    pub namespaces: Vec<String>,
    /// Only waits of this run.
    pub run_id: Option<Uuid>,
    /// Only waits of runs that carry all of these labels.
    pub labels: BTreeMap<String, String>,
}

impl Scope {
    fn fits(&self, namespace: &str) -> bool {
        let has = |names: &[String]| names.is_empty() || names.iter().any(|name| name == namespace);
        has(&self.namespaces) && has(&self.reached)
    }
}

/// A participant that waits for a wait.
struct Want {
    scope: Scope,
    identity: String,
    /// The participant's own name.
    name: String,
    lease_ms: i32,
    reply: oneshot::Sender<WaitLease>,
}

/// The offered waits of one kind, and the participants of this process that want one.
#[derive(Clone)]
pub struct Offers(Arc<Shared>);

struct Shared {
    kind: WaitKind,
    pool: sqlx::PgPool,
    /// The shard of the database, whose clock counts.
    shard_index: usize,
    wants: Mutex<VecDeque<Want>>,
    wanted: Notify,
}

impl Offers {
    /// Offers of a kind, served once [`Offers::run`] is called.
    pub fn of(kind: WaitKind, pool: sqlx::PgPool, shard_index: usize) -> Self {
        let (wants, wanted) = (Mutex::default(), Notify::new());
        Self(Arc::new(Shared { kind, pool, shard_index, wants, wanted }))
    }

    /// The lease of the next wait in this scope. Dropping the future gives the place up; a lease that was
    /// written by then is given back.
    pub async fn next(
        &self,
        scope: Scope,
        (identity, name): (String, String),
        lease_ms: i32,
    ) -> Option<WaitLease> {
        let (reply, lease) = oneshot::channel();
        self.wants().push_back(Want { scope, identity, name, lease_ms, reply });
        self.0.wanted.notify_one();
        lease.await.ok()
    }

    /// Serves the participants until `ended`.
    pub async fn run(self, wakeups: Wakeups, ended: CancellationToken) {
        let dedicated = DedicatedConnection::new(self.0.pool.clone());
        let scans = Scans { offers: self.clone(), dedicated, turns: Turns::default() };
        scan_until(scans, &wakeups, &ended).await;
        self.wants().clear();
    }

    /// One scan. Returns whether another one at once may find more.
    async fn run_once(
        &self,
        dedicated: &mut DedicatedConnection,
        turns: &mut Turns,
    ) -> Result<bool, StoreError> {
        let scopes = self.scopes();
        if scopes.is_empty() {
            return Ok(false);
        }
        let now = clock::now_at(self.0.shard_index);
        let mut namespaces = offered_namespaces(dedicated, self.0.kind, now).await?;
        namespaces.sort_unstable();
        // Decisions of tasks are for their assignees.
        let is_task = |name: &String| self.0.kind == WaitKind::Decision && is_task_namespace(name);
        let (of_tasks, namespaces): (Vec<String>, Vec<String>) =
            namespaces.into_iter().partition(is_task);
        let mut picked = self.pick_tasks(dedicated, &of_tasks, now).await?;
        let found =
            self.pick(dedicated, (turns, namespaces.as_slice()), (scopes, now), &mut picked).await;
        if let Err(error) = found {
            // They wait again, each at its place.
            return self.hand_out(picked, Err(error)).await;
        }
        if picked.is_empty() {
            return Ok(false);
        }
        let orders: Vec<LeaseOrder> = picked.iter().map(order).collect();
        let leased = lease_waits(dedicated, &orders, now).await;
        self.hand_out(picked, leased).await
    }

    /// Offered waits in the scopes, each with the participant that has waited longest.
    async fn pick(
        &self,
        dedicated: &mut DedicatedConnection,
        (turns, namespaces): (&mut Turns, &[String]),
        (scopes, now): (BTreeMap<Scope, usize>, DateTime<Utc>),
        picked: &mut Vec<(Uuid, Want)>,
    ) -> Result<(), StoreError> {
        let mut taken = HashSet::new();
        for (scope, count) in scopes {
            let fitting: Vec<String> =
                namespaces.iter().filter(|name| scope.fits(name)).cloned().collect();
            if fitting.is_empty() {
                continue;
            }
            let most = i64::try_from((count + taken.len()).min(MOST)).unwrap_or(i64::MAX);
            let asked = (scope.run_id, &scope.labels);
            let offers =
                offered_waits(dedicated, self.0.kind, &fitting, asked, (most, now)).await?;
            for offer in turns.order(offers) {
                if taken.contains(&offer.id) {
                    continue;
                }
                let Some(want) = self.take_want(&scope) else { break };
                taken.insert(offer.id);
                turns.served(&offer.namespace);
                picked.push((offer.id, want));
            }
        }
        Ok(())
    }

    /// Offered waits of tasks, each with the participant of its assignee that has waited longest.
    async fn pick_tasks(
        &self,
        dedicated: &mut DedicatedConnection,
        namespaces: &[String],
        now: DateTime<Utc>,
    ) -> Result<Vec<(Uuid, Want)>, StoreError> {
        let (mut wanting, mut named) = (Vec::new(), Vec::new());
        for want in self.wants().iter() {
            if namespaces.iter().any(|name| want.scope.fits(name)) {
                wanting.push((want.identity.clone(), want.scope.labels.clone()));
                named.extend(want.scope.run_id);
            }
        }
        if wanting.is_empty() {
            return Ok(Vec::new());
        }
        let most = i64::try_from(wanting.len().min(MOST)).unwrap_or(i64::MAX);
        wanting.sort_unstable();
        wanting.dedup();
        let asked = (wanting.as_slice(), named.as_slice());
        let offers = offered_task_waits(dedicated, namespaces, asked, (most, now)).await?;
        let mut picked = Vec::new();
        for offer in offers {
            let mut wants = self.wants();
            let place = wants.iter().position(|want| {
                want.identity == offer.assignee
                    && want.scope.fits(&offer.namespace)
                    && want.scope.run_id.is_none_or(|run_id| run_id == offer.run_id)
                    && carries(&offer.labels, &want.scope.labels)
            });
            if let Some(want) = place.and_then(|place| wants.remove(place)) {
                picked.push((offer.id, want));
            }
        }
        Ok(picked)
    }

    /// Gives the leases to the participants. One without a lease waits again, at its place.
    async fn hand_out(
        &self,
        picked: Vec<(Uuid, Want)>,
        leased: Result<Vec<WaitLease>, StoreError>,
    ) -> Result<bool, StoreError> {
        let (leases, mut failed) = match leased {
            Ok(leases) => (leases, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let leases: HashMap<Uuid, WaitLease> =
            leases.into_iter().map(|lease| (lease.wait_id, lease)).collect();
        for (wait_id, want) in picked.into_iter().rev() {
            let Some(lease) = leases.get(&wait_id) else {
                self.wants().push_front(want);
                continue;
            };
            if want.reply.send(*lease).is_err() {
                let WaitLease { run_id, lease_epoch, .. } = *lease;
                let lease = HeldLease { run_id, lease_epoch, identity: want.identity };
                let released =
                    release_wait(&self.0.pool, &lease, clock::now_at(self.0.shard_index)).await;
                // The other participants get what is theirs.
                failed = failed.or(released.err());
            }
        }
        failed.map_or_else(|| Ok(self.is_wanted()), Err)
    }

    /// The scopes of the participants that still wait, with their numbers.
    fn scopes(&self) -> BTreeMap<Scope, usize> {
        let mut wants = self.wants();
        wants.retain(|want| !want.reply.is_closed());
        let mut scopes = BTreeMap::new();
        for want in wants.iter() {
            *scopes.entry(want.scope.clone()).or_default() += 1;
        }
        scopes
    }

    /// The participant of a scope that has waited longest.
    fn take_want(&self, scope: &Scope) -> Option<Want> {
        let mut wants = self.wants();
        let place = wants.iter().position(|want| want.scope == *scope)?;
        wants.remove(place)
    }

    fn is_wanted(&self) -> bool {
        !self.wants().is_empty()
    }

    fn wants(&self) -> MutexGuard<'_, VecDeque<Want>> {
        self.0.wants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn order((wait_id, want): &(Uuid, Want)) -> LeaseOrder {
    let Want { identity, name, lease_ms, .. } = want;
    LeaseOrder { wait_id: *wait_id, holder: format!("{identity} {name}"), lease_ms: *lease_ms }
}

struct Scans {
    offers: Offers,
    dedicated: DedicatedConnection,
    turns: Turns,
}

impl Scanner for Scans {
    const WHAT: &'static str = "waits of participants";

    fn is_wanted(&self) -> bool {
        self.offers.is_wanted()
    }

    async fn wanted(&self) {
        self.offers.0.wanted.notified().await;
    }

    async fn scan(&mut self) -> Result<bool, StoreError> {
        self.offers.run_once(&mut self.dedicated, &mut self.turns).await
    }
}

impl OfferedIn for OfferedWait {
    fn namespace(&self) -> &str {
        &self.namespace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_takes_waits_of_its_namespaces_only() {
        let names = |of: &[&str]| of.iter().map(ToString::to_string).collect();
        let scope = |reached: &[&str], namespaces: &[&str]| Scope {
            reached: names(reached),
            namespaces: names(namespaces),
            ..Scope::default()
        };
        for (scope, expected) in [
            (scope(&[], &[]), [true, true]),
            (scope(&["a"], &[]), [true, false]),
            (scope(&[], &["b"]), [false, true]),
            (scope(&[], &["a", "b"]), [true, true]),
            (scope(&["a"], &["a", "b"]), [true, false]),
            (scope(&["a"], &["b"]), [false, false]),
        ] {
            assert_eq!(["a", "b"].map(|name| scope.fits(name)), expected, "{scope:?}");
        }
    }

    #[sqlx::test(migrations = "./migrations")]
    async fn a_participant_keeps_its_place_when_the_statement_of_another_scope_fails(
        pool: sqlx::PgPool,
    ) {
        let wait_id = Uuid::from_u128(7);
        let opened = "insert into wait (id, run_id, kind, namespace, priority, opened_at, withheld) \
                      values ($1, $1, 'decision', 'default', 0, now(), false)";
        sqlx::query(opened).bind(wait_id).execute(&pool).await.unwrap();
        let offers = Offers::of(WaitKind::Decision, pool.clone(), 0);
        let want = |labels: BTreeMap<String, String>| {
            let (offers, scope) = (offers.clone(), Scope { labels, ..Scope::default() });
            let holder = ("agent".to_owned(), "one".to_owned());
            tokio::spawn(async move { offers.next(scope, holder, 10_000).await })
        };
        let served = want(BTreeMap::new());
        // A text that no column of JSON takes.
        let broken = want([("a".to_owned(), "\0".to_owned())].into());
        while offers.wants().len() < 2 {
            tokio::task::yield_now().await;
        }
        let mut dedicated = DedicatedConnection::new(pool);
        let mut turns = Turns::default();
        offers.run_once(&mut dedicated, &mut turns).await.unwrap_err();
        broken.abort();
        assert!(broken.await.unwrap_err().is_cancelled());
        assert!(!offers.run_once(&mut dedicated, &mut turns).await.unwrap());
        let lease = served.await.unwrap().expect("its place was kept");
        assert_eq!(lease.wait_id, wait_id);
    }
}
