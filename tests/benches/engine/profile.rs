//! Which statements and which tables cost most.

use crate::stand::Stand;
use anyhow::Result;
use sqlx::PgPool;
use std::fmt::Write as _;

/// Statements that are shown.
const STATEMENTS: i64 = 14;

/// Resets the statistics of statements.
pub(crate) async fn reset(stand: &Stand<'_>) -> Result<()> {
    sqlx::query("select pg_stat_statements_reset()").execute(&stand.observer).await?;
    Ok(())
}

/// Both tables as text.
pub(crate) async fn shown(
    stand: &Stand<'_>,
    rows: &PgPool,
    log_start: &str,
    name: &str,
) -> Result<String> {
    let mut text = format!("Statements, {name}:\n\n");
    text.push_str(
        "| calls | rows | ms in all | of it planning | us a call | WAL KiB | statement |\n",
    );
    text.push_str("|---|---|---|---|---|---|---|\n");
    for (calls, returned, total_ms, planning_ms, wal_bytes, statement) in statements(stand).await? {
        let call_us = total_ms * 1000.0 / calls;
        writeln!(
            text,
            "| {calls:.0} | {returned:.0} | {total_ms:.0} | {planning_ms:.0} | {call_us:.0} | {:.0} | \
             `{statement}` |",
            wal_bytes / 1024.0
        )?;
    }
    writeln!(text, "\nLog records by what they touch, {name}:\n")?;
    text.push_str("| records | KiB | full page images KiB | what |\n|---|---|---|---|\n");
    for (records, bytes, images, what) in log(rows, log_start).await? {
        writeln!(
            text,
            "| {records:.0} | {:.0} | {:.0} | {what} |",
            bytes / 1024.0,
            images / 1024.0
        )?;
    }
    writeln!(text, "\nRows changed by table since the database was made, {name}:\n")?;
    text.push_str("| table | inserted | updated | of them in place (HOT) |\n|---|---|---|---|\n");
    for (table, inserted, updated, in_place) in changes(rows).await? {
        writeln!(text, "| {table} | {inserted} | {updated} | {in_place} |")?;
    }
    Ok(text)
}

/// What the processes did last may not be counted yet.
async fn changes(rows: &PgPool) -> Result<Vec<(String, i64, i64, i64)>> {
    Ok(sqlx::query_as(
        "select relname::text, n_tup_ins, n_tup_upd, n_tup_hot_upd
         from pg_stat_user_tables where n_tup_ins + n_tup_upd > 0 order by n_tup_ins + n_tup_upd desc, 1",
    )
    .fetch_all(rows)
    .await?)
}

type Statement = (f64, f64, f64, f64, f64, String);

async fn statements(stand: &Stand<'_>) -> Result<Vec<Statement>> {
    Ok(sqlx::query_as(
        "select calls::float8, rows::float8, total_exec_time + total_plan_time, total_plan_time,
                wal_bytes::float8,
                left(regexp_replace(regexp_replace(query, '--[^\\n]*', '', 'g'), '\\s+', ' ', 'g'), 90)
         from pg_stat_statements order by total_exec_time + total_plan_time desc limit $1",
    )
    .bind(STATEMENTS)
    .fetch_all(&stand.observer)
    .await?)
}

type Records = (f64, f64, f64, String);

/// A record that touches several tables counts for the first one.
async fn log(rows: &PgPool, log_start: &str) -> Result<Vec<Records>> {
    // Only the database itself knows the names of its tables, and it shows no log without this.
    sqlx::query("create extension if not exists pg_walinspect").execute(rows).await?;
    Ok(sqlx::query_as(
        "with record as (
             select record_type, resource_manager, record_length, fpi_length,
                    substring(block_ref from 'rel \\d+/\\d+/(\\d+)')::oid as node
             from pg_get_wal_records_info($1::pg_lsn, pg_current_wal_flush_lsn())
         )
         select count(*)::float8, sum(record_length)::float8, sum(fpi_length)::float8,
                coalesce(pg_class.relname, '-') || ' ' || resource_manager || ' ' || record_type
         from record left join pg_class on pg_class.relfilenode = record.node
         group by 4 order by 2 desc limit 16",
    )
    .bind(log_start)
    .fetch_all(rows)
    .await?)
}
