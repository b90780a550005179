//! The evidence that a gate reads.

use crate::support::{applied, change, find, make, receipt, said};
use futures::future::join_all;
use sqlx::PgPool;
use surety_common::domain::decision::{Action, ExecuteDecision};
use surety_common::domain::execution::Execution;
use surety_common::domain::fault::{Fault, FaultClass};
use surety_common::domain::journal::{Entry, Turn};
use surety_common::domain::machine::run::RunState;
use surety_common::store::{EvidenceBundle, EvidenceBundles, StoreError};
use uuid::Uuid;

/// A run at its verification whose journal holds, row by row, a receipt and a turn for each of the
/// texts.
async fn with_remarks(pool: &PgPool, id: u128, texts: &[&str]) -> Execution {
    let mut row = make(pool, id, 1).await;
    for text in texts {
        let verifying = Execution { state: RunState::Verifying, ..row };
        let write = change(&verifying, |draft| {
            draft.receipt(receipt(text));
            draft.journal(Entry::Turn(Box::new(turn(text))));
            draft.journal(said("between"));
            Ok(())
        });
        row = applied(pool, write).await;
    }
    row
}

fn turn(text: &str) -> Turn {
    Turn {
        step_id: "s0".to_owned(),
        attempt: 1,
        number: 1,
        decision: Some(ExecuteDecision {
            speak: text.to_owned(),
            action: Action::Continue,
            reason: String::new(),
            goal_check: String::new(),
            tool_call: None,
            abort: None,
            answer_schema: None,
        }),
        validations: Vec::new(),
        warnings: Vec::new(),
        correction: String::new(),
        usage: Default::default(),
        usage_source: Default::default(),
        reply: None,
        end: None,
    }
}

/// A turn that ends a step.
fn ends(turn: &Turn) -> bool {
    turn.decision.as_ref().is_some_and(|decision| decision.speak.starts_with("end"))
}

fn words(bundle: &EvidenceBundle) -> (Vec<&str>, Option<&str>) {
    let receipts = bundle.evidence.receipts.iter().map(|receipt| receipt.name.as_str()).collect();
    let turn = bundle.evidence.last_turn.as_ref().and_then(|turn| turn.decision.as_ref());
    (receipts, turn.map(|decision| decision.speak.as_str()))
}

#[sqlx::test(migrations = "./migrations")]
async fn a_case_is_the_run_with_every_receipt_and_the_last_turn_that_is_wanted(pool: PgPool) {
    let row = with_remarks(&pool, 1, &["begin", "end it", "end it again", "go on"]).await;
    let bundle = EvidenceBundles::start(pool).find(row.run_id, ends).await.unwrap().unwrap();
    assert_eq!(bundle.run.execution, row);
    let (receipts, turn) = words(&bundle);
    assert_eq!(receipts, ["begin", "end it", "end it again", "go on"]);
    assert_eq!(turn, Some("end it again"));
}

#[sqlx::test(migrations = "./migrations")]
async fn many_who_ask_at_once_get_each_their_own(pool: PgPool) {
    with_remarks(&pool, 1, &["end 1"]).await;
    with_remarks(&pool, 2, &["end 2"]).await;
    make(&pool, 3, 1).await;
    let bundles = EvidenceBundles::start(pool);
    let asked = [1, 2, 1, 9, 3, 2].map(|id| bundles.find(Uuid::from_u128(id), ends));
    let found: Vec<Option<Box<EvidenceBundle>>> =
        join_all(asked).await.into_iter().map(Result::unwrap).collect();
    let found: Vec<_> = found.iter().map(|bundle| bundle.as_deref().map(words)).collect();
    let expected = [
        Some((vec!["end 1"], Some("end 1"))),
        Some((vec!["end 2"], Some("end 2"))),
        Some((vec!["end 1"], Some("end 1"))),
        None,
        Some((vec![], None)),
        Some((vec!["end 2"], Some("end 2"))),
    ];
    assert_eq!(found, expected);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_row_that_does_not_read_is_named_to_the_one_who_asked_for_it(pool: PgPool) {
    let (spoilt, whole) =
        (with_remarks(&pool, 1, &["end 1"]).await, with_remarks(&pool, 2, &["end 2"]).await);
    let row: i64 = sqlx::query_scalar(
        "update journal set entries = '[[0,\"\",{\"receipt\":{}}]]'
         where run_id = $1 and sequence = $2 returning sequence",
    )
    .bind(spoilt.run_id)
    .bind(spoilt.sequence)
    .fetch_one(&pool)
    .await
    .unwrap();
    let bundles = EvidenceBundles::start(pool);
    let (spoilt_case, whole_case) =
        futures::join!(bundles.find(spoilt.run_id, ends), bundles.find(whole.run_id, ends));
    let corrupt = spoilt_case.unwrap_err();
    let StoreError::Corrupt { what, why } = corrupt else { panic!("{corrupt}") };
    assert_eq!(what, format!("journal of run {}", spoilt.run_id));
    assert!(why.contains(&format!("at {row}: ")), "{why}");
    assert_eq!(words(&whole_case.unwrap().unwrap()), (vec!["end 2"], Some("end 2")));
}

/// Puts so many rows of a tool's output, each of so many bytes, behind a run's journal, and counts
/// them in.
async fn lengthen(pool: &PgPool, row: &Execution, rows: i64, bytes: i32) {
    sqlx::query(
        r#"insert into journal (run_id, sequence, at, actor, entries)
           select $1, $2 + number, now(), 'executor',
                  '[[0,"",{"output":{"call_id":"c","digest":"d","bytes":1,"text":"'
                  || repeat('x', $4) || '"}}]]'
           from generate_series(1, $3) as number"#,
    )
    .bind(row.run_id)
    .bind(row.sequence)
    .bind(rows)
    .bind(bytes)
    .execute(pool)
    .await
    .unwrap();
    sqlx::query(
        "update execution set sequence = sequence + $2, version = version + 1 where run_id = $1",
    )
    .bind(row.run_id)
    .bind(rows)
    .execute(pool)
    .await
    .unwrap();
}

/// Appends another receipt and turn.
async fn told_more(pool: &PgPool, id: Uuid, text: &str) {
    let row = find(pool, id).await.execution;
    let write = change(&row, |draft| {
        draft.receipt(receipt(text));
        draft.journal(Entry::Turn(Box::new(turn(text))));
        Ok(())
    });
    applied(pool, write).await;
}

#[sqlx::test(migrations = "./migrations")]
#[ignore = "a gigabyte is read: a minute without optimisation"]
async fn a_case_larger_than_the_database_puts_into_one_value_is_read(pool: PgPool) {
    let row = with_remarks(&pool, 1, &["begin", "end it"]).await;
    lengthen(&pool, &row, 34_000, 32 * 1024).await;
    told_more(&pool, row.run_id, "go on").await;
    let small = with_remarks(&pool, 2, &["end"]).await;
    let bundles = EvidenceBundles::start(pool);
    let (large, small) =
        futures::join!(bundles.find(row.run_id, ends), bundles.find(small.run_id, ends));
    let large = large.unwrap().unwrap();
    assert_eq!(words(&large), (vec!["begin", "end it", "go on"], Some("end it")));
    assert_eq!(words(&small.unwrap().unwrap()), (vec!["end"], Some("end")));
}

#[sqlx::test(migrations = "./migrations")]
async fn a_turn_behind_the_beginning_is_the_last_one(pool: PgPool) {
    for (id, rows, bytes) in [(1, 3, 600_000), (2, 2_100, 1), (3, 3, 3_000_000), (4, 256, 1)] {
        let row = with_remarks(&pool, id, &["begin", "end it"]).await;
        lengthen(&pool, &row, rows, bytes).await;
        told_more(&pool, row.run_id, "end again").await;
        told_more(&pool, row.run_id, "go on").await;
        let bundle =
            EvidenceBundles::start(pool.clone()).find(row.run_id, ends).await.unwrap().unwrap();
        let receipts = vec!["begin", "end it", "end again", "go on"];
        assert_eq!(words(&bundle), (receipts, Some("end again")), "{rows} rows of {bytes}");
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn where_nothing_is_to_judge_no_journal_is_read(pool: PgPool) {
    let row = with_remarks(&pool, 1, &["end it"]).await;
    let recovering = Execution { state: RunState::Recovering, ..row };
    let write = change(&recovering, |_| Ok(()));
    let row = applied(&pool, write).await;
    // A reader of this row finds that it cannot be decoded.
    sqlx::query("update journal set entries = 'spoilt' where run_id = $1")
        .bind(row.run_id)
        .execute(&pool)
        .await
        .unwrap();
    let bundle = EvidenceBundles::start(pool).find(row.run_id, ends).await.unwrap().unwrap();
    assert_eq!(bundle.run.execution, row);
    assert_eq!(words(&bundle), (vec![], None));
}

#[sqlx::test(migrations = "./migrations")]
async fn a_case_with_too_many_receipts_is_refused_for_good(pool: PgPool) {
    let text = "x".repeat(100_000);
    let row = with_remarks(&pool, 1, &[text.as_str(); 6]).await;
    assert!(EvidenceBundles::start(pool.clone()).find(row.run_id, ends).await.is_ok());
    let refused = EvidenceBundles::holding(pool, 100_000).find(row.run_id, ends).await.unwrap_err();
    assert!(matches!(refused, StoreError::TooLarge { .. }) && !refused.is_transient());
    let fault = Fault::from(refused);
    assert_eq!(
        (fault.reason.as_str(), fault.class),
        ("run_too_large", FaultClass::FailedPrecondition)
    );
}

#[sqlx::test(migrations = "./migrations")]
async fn many_large_cases_all_get_their_turn(pool: PgPool) {
    let large = "x".repeat(100_000);
    let texts = [large.as_str(); 6];
    for id in 1..=5 {
        with_remarks(&pool, id, &texts).await;
    }
    let bundles = EvidenceBundles::holding(pool, 1_000_000);
    let asked = (1..=5).map(async |id| {
        let bundle = bundles.find(Uuid::from_u128(id), ends).await.unwrap().unwrap();
        bundle.evidence.receipts.len()
    });
    assert_eq!(join_all(asked).await, [6; 5]);
}
