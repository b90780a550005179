//! Rows that were rewritten so that they do not read: each is named, like any other rewritten row.

use crate::signatures::{
    all_keys, check, done, export, findings, keep, restore, rewrite, signing, worked, write,
};
use crate::support::{change, find, order, receipt, spec};
use crate::tampering::Trusted;
use sqlx::PgPool;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use surety_common::domain::fault::Fault;
use surety_common::domain::signature::{Service, SignatureStatus, check_export};
use surety_common::store::{EvidenceBundles, Outcome, SignedRun, TrustSource};

/// Each column, how it is rewritten, and what a check of the stored run says first. The last journal row has the verdict.
const UNREADABLE: [(&str, &str, &str); 22] = [
    ("journal.signature", "update journal set signature = '\\xdead'", NO_FORM),
    ("journal.signature", "update journal set signature = ''", NO_FORM),
    ("journal.signature", "update journal set signature = set_byte(signature, 0, 200)", NO_FORM),
    ("journal.signature", "update journal set signature = set_byte(signature, 98, 255)", NO_FORM),
    // The form of a row with answers.
    ("journal.signature", "update journal set signature = set_byte(signature, 0, 6)", NO_FORM),
    ("journal.signature", "update journal set signature = signature || '\\x00'::bytea", NO_FORM),
    ("journal.signature", "update journal set signature = substring(signature for 90)", NO_FORM),
    ("journal.entries", "update journal set entries = 'x'", NO_ENTRIES),
    ("journal.entries", "update journal set entries = left(entries, 40)", NO_ENTRIES),
    ("journal.at", "update journal set at = 'infinity'", "journal row"),
    ("journal.at", "update journal set at = '-infinity'", "journal row"),
    (
        "execution.progress",
        "update execution set progress = '[]'",
        "execution.progress: it does not read",
    ),
    (
        "execution.progress",
        "update execution set progress = (progress::jsonb || '{\"todos\":7}')::text::json",
        "execution.progress: it does not read",
    ),
    (
        "execution.terminal",
        "update execution set terminal = '[]'",
        "execution.terminal: it does not read",
    ),
    ("execution.step_states", "update execution set step_states = '!'", "execution.progress: its"),
    (
        "execution.plan_revision",
        "update execution set plan_revision = -1",
        "execution.plan_revision: it is -1",
    ),
    ("plan.revision", "update plan set revision = -1", "plan revision 1: its row is missing"),
    ("plan.body", "update plan set body = '[]'", "plan.body"),
    ("plan.created_at", "update plan set created_at = 'infinity'", "plan.created_at"),
    ("run.limits", "update run set limits = '[]'", "run.limits"),
    ("run.created_at", "update run set created_at = '290000-01-01T00:00:00Z'", "run.created_at"),
    (
        "verdict.decided_at",
        "update verdict set decided_at = 'infinity'",
        "verdict on plan revision 1",
    ),
];
const NO_FORM: &str = "its signature is in no known form";
const NO_ENTRIES: &str = "its entries do not read";

#[sqlx::test(migrations = "./migrations")]
async fn a_row_that_does_not_read_is_named_by_a_check_and_in_an_export(pool: PgPool) {
    let run_id = done(&pool, 1).await;
    keep(&pool).await;
    for (column, statement, words) in UNREADABLE {
        rewrite(&pool, run_id, column, statement).await;
        let online = check(&pool, run_id, &all_keys()).await;
        assert!(matches!(online.status, SignatureStatus::Broken(_)), "{statement}: {online:#?}");
        assert!(findings(&online).contains(words), "{statement}: {online:#?}");
        let file = export(&pool, run_id).await;
        let offline = check_export(&file, Some(&all_keys())).status;
        assert!(matches!(offline, SignatureStatus::Broken(_)), "{statement}: {offline:?}");
        restore(&pool).await;
    }
    assert_eq!(check(&pool, run_id, &all_keys()).await.status, SignatureStatus::Signed);
}

#[sqlx::test(migrations = "./migrations")]
async fn the_gate_refuses_evidence_that_does_not_read_as_what_was_not_signed(pool: PgPool) {
    let run_id = worked(&pool, order(spec(1), 1, spec(1).created_at)).await.run_id;
    let trust: Arc<dyn TrustSource> = Arc::new(Trusted(Arc::new(all_keys())));
    let bundles = EvidenceBundles::start(pool.clone()).checked_against(Some(trust));
    keep(&pool).await;
    let of_gate = |column: &str| column.starts_with("verdict.") || column == "execution.terminal";
    for (column, statement, _) in UNREADABLE.into_iter().filter(|(column, ..)| !of_gate(column)) {
        rewrite(&pool, run_id, column, statement).await;
        match bundles.find(run_id, |_| true).await {
            Ok(found) => {
                let status = found.unwrap().signatures.map(|report| report.status);
                let is_broken = matches!(status, Some(SignatureStatus::Broken(_)));
                assert!(is_broken, "{statement}: {status:?}");
            }
            Err(error) => {
                let fault = Fault::from(error);
                assert_eq!(fault.reason.as_str(), "receipts_invalid", "{statement}: {fault}");
                assert!(fault.to_string().contains("not what was signed"), "{fault}");
            }
        }
        restore(&pool).await;
    }
    let found = bundles.find(run_id, |_| true).await.unwrap().unwrap();
    assert_eq!(found.signatures.map(|report| report.status), Some(SignatureStatus::Signed));
}

#[sqlx::test(migrations = "./migrations")]
async fn a_row_that_another_version_signed_is_unsigned_unless_a_later_one_is_signed(pool: PgPool) {
    let run_id = done(&pool, 1).await;
    for (form, version) in [(4, "an earlier"), (7, "a later")] {
        let other = format!("update journal set signature = set_byte(signature, 0, {form})");
        rewrite(&pool, run_id, "journal.signature", &other).await;
        let has = format!(
            "a signature of form {form}, which {version} version wrote and this one does not check"
        );
        let unsigned = SignatureStatus::Unsigned(format!("journal row 3 has {has}"));
        let online = check(&pool, run_id, &all_keys()).await;
        assert_eq!(online.status, unsigned, "{online:#?}");
        let file = export(&pool, run_id).await;
        assert_eq!(check_export(&file, Some(&all_keys())).status, unsigned);
        let first = "update journal set signature = set_byte(signature, 0, 5) where sequence = \
                     (select min(sequence) from journal where run_id = $1)";
        rewrite(&pool, run_id, "journal.signature", first).await;
        let found = findings(&check(&pool, run_id, &all_keys()).await);
        assert!(found.contains(&format!("it has {has}, and row 3 before it has one")), "{found}");
    }
}

/// The runtime of a service has few threads, here one.
#[sqlx::test(migrations = "./migrations")]
async fn other_work_goes_on_while_a_journal_is_checked(pool: PgPool) {
    let mut row = worked(&pool, order(spec(1), 1, spec(1).created_at)).await;
    for _ in 0..70 {
        let recording = change(&row, |draft| {
            draft.receipt(receipt("noop"));
            Ok(())
        });
        let stored = write(&pool, signing(Service::Executor, 2), recording).await;
        assert_eq!(stored.unwrap(), Outcome::Applied);
        row = find(&pool, row.run_id).await.execution;
    }
    let turns = Arc::new(AtomicU32::new(0));
    let other = tokio::spawn({
        let turns = Arc::clone(&turns);
        async move {
            loop {
                turns.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        }
    });
    let signed = SignedRun::find(&pool, row.run_id).await.unwrap().unwrap();
    let mut seen = Vec::new();
    let keys = all_keys();
    let report = signed.check(Some(&keys), |_| seen.push(turns.load(Ordering::Relaxed))).await;
    other.abort();
    assert_eq!(report.unwrap().status, SignatureStatus::Signed);
    assert!(seen.len() > 70 && seen[0] < seen[seen.len() - 1], "{seen:?}");
}
