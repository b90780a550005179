//! The auditor itself: it accepts real runs, and names every forgery.

use super::forge::{self, Forge, Row};
use anyhow::{Context, Result, bail};
use serde_json::json;
use sqlx::{AssertSqlSafe, PgPool};
use surety_common::domain::journal::{Actor, Answer, Entry, Subject, Transition};
use surety_common::domain::receipt::Fact;
use surety_common::wire::v1;
use surety_e2e::audit::{audit, audit_all};
use surety_e2e::harness::{Deployment, wait_until};
use surety_e2e::script::{Trail, noop, plan, scoped, shell, step, write};
use uuid::Uuid;

/// The forgery, the auditor's message, and the change.
type Forgery = (&'static str, &'static str, Forge);

const OF_THE_JOURNAL: &[Forgery] = &[
    ("a missing event", "stands at", |rows| {
        rows.remove(2);
        Ok(())
    }),
    ("a move the machine does not make", "the machine says", |rows| {
        moved(rows, "b", "leased")?.to = "done".into();
        Ok(())
    }),
    ("an unknown transition", "no event of a step", |rows| {
        moved(rows, "b", "leased")?.event = "conjured".into();
        Ok(())
    }),
    ("a move from elsewhere", "the step was", |rows| {
        moved(rows, "b", "leased")?.from = "waiting".into();
        Ok(())
    }),
    ("a step that is finished twice", "terminal", |rows| {
        let again = moved(rows, "b", "dependencies_done")?;
        again.subject = Subject::Step("a".to_owned());
        (again.event, again.from) = ("finished".into(), "done".into());
        again.to = "done".into();
        Ok(())
    }),
    ("a step that starts before its dependency is done", "before what it needs", |rows| {
        for event in ["dependencies_done", "leased"] {
            moved(rows, "a", event)?.subject = Subject::Step("b".to_owned());
        }
        Ok(())
    }),
    ("a step beside one that writes where it does", "could write what", |rows| {
        let beside = moved(rows, "c", "leased")?.clone();
        *forge::entry(rows, |entry| matches!(entry, Entry::Turn(_)))? = Entry::Transition(beside);
        Ok(())
    }),
    ("a step that is started in a pause", "while the run was paused", |rows| {
        let pause = Transition {
            subject: Subject::Run,
            from: "EXECUTING".into(),
            to: "EXECUTING".into(),
            event: "pause_requested".into(),
            ..moved(rows, "a", "leased")?.clone()
        };
        *forge::entry(rows, |entry| matches!(entry, Entry::Output(_)))? = Entry::Transition(pause);
        Ok(())
    }),
    ("a plan that was not stored", "not what its digest says", |rows| {
        forge::plan(rows)?.digest = "0".repeat(64);
        Ok(())
    }),
    ("a plan that follows another", "follows another plan", |rows| {
        forge::plan(rows)?.parent_digest = "0".repeat(64);
        Ok(())
    }),
    ("a revision before the first", "came first", |rows| {
        forge::plan(rows)?.revision = 2;
        Ok(())
    }),
    ("a receipt that says more than it did", "is not the digest of its fields", |rows| {
        forge::receipt(rows, 1)?.summary = "did it all".to_owned();
        Ok(())
    }),
    ("a receipt that follows another", "its previous digest", |rows| {
        forge::receipt(rows, 1)?.prev_digest = "0".repeat(64);
        Ok(())
    }),
    ("a call with two outcomes", "two outcomes", |rows| {
        let first = forge::receipt(rows, 0)?.call_id.clone();
        forge::receipt(rows, 1)?.call_id = first;
        Ok(())
    }),
    ("a receipt of another plan", "of another plan", |rows| {
        forge::receipt(rows, 1)?.plan_revision = 7;
        Ok(())
    }),
    ("a receipt of another step", "the step at 0", |rows| {
        forge::receipt(rows, 1)?.step_index = 0;
        Ok(())
    }),
    ("a receipt in the name of a worker", "reported in the name of mallory", |rows| {
        let receipt = forge::receipt(rows, 1)?;
        *receipt = receipt.clone().reported_by("mallory");
        Ok(())
    }),
    ("an effect without an intent", "had an effect before its intent was stored", |rows| {
        *forge::entry(rows, |entry| matches!(entry, Entry::Intent(_)))? = nothing();
        Ok(())
    }),
    ("a failed effect without an intent", "had an effect before its intent was stored", |rows| {
        *forge::entry(rows, |entry| matches!(entry, Entry::Intent(it) if it.step_id == "b"))? =
            nothing();
        let of_b = |entry: &Entry| matches!(entry, Entry::Receipt(it) if it.step_id == "b");
        let Entry::Receipt(receipt) = forge::entry(rows, of_b)? else { bail!("another entry") };
        receipt.success = false;
        receipt.facts.clear();
        Ok(())
    }),
    ("a check's command without an intent", "had an effect before its intent was stored", |rows| {
        *forge::entry(rows, |entry| matches!(entry, Entry::Intent(it) if it.step_id.is_empty()))? =
            nothing();
        Ok(())
    }),
    ("an intent of another call", "the intent is of another call", |rows| {
        if let Entry::Intent(intent) = forge::entry(rows, |e| matches!(e, Entry::Intent(_)))? {
            intent.arguments_json = "{\"path\":\"b.txt\"}".to_owned();
        }
        Ok(())
    }),
    ("a late write under an ended lease", "wrote about a step that", |rows| {
        let is_receipt = |entry: &Entry| matches!(entry, Entry::Receipt(_));
        let row = rows.iter_mut().find(|row| row.entries.iter().any(is_receipt));
        row.context("a receipt")?.actor = Actor("executor/another".into());
        Ok(())
    }),
    ("a turn that was skipped", "expected turn", |rows| {
        forge::turn(rows)?.number += 1;
        Ok(())
    }),
    ("a turn of another attempt", "this is attempt", |rows| {
        forge::turn(rows)?.attempt += 1;
        Ok(())
    }),
    ("an output that is another", "is another", |rows| {
        if let Entry::Output(output) = forge::entry(rows, |e| matches!(e, Entry::Output(_)))? {
            output.text = Some("something else".to_owned());
        }
        Ok(())
    }),
    ("a receipt whose output is gone", "is gone", |rows| {
        *forge::entry(rows, |entry| matches!(entry, Entry::Output(_)))? = nothing();
        Ok(())
    }),
    ("a verdict that the receipts do not prove", "the stored receipts prove", |rows| {
        let verdict = forge::verdict(rows)?;
        verdict.verdict.results.iter_mut().for_each(|result| result.optional = true);
        Ok(())
    }),
    ("a verdict over other receipts", "the verdict saw", |rows| {
        forge::verdict(rows)?.receipts += 1;
        Ok(())
    }),
    ("an acceptance without a verdict", "accepted without a verdict", |rows| {
        *forge::entry(rows, |entry| matches!(entry, Entry::Verdict(_)))? = nothing();
        Ok(())
    }),
];

/// The same for the other rows of the run `$1`.
const OF_THE_ROWS: &[(&str, &str, &str)] = &[
    (
        "a receipt count that is too small",
        "1 receipts in the row",
        "update execution set progress = (progress::jsonb || '{\"receipts\": 1}')::json
         where run_id = $1",
    ),
    (
        "a turn that was not taken",
        "99 turns",
        "update execution set progress = (progress::jsonb || '{\"rounds\": 99}')::json
         where run_id = $1",
    ),
    (
        "a call that was not made",
        "99 tool calls",
        "update execution set progress = (progress::jsonb || '{\"tool_calls\": 99}')::json
         where run_id = $1",
    ),
    (
        "a retry that was not started",
        "1 repairs in the row, 0",
        "update execution set progress = (progress::jsonb || '{\"repairs\": 1}')::json
         where run_id = $1",
    ),
    (
        "a look that is said to be missing",
        "said not to be observed",
        "update execution set progress = (progress::jsonb - 'observed')::json where run_id = $1",
    ),
    (
        "a chain that ends elsewhere",
        "another last receipt",
        "update execution
         set progress = (progress::jsonb || '{\"last_receipt_digest\": \"00\"}')::json
         where run_id = $1",
    ),
    (
        "a file without a recorded write",
        "whether files were written",
        "update execution set progress = (progress::jsonb - 'wrote')::json where run_id = $1",
    ),
    (
        "a verdict that stands elsewhere",
        "the latest verdict",
        "update execution set progress = (progress::jsonb || '{\"verdict_sequence\": 1}')::json
         where run_id = $1",
    ),
    (
        "a step in another state",
        "step b",
        "update execution set step_states = 'dsd' where run_id = $1",
    ),
    (
        "an end without a journal",
        "events of",
        "update execution set sequence = sequence + 1 where run_id = $1",
    ),
    (
        "an end for another reason",
        "it ended as",
        "update execution
         set terminal = (terminal::jsonb || '{\"stop_reason\": \"aborted\"}')::json
         where run_id = $1",
    ),
    (
        "a plan that came after the last",
        "plan 2 is stored",
        "insert into plan (run_id, revision, digest, parent_digest, reason, body, created_at)
         select run_id, 2, digest, digest, reason, body, created_at from plan where run_id = $1",
    ),
    (
        "another plan",
        "not what its digest says",
        "update plan set body = replace(body::text, 'step a', 'step z')::json where run_id = $1",
    ),
];

fn moved<'a>(rows: &'a mut [Row], step: &str, event: &str) -> Result<&'a mut Transition> {
    forge::transition(rows, |moved| {
        moved.event == event && moved.subject == Subject::Step(step.to_owned())
    })
}

/// An entry that says nothing, so that the numbering stays whole.
fn nothing() -> Entry {
    Entry::Answer(Answer {
        wait_id: Uuid::nil(),
        by: Actor("forger".into()),
        text: "nothing".to_owned(),
    })
}

/// A run of everything that is audited, at its end.
async fn ended_run(deployment: &Deployment) -> Result<Uuid> {
    let steps = [
        step("a", &[], &[write("a.txt", "x\n")]),
        step("b", &["a"], &[shell("echo out"), noop()]),
        step("c", &[], &[shell("true")]),
    ];
    let plan = json!({"title": "Three steps", "steps": steps, "verify": [
        {"kind": "file_exists", "target": "a.txt"}, {"kind": "workspace_change"}
    ]});
    let run = deployment.create(&plan, "").await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    Ok(Uuid::parse_str(&run.id)?)
}

/// Asserts that the auditor names what was forged.
async fn named(pool: &PgPool, run_id: Uuid, what: &str, said: &str) {
    let found = audit(pool, run_id).await.err();
    let found = found.map(|error| format!("{error:#}")).unwrap_or_default();
    assert!(found.contains(said), "{what}: the auditor said {found:?}, and nothing of {said:?}");
}

#[tokio::test]
async fn the_auditor_names_every_forgery_of_a_journal() -> Result<()> {
    let deployment = Deployment::start().await?;
    let pool = deployment.database.pool().await?;
    for (what, said, forge) in OF_THE_JOURNAL {
        let run_id = ended_run(&deployment).await?;
        audit(&pool, run_id).await?;
        forge::rewrite(&pool, run_id, *forge).await?;
        named(&pool, run_id, what, said).await;
    }
    deployment.database.drop().await
}

#[tokio::test]
async fn the_auditor_names_every_forgery_of_the_other_rows() -> Result<()> {
    let deployment = Deployment::start().await?;
    let pool = deployment.database.pool().await?;
    for &(what, said, statement) in OF_THE_ROWS {
        let run_id = ended_run(&deployment).await?;
        let forged = sqlx::query(statement).bind(run_id).execute(&pool).await?;
        assert_eq!(forged.rows_affected(), 1, "{what}");
        named(&pool, run_id, what, said).await;
    }
    deployment.database.drop().await
}

#[tokio::test]
async fn the_auditor_names_steps_that_could_or_did_write_where_they_may_not() -> Result<()> {
    let deployment = Deployment::start().await?;
    let pool = deployment.database.pool().await?;
    let steps = [
        scoped(step("a", &[], &[write("a.txt", "x")]), &["a.txt"]),
        scoped(step("b", &[], &[write("b.txt", "x")]), &["b.txt"]),
        step("c", &[], &[noop()]),
    ];
    let run = deployment.create(&plan(&steps), "").await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    let run_id = Uuid::parse_str(&run.id)?;
    audit(&pool, run_id).await?;
    // A script of nothing but reads may run beside them; another driver might have written there.
    let decided = "update run set driver = $2 where id = $1";
    for driver in ["model", "remote"] {
        sqlx::query(decided).bind(run_id).bind(driver).execute(&pool).await?;
        named(&pool, run_id, driver, "could write what").await;
    }
    sqlx::query(decided).bind(run_id).bind("script").execute(&pool).await?;
    forge::rewrite(&pool, run_id, |rows| {
        let of_a = |entry: &Entry| matches!(entry, Entry::Receipt(it) if it.step_id == "a");
        let Entry::Receipt(receipt) = forge::entry(rows, of_a)? else { bail!("another entry") };
        for fact in &mut receipt.facts {
            if let Fact::FileWritten { path, .. } = fact {
                *path = "b.txt".to_owned();
            }
        }
        Ok(())
    })
    .await?;
    named(&pool, run_id, "a file of another step", "outside its scope").await;
    deployment.database.drop().await
}

#[tokio::test]
async fn the_auditor_names_an_output_that_is_not_there() -> Result<()> {
    let deployment = Deployment::start().await?;
    let pool = deployment.database.pool().await?;
    let much = shell("head -c 100000 /dev/zero | tr '\\0' x");
    let run = deployment.create(&plan(&[step("only", &[], &[much])]), "").await?;
    deployment.wait_for_end(&run.id).await?;
    let run_id = Uuid::parse_str(&run.id)?;
    audit(&pool, run_id).await?;
    for table in ["artifact_use", "artifact"] {
        sqlx::query(AssertSqlSafe(format!("delete from {table}"))).execute(&pool).await?;
    }
    named(&pool, run_id, "an artifact that is gone", "is not there").await;
    deployment.database.drop().await
}

#[tokio::test]
async fn the_auditor_names_a_lease_of_an_unregistered_executor() -> Result<()> {
    let deployment = Deployment::start().await?;
    let pool = deployment.database.pool().await?;
    let trail = Trail::new()?;
    let waits = plan(&[step("only", &[], &[shell(&trail.mark_and_wait("began"))])]);
    let run = deployment.create(&waits, "").await?;
    wait_until("the command began", || trail.marks("began") == 1).await?;
    audit_all(&pool).await?;
    // Frozen, so that it does not make itself known again.
    deployment.executors[0].signal(nix::sys::signal::Signal::SIGSTOP)?;
    sqlx::query("delete from executor").execute(&pool).await?;
    let found = audit_all(&pool).await.err().context("it went unseen")?.to_string();
    assert!(found.contains(&run.id) && found.contains("unregistered executor"), "{found}");
    deployment.database.drop().await
}
