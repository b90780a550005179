//! Connecting, and bringing the schema up to date.

use crate::support::{Proxy, make};
use futures::future::try_join_all;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, PgPool};
use std::time::Duration;
use surety_common::store::{self, PoolSize, StoreError};

const SIZE: PoolSize = PoolSize { connections: 1, acquire_timeout: Duration::from_secs(5) };

#[sqlx::test(migrations = false)]
async fn processes_that_migrate_at_once_leave_one_schema(pool: PgPool) {
    try_join_all((0..4).map(|_| store::migrate(&pool))).await.unwrap();
    make(&pool, 1, 1).await;
    store::migrate(&pool).await.unwrap();
}

#[sqlx::test(migrations = "./migrations")]
async fn a_database_of_a_newer_version_is_refused_with_both_versions(
    pool: PgPoolOptions,
    options: PgConnectOptions,
) {
    let url = options.to_url_lossy();
    let pool = pool.connect_with(options).await.unwrap();
    sqlx::query(
        "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
         values (9999, 'to come', true, '', 0)",
    )
    .execute(&pool)
    .await
    .unwrap();
    let refused = store::begin(url.as_str(), SIZE, &[]).await.unwrap_err();
    assert!(matches!(refused, StoreError::NewerSchema { found: 9999, .. }), "{refused}");
    assert!(!refused.is_transient());
    assert!(refused.to_string().contains("9999"), "{refused}");
}

#[sqlx::test(migrations = "./migrations")]
async fn a_schema_that_was_changed_by_hand_is_refused(pool: PgPool) {
    sqlx::query("update _sqlx_migrations set checksum = 'x'").execute(&pool).await.unwrap();
    let refused = store::migrate(&pool).await.unwrap_err();
    assert!(matches!(refused, StoreError::Migration(_)), "{refused}");
}

#[sqlx::test(migrations = false)]
async fn a_database_that_is_not_there_yet_is_waited_for(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let proxy = Proxy::new();
    let url = proxy.options(&options).to_url_lossy();
    let absent = store::connect(url.as_str(), SIZE).await.unwrap_err();
    assert!(absent.is_transient(), "{absent}");

    let mut waiting = Box::pin(store::begin(url.as_str(), SIZE, &[]));
    assert!(futures::poll!(&mut waiting).is_pending());
    proxy.listen(&options);
    let pool = waiting.await.unwrap();
    make(&pool, 1, 1).await;
}

#[sqlx::test(migrations = false)]
async fn a_database_that_does_not_exist_is_a_wrong_address(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let url = options.database("not_made").to_url_lossy();
    let refused = store::begin(url.as_str(), SIZE, &[]).await.unwrap_err();
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains("not_made"), "{refused}");
}

#[tokio::test]
async fn an_address_that_does_not_read_is_refused() {
    let refused = store::begin("nonsense", SIZE, &[]).await.unwrap_err();
    assert!(!refused.is_transient(), "{refused}");
}
