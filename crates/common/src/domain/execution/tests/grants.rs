//! Grants under parallel steps, lost changes, crashes, revocation and time.

use super::world::{World, actor, receipt};
use crate::domain::confirmation::{AfterDenial, CallResolution, CallToConfirm};
use crate::domain::execution::draft::Draft;
use crate::domain::execution::turns::ClosedCall;
use crate::domain::execution::{Execution, Graph, OpenCall, Revocation, Wait};
use crate::domain::grant::{CallGrant, GRANT_REVOKED, GRANT_USED, GrantState, GrantTerms, USE};
use crate::domain::journal::Entry;
use crate::domain::limits::Limits;
use crate::domain::plan::{Plan, PlanStep};
use crate::domain::receipt::{EvidenceReceipt, EvidenceSource, verify_chain};
use crate::domain::step::StepState;
use crate::domain::stop::WaitingOn;
use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;
use std::collections::BTreeMap;
use uuid::Uuid;

const WAIT: Uuid = Uuid::from_u128(7);
const TTL_S: i64 = 100;

/// One attempt to change the run. A late one was derived from an earlier row, and is lost.
#[derive(Debug, Clone, Copy)]
enum Act {
    Call { step: usize, fits: bool, late: usize },
    Close { step: usize, late: usize },
    TakeOver,
    Pass { seconds: i64 },
    Revoke { late: usize },
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let (step, late) = (0_usize..6, 0_usize..3);
    let call = (step.clone(), prop::bool::weighted(0.8), late.clone());
    let act = prop_oneof![
        12 => call.prop_map(|(step, fits, late)| Act::Call { step, fits, late }),
        8 => (step, late.clone()).prop_map(|(step, late)| Act::Close { step, late }),
        2 => Just(Act::TakeOver),
        1 => (0_i64..40).prop_map(|seconds| Act::Pass { seconds }),
        1 => late.prop_map(|late| Act::Revoke { late }),
    ];
    prop::collection::vec(act, 0..80)
}

/// A run whose approver granted calls of its first step, with every committed row and entry.
struct Granted {
    graph: Graph,
    rows: Vec<Execution>,
    entries: Vec<Entry>,
    now: DateTime<Utc>,
    ids: u128,
}

impl Granted {
    fn new(steps: usize, uses: u32) -> Self {
        let step = |number| PlanStep { id: format!("s{number}"), ..PlanStep::default() };
        let plan = Plan { steps: (0..steps).map(step).collect(), ..Plan::default() };
        let limits = Limits { max_parallel_steps: 8, ..Limits::default() };
        let World { execution, graph, .. } = World::new(&plan, limits);
        let rows = vec![execution];
        let mut granted =
            Self { graph, rows, entries: Vec::new(), now: DateTime::UNIX_EPOCH, ids: 100 };
        granted.take_over();
        granted.change(0, |graph, draft| {
            let shown = call("src/shown.rs");
            let wait = Wait {
                confirmation: Some(Box::new(shown)),
                ..Wait::new(WAIT, WaitingOn::Approver, draft.now(), String::new())
            };
            draft.pause_step(graph, 0, wait).expect("a wait");
        });
        granted.change(0, |graph, draft| {
            let arguments = BTreeMap::from([("path".to_owned(), "src/**".to_owned())]);
            let terms = GrantTerms { arguments, uses, ttl: TimeDelta::seconds(TTL_S) };
            let made = CallGrant::new(WAIT, &call("src/shown.rs"), &terms, ("alice", draft.now()));
            let said = CallResolution {
                by: Some("alice".to_owned()),
                approved: true,
                comment: String::new(),
                grant: Some(made.expect("a grant")),
            };
            draft.resolve_call(graph, WAIT, &said, AfterDenial::Continue).expect("an approval");
        });
        granted.take_over();
        granted
    }

    fn row(&self) -> &Execution {
        self.rows.last().expect("a row")
    }

    /// Derives a change from the row of some changes ago, and stores it as the database does: only over that row.
    fn change(&mut self, late: usize, change: impl FnOnce(&Graph, &mut Draft)) {
        let place = self.rows.len().saturating_sub(1 + late);
        let mut draft = Draft::new(self.rows[place].clone(), actor(), self.now);
        change(&self.graph, &mut draft);
        if draft.is_empty() {
            return;
        }
        let write = draft.into_write();
        if write.fence.version == self.row().version {
            self.entries.extend(write.entries);
            self.rows.push(Execution::clone(&write.execution));
        }
    }

    /// Another executor leases the run, and starts its steps again. Their open calls stay open.
    fn take_over(&mut self) {
        self.ids += 1;
        let owner = Uuid::from_u128(self.ids);
        self.change(0, |graph, draft| {
            draft.end_leases(graph, "its executor is dead").expect("an end");
            draft.lease(owner);
            draft.lease_steps(graph, 8).expect("steps");
        });
    }

    fn play(&mut self, act: Act) {
        self.ids += 1;
        let id = Uuid::from_u128(self.ids);
        let steps = self.graph.len();
        match act {
            Act::Call { step, fits, late } => self.change(late, |graph, draft| {
                let (index, path) = (step % steps, if fits { "src/a.rs" } else { "lib/a.rs" });
                let progress = draft.execution().step(index).expect("a step");
                if progress.state != StepState::Running || progress.open_call.is_some() {
                    return;
                }
                if draft.use_grant(graph, index, &call(path), id).expect("a step") {
                    draft.open_call(graph, index, open(id, path)).expect("an intent");
                }
            }),
            Act::Close { step, late } => self.change(late, |_, draft| {
                let index = step % steps;
                let progress = draft.execution().step(index).expect("a step");
                let Some(open) = progress.open_call.as_deref() else { return };
                let receipt = EvidenceReceipt { call_id: open.call_id.to_string(), ..receipt() };
                let closed = ClosedCall { receipt, output: None, proves: false };
                draft.close_call(index, closed).expect("an open call");
            }),
            Act::TakeOver => self.take_over(),
            Act::Pass { seconds } => self.now += TimeDelta::seconds(seconds),
            Act::Revoke { late } => self.change(late, |_, draft| {
                draft.revoke_grant(WAIT, "bob", id);
            }),
        }
    }

    fn receipts(&self) -> impl Iterator<Item = &EvidenceReceipt> {
        self.entries.iter().filter_map(|entry| {
            let Entry::Receipt(receipt) = entry else { return None };
            Some(&**receipt)
        })
    }
}

fn call(path: &str) -> CallToConfirm {
    CallToConfirm {
        digest: format!("the digest of {path}"),
        tool: "write_file".to_owned(),
        arguments_json: format!(r#"{{"path":"{path}"}}"#),
        expires_at: DateTime::UNIX_EPOCH + TimeDelta::seconds(TTL_S),
        asked_by: "agent".to_owned(),
    }
}

fn open(call_id: Uuid, path: &str) -> OpenCall {
    OpenCall {
        call_id,
        tool: "write_file".to_owned(),
        arguments_json: call(path).arguments_json,
        effect: serde_json::Value::Null,
        intended_at: DateTime::UNIX_EPOCH,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn parallel_steps_crashes_and_lost_changes_never_exceed_a_grant(
        steps in 1_usize..=5,
        uses in 1_u32..=6,
        acts in acts(),
    ) {
        let mut granted = Granted::new(steps, uses);
        for act in acts {
            granted.play(act);
        }
        let intents = granted.entries.iter().filter(|entry| matches!(entry, Entry::Intent(_)));
        let used: Vec<_> = granted.receipts().filter(|it| it.name == GRANT_USED).collect();
        prop_assert_eq!(intents.count(), used.len(), "each intent has one use");
        let row = granted.row();
        let grant = &row.grants[0];
        prop_assert!(grant.used <= grant.uses);
        prop_assert_eq!(usize::try_from(grant.used).unwrap(), 1 + used.len());
        for (place, receipt) in used.iter().enumerate() {
            let nth = format!("{} of {uses}", place + 2);
            prop_assert_eq!(receipt.outputs(USE).collect::<Vec<_>>(), [nth.as_str()]);
            prop_assert!(receipt.started_at.unwrap() < grant.expires_at);
            prop_assert_eq!(receipt.source, EvidenceSource::Approval);
        }
        let end = granted.receipts().position(|it| it.name == GRANT_REVOKED);
        let last = granted.receipts().collect::<Vec<_>>().iter().rposition(|it| it.name == GRANT_USED);
        if let (Some(end), Some(last)) = (end, last) {
            prop_assert!(last < end, "a use after the revocation");
        }
        prop_assert_eq!(end.is_some(), grant.revoked.is_some());
        let receipts: Vec<_> = granted.receipts().cloned().collect();
        prop_assert!(verify_chain(&receipts).is_ok());
    }
}

#[test]
fn the_answer_that_grants_says_so_and_a_use_is_a_receipt_before_its_intent() {
    let mut granted = Granted::new(1, 3);
    let answer = granted.receipts().next().expect("the answer").clone();
    assert!(answer.summary.contains("granted 3 uses"), "{}", answer.summary);
    assert_eq!(answer.outputs("grant").collect::<Vec<_>>(), [WAIT.to_string()]);
    assert_eq!(answer.outputs(USE).collect::<Vec<_>>(), ["1 of 3"]);
    assert_eq!(answer.outputs("argument").collect::<Vec<_>>(), ["path: matches src/**"]);
    granted.play(Act::Call { step: 0, fits: true, late: 0 });
    let [.., Entry::Receipt(used), Entry::Intent(intent)] = &granted.entries[..] else {
        panic!("{:#?}", granted.entries);
    };
    assert_eq!(used.outputs("grant").collect::<Vec<_>>(), [WAIT.to_string()]);
    assert_eq!(used.arguments_digest, "the digest of src/a.rs");
    assert_eq!((used.step_id.as_str(), intent.step_id.as_str()), ("s0", "s0"));
}

#[test]
fn only_an_open_grant_is_revoked_and_once() {
    let mut granted = Granted::new(1, 3);
    let mut revoke = |id: Uuid, by: &str| {
        let mut said = None;
        granted.change(0, |_, draft| said = Some(draft.revoke_grant(id, by, Uuid::nil())));
        (said.expect("an answer"), granted.row().grants[0].revoked.clone())
    };
    assert_eq!(revoke(Uuid::nil(), "bob"), (Revocation::Unknown, None));
    let (said, first) = revoke(WAIT, "bob");
    assert_eq!((said, first.as_ref().map(|it| it.by.as_str())), (Revocation::Revoked, Some("bob")));
    assert_eq!(revoke(WAIT, "carol"), (Revocation::Revoked, first));
    for (uses, seconds, ended) in [(1, 0, GrantState::UsedUp), (3, TTL_S, GrantState::Expired)] {
        let mut granted = Granted::new(1, uses);
        granted.now += TimeDelta::seconds(seconds);
        granted.change(0, |_, draft| {
            assert_eq!(draft.revoke_grant(WAIT, "bob", Uuid::nil()), Revocation::Ended(ended));
        });
    }
}
