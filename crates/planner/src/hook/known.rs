//! The hooks in memory, with the keys of their secrets, so that a wrong signature costs no statement.

use super::in_flight::InFlight;
use super::signature;
use crate::planner::Planner;
use crate::shards::Shards;
use ring::hmac;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use surety_common::config::{HooksConfig, NamedSecret};
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::redact::SHORTEST_SECRET;
use surety_common::domain::toolchain::Hook;
use surety_common::store::{self, DeliveryLog};
use tokio::sync::{Mutex, Notify, OnceCell};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

/// The namespace whose database has the hooks, their deliveries, and the tasks.
pub(crate) const NAMESPACE: &str = "_toolchain";

/// How often hooks and the files of their secrets are read again.
const INTERVAL: Duration = Duration::from_secs(10);
/// The bytes of bodies that are received and not stored yet, of all connections together.
const MAX_BYTES_IN_FLIGHT: usize = 128 << 20;

/// A hook, with the keys of those of its secrets that have a value.
#[derive(Debug)]
pub(super) struct KnownHook {
    pub(super) hook: Hook,
    pub(super) keys: Vec<hmac::Key>,
}

/// What the hooks of a process share.
pub(crate) struct Hooks {
    pub(super) shards: Arc<Shards>,
    /// The secrets that the operator lists for hooks.
    listed: Vec<NamedSecret>,
    pub(super) takes_unsigned: bool,
    pub(super) retention_days: u32,
    /// None until the hooks were read for the first time.
    known: RwLock<Option<KnownHooks>>,
    /// Held while they are read: an older reading must not replace a newer one.
    reading: Mutex<()>,
    log: OnceCell<DeliveryLog>,
    pub(super) in_flight: Arc<InFlight>,
    /// Notified when a delivery was stored.
    pub(super) arrived: Notify,
}

/// Hooks by their names.
type KnownHooks = Arc<HashMap<String, Arc<KnownHook>>>;

/// What a name of a hook stands for.
pub(super) enum Lookup {
    Known(Arc<KnownHook>),
    Unknown,
    /// The hooks were never read.
    NotLoaded,
}

impl Hooks {
    pub(crate) fn new(shards: Arc<Shards>, config: &HooksConfig) -> Arc<Self> {
        let listed = config.hook_secrets.clone().unwrap_or_default().0;
        let is_for_hooks = |secret: &NamedSecret| {
            secret
                .namespaces
                .as_ref()
                .is_none_or(|names| names.iter().any(|name| name == NAMESPACE))
        };
        Arc::new(Self {
            shards,
            listed: listed.into_iter().filter(is_for_hooks).collect(),
            takes_unsigned: config.unsigned_hooks,
            retention_days: config.delivery_retention_days,
            known: RwLock::new(None),
            reading: Mutex::new(()),
            log: OnceCell::new(),
            in_flight: InFlight::new(MAX_BYTES_IN_FLIGHT),
            arrived: Notify::new(),
        })
    }

    /// The planner of the hooks' database.
    ///
    /// # Errors
    /// `database_unavailable`.
    pub(crate) async fn planner(&self) -> Result<Arc<Planner>, Fault> {
        self.shards.of_namespace(NAMESPACE).await
    }

    /// The writer of deliveries, with its planner.
    ///
    /// # Errors
    /// `database_unavailable`.
    pub(super) async fn log(&self) -> Result<(Arc<Planner>, &DeliveryLog), Fault> {
        let planner = self.planner().await?;
        let log = self.log.get_or_init(async || DeliveryLog::start(planner.pool.clone())).await;
        Ok((planner, log))
    }

    /// Has due deliveries processed at once.
    pub(crate) fn wake(&self) {
        self.arrived.notify_one();
    }

    /// The first of these secrets that no hook may name.
    pub(crate) fn unlisted<'n>(&self, names: &'n [String]) -> Option<&'n str> {
        let is_listed = |name: &String| self.listed.iter().any(|secret| secret.name == *name);
        names.iter().find(|name| !is_listed(name)).map(String::as_str)
    }

    pub(super) fn find(&self, name: &str) -> Lookup {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        match known.as_ref() {
            None => Lookup::NotLoaded,
            Some(known) => known.get(name).cloned().map_or(Lookup::Unknown, Lookup::Known),
        }
    }

    /// Reads the hooks and the values of their secrets again and again, until the process shuts down.
    pub(super) async fn keep_known(self: Arc<Self>, shutdown: CancellationToken) {
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut complaints = BTreeMap::new();
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = shutdown.cancelled() => return,
            }
            match self.refresh().await {
                Ok(found) => {
                    // Each once, until it changes.
                    for (secret, why) in
                        found.iter().filter(|(name, why)| complaints.get(*name) != Some(*why))
                    {
                        tracing::error!(
                            secret,
                            why,
                            "hook: a secret of a hook has no value, so deliveries that it signs are refused; correct SURETY_HOOK_SECRETS"
                        );
                    }
                    complaints = found;
                }
                Err(error) => {
                    tracing::warn!(%error, "hook: the hooks could not be read again; the known ones stay");
                }
            }
        }
    }

    /// Reads the hooks once. Returns the secrets that hooks name and that have no value, with the reason.
    ///
    /// # Errors
    /// `database_unavailable`; `internal` where the files could not be read. The known hooks stay.
    pub(crate) async fn refresh(&self) -> Result<BTreeMap<String, String>, Fault> {
        let planner = self.planner().await?;
        let _reading = self.reading.lock().await;
        let hooks = store::list_hooks(&planner.pool).await?;
        let named: Vec<String> = hooks.iter().flat_map(|hook| hook.hook.secrets.clone()).collect();
        let listed: Vec<NamedSecret> =
            self.listed.iter().filter(|secret| named.contains(&secret.name)).cloned().collect();
        let reading = spawn_blocking(move || read_all(&listed)).await;
        let values = reading.map_err(|error| {
            let message = format!("the files of the secrets of hooks were not read: {error}");
            Fault::new(FaultCode::Internal, message)
        })?;
        let mut missing = BTreeMap::new();
        for name in named {
            match values.get(&name) {
                Some(Ok(_)) => {}
                Some(Err(why)) => drop(missing.insert(name, why.clone())),
                None => drop(missing.insert(name, "is not listed".to_owned())),
            }
        }
        let known = hooks.into_iter().map(|stored| {
            let value = |name: &String| values.get(name)?.as_ref().ok().cloned();
            let keys = stored.hook.secrets.iter().filter_map(value).collect();
            (stored.hook.name.clone(), Arc::new(KnownHook { hook: stored.hook, keys }))
        });
        let known = Arc::new(known.collect());
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some(known);
        Ok(missing)
    }
}

/// The key of each secret, or why it has none.
fn read_all(listed: &[NamedSecret]) -> HashMap<String, Result<hmac::Key, String>> {
    let read = |secret: &NamedSecret| {
        let key = secret.source.read().and_then(|value| {
            if value.len() < SHORTEST_SECRET {
                return Err(format!("has fewer than {SHORTEST_SECRET} bytes"));
            }
            Ok(signature::key(&value))
        });
        (secret.name.clone(), key)
    };
    listed.iter().map(read).collect()
}
