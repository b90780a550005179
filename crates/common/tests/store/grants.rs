//! The rights of the database roles, whole: each role tries each write into each table.

use crate::roles::as_role;
use sqlx::PgPool;
use std::collections::BTreeSet;
use surety_common::store::{SERVICE_ROLES, make_service_roles};

/// What moves a run.
const MOVED: &str = "state blocked_from version sequence priority ready_at lease_owner lease_epoch plan_revision step_states \
                     progress wait wait_ids terminal deadline_at updated_at";
const ALL: &str = "insert update delete";
const NOTHING: &str = "";

/// Of each table, what the planner, the executor and the gate may: `insert`, `delete`, `update` of every column, or of the
/// columns that are named. What is not here is forbidden.
const GRANTS: [(&str, [&str; 3]); 35] = [
    ("agent", [ALL, NOTHING, NOTHING]),
    ("agent_account", [ALL, NOTHING, NOTHING]),
    ("anchor", ["delete", NOTHING, "insert"]),
    ("anchored_verdict", ["delete", NOTHING, "insert"]),
    ("anchoring", [NOTHING, NOTHING, "insert"]),
    ("artifact", ["insert delete stored_at", "insert stored_at", NOTHING]),
    ("artifact_use", ["insert delete", "insert", NOTHING]),
    ("audit", ["insert", NOTHING, NOTHING]),
    ("escalation", [ALL, NOTHING, NOTHING]),
    ("execution", ["moved insert delete task_ended", "moved host_label", "moved"]),
    ("executor", [ALL, ALL, NOTHING]),
    ("forge_delivery", [ALL, NOTHING, NOTHING]),
    ("forge_withdrawal", [ALL, NOTHING, NOTHING]),
    ("hook", [ALL, NOTHING, NOTHING]),
    ("journal", ["insert delete", "insert", "insert"]),
    ("journal_default", ["delete", NOTHING, NOTHING]),
    ("mail", [ALL, NOTHING, NOTHING]),
    ("mail_language", [ALL, NOTHING, NOTHING]),
    ("namespace_overlay", [ALL, NOTHING, NOTHING]),
    ("namespace_policy", [ALL, NOTHING, NOTHING]),
    ("plan", ["insert delete", NOTHING, NOTHING]),
    ("request_outcome", [ALL, "insert update", NOTHING]),
    ("run", ["insert delete", NOTHING, NOTHING]),
    ("shown_server_tool", [NOTHING, ALL, NOTHING]),
    ("shown_tool", [NOTHING, ALL, NOTHING]),
    ("signing_key", ["insert valid_until", "insert valid_until", "insert valid_until"]),
    ("task", [ALL, "reported_at remind_at waiting_for", NOTHING]),
    ("task_entry", ["insert delete", "insert", NOTHING]),
    ("token", ["insert update", "last_used_at", "last_used_at"]),
    ("verdict", ["delete", NOTHING, "insert"]),
    (
        "wait",
        [
            ALL,
            "insert delete answered_at withheld lease_holder lease_epoch lease_expires_at lease_ms free_since free_ms \
             offered_at lost_at progress progress_percent step_until",
            "insert delete answered_at withheld free_since free_ms step_until",
        ],
    ),
    ("webhook", [ALL, NOTHING, NOTHING]),
    ("webhook_delivery", [ALL, NOTHING, NOTHING]),
    ("worker_tool", [ALL, ALL, NOTHING]),
    ("workspace_lock", [ALL, "insert update", NOTHING]),
];

/// What a role may of a table with these columns.
fn granted(table: &str, columns: &[String], role: usize) -> BTreeSet<String> {
    let listed = GRANTS.iter().find(|(name, _)| *name == table);
    let words = listed.map_or("", |(_, of_roles)| of_roles[role]);
    let words = words.split_whitespace().flat_map(|word| match word {
        "moved" => MOVED.split_whitespace().map(str::to_owned).collect::<Vec<_>>(),
        "update" => columns.to_vec(),
        word => vec![word.to_owned()],
    });
    words.collect()
}

/// Each right is tried with a statement that finds no row: Postgres looks at the right first.
#[sqlx::test(migrations = "./migrations")]
async fn each_role_has_the_rights_that_are_listed_and_no_other(pool: PgPool) {
    make_service_roles(&pool).await.unwrap();
    let tables: Vec<(String, bool, Vec<String>)> = sqlx::query_as(
        "select relname::text, relispartition, array_agg(attname::text order by attnum)
         from pg_class join pg_attribute on attrelid = pg_class.oid
         where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and attnum > 0 and not attisdropped
         group by relname, relispartition order by relname",
    )
    .fetch_all(&pool)
    .await
    .unwrap();
    let listed: BTreeSet<&str> = GRANTS.iter().map(|(table, _)| *table).collect();
    let known: BTreeSet<&str> = tables.iter().map(|(table, ..)| table.as_str()).collect();
    let none: Vec<_> = listed.difference(&known).collect();
    assert!(none.is_empty(), "{none:?} are no tables");
    for (table, is_partition, _) in &tables {
        let is_listed =
            listed.contains(table.as_str()) || *is_partition || table == "_sqlx_migrations";
        assert!(is_listed, "the rights of {table} are not listed");
    }
    let mut tried = 0;
    for (place, role) in SERVICE_ROLES.into_iter().enumerate() {
        let session = as_role(&pool, role).await;
        for (table, _, columns) in &tables {
            let first = columns.first().unwrap();
            let mut writes = vec![
                (
                    "insert".to_owned(),
                    format!(
                        "insert into {table} (\"{first}\") select \"{first}\" from {table} where false"
                    ),
                ),
                ("delete".to_owned(), format!("delete from {table} where false")),
            ];
            writes.extend(columns.iter().map(|column| {
                (column.clone(), format!("update {table} set \"{column}\" = default where false"))
            }));
            let mut allowed = BTreeSet::new();
            for (right, statement) in writes {
                tried += 1;
                match sqlx::query(sqlx::AssertSqlSafe(statement.clone())).execute(&session).await {
                    Ok(_) => assert!(allowed.insert(right), "a column is named as a statement"),
                    Err(error) => {
                        let code = error.as_database_error().and_then(|it| it.code());
                        assert_eq!(code.as_deref(), Some("42501"), "{role}: {statement}: {error}");
                    }
                }
            }
            let granted = granted(table, columns, place);
            assert_eq!(allowed, granted, "{role}, {table}");
            // The tried insert names one column; another one may be granted by itself.
            let has_any: bool =
                sqlx::query_scalar("select has_any_column_privilege($1, $2, 'insert')")
                    .bind(role)
                    .bind(table)
                    .fetch_one(&pool)
                    .await
                    .unwrap();
            assert_eq!(has_any, granted.contains("insert"), "{role}, {table}");
        }
    }
    assert!(tried > 1_000, "{tried}");
}
