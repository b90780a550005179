//! The sizes and tokens of pages. A token belongs to the list that issued it and to its filter.

use prost::Message;
use std::str::FromStr;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::json::sha256_hex;
use surety_common::wire::v1;
use surety_common::wire::value::sha256_of;
use uuid::Uuid;

/// The default and the largest number of items in a page.
const PAGE: (u32, u32) = (50, 1000);
/// The length of what a token says of its list and filter.
const TAG: usize = 16;

/// A request for a page of a list.
pub(super) trait Listing: Message {
    /// The name of the list.
    const NAME: &'static str;

    /// Takes the size and the token out, so that the filter is left.
    fn take_page(&mut self) -> (u32, String);
}

macro_rules! listings {
    ($($request:ident)*) => {$(
        impl Listing for v1::$request {
            const NAME: &'static str = stringify!($request);

            fn take_page(&mut self) -> (u32, String) {
                (std::mem::take(&mut self.page_size), std::mem::take(&mut self.page_token))
            }
        }
    )*};
}

listings! {
    ListAuditEventsRequest
    ListDeliveriesRequest
    ListMailRequest
    ListReceiptsRequest
    ListRunsRequest
    ListTaskEntriesRequest
    ListTasksRequest
    ListTokensRequest
    ListTurnsRequest
    ListWaitsRequest
}

/// The page that a request asks for.
#[derive(Debug)]
pub(super) struct Page {
    /// The most items.
    pub(super) limit: i64,
    /// The place that its token names; none for the first page.
    place: Option<String>,
    tag: String,
}

impl Page {
    /// The page of a request, whose filter is left in it.
    ///
    /// # Errors
    /// `page_token_invalid` for a token of another list or filter.
    pub(super) fn of<L: Listing>(request: &mut L) -> Result<Self, Fault> {
        let (size, token) = request.take_page();
        let listed = sha256_hex(format!("{} {}", L::NAME, sha256_of(request)).as_bytes());
        let tag = listed.get(..TAG).unwrap_or_default().to_owned();
        let place = match token.as_str() {
            "" => None,
            token => {
                let named = token.rsplit_once('~').filter(|(_, found)| *found == tag);
                Some(named.map(|(place, _)| place.to_owned()).ok_or_else(not_a_token)?)
            }
        };
        let limit = match size {
            0 => PAGE.0.into(),
            size => size.min(PAGE.1).into(),
        };
        Ok(Self { limit, place, tag })
    }

    /// The place after which the page begins.
    ///
    /// # Errors
    /// `page_token_invalid`
    pub(super) fn after<T: FromStr>(&self) -> Result<Option<T>, Fault> {
        self.place.as_deref().map(|place| place.parse().map_err(|_| not_a_token())).transpose()
    }

    /// The token of the page that begins after a place; empty for none.
    pub(super) fn token(&self, place: Option<impl ToString>) -> String {
        place.map(|place| format!("{}~{}", place.to_string(), self.tag)).unwrap_or_default()
    }

    /// Cuts rows that were read with one more, and answers the token of the next page.
    pub(super) fn cut<T>(&self, rows: &mut Vec<T>, id: impl Fn(&T) -> Uuid) -> String {
        let limit = usize::try_from(self.limit).unwrap_or_default();
        if rows.len() <= limit {
            return String::new();
        }
        rows.truncate(limit);
        self.token(rows.last().map(id))
    }
}

fn not_a_token() -> Fault {
    let message = "was not issued by this list with these filters; restart with an empty token";
    Fault::new(FaultCode::PageTokenInvalid, message).with_field("page_token")
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_common::domain::fault::Reason;

    fn runs(namespace: &str, page_size: u32, page_token: String) -> v1::ListRunsRequest {
        let namespace = namespace.to_owned();
        v1::ListRunsRequest { namespace, page_size, page_token, ..Default::default() }
    }

    #[test]
    fn a_token_goes_on_in_its_own_list_with_its_own_filter_and_in_no_other() {
        let id = Uuid::from_u128(7);
        let token = Page::of(&mut runs("a", 5, String::new())).unwrap().token(Some(id));
        let page = Page::of(&mut runs("a", 9, token.clone())).unwrap();
        assert_eq!((page.limit, page.after::<Uuid>().unwrap()), (9, Some(id)));
        let mut tokens = v1::ListTokensRequest { page_size: 5, page_token: token.clone() };
        let run = |run_id: &str, page_token| v1::ListReceiptsRequest {
            run_id: run_id.to_owned(),
            page_size: 1,
            page_token,
        };
        let number = Page::of(&mut run("r", String::new())).unwrap().token(Some(3));
        let mut turns = v1::ListTurnsRequest {
            run_id: "r".to_owned(),
            page_size: 1,
            page_token: number.clone(),
        };
        let refused = [
            Page::of(&mut runs("b", 5, token)),
            Page::of(&mut runs("a", 5, id.to_string())),
            Page::of(&mut tokens),
            Page::of(&mut run("other", number.clone())),
            Page::of(&mut turns),
        ];
        for page in refused {
            assert_eq!(page.unwrap_err().reason, Reason::Service(FaultCode::PageTokenInvalid));
        }
        assert_eq!(Page::of(&mut run("r", number)).unwrap().after::<i64>().unwrap(), Some(3));
    }

    #[test]
    fn a_page_has_fifty_items_where_none_are_named_and_at_most_a_thousand() {
        for (size, limit) in [(0, 50), (1, 1), (1000, 1000), (1001, 1000), (u32::MAX, 1000)] {
            assert_eq!(Page::of(&mut runs("", size, String::new())).unwrap().limit, limit);
        }
    }
}
