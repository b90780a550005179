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
//! labels share a statement, and so do those that name runs.

use super::StoreError;
use super::dedicated_connection::DedicatedConnection;
use super::scans::{OfferedIn, Scanner, Turns, scan_until};
use super::wait::{
    HeldLease, LeaseOrder, OfferedRunWait, OfferedWait, WaitLease, lease_waits, offered_namespaces,
    offered_run_waits, offered_task_waits, offered_waits, release_wait,
};
use super::wake::Wakeups;
use crate::clock;
use crate::domain::execution::wait_rows::WaitKind;
use crate::domain::labels::carries;
use crate::domain::toolchain::is_task_namespace;
use chrono::{DateTime, Utc};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::runtime::Handle;
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
    reply: oneshot::Sender<Untaken>,
}

/// Offered waits, each with its participant.
#[derive(Default)]
struct Picked {
    wants: Vec<(Uuid, Want)>,
    wait_ids: HashSet<Uuid>,
}

impl Picked {
    fn add(&mut self, wait_id: Uuid, want: Want) {
        self.wait_ids.insert(wait_id);
        self.wants.push((wait_id, want));
    }
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
        lease.await.ok().and_then(Untaken::taken)
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
            return self.hand_out(picked.wants, Err(error)).await;
        }
        if picked.wants.is_empty() {
            return Ok(false);
        }
        let orders: Vec<LeaseOrder> = picked.wants.iter().map(order).collect();
        let leased = lease_waits(dedicated, &orders, now).await;
        self.hand_out(picked.wants, leased).await
    }

    /// Offered waits in the scopes, each with the participant that has waited longest. Those that name a run are served
    /// first: others may take any other wait.
    async fn pick(
        &self,
        dedicated: &mut DedicatedConnection,
        (turns, namespaces): (&mut Turns, &[String]),
        (mut scopes, now): (BTreeMap<Scope, usize>, DateTime<Utc>),
        picked: &mut Picked,
    ) -> Result<(), StoreError> {
        scopes.retain(|scope, _| namespaces.iter().any(|name| scope.fits(name)));
        let (of_runs, others): (Vec<_>, Vec<_>) =
            scopes.into_iter().partition(|(scope, _)| scope.run_id.is_some());
        if !of_runs.is_empty() {
            let asked = (of_runs.as_slice(), now);
            self.pick_of_runs(dedicated, (turns, namespaces), asked, picked).await?;
        }
        let mut by_labels: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (scope, count) in others {
            by_labels.entry(scope.labels.clone()).or_default().push((scope, count));
        }
        for (labels, scopes) in by_labels {
            let asked = (&labels, scopes.as_slice());
            self.pick_with_labels(dedicated, (turns, namespaces), asked, picked).await?;
        }
        Ok(())
    }

    /// Those of the runs that participants name: one statement for all of them.
    async fn pick_of_runs(
        &self,
        dedicated: &mut DedicatedConnection,
        (turns, namespaces): (&mut Turns, &[String]),
        (scopes, now): (&[(Scope, usize)], DateTime<Utc>),
        picked: &mut Picked,
    ) -> Result<(), StoreError> {
        let run_ids: BTreeSet<Uuid> = scopes.iter().filter_map(|(scope, _)| scope.run_id).collect();
        let run_ids: Vec<Uuid> = run_ids.into_iter().collect();
        let found =
            offered_run_waits(dedicated, self.0.kind, namespaces, (run_ids.as_slice(), now));
        let mut offers: HashMap<Uuid, Vec<OfferedRunWait>> = HashMap::new();
        for offer in found.await? {
            offers.entry(offer.run_id).or_default().push(offer);
        }
        for (scope, count) in scopes {
            let of_run = scope.run_id.and_then(|run_id| offers.get(&run_id));
            let fitting = of_run.into_iter().flatten().filter(|offer| {
                scope.fits(&offer.namespace)
                    && carries(&offer.labels, &scope.labels)
                    && !picked.wait_ids.contains(&offer.id)
            });
            let fitting = fitting.take(*count).map(OfferedRunWait::to_offered).collect();
            self.give(turns, scope, fitting, picked);
        }
        Ok(())
    }

    /// Those of runs that carry the labels of all of these scopes, which name no run.
    async fn pick_with_labels(
        &self,
        dedicated: &mut DedicatedConnection,
        (turns, namespaces): (&mut Turns, &[String]),
        (labels, scopes): (&BTreeMap<String, String>, &[(Scope, usize)]),
        picked: &mut Picked,
    ) -> Result<(), StoreError> {
        let is_asked = |name: &String| scopes.iter().any(|(scope, _)| scope.fits(name));
        let asked: Vec<String> = namespaces.iter().filter(|name| is_asked(name)).cloned().collect();
        let count: usize = scopes.iter().map(|(_, count)| count).sum();
        let most = i64::try_from((count + picked.wants.len()).min(MOST)).unwrap_or(i64::MAX);
        let mut offers: BTreeMap<String, Vec<OfferedWait>> = BTreeMap::new();
        for offer in offered_waits(dedicated, self.0.kind, &asked, (labels, most)).await? {
            offers.entry(offer.namespace.clone()).or_default().push(offer);
        }
        for (scope, count) in scopes {
            let fitting = offers.iter().filter(|(namespace, _)| scope.fits(namespace));
            // A namespace serves at most all of the scope's participants.
            let fitting = fitting.flat_map(|(_, offers)| {
                let free = offers.iter().filter(|offer| !picked.wait_ids.contains(&offer.id));
                free.take(*count).cloned()
            });
            let fitting = fitting.collect();
            self.give(turns, scope, fitting, picked);
        }
        Ok(())
    }

    /// Gives offers to the participants of a scope, by turns of the namespaces.
    fn give(
        &self,
        turns: &mut Turns,
        scope: &Scope,
        offers: Vec<OfferedWait>,
        picked: &mut Picked,
    ) {
        for offer in turns.order(offers) {
            let Some(want) = self.take_want(scope) else { break };
            turns.served(&offer.namespace);
            picked.add(offer.id, want);
        }
    }

    /// Offered waits of tasks, each with the participant of its assignee that has waited longest.
    async fn pick_tasks(
        &self,
        dedicated: &mut DedicatedConnection,
        namespaces: &[String],
        now: DateTime<Utc>,
    ) -> Result<Picked, StoreError> {
        let (mut wanting, mut named) = (Vec::new(), Vec::new());
        for want in self.wants().iter() {
            if namespaces.iter().any(|name| want.scope.fits(name)) {
                wanting.push((want.identity.clone(), want.scope.labels.clone()));
                named.extend(want.scope.run_id);
            }
        }
        if wanting.is_empty() {
            return Ok(Picked::default());
        }
        let most = i64::try_from(wanting.len().min(MOST)).unwrap_or(i64::MAX);
        wanting.sort_unstable();
        wanting.dedup();
        let asked = (wanting.as_slice(), named.as_slice());
        let offers = offered_task_waits(dedicated, namespaces, asked, (most, now)).await?;
        let mut picked = Picked::default();
        for offer in offers {
            let mut wants = self.wants();
            let place = wants.iter().position(|want| {
                want.identity == offer.assignee
                    && want.scope.fits(&offer.namespace)
                    && want.scope.run_id.is_none_or(|run_id| run_id == offer.run_id)
                    && carries(&offer.labels, &want.scope.labels)
            });
            if let Some(want) = place.and_then(|place| wants.remove(place)) {
                picked.add(offer.id, want);
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
            let Want { reply, identity, .. } = want;
            let untaken = Untaken { shared: self.0.clone(), lease: Some(*lease), identity };
            if let Err(untaken) = reply.send(untaken) {
                // The other participants get what is theirs.
                failed = failed.or(untaken.give_back().await.err());
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

const UNTAKEN: &str = "waits: a lease that no participant got was not given back; it expires";

/// A lease on its way to its participant: it is given back where the call is given up before it gets there.
struct Untaken {
    shared: Arc<Shared>,
    lease: Option<WaitLease>,
    identity: String,
}

impl Untaken {
    /// The participant gets it.
    fn taken(mut self) -> Option<WaitLease> {
        self.lease.take()
    }

    async fn give_back(mut self) -> Result<(), StoreError> {
        match self.untaken() {
            Some(lease) => self.shared.release(lease).await,
            None => Ok(()),
        }
    }

    fn untaken(&mut self) -> Option<HeldLease> {
        let WaitLease { run_id, lease_epoch, .. } = self.lease.take()?;
        Some(HeldLease { run_id, lease_epoch, identity: take(&mut self.identity) })
    }
}

impl Drop for Untaken {
    fn drop(&mut self) {
        // Without a runtime the process ends, and the lease expires.
        let (Some(lease), Ok(runtime)) = (self.untaken(), Handle::try_current()) else { return };
        let shared = self.shared.clone();
        runtime.spawn(async move {
            let HeldLease { run_id, lease_epoch, .. } = lease;
            match shared.release(lease).await {
                Ok(()) => shared.wanted.notify_one(),
                Err(error) => tracing::warn!(%run_id, lease_epoch, %error, "{UNTAKEN}"),
            }
        });
    }
}

impl Shared {
    async fn release(&self, lease: HeldLease) -> Result<(), StoreError> {
        release_wait(&self.pool, &lease, clock::now_at(self.shard_index)).await.map(drop)
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
    use std::time::Duration;

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

    /// A run with one open decision, which have the same id.
    async fn open_decision(pool: &sqlx::PgPool, id: Uuid) {
        let opened = "insert into wait (id, run_id, kind, namespace, priority, opened_at, withheld) \
                      values ($1, $1, 'decision', 'default', 0, now(), false)";
        sqlx::query(opened).bind(id).execute(pool).await.unwrap();
    }

    #[sqlx::test(migrations = "./migrations")]
    async fn a_lease_that_was_sent_to_a_call_that_is_given_up_is_given_back(pool: sqlx::PgPool) {
        let wait_id = Uuid::from_u128(7);
        open_decision(&pool, wait_id).await;
        let offers = Offers::of(WaitKind::Decision, pool.clone(), 0);
        let holder = || ("agent".to_owned(), "one".to_owned());
        let mut given_up = Box::pin(offers.next(Scope::default(), holder(), 600_000));
        assert!(futures::poll!(&mut given_up).is_pending());
        offers.0.wanted.notified().await;
        let (mut dedicated, mut turns) = (DedicatedConnection::new(pool), Turns::default());
        assert!(!offers.run_once(&mut dedicated, &mut turns).await.unwrap(), "it was sent");
        drop(given_up);
        let released = tokio::time::timeout(Duration::from_secs(60), offers.0.wanted.notified());
        released.await.expect("it is given back");

        let mut next = Box::pin(offers.next(Scope::default(), holder(), 600_000));
        assert!(futures::poll!(&mut next).is_pending());
        offers.run_once(&mut dedicated, &mut turns).await.unwrap();
        assert_eq!(next.await.map(|lease| lease.wait_id), Some(wait_id));
    }

    #[sqlx::test(migrations = "./migrations")]
    async fn a_participant_keeps_its_place_when_the_statement_of_another_scope_fails(
        pool: sqlx::PgPool,
    ) {
        let wait_id = Uuid::from_u128(7);
        open_decision(&pool, wait_id).await;
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
