//! What a gate reads.

use crate::support::{applied, change, make, receipt, said};
use futures::future::join_all;
use sqlx::PgPool;
use surety_common::domain::decision::{Action, ExecuteDecision};
use surety_common::domain::execution::Execution;
use surety_common::domain::journal::{Entry, Turn};
use surety_common::store::{Case, Cases, StoreError};
use uuid::Uuid;

/// A run whose journal holds, row by row, a receipt and a turn for each of the texts.
async fn told(pool: &PgPool, id: u128, texts: &[&str]) -> Execution {
    let mut row = make(pool, id, 1).await;
    for text in texts {
        let write = change(&row, |draft| {
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
        }),
        validations: Vec::new(),
        correction: String::new(),
    }
}

/// Stands for "a turn that ends a step".
fn ends(turn: &Turn) -> bool {
    turn.decision.as_ref().is_some_and(|decision| decision.speak.starts_with("end"))
}

fn words(case: &Case) -> (Vec<&str>, Option<&str>) {
    let receipts = case.evidence.receipts.iter().map(|receipt| receipt.name.as_str()).collect();
    let turn = case.evidence.last_turn.as_ref().and_then(|turn| turn.decision.as_ref());
    (receipts, turn.map(|decision| decision.speak.as_str()))
}

#[sqlx::test(migrations = "./migrations")]
async fn a_case_is_the_run_with_every_receipt_and_the_last_turn_that_is_wanted(pool: PgPool) {
    let row = told(&pool, 1, &["begin", "end it", "end it again", "go on"]).await;
    let case = Cases::start(pool).find(row.run_id, ends).await.unwrap().unwrap();
    assert_eq!(case.run.execution, row);
    let (receipts, turn) = words(&case);
    assert_eq!(receipts, ["begin", "end it", "end it again", "go on"]);
    assert_eq!(turn, Some("end it again"));
}

#[sqlx::test(migrations = "./migrations")]
async fn many_who_ask_at_once_get_each_their_own(pool: PgPool) {
    told(&pool, 1, &["end 1"]).await;
    told(&pool, 2, &["end 2"]).await;
    make(&pool, 3, 1).await;
    let cases = Cases::start(pool);
    let asked = [1, 2, 1, 9, 3, 2].map(|id| cases.find(Uuid::from_u128(id), ends));
    let found: Vec<Option<Case>> = join_all(asked).await.into_iter().map(Result::unwrap).collect();
    let found: Vec<_> = found.iter().map(|case| case.as_ref().map(words)).collect();
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
    let (spoilt, whole) = (told(&pool, 1, &["end 1"]).await, told(&pool, 2, &["end 2"]).await);
    let row: i64 = sqlx::query_scalar(
        "update journal set entries = '[[0,\"\",{\"receipt\":{}}]]'
         where run_id = $1 and sequence = $2 returning sequence",
    )
    .bind(spoilt.run_id)
    .bind(spoilt.sequence)
    .fetch_one(&pool)
    .await
    .unwrap();
    let cases = Cases::start(pool);
    let (spoilt_case, whole_case) =
        futures::join!(cases.find(spoilt.run_id, ends), cases.find(whole.run_id, ends));
    let corrupt = spoilt_case.unwrap_err();
    let StoreError::Corrupt { what, why } = corrupt else { panic!("{corrupt}") };
    assert_eq!(what, format!("journal of run {}", spoilt.run_id));
    assert!(why.contains(&format!("at {row}: ")), "{why}");
    assert_eq!(words(&whole_case.unwrap().unwrap()), (vec!["end 2"], Some("end 2")));
}
