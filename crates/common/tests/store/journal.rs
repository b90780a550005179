//! Reading what happened.

use crate::support::{actor, applied, change, commit, committer, make, receipt, remark, said};
use futures::future::join_all;
use sqlx::PgPool;
use surety_common::domain::execution::Execution;
use surety_common::domain::journal::{Actor, Entry, Event, Turn, VerdictRecord};
use surety_common::domain::receipt::verify_chain;
use surety_common::domain::stop::StopReason;
use surety_common::domain::verdict::{Strength, Verdict};
use surety_common::store::{self, Journals, Outcome, ReceiptPages, StoreError};
use uuid::Uuid;

#[sqlx::test(migrations = "./migrations")]
async fn events_read_from_any_number_even_inside_a_change(pool: PgPool) {
    let mut row = make(&pool, 1, 3).await;
    make(&pool, 2, 3).await;
    for text in ["a", "b", "c"] {
        row = applied(
            &pool,
            change(&row, |draft| {
                draft.journal(said(text));
                draft.journal(said(text));
                Ok(())
            }),
        )
        .await;
    }
    let all = store::events(&pool, row.run_id, 1, i64::MAX).await.unwrap();
    assert_eq!(i64::try_from(all.len()).unwrap(), row.sequence);
    for from in 1..=row.sequence + 1 {
        let events = store::events(&pool, row.run_id, from, i64::MAX).await.unwrap();
        let skipped = usize::try_from(from - 1).unwrap();
        assert_eq!(events, all[skipped..], "from {from}");
    }
    let mut paged = Vec::new();
    loop {
        let next = paged.len() + 1;
        let from = i64::try_from(next).unwrap();
        let page = store::events(&pool, row.run_id, from, 1).await.unwrap();
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    assert_eq!(paged, all, "by pages of one change");
}

#[sqlx::test(migrations = "./migrations")]
async fn many_who_follow_journals_get_each_their_own_page(pool: PgPool) {
    let mut asked = Vec::new();
    for id in [1, 2] {
        let mut row = make(&pool, id, 2).await;
        for text in ["a", "b", "c"] {
            row = applied(&pool, remark(&row, text)).await;
        }
        for from in 1..=row.sequence + 1 {
            asked.extend([(row.run_id, from, 1), (row.run_id, from, i64::MAX)]);
        }
    }
    asked.push((Uuid::from_u128(9), 1, 1));
    let journals = Journals::start(pool.clone());
    let found = join_all(asked.iter().map(|&(id, from, rows)| journals.page(id, from, rows)));
    for (&(id, from, rows), found) in asked.iter().zip(found.await) {
        let alone = store::events(&pool, id, from, rows).await.unwrap();
        let what = format!("{id} from {from}, {rows} rows");
        let known = store::find_run(&pool, id).await.unwrap();
        let Some(page) = found.unwrap() else {
            assert!(known.is_none(), "{what}");
            continue;
        };
        assert_eq!(page.events, alone, "{what}");
        assert!(page.is_full || rows > 1 || alone.is_empty(), "{what}");
        let known = known.unwrap();
        assert_eq!(
            (page.state, page.trace_parent),
            (known.execution.state, known.spec.trace_parent)
        );
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn a_journal_of_large_rows_is_followed_whole_by_pages_that_stay_small(pool: PgPool) {
    /// What a page may hold before its last row.
    const BOUND: usize = 512 * 1024;
    let mut row = make(&pool, 1, 2).await;
    let small = "s".repeat(1000);
    // One is alone larger than a page.
    for kib in [1, 300, 300, 1, 200, 2048, 100, 100, 100, 100, 100, 100, 100, 1, 1] {
        row = applied(&pool, remark(&row, &small.repeat(kib))).await;
    }
    let journals = Journals::start(pool.clone());
    let (mut followed, mut pages) = (Vec::new(), 0);
    loop {
        let from = i64::try_from(followed.len()).unwrap() + 1;
        let page = journals.page(row.run_id, from, 200).await.unwrap().unwrap();
        let sizes: Vec<usize> = page.events.iter().map(text_size).collect();
        let (_, before_last) = sizes.split_last().expect("a page has a row at least");
        assert!(before_last.iter().sum::<usize>() <= BOUND, "from {from}: {sizes:?}");
        followed.extend(page.events);
        pages += 1;
        if !page.is_full {
            break;
        }
    }
    let all = store::events(&pool, row.run_id, 1, i64::MAX).await.unwrap();
    assert_eq!(followed, all);
    assert!((3..all.len()).contains(&pages), "{pages} pages of {} events", all.len());
}

fn text_size(event: &Event) -> usize {
    let Entry::Answer(answer) = &event.entry else { return 0 };
    answer.text.len()
}

#[sqlx::test(migrations = "./migrations")]
async fn a_change_keeps_its_span_and_its_time(pool: PgPool) {
    let row = make(&pool, 1, 1).await;
    let mut notified = commit(remark(&row, "told"));
    notified.span_id = Some("00f067aa0ba902b7".to_owned());
    let at = notified.write.execution.updated_at;
    assert_eq!(committer(&pool).commit(notified).await.unwrap(), Outcome::Applied);
    let last = store::events(&pool, row.run_id, row.sequence + 1, 9).await.unwrap();
    let [event] = &last[..] else { panic!("{last:?}") };
    assert_eq!(event.span_id.as_deref(), Some("00f067aa0ba902b7"));
    assert_eq!(event.at, at);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_verdict_is_found_at_its_number_and_at_no_other(pool: PgPool) {
    let row = make(&pool, 1, 1).await;
    let record = VerdictRecord {
        plan_revision: 1,
        verdict: Verdict {
            accepted: false,
            stop_reason: StopReason::AcceptCheckFailed,
            results: Vec::new(),
            strength: Strength::SelfChecked,
            round: 1,
            cautions: Vec::new(),
            approvals: Vec::new(),
            workspace_digest: String::new(),
            sandbox: String::new(),
            repository: None,
        },
        receipts: 0,
        last_receipt_digest: String::new(),
        plan_digest: String::new(),
        history: None,
    };
    let row = applied(
        &pool,
        change(&row, |draft| {
            draft.journal(said("before"));
            draft.journal(Entry::Verdict(Box::new(record.clone())));
            draft.journal(said("after"));
            Ok(())
        }),
    )
    .await;
    let at = row.sequence - 1;
    let found = store::verdict(&pool, row.run_id, at).await.unwrap();
    assert_eq!(found, Some((row.updated_at, record)));
    for other in [0, at - 1, at + 1, at + 9] {
        assert_eq!(store::verdict(&pool, row.run_id, other).await.unwrap(), None, "at {other}");
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn receipts_come_back_as_a_chain_that_holds(pool: PgPool) {
    let mut row = make(&pool, 1, 1).await;
    for name in ["read_file", "grep\u{0}", "Größe"] {
        row = applied(
            &pool,
            change(&row, |draft| {
                draft.receipt(receipt(name));
                draft.journal(said("between"));
                draft.receipt(receipt(name));
                Ok(())
            }),
        )
        .await;
    }
    let receipts = store::receipts(&pool, row.run_id).await.unwrap();
    assert_eq!(receipts.len(), 6);
    verify_chain(&receipts).unwrap();
    assert_eq!(receipts[5].digest, row.counters.last_receipt_digest);
    assert_eq!(store::receipts(&pool, Uuid::from_u128(9)).await.unwrap(), []);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_journal_row_that_does_not_read_is_named(pool: PgPool) {
    let row = make(&pool, 1, 1).await;
    sqlx::query("update journal set entries = '[{\"dream\": {}}]'").execute(&pool).await.unwrap();
    let corrupt = store::events(&pool, row.run_id, 1, 9).await.unwrap_err();
    let StoreError::Corrupt { what, .. } = corrupt else { panic!("{corrupt}") };
    assert_eq!(what, format!("journal {} at {}", row.run_id, row.sequence));
}

/// A run of three journal rows, each with a receipt and a turn. After each one comes so much output
/// of a tool that a page holds at most two of them.
async fn long(pool: &PgPool) -> Execution {
    let mut row = make(pool, 1, 1).await;
    let output = "x".repeat(1_500_000);
    for name in ["first", "second", "third"] {
        let write = change(&row, |draft| {
            draft.receipt(receipt(name));
            draft.journal(Entry::Turn(Box::new(turn(name))));
            draft.journal(said(&output));
            Ok(())
        });
        row = applied(pool, write).await;
    }
    row
}

fn turn(step: &str) -> Turn {
    Turn {
        step_id: step.to_owned(),
        attempt: 1,
        number: 1,
        decision: None,
        validations: Vec::new(),
        warnings: Vec::new(),
        correction: String::new(),
        usage: Default::default(),
        usage_source: Default::default(),
        reply: None,
        end: None,
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn receipts_of_a_journal_of_many_pages_come_in_order(pool: PgPool) {
    let row = long(&pool).await;
    let receipts = store::receipts(&pool, row.run_id).await.unwrap();
    verify_chain(&receipts).unwrap();
    assert_eq!(receipts.len(), 3);
    let mut pages = ReceiptPages::new(pool.clone(), row.run_id, row.sequence);
    let mut paged = Vec::new();
    while let Some(page) = pages.next().await.unwrap() {
        paged.push(page);
    }
    assert!(paged.len() > 1);
    assert_eq!(paged.concat(), receipts);
    let mut until = ReceiptPages::new(pool, row.run_id, row.sequence - 1);
    assert_eq!(until.next().await.unwrap().unwrap(), receipts[..2]);
    assert_eq!(until.next().await.unwrap(), None);
}

#[sqlx::test(migrations = "./migrations")]
async fn the_latest_turns_and_receipts_are_found_from_the_end(pool: PgPool) {
    let row = long(&pool).await;
    for (most, expected) in [
        (0, &[][..]),
        (1, &["third"]),
        (2, &["second", "third"]),
        (9, &["first", "second", "third"]),
    ] {
        let events = store::latest_work(&pool, row.run_id, most).await.unwrap();
        let (mut turns, mut receipts) = (Vec::new(), Vec::new());
        for event in &events {
            match &event.entry {
                Entry::Turn(turn) => turns.push(turn.step_id.as_str()),
                Entry::Receipt(receipt) => receipts.push(receipt.name.as_str()),
                Entry::Transition(_)
                | Entry::Plan(_)
                | Entry::Intent(_)
                | Entry::Output(_)
                | Entry::Verdict(_)
                | Entry::Answer(_)
                | Entry::Forked(_) => panic!("{event:?}"),
            }
        }
        assert_eq!((&turns[..], &receipts[..]), (expected, expected), "{most}");
        assert!(events.is_sorted_by_key(|event| event.sequence));
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn the_latest_verdict_about_a_revision_is_found(pool: PgPool) {
    let mut row = make(&pool, 1, 1).await;
    for (plan_revision, receipts) in [(1, 1), (1, 2), (2, 3)] {
        let verdict = Verdict {
            accepted: false,
            stop_reason: StopReason::AcceptCheckFailed,
            results: Vec::new(),
            strength: Strength::SelfChecked,
            round: 1,
            cautions: Vec::new(),
            approvals: Vec::new(),
            workspace_digest: String::new(),
            sandbox: String::new(),
            repository: None,
        };
        let record = VerdictRecord {
            plan_revision,
            verdict,
            receipts,
            last_receipt_digest: String::new(),
            plan_digest: String::new(),
            history: None,
        };
        let write = change(&row, |draft| {
            draft.journal(Entry::Verdict(Box::new(record)));
            draft.journal(said("and so on"));
            Ok(())
        });
        row = applied(&pool, write).await;
    }
    let elsewhere = Actor("another".into());
    for (revision, by, expected) in
        [(1, &actor(), Some(2)), (2, &actor(), Some(3)), (3, &actor(), None), (1, &elsewhere, None)]
    {
        let found = store::verdict_about(&pool, row.run_id, revision, by).await.unwrap();
        assert_eq!(found.map(|(_, record)| record.receipts), expected, "{revision} {by:?}");
    }
}
