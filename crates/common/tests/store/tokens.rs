//! Tokens: what is imported, what stays revoked, how soon a change counts, and what is audited.

use crate::support::{later, now};
use sqlx::PgPool;
use std::time::{Duration, Instant};
use surety_common::domain::identity::{Identity, Namespaces, Role};
use surety_common::store::{
    Identities, TokenHash, copy_tokens, find_token, import_tokens, use_token,
};

const HASH: TokenHash = [7; 32];

fn identity(name: &str, role: Role, namespaces: &[&str]) -> Identity {
    let names = namespaces.iter().map(|name| (*name).to_owned());
    Identity::new(name, [role], Namespaces::from_names(names).unwrap()).unwrap()
}

async fn import(pool: &PgPool, tokens: &[(TokenHash, Identity)]) -> usize {
    import_tokens(pool, tokens, now()).await.unwrap()
}

async fn audited(pool: &PgPool) -> Vec<(String, String)> {
    let rows = sqlx::query_as("select identity, action from audit order by id");
    rows.fetch_all(pool).await.unwrap()
}

#[sqlx::test(migrations = "./migrations")]
async fn a_token_is_imported_once_and_one_that_was_revoked_stays_revoked(pool: PgPool) {
    let alice = identity("alice", Role::Submitter, &["a, b", "c"]);
    assert_eq!(import(&pool, &[(HASH, alice.clone())]).await, 1);
    let stored = find_token(&pool, &HASH).await.unwrap().unwrap();
    assert_eq!((&stored.identity, stored.hash), (&alice, HASH));
    assert!(stored.is_valid(later(0)));
    sqlx::query("update token set revoked_at = $1").bind(now()).execute(&pool).await.unwrap();
    assert_eq!(import(&pool, &[(HASH, alice)]).await, 0);
    assert!(!find_token(&pool, &HASH).await.unwrap().unwrap().is_valid(later(1)));
    assert_eq!(audited(&pool).await, [("surety/import".to_owned(), "import_token".to_owned())]);
    assert_eq!(find_token(&pool, &[8; 32]).await.unwrap(), None);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_use_is_recorded_to_the_minute(pool: PgPool) {
    import(&pool, &[(HASH, identity("a", Role::Viewer, &["*"]))]).await;
    for (seconds, recorded) in [(0, 0), (59, 0), (61, 61)] {
        use_token(&pool, &HASH, later(seconds)).await.unwrap();
        let token = find_token(&pool, &HASH).await.unwrap().unwrap();
        assert_eq!(token.last_used_at, Some(later(recorded)), "{seconds}");
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn a_revocation_counts_within_a_second_and_so_does_a_new_token(pool: PgPool) {
    let identities = Identities::of(pool.clone());
    assert_eq!(identities.find(&HASH).await.unwrap(), None);
    import(&pool, &[(HASH, identity("a", Role::Viewer, &["*"]))]).await;
    let waited = |began: Instant| assert!(began.elapsed() < Duration::from_secs(3), "too late");
    let began = Instant::now();
    while identities.find(&HASH).await.unwrap().is_none() {
        waited(began);
        tokio::task::yield_now().await;
    }
    sqlx::query("update token set revoked_at = now()").execute(&pool).await.unwrap();
    let began = Instant::now();
    while identities.find(&HASH).await.unwrap().is_some() {
        waited(began);
        tokio::task::yield_now().await;
    }
    // While the database is away, nothing is said about a token that was not read of late.
    pool.close().await;
    assert!(identities.find(&[9; 32]).await.is_err());
}

#[sqlx::test(migrations = "./migrations")]
async fn a_token_is_copied_to_the_database_of_its_namespaces_with_its_end(pool: PgPool) {
    // One database stands for both: a copy of a row that is there changes only what ends it.
    import(&pool, &[(HASH, identity("a", Role::Viewer, &["n"]))]).await;
    import(&pool, &[([8; 32], identity("b", Role::Viewer, &["*"]))]).await;
    copy_tokens(&pool, &pool, &["n".to_owned()]).await.unwrap();
    let count: i64 =
        sqlx::query_scalar("select count(*) from token").fetch_one(&pool).await.unwrap();
    assert_eq!(count, 2);
    assert!(find_token(&pool, &HASH).await.unwrap().unwrap().revoked_at.is_none());
}

#[sqlx::test(migrations = "./migrations")]
async fn an_audit_row_is_never_changed_or_deleted(pool: PgPool) {
    import(&pool, &[(HASH, identity("a", Role::Viewer, &["*"]))]).await;
    for statement in ["update audit set identity = 'x'", "delete from audit", "truncate audit"] {
        let refused = sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&pool).await.unwrap_err();
        assert!(refused.to_string().contains("never changed"), "{statement}: {refused}");
    }
    let broken = "update token set roles = array['approver', 'driver']";
    let refused = sqlx::query(broken).execute(&pool).await.unwrap_err();
    assert!(refused.to_string().contains("token_machine_never_approves"), "{refused}");
}
