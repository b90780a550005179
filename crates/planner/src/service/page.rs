//! The sizes and tokens of pages.

use surety_common::domain::fault::{Fault, FaultCode};
use uuid::Uuid;

/// The default and the largest number of items in a page.
const PAGE: (u32, u32) = (50, 1000);

pub(super) fn page_size(wanted: u32) -> i64 {
    match wanted {
        0 => PAGE.0.into(),
        wanted => wanted.min(PAGE.1).into(),
    }
}

pub(super) fn page_token(text: &str) -> Result<Option<Uuid>, Fault> {
    match text {
        "" => Ok(None),
        token => Uuid::parse_str(token).map(Some).map_err(|_| not_a_token()),
    }
}

pub(super) fn not_a_token() -> Fault {
    let message = "was not issued by this list; restart with an empty token";
    Fault::new(FaultCode::PageTokenInvalid, message).with_field("page_token")
}

/// Cuts a page that was read with one row more, and answers the token of the next one.
pub(super) fn cut<T>(rows: &mut Vec<T>, limit: i64, id: impl Fn(&T) -> Uuid) -> String {
    let limit = usize::try_from(limit).unwrap_or_default();
    if rows.len() <= limit {
        return String::new();
    }
    rows.truncate(limit);
    rows.last().map(|row| id(row).to_string()).unwrap_or_default()
}
