//! Further ways to rewrite signed rows as a superuser, and anchors.

use crate::signatures::{
    all_keys, check, decided, done, export, findings, keep, restore, signing, verdict, worked,
    write,
};
use crate::support::{change, find, graph, order, receipt, spec, until, wait};
use sqlx::PgPool;
use std::sync::Arc;
use surety_common::domain::journal::{Actor, Answer, Entry, VerdictRecord};
use surety_common::domain::machine::run::{RunEvent, RunState};
use surety_common::domain::signature::{Service, SignatureStatus, TrustedKeys, check_export};
use surety_common::domain::timestamp::read_response;
use surety_common::store::{
    AnchorBatch, Creator, EvidenceBundles, Outcome, TrustSource, Waker, begin_anchoring,
};
use uuid::Uuid;

/// What the row of a run says that no receipt has, and what the gate counts: each is covered by the signature of the
/// last journal row.
#[sqlx::test(migrations = "./migrations")]
async fn todos_grants_and_rounds_of_a_row_that_are_rewritten_are_named(pool: PgPool) {
    let run_id = done(&pool, 1).await;
    let grant = r#"{"id":"00000000-0000-0000-0000-000000000007","tool":"run_command","uses":9,"used":1,"by":"m","made_at":"2026-01-01T00:00:00Z","expires_at":"2099-01-01T00:00:00Z"}"#;
    let cases = [
        ("a todo that counts as done", r#""todos":{"moved":{"t1":"completed"}}"#.to_owned()),
        ("another round", r#""verification_round":9"#.to_owned()),
        ("a grant", format!(r#""grants":[{grant}]"#)),
    ];
    for (what, member) in cases {
        let mut transaction = pool.begin().await.unwrap();
        let before: String =
            sqlx::query_scalar("select progress::text from execution where run_id = $1")
                .bind(run_id)
                .fetch_one(&mut *transaction)
                .await
                .unwrap();
        // The reader refuses two members of one name: the present one goes.
        let name = member.split(':').next().unwrap();
        let kept = before.replacen(&format!("{name}:1,"), "", 1);
        let kept = kept.replacen(&format!(",{name}:1"), "", 1);
        let changed = kept.replacen('{', &format!("{{{member},"), 1);
        sqlx::query("update execution set progress = $2::json where run_id = $1")
            .bind(run_id)
            .bind(&changed)
            .execute(&mut *transaction)
            .await
            .unwrap();
        transaction.commit().await.unwrap();
        let words = "execution.progress: its todos";
        let online = findings(&check(&pool, run_id, &all_keys()).await);
        assert!(online.contains(words), "{what}: {online}");
        let offline = findings(&check_export(&export(&pool, run_id).await, Some(&all_keys())));
        assert!(offline.contains(words), "{what}: {offline}");
        sqlx::query("update execution set progress = $2::json where run_id = $1")
            .bind(run_id)
            .bind(&before)
            .execute(&pool)
            .await
            .unwrap();
    }
    assert_eq!(check(&pool, run_id, &all_keys()).await.status, SignatureStatus::Signed);
}

/// The next service signs what it makes of a rewritten row, also where the row is as before afterwards.
#[sqlx::test(migrations = "./migrations")]
async fn a_run_that_was_rewritten_at_work_is_named_although_the_gate_signed_what_came_of_it(
    pool: PgPool,
) {
    let grant = r#"{"grants":[{"id":"00000000-0000-0000-0000-000000000007","tool":"run_command","uses":9,"used":1,"by":"m","made_at":"2026-01-01T00:00:00Z","expires_at":"2099-01-01T00:00:00Z"}]}"#;
    let cases = [
        r#"{"todos":{"moved":{"t1":"completed"}}}"#,
        grant,
        r#"{"base_snapshot":"00"}"#,
        r#"{"verification_round":9}"#,
        r#"{"observed":true}"#,
    ];
    for (id, members) in (1..).zip(cases) {
        let new = order(spec(id), 1, spec(id).created_at);
        let digest = new.plan.as_ref().unwrap().digest.clone();
        let run_id = worked(&pool, new).await.run_id;
        assert_eq!(check(&pool, run_id, &all_keys()).await.status, SignatureStatus::Signed);
        let rewritten = "update execution set progress = (progress::jsonb || $2::jsonb)::text::json
             where run_id = $1";
        sqlx::query(rewritten).bind(run_id).bind(members).execute(&pool).await.unwrap();
        let row = find(&pool, run_id).await.execution;
        decided(&pool, &row, verdict(&row, &digest)).await;
        let words = "execution.progress: journal row";
        let online = findings(&check(&pool, run_id, &all_keys()).await);
        assert!(online.contains(words), "{members}: {online}");
        assert_eq!(online.lines().count(), 1, "{members}: {online}");
        let offline = findings(&check_export(&export(&pool, run_id).await, Some(&all_keys())));
        assert_eq!(online, offline, "{members}");
    }
    // A row of the run that says nothing else than it did is as good.
    let run_id = done(&pool, 99).await;
    assert_eq!(check(&pool, run_id, &all_keys()).await.status, SignatureStatus::Signed);
}

/// The planner signs an answer over the run's row as it finds it: the row must ask what the executor asked.
#[sqlx::test(migrations = "./migrations")]
async fn a_question_that_is_rewritten_while_a_person_thinks_is_named_before_and_after_the_answer(
    pool: PgPool,
) {
    let rewritten = [
        "replace(progress::text, 'Which', 'Whose')",
        "replace(progress::text, '\"choices\":[\"a\"]', '\"choices\":[\"a\",\"b\"]')",
        "regexp_replace(progress::text, '\"question_digest\":\"[0-9a-f]+\"', '\"answer_schema\":\"\"')",
    ];
    for (id, rewritten) in (1..).zip(rewritten) {
        let new = order(spec(id), 1, spec(id).created_at);
        let run_id = new.spec.id;
        let waker = Waker::start(pool.clone());
        let creator = Creator::start(pool.clone(), waker, signing(Service::Planner, 1));
        creator.create(Arc::new(new), None).await.unwrap();
        let row = find(&pool, run_id).await.execution;
        let asking = change(&row, |draft| {
            draft.lease(Uuid::from_u128(9));
            draft.lease_steps(&graph(1), 1)?;
            draft.pause_step(&graph(1), 0, wait(7))
        });
        let executor = signing(Service::Executor, 2);
        assert_eq!(write(&pool, executor, asking).await.unwrap(), Outcome::Applied);
        assert_eq!(check(&pool, run_id, &all_keys()).await.status, SignatureStatus::Signed);

        let asked = find(&pool, run_id).await.execution;
        let statement =
            format!("update execution set progress = ({rewritten})::json where run_id = $1");
        sqlx::query(sqlx::AssertSqlSafe(statement)).bind(run_id).execute(&pool).await.unwrap();
        let row = find(&pool, run_id).await.execution;
        assert_ne!(row.steps, asked.steps, "{rewritten}");
        let found = findings(&check(&pool, run_id, &all_keys()).await);
        assert!(found.contains("execution.progress: its todos"), "{rewritten}: {found}");
        let answering = change(&row, |draft| {
            let (wait_id, text) = (Uuid::from_u128(7), "a".to_owned());
            let answer = Answer { wait_id, by: Actor("alice".into()), text };
            draft.answer_step(&graph(1), 0, &answer)
        });
        let planner = signing(Service::Planner, 1);
        assert_eq!(write(&pool, planner, answering).await.unwrap(), Outcome::Applied);
        let words = "execution.progress: journal row";
        let online = findings(&check(&pool, run_id, &all_keys()).await);
        assert!(online.contains(words), "{rewritten}: {online}");
        let offline = findings(&check_export(&export(&pool, run_id).await, Some(&all_keys())));
        assert!(offline.contains(words), "{rewritten}: {offline}");
    }
}

pub(crate) struct Trusted(pub(crate) Arc<TrustedKeys>);

impl TrustSource for Trusted {
    fn trusted(&self) -> Arc<TrustedKeys> {
        Arc::clone(&self.0)
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn what_the_gate_judges_is_what_it_checks_also_of_a_run_with_an_earlier_verdict(
    pool: PgPool,
) {
    let new = order(spec(1), 1, spec(1).created_at);
    let digest = new.plan.as_ref().unwrap().digest.clone();
    let row = worked(&pool, new).await;
    assert_eq!(row.state, RunState::Verifying);
    let given = verdict(&row, &digest);
    let verdict = surety_common::domain::verdict::Verdict { accepted: false, ..given.verdict };
    let refused = VerdictRecord { verdict, ..given };
    let refusing = change(&row, |draft| {
        draft.record_verdict(refused);
        Ok(())
    });
    let written = write(&pool, signing(Service::Gate, 3), refusing).await.unwrap();
    assert_eq!(written, Outcome::Applied);
    let trust: Arc<dyn TrustSource> = Arc::new(Trusted(Arc::new(all_keys())));
    let bundles = EvidenceBundles::start(pool.clone()).checked_against(Some(trust));
    let found = bundles.find(row.run_id, |_| true).await.unwrap().unwrap();
    assert_eq!(found.signatures.unwrap().status, SignatureStatus::Signed);

    // The rows are rewritten while the journal is read, and are as before when the verdicts are.
    let rename = |from: &str, to: &str| {
        let rename = "update journal set entries = replace(entries, $2, $3) where run_id = $1";
        sqlx::query(rename).bind(row.run_id).bind(from.to_owned()).bind(to.to_owned())
    };
    rename("write_file", "read_file_").execute(&pool).await.unwrap();
    let mut locked = pool.begin().await.unwrap();
    let lock = "lock table verdict in access exclusive mode";
    sqlx::query(lock).execute(&mut *locked).await.unwrap();
    let reading = tokio::spawn({
        let (bundles, run_id) = (bundles.clone(), row.run_id);
        async move { bundles.find(run_id, |_| true).await }
    });
    until(|| async {
        let waiting = "select exists (select from pg_locks join pg_class on pg_class.oid = relation
             where relname = 'verdict' and not granted)";
        sqlx::query_scalar(waiting).fetch_one(&pool).await.unwrap()
    })
    .await;
    rename("read_file_", "write_file").execute(&pool).await.unwrap();
    locked.commit().await.unwrap();
    let found = reading.await.unwrap().unwrap().unwrap();
    assert!(found.evidence.receipts.iter().any(|receipt| receipt.name == "read_file_"));
    let status = found.signatures.unwrap().status;
    assert!(matches!(status, SignatureStatus::Broken(_)), "{status:?}");
}

/// While steps run, no digest has their states: the journal has each transition.
#[sqlx::test(migrations = "./migrations")]
async fn a_step_that_is_set_to_done_while_the_run_is_at_work_is_named(pool: PgPool) {
    let new = order(spec(1), 2, spec(1).created_at);
    let run_id = new.spec.id;
    let creator =
        Creator::start(pool.clone(), Waker::start(pool.clone()), signing(Service::Planner, 1));
    creator.create(Arc::new(new), None).await.unwrap();
    let executor = || signing(Service::Executor, 2);
    let row = find(&pool, run_id).await.execution;
    let working = change(&row, |draft| {
        draft.lease(Uuid::from_u128(9));
        draft.lease_steps(&graph(2), 1)?;
        draft.receipt(receipt("write_file"));
        draft.finish_step(&graph(2), 0, "done")
    });
    assert_eq!(write(&pool, executor(), working).await.unwrap(), Outcome::Applied);
    assert_eq!(check(&pool, run_id, &all_keys()).await.status, SignatureStatus::Signed);
    sqlx::query("update execution set step_states = 'dd' where run_id = $1")
        .bind(run_id)
        .execute(&pool)
        .await
        .unwrap();
    let words = "execution.step_states: the step \"s1\" is done, and no journal row says so";
    let found = findings(&check(&pool, run_id, &all_keys()).await);
    assert!(found.contains(words), "{found}");

    // The executor goes on from there: the gate gives no verdict.
    let row = find(&pool, run_id).await.execution;
    let over = change(&row, |draft| {
        draft.receipt(receipt("noop"));
        draft.run_event(RunEvent::StepsFinished, "every step is done")
    });
    assert_eq!(write(&pool, executor(), over).await.unwrap(), Outcome::Applied);
    let trust: Arc<dyn TrustSource> = Arc::new(Trusted(Arc::new(all_keys())));
    let bundles = EvidenceBundles::start(pool).checked_against(Some(trust));
    let bundle = bundles.find(run_id, |_| true).await.unwrap().unwrap();
    assert_eq!(bundle.run.execution.state, RunState::Verifying);
    assert_eq!(bundle.signatures.unwrap().status, SignatureStatus::Broken(words.to_owned()));
}

/// Receipts of answers are the planner's too; the executor records what it does with an answer to a call of its own.
#[sqlx::test(migrations = "./migrations")]
async fn an_answer_of_a_person_is_signed_by_the_planner_alone(pool: PgPool) {
    let trust: Arc<dyn TrustSource> = Arc::new(Trusted(Arc::new(all_keys())));
    let bundles = EvidenceBundles::start(pool.clone()).checked_against(Some(trust));
    for (id, service, seed, by, is_refused) in [
        (1, Service::Planner, 1, "alice", false),
        (2, Service::Executor, 2, "alice", true),
        (3, Service::Executor, 2, "clock", false),
        (4, Service::Gate, 3, "alice", true),
    ] {
        let row = worked(&pool, order(spec(id), 1, spec(id).created_at)).await;
        let answering = change(&row, |draft| {
            let (wait_id, text) = (Uuid::from_u128(7), "happened".to_owned());
            draft.journal(Entry::Answer(Answer { wait_id, by: Actor(by.into()), text }));
            Ok(())
        });
        assert_eq!(
            write(&pool, signing(service, seed), answering).await.unwrap(),
            Outcome::Applied
        );
        let found = findings(&check(&pool, row.run_id, &all_keys()).await);
        assert_eq!(found.contains("may not sign it"), is_refused, "{service} {by}: {found}");
        let bundle = bundles.find(row.run_id, |_| true).await.unwrap().unwrap();
        let found = findings(&bundle.signatures.unwrap());
        assert_eq!(found.contains("may not sign it"), is_refused, "{service} {by}: {found}");
        let file = export(&pool, row.run_id).await;
        let found = findings(&check_export(&file, Some(&all_keys())));
        assert_eq!(found.contains("may not sign it"), is_refused, "{service} {by}: {found}");
    }
}

/// Each of two runs with the other's row: both are named.
#[sqlx::test(migrations = "./migrations")]
async fn rows_that_two_runs_swap_are_named_in_both(pool: PgPool) {
    let (one, other) = (done(&pool, 1).await, done(&pool, 2).await);
    let swap = "update {table} as row set {columns} = ({twins}) from {table} as twin
         where row.run_id in ($1, $2) and twin.run_id in ($1, $2) and twin.run_id <> row.run_id";
    let statement = |table: &str, columns: &[&str], more: &str| {
        let twins: Vec<String> = columns.iter().map(|column| format!("twin.{column}")).collect();
        swap.replace("{table}", table)
            .replace("{columns}", &format!("({})", columns.join(", ")))
            .replace("({twins})", &format!("({})", twins.join(", ")))
            + more
    };
    let cases = [
        (
            "journal rows",
            statement(
                "journal",
                &["entries", "signature", "actor", "at"],
                " and twin.sequence = row.sequence",
            ),
            "is not what was signed",
        ),
        (
            "verdicts",
            statement("verdict", &["decided_at", "key_id", "signature"], ""),
            "verdict on plan revision 1: it is not what was signed",
        ),
    ];
    keep(&pool).await;
    for (what, statement, words) in cases {
        let swapped = sqlx::query(sqlx::AssertSqlSafe(statement)).bind(one).bind(other);
        assert!(swapped.execute(&pool).await.unwrap().rows_affected() >= 2, "{what}");
        for run_id in [one, other] {
            let online = findings(&check(&pool, run_id, &all_keys()).await);
            assert!(online.contains(words), "{what} of {run_id}: {online}");
            let file = export(&pool, run_id).await;
            let offline = findings(&check_export(&file, Some(&all_keys())));
            assert!(offline.contains(words), "{what} of {run_id}: {offline}");
        }
        restore(&pool).await;
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn a_verdict_is_anchored_once_and_its_anchor_is_checked_with_the_run(pool: PgPool) {
    let run_id = done(&pool, 1).await;
    // A time stamp over another digest than this run's: the check must say so.
    let response = include_bytes!("../../src/domain/timestamp/samples/p256.tsr");
    let token = read_response(response, &[7; 32], [1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    let started = chrono::DateTime::UNIX_EPOCH + chrono::TimeDelta::days(1);
    assert!(AnchorBatch::take(&pool).await.unwrap().is_none(), "anchoring did not begin");
    begin_anchoring(&pool, started).await.unwrap();
    // A gate that starts after an outage begins where the first one did.
    begin_anchoring(&pool, chrono::Utc::now()).await.unwrap();
    let batch = AnchorBatch::take(&pool).await.unwrap().unwrap();
    assert_eq!((batch.count(), batch.is_full()), (1, false));
    assert!(batch.to_file(&token).contains(&run_id.to_string()));
    assert!(AnchorBatch::take(&pool).await.unwrap().is_none(), "another gate anchors");
    batch.store(Uuid::from_u128(5), &token).await.unwrap();
    assert!(AnchorBatch::take(&pool).await.unwrap().is_none(), "nothing is left");
    let words =
        "the anchor of the verdict on plan revision 1: its time stamp is about something else";
    let online = findings(&check(&pool, run_id, &all_keys()).await);
    assert!(online.contains(words), "{online}");
    let offline = findings(&check_export(&export(&pool, run_id).await, Some(&all_keys())));
    assert!(offline.contains(words), "{offline}");
}

#[sqlx::test(migrations = "./migrations")]
async fn an_anchor_of_a_gate_whose_clock_is_ahead_leaves_the_verdicts_of_others(pool: PgPool) {
    let started = chrono::DateTime::UNIX_EPOCH + chrono::TimeDelta::days(1);
    let ahead =
        "insert into anchor values (gen_random_uuid(), $1, $1 + interval '50 years', 1, '')";
    sqlx::query(ahead).bind(started).execute(&pool).await.unwrap();
    done(&pool, 1).await;
    let batch = AnchorBatch::take(&pool).await.unwrap().expect("the verdict has no anchor");
    assert_eq!(batch.count(), 1);
}
