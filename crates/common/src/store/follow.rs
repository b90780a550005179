//! Following journals: the pages that many followers request, read at once.

use super::StoreError;
use super::execution::read_state;
use super::journal::read_row;
use super::pages::count;
use super::query_batcher::QueryBatcher;
use super::stored_time::StoredTime;
use crate::domain::journal::{Event, StoredRow, Wanted};
use crate::domain::machine::run::RunState;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{FromRow, PgPool, Postgres};
use uuid::Uuid;

/// The size of a page in bytes, after which at most one row follows. It is smaller than for a page
/// that is read alone, because many pages are held at once.
const PAGE_BYTES: usize = 512 * 1024;

/// One page for a follower.
#[derive(Debug, Clone)]
pub struct Page {
    /// The run's trace context, as it was given.
    pub trace_parent: String,
    /// The run's state when the page was read.
    pub state: RunState,
    /// Its events from the requested number on, in order.
    pub events: Vec<Event>,
    /// Whether the journal may hold more after them.
    pub is_full: bool,
}

/// A requested part of a run's journal.
#[derive(Debug, Clone, Copy)]
struct Wish {
    run_id: Uuid,
    /// The first event number.
    from: i64,
    /// The maximum of journal rows.
    rows: i64,
}

/// One row of `follow.sql`.
#[derive(FromRow)]
struct FollowRow {
    trace_parent: String,
    state: String,
    blocked_from: Option<String>,
    sequence: Option<i64>,
    at: Option<StoredTime>,
    actor: Option<String>,
    entries: Option<String>,
}

/// The process's single reader of journals for followers. One statement reads all pages that are
/// requested at a time. Clones share it.
#[derive(Clone)]
pub struct Journals(QueryBatcher<Wish>);

impl Journals {
    /// Starts the reader on a dedicated connection.
    pub fn start(pool: PgPool) -> Self {
        Self(QueryBatcher::start(pool, statement))
    }

    /// The events of a run from the number `from` on, with its state, from one snapshot. A page
    /// holds at most `rows` journal rows and about 512 KiB of text, but always the first row. None
    /// when the run does not exist.
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
            (self.sequence, self.at.map(StoredTime::nearest), &self.actor, &self.entries)
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
