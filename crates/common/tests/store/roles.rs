//! The database role of each service: what it may write.

use crate::signatures::{done, signing, write};
use crate::support::{self, change, find, make};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use surety_common::domain::signature::Service;
use surety_common::domain::toolchain::{EntryKind, Forge, Ignored, Withdrawal, WithdrawnFrom};
use surety_common::store;

/// A pool that logs in as the role of a service.
pub(crate) async fn as_role(pool: &PgPool, role: &str) -> PgPool {
    let options: PgConnectOptions = (*pool.connect_options()).clone().username(role);
    PgPoolOptions::new().max_connections(3).connect_with(options).await.unwrap()
}

#[sqlx::test(migrations = "./migrations")]
async fn each_role_writes_what_its_service_writes_and_nothing_else(pool: PgPool) {
    store::make_service_roles(&pool).await.unwrap();
    store::make_service_roles(&pool).await.unwrap();
    let [planner, executor, gate] = [
        as_role(&pool, "surety_planner").await,
        as_role(&pool, "surety_executor").await,
        as_role(&pool, "surety_gate").await,
    ];
    let run_id = done(&pool, 1).await;
    let receipt = r#"'[[0,"",{"receipt":{"source":"probe"}}]]'"#;
    let said = r#"'[[0,"",{"receipt":{"source":"approval"}}]]'"#;
    let told = r#"'[[0,"",{"receipt":{"source":"approval","name":"confirm_call","facts":[{"fact":"output","key":"by","value":"x"}]}}]]'"#;
    let used = r#"'[[0,"",{"receipt":{"source":"approval","name":"use_grant","facts":[{"fact":"output","key":"by","value":"x"}]}}]]'"#;
    // A fact of another kind would count as an observation of the runner's.
    let forged = told
        .replace(r#"{"fact":"output","#, r#"{"fact":"command","exit_code":0},{"fact":"output","#);
    let unnamed = r#"'[[0,"",{"receipt":{"name":"confirm_call"}}]]'"#;
    let verdict = r#"'[[0,"",{"verdict":{}}]]'"#;
    let answer = |by: &str| format!(r#"'[[0,"",{{"answer":{{"by":"{by}","text":"happened"}}}}]]'"#);
    let escaped = |entries: &str| {
        let words = ["receipt", "verdict", "answer", "approval"];
        words.into_iter().fold(entries.to_owned(), |entries, word| {
            let (head, last) = word.split_at(word.len() - 1);
            let code = u32::from(last.chars().next().unwrap());
            entries.replace(&format!("\"{word}\""), &format!("\"{head}\\u{code:04x}\""))
        })
    };
    let journal = |entries: &str| {
        format!(
            "insert into journal (run_id, sequence, at, actor, entries) values (gen_random_uuid(), 1, now(), 'x', {entries})"
        )
    };
    let entry = |kind: &str| {
        format!(
            "insert into task_entry (run_id, kind, author, body, links, attachment, at, number) \
             values (gen_random_uuid(), '{kind}', 'x', 'x', '{{}}', '', now(), 1)"
        )
    };
    let token = "insert into token (id, hash, name, roles, namespaces, created_at, created_by, request_id, request_digest) \
                 values (gen_random_uuid(), sha256('x'), 'x', '{approver}', '{*}', now(), 'x', '', '')";
    let anchor = "insert into anchor values (gen_random_uuid(), now(), now(), 1, '')";
    let decided = "insert into verdict values (gen_random_uuid(), 1, 1, true, now(), null, null)";
    let planned = "insert into plan values (gen_random_uuid(), 1, '', '', '', '{}', now())";
    let renamed = "update execution set run_id = gen_random_uuid()";
    let artifact = "insert into artifact values (encode(sha256('x'), 'hex'), 1, 'x', now())";
    let key = |service: &str| {
        format!(
            "insert into signing_key values (substring(sha256('x') for 16), '{service}', sha256('x'), now())"
        )
    };
    let cases: Vec<(&str, &PgPool, String, bool)> = vec![
        ("planner, verdict", &planner, decided.to_owned(), false),
        ("executor, verdict", &executor, decided.to_owned(), false),
        ("gate, verdict", &gate, decided.to_owned(), true),
        ("planner, plan", &planner, planned.to_owned(), true),
        ("executor, plan", &executor, planned.to_owned(), false),
        ("gate, plan", &gate, planned.to_owned(), false),
        ("planner, receipt", &planner, journal(receipt), false),
        ("planner, approval", &planner, journal(said), true),
        ("planner, told approval", &planner, journal(told), true),
        ("planner, approval with a command", &planner, journal(&forged), false),
        ("planner, receipt without a source", &planner, journal(unnamed), false),
        ("executor, told approval", &executor, journal(told), false),
        ("planner, answer", &planner, journal(&answer("alice")), true),
        ("executor, answer", &executor, journal(&answer("alice")), false),
        ("executor, answer that did not come", &executor, journal(&answer("clock")), true),
        ("gate, answer", &gate, journal(&answer("alice")), false),
        ("executor, use of a grant", &executor, journal(used), true),
        ("gate, told approval", &gate, journal(told), false),
        ("planner, verdict entry", &planner, journal(verdict), false),
        ("executor, receipt", &executor, journal(receipt), true),
        ("executor, verdict entry", &executor, journal(verdict), false),
        ("gate, receipt", &gate, journal(receipt), false),
        // The same words with an escape in them.
        ("planner, escaped receipt", &planner, journal(&escaped(receipt)), false),
        ("planner, escaped verdict", &planner, journal(&escaped(verdict)), false),
        ("executor, escaped verdict", &executor, journal(&escaped(verdict)), false),
        ("executor, escaped approval", &executor, journal(&escaped(told)), false),
        ("executor, escaped answer", &executor, journal(&escaped(&answer("alice"))), false),
        ("gate, escaped receipt", &gate, journal(&escaped(receipt)), false),
        ("gate, escaped answer", &gate, journal(&escaped(&answer("alice"))), false),
        ("gate, escaped verdict", &gate, journal(&escaped(verdict)), true),
        ("gate, verdict entry", &gate, journal(verdict), true),
        ("executor, report", &executor, entry("action_report"), true),
        ("executor, assignment", &executor, entry("assignment"), false),
        ("executor, note", &executor, entry("note"), false),
        ("planner, assignment", &planner, entry("assignment"), true),
        ("gate, report", &gate, entry("action_report"), false),
        ("planner, entry", &planner, "update task_entry set body = ''".to_owned(), false),
        ("executor, entry", &executor, "update task_entry set body = ''".to_owned(), false),
        ("executor, history", &executor, "delete from task_entry".to_owned(), false),
        ("executor, payload", &executor, "update task set payload = ''".to_owned(), false),
        (
            "executor, clock of a task",
            &executor,
            "update task set reported_at = now()".to_owned(),
            true,
        ),
        ("executor, task", &executor, "update task set assignee = 'x'".to_owned(), false),
        ("executor, run", &executor, "update run set goal = ''".to_owned(), false),
        ("planner, run", &planner, "update run set goal = ''".to_owned(), false),
        ("gate, run", &gate, "delete from run".to_owned(), false),
        ("executor, journal", &executor, "update journal set entries = ''".to_owned(), false),
        ("planner, journal", &planner, "update journal set entries = ''".to_owned(), false),
        ("gate, journal", &gate, "delete from journal".to_owned(), false),
        ("executor, journal", &executor, "delete from journal".to_owned(), false),
        ("gate, verdicts", &gate, "update verdict set accepted = true".to_owned(), false),
        ("executor, verdicts", &executor, "delete from verdict".to_owned(), false),
        (
            "executor, partition",
            &executor,
            journal(receipt).replace("into journal", "into journal_default"),
            false,
        ),
        (
            "planner, partition",
            &planner,
            journal(receipt).replace("into journal", "into journal_default"),
            false,
        ),
        (
            "executor, audit",
            &executor,
            "insert into audit values (gen_random_uuid(), now(), 'x', 'x', 'x', '{}')".to_owned(),
            false,
        ),
        (
            "gate, policy",
            &gate,
            "insert into namespace_policy values ('x', 1, '{}', now(), 'x')".to_owned(),
            false,
        ),
        ("executor, table", &executor, "create table mine ()".to_owned(), false),
        (
            "planner, trigger",
            &planner,
            "drop trigger execution_becomes_done on execution".to_owned(),
            false,
        ),
        ("planner, agent", &planner, "delete from agent".to_owned(), true),
        ("planner, task", &planner, "update task set waiting_for = ''".to_owned(), true),
        ("gate, task", &gate, "update task set waiting_for = ''".to_owned(), false),
        ("gate, history", &gate, "delete from task_entry".to_owned(), false),
        ("planner, delivery", &planner, "delete from forge_delivery".to_owned(), true),
        ("executor, hook", &executor, "delete from hook".to_owned(), false),
        ("planner, mail", &planner, "delete from mail".to_owned(), true),
        ("gate, anchor", &gate, anchor.to_owned(), true),
        ("executor, anchor", &executor, anchor.to_owned(), false),
        ("planner, anchor", &planner, anchor.to_owned(), false),
        ("gate, anchors", &gate, "update anchor set token = ''".to_owned(), false),
        ("gate, anchored", &gate, "delete from anchored_verdict".to_owned(), false),
        ("planner, token", &planner, token.to_owned(), true),
        ("executor, token", &executor, token.to_owned(), false),
        ("gate, token", &gate, token.to_owned(), false),
        ("executor, roles", &executor, "update token set roles = '{approver}'".to_owned(), false),
        ("gate, use of a token", &gate, "update token set last_used_at = now()".to_owned(), true),
        ("executor, key", &executor, "delete from signing_key".to_owned(), false),
        ("executor, own key", &executor, key("executor"), true),
        ("executor, key of the gate", &executor, key("gate"), false),
        ("planner, key of the gate", &planner, key("gate"), false),
        ("gate, key of the planner", &gate, key("planner"), false),
        ("gate, own key", &gate, key("gate"), true),
        (
            "executor, times of a key",
            &executor,
            "update signing_key set valid_from = now()".into(),
            false,
        ),
        ("executor, id of a run", &executor, renamed.to_owned(), false),
        ("gate, id of a run", &gate, renamed.to_owned(), false),
        ("planner, id of a run", &planner, renamed.to_owned(), false),
        ("executor, namespace", &executor, "update execution set namespace = 'x'".into(), false),
        ("gate, namespace", &gate, "update execution set namespace = 'x'".into(), false),
        ("planner, namespace", &planner, "update execution set namespace = 'x'".into(), false),
        ("executor, row of a run", &executor, "delete from execution".into(), false),
        ("gate, row of a run", &gate, "delete from execution".into(), false),
        (
            "executor, end of a task",
            &executor,
            "update execution set task_ended = true".into(),
            false,
        ),
        ("gate, host", &gate, "update execution set host_label = 'x'".into(), false),
        (
            "executor, new run",
            &executor,
            "insert into execution select * from execution".into(),
            false,
        ),
        ("executor, content", &executor, "update artifact set body = ''".into(), false),
        ("executor, contents", &executor, "delete from artifact".into(), false),
        ("executor, uses", &executor, "delete from artifact_use".into(), false),
        ("planner, content", &planner, "update artifact set body = ''".into(), false),
        ("gate, content", &gate, artifact.to_owned(), false),
        ("executor, new content", &executor, artifact.to_owned(), true),
        ("executor, run of a wait", &executor, "update wait set run_id = id".into(), false),
        ("executor, kind of a wait", &executor, "update wait set kind = 'timer'".into(), false),
        ("gate, lease of a wait", &gate, "update wait set lease_holder = 'x'".into(), false),
        ("gate, kind of a wait", &gate, "update wait set kind = 'timer'".into(), false),
        ("gate, lock", &gate, "delete from workspace_lock".into(), false),
        ("executor, lock", &executor, "delete from workspace_lock".into(), false),
        ("executor, responses", &executor, "delete from request_outcome".into(), false),
        ("gate, responses", &gate, "delete from request_outcome".into(), false),
        ("gate, tools", &gate, "delete from worker_tool".into(), false),
        ("gate, start of anchoring", &gate, "insert into anchoring values (now())".into(), true),
        ("gate, later start", &gate, "update anchoring set started_at = now()".into(), false),
        (
            "executor, start of anchoring",
            &executor,
            "insert into anchoring values (now())".into(),
            false,
        ),
        ("executor, plans", &executor, "update plan set body = '{}'".into(), false),
        ("planner, plans", &planner, "update plan set body = '{}'".into(), false),
        ("planner, verdicts", &planner, "update verdict set accepted = true".into(), false),
    ];
    for (what, role, statement, allowed) in cases {
        let mut transaction = role.begin().await.unwrap();
        let done = sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&mut *transaction).await;
        assert_eq!(done.is_ok(), allowed, "{what}: {done:?}");
        if let Err(error) = done {
            let code = error
                .as_database_error()
                .and_then(|error| error.code().map(|code| code.into_owned()));
            assert_eq!(code.as_deref(), Some("42501"), "{what}: {error}");
        }
    }
    let row = find(&executor, run_id).await.execution;
    let recording = change(&row, |draft| {
        draft.receipt(support::receipt("noop"));
        Ok(())
    });
    let recorded = write(&executor, signing(Service::Executor, 2), recording).await;
    assert!(recorded.is_ok(), "{recorded:?}");
    executor_reports_and_planner_forgets(&planner, &executor).await;
    store::migrate(&executor).await.unwrap();
    assert!(
        store::prepare_partitions(&planner, chrono::Utc::now(), chrono::TimeDelta::days(7))
            .await
            .unwrap()
    );
}

/// No login of a service makes a run DONE that no verdict accepted, by whatever column.
#[sqlx::test(migrations = "./migrations")]
async fn no_role_makes_a_run_done_without_its_verdict(pool: PgPool) {
    store::make_service_roles(&pool).await.unwrap();
    let accepted = done(&pool, 1).await;
    let open = make(&pool, 2, 1).await.run_id;
    // As a run that is done says it, so that only the missing verdict is wrong.
    let forged = "update execution as open
                  set state = done.state, blocked_from = done.blocked_from, lease_owner = done.lease_owner,
                      ready_at = done.ready_at, deadline_at = done.deadline_at, step_states = done.step_states,
                      wait = done.wait, wait_ids = done.wait_ids, terminal = done.terminal, version = done.version,
                      sequence = done.sequence, lease_epoch = done.lease_epoch
                  from execution as done
                  where open.run_id = $1 and done.run_id = $2";
    for role in store::SERVICE_ROLES {
        let role_pool = as_role(&pool, role).await;
        let done = sqlx::query(forged).bind(open).bind(accepted).execute(&role_pool).await;
        let refused = done.unwrap_err().to_string();
        assert!(refused.contains("has no accepted verdict"), "{role}: {refused}");
    }
    // The owner, and every service where all share one role, is bound by the trigger alone.
    for statement in [
        format!("update execution set plan_revision = 2 where run_id = '{accepted}'"),
        format!("update execution set run_id = gen_random_uuid() where run_id = '{accepted}'"),
    ] {
        let done = sqlx::query(sqlx::AssertSqlSafe(statement.clone())).execute(&pool).await;
        let refused = done.unwrap_err().to_string();
        assert!(refused.contains("has no accepted verdict"), "{statement}: {refused}");
    }
}

/// What a session makes for itself alone takes the place of no table or type that the rules of rows name.
#[sqlx::test(migrations = "./migrations")]
async fn temporary_objects_get_round_no_rule(pool: PgPool) {
    store::make_service_roles(&pool).await.unwrap();
    let run_id = make(&pool, 2, 1).await.run_id;
    let forbidden =
        "create temporary table verdict (run_id uuid, plan_revision int, accepted bool)";
    let planner = as_role(&pool, "surety_planner").await;
    let refused = sqlx::query(forbidden).execute(&planner).await.unwrap_err().to_string();
    assert!(refused.contains("permission denied"), "{refused}");
    // As in a database whose owner lets each session make them.
    let allow = "do $$ begin execute format('grant temporary on database %I to public', current_database()); end $$";
    sqlx::query(allow).execute(&pool).await.unwrap();
    let forged = r#"'[[0,"",{"receipt":{"source":"probe"}}]]'"#;
    let receipt = format!(
        "insert into journal (run_id, sequence, at, actor, entries) values (gen_random_uuid(), 1, now(), 'x', {forged})"
    );
    let done = "update execution set state = 'DONE', step_states = '', terminal = '{}', lease_owner = null, ready_at = null, \
                deadline_at = null where run_id = $1";
    for role in store::SERVICE_ROLES {
        let mut session = as_role(&pool, role).await.acquire().await.unwrap();
        sqlx::query(forbidden).execute(&mut *session).await.unwrap();
        sqlx::query("insert into pg_temp.verdict values ($1, 1, true)")
            .bind(run_id)
            .execute(&mut *session)
            .await
            .unwrap();
        let refused = sqlx::query(done).bind(run_id).execute(&mut *session).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("has no accepted verdict"), "{role}: {refused}");
    }
    for role in ["surety_planner", "surety_gate"] {
        let mut session = as_role(&pool, role).await.acquire().await.unwrap();
        for statement in [
            "create domain pg_temp.json as text",
            "create function pg_temp.json_array_elements(pg_temp.json) returns setof pg_catalog.json \
             language sql as $$ select null::pg_catalog.json where false $$",
            &receipt,
        ] {
            let result = sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&mut *session).await;
            let is_made = result.is_ok();
            assert_eq!(is_made, statement.starts_with("create"), "{role}: {statement}: {result:?}");
        }
    }
}

/// The chain of a task's entries is written under the roles: the lock of the task, the entry and the report.
async fn executor_reports_and_planner_forgets(planner: &PgPool, executor: &PgPool) {
    let new = crate::tasks::task("toolchain", 1, crate::support::now());
    let mut admission = store::Admission::begin(planner, []).await.unwrap();
    admission.insert(&new).await.unwrap();
    let closed = Withdrawal {
        reason: Ignored::ClosedWithoutMerge,
        source: Forge::Gitea,
        subject: new.subject.clone(),
        from: WithdrawnFrom::AllBut(Vec::new()),
        happened_at: new.happened_at,
    };
    admission.withdraw(&closed, &[]).await.unwrap();
    admission.commit().await.unwrap();
    store::forget_forge_deliveries(planner, new.happened_at).await.unwrap();
    let report = store::NewEntry {
        run_id: new.run_id,
        kind: EntryKind::ActionReport,
        author: "dev".to_owned(),
        body: "done".to_owned(),
        links: Vec::new(),
        attachment: String::new(),
        at: crate::support::now(),
    };
    let signing = signing(Service::Executor, 2);
    let first = store::report_task(executor, &signing, &report, |_| None).await.unwrap();
    let second = store::add_entry(planner, &signing, &report, |_| None).await.unwrap();
    assert!(first.is_some() && second.is_some());
    let forgotten = sqlx::query("delete from task_entry where run_id = $1").bind(new.run_id);
    assert_eq!(forgotten.execute(planner).await.unwrap().rows_affected(), 2);
}

/// `surety migrate` makes partitions as the owner; services work in them with the rights that they have in the journal.
#[sqlx::test(migrations = "./migrations")]
async fn partitions_of_the_owner_take_rows_under_the_same_rights(pool: PgPool) {
    store::make_service_roles(&pool).await.unwrap();
    let (now, width) = (chrono::Utc::now(), chrono::TimeDelta::days(7));
    assert!(store::prepare_partitions(&pool, now, width).await.unwrap());
    let executor = as_role(&pool, "surety_executor").await;
    let planner = as_role(&pool, "surety_planner").await;
    let run_id = uuid::Uuid::now_v7();
    let insert = |table: &str| {
        sqlx::AssertSqlSafe(format!(
            "insert into {table} (run_id, sequence, at, actor, entries) values ($1, 1, now(), 'x', '[]')"
        ))
    };
    sqlx::query(insert("journal")).bind(run_id).execute(&executor).await.unwrap();
    let part: String =
        sqlx::query_scalar("select tableoid::regclass::text from journal where run_id = $1")
            .bind(run_id)
            .fetch_one(&executor)
            .await
            .unwrap();
    assert_ne!(part, "journal_default");
    let refused = sqlx::query(insert(&part)).bind(run_id).execute(&executor).await.unwrap_err();
    assert!(refused.to_string().contains("permission denied"), "{refused}");
    // The planner deletes expired rows in one partition, and drops none.
    let delete = sqlx::AssertSqlSafe(format!("delete from {part} where run_id = $1"));
    sqlx::query(delete).bind(run_id).execute(&planner).await.unwrap();
    assert_eq!(store::drop_partitions(&planner, now + width * 9).await.unwrap(), 0);
    assert_eq!(store::drop_partitions(&pool, now + width * 9).await.unwrap(), 2);
}
