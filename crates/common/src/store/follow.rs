//! Following journals: the pages that many followers want, read at once.

use super::StoreError;
use super::journal::read_row;
use super::pages::count;
use super::query_batcher::QueryBatcher;
use super::run::read_state;
use crate::domain::journal::{Event, StoredRow, Wanted};
use crate::domain::machine::run::RunState;
use chrono::{DateTime, Utc};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{FromRow, PgPool, Postgres};
use uuid::Uuid;

/// Bytes of a page, after which at most one row follows. Smaller than a page that is read alone: as
/// many pages as are asked for together are held at once.
const PAGE_BYTES: usize = 512 * 1024;

/// What a follower finds.
#[derive(Debug, Clone)]
pub struct Page {
    /// The run's trace, as it was given.
    pub trace_parent: String,
    /// Where the run stood when the page was read.
    pub state: RunState,
    /// Its events from the wanted number on, in order.
    pub events: Vec<Event>,
    /// Whether more may have stood behind them.
    pub is_full: bool,
}

/// Part of a run's journal.
#[derive(Debug, Clone, Copy)]
struct Wish {
    run_id: Uuid,
    /// The number from which on.
    from: i64,
    /// Rows of what was committed together, at most.
    rows: i64,
}

/// One row of `follow.sql`.
#[derive(FromRow)]
struct FollowRow {
    trace_parent: String,
    state: String,
    blocked_from: Option<String>,
    sequence: Option<i64>,
    at: Option<DateTime<Utc>>,
    actor: Option<String>,
    entries: Option<String>,
}

/// The process's one reader of journals for those who follow them: all that is wanted at a time is
/// read in one statement. Cloning shares it.
#[derive(Clone)]
pub struct Journals(QueryBatcher<Wish>);

impl Journals {
    /// Starts the reader, on a connection of its own.
    pub fn start(pool: PgPool) -> Self {
        Self(QueryBatcher::start(pool, statement))
    }

    /// The events of a run from the number `from` on, from at most `rows` rows of what was committed
    /// together and some 512 KiB of text (any first row comes, however large), as one moment shows them
    /// and the run's state; none when there is no such run.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn page(
        &self,
        run_id: Uuid,
        from: i64,
        rows: i64,
    ) -> Result<Option<Page>, StoreError> {
        let wish = Wish { run_id, from, rows };
        read_page(wish, &self.0.ask(wish).await?)
    }
}

fn statement(wishes: &[Wish]) -> Query<'static, Postgres, PgArguments> {
    let run_ids: Vec<Uuid> = wishes.iter().map(|wish| wish.run_id).collect();
    let from: Vec<i64> = wishes.iter().map(|wish| wish.from).collect();
    let rows: Vec<i64> = wishes.iter().map(|wish| wish.rows).collect();
    sqlx::query(include_str!("sql/follow.sql"))
        .bind(run_ids)
        .bind(from)
        .bind(rows)
        .bind(count(PAGE_BYTES))
}

fn read_page(wish: Wish, rows: &[PgRow]) -> Result<Option<Page>, StoreError> {
    let mut page: Option<Page> = None;
    let (mut found, mut bytes) = (0, 0);
    for row in rows {
        let row = FollowRow::from_row(row)?;
        if let Some(text) = &row.entries {
            found += 1;
            bytes += text.len();
        }
        let mut events = row.events(wish)?;
        match &mut page {
            Some(page) => page.events.append(&mut events),
            None => page = Some(row.page(wish.run_id, events)?),
        }
    }
    if let Some(page) = &mut page {
        page.is_full = found >= wish.rows || bytes > PAGE_BYTES;
    }
    Ok(page)
}

impl FollowRow {
    fn events(&self, wish: Wish) -> Result<Vec<Event>, StoreError> {
        let (Some(sequence), Some(at), Some(actor), Some(text)) =
            (self.sequence, self.at, &self.actor, &self.entries)
        else {
            return Ok(Vec::new());
        };
        let stored = StoredRow { sequence, at, actor, text };
        let mut events = read_row(stored, wish.run_id, Wanted::Everything)?;
        events.retain(|event| event.sequence >= wish.from);
        Ok(events)
    }

    fn page(self, run_id: Uuid, events: Vec<Event>) -> Result<Page, StoreError> {
        let state = read_state(run_id, &self.state, self.blocked_from.as_deref())?;
        Ok(Page { trace_parent: self.trace_parent, state, events, is_full: false })
    }
}
