//! What an answer says of the other pages of a list.

use crate::rate;
use reqwest::header::{HeaderMap, LINK};

/// The number of members of all pages, as Gitea and Forgejo send it.
const TOTAL: &str = "x-total-count";

/// What an answer says of the other pages.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Paging {
    /// The address of the next page.
    pub(crate) next: Option<String>,
    /// Whether there were links to other pages.
    pub(crate) has_links: bool,
    /// How many members are on all pages.
    pub(crate) total: Option<usize>,
}

impl Paging {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let links = rate::text(headers, LINK.as_str());
        let total = rate::text(headers, TOTAL).and_then(|text| text.parse().ok());
        Self { next: links.and_then(next_page), has_links: links.is_some(), total }
    }
}

/// The address of the next page in a `Link` header.
fn next_page(link: &str) -> Option<String> {
    link.split(',').find_map(|part| {
        let (address, parameters) = part.split_once(';')?;
        let is_next = parameters.split(';').any(|it| {
            let it = it.trim();
            it.eq_ignore_ascii_case("rel=\"next\"") || it.eq_ignore_ascii_case("rel=next")
        });
        let address = address.trim().strip_prefix('<')?.strip_suffix('>')?;
        is_next.then(|| address.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_the_link_with_that_relation() {
        let link = "<https://f.example/x?page=1>; rel=\"prev\", <https://f.example/x?page=3>; rel=\"next\"";
        assert_eq!(next_page(link).as_deref(), Some("https://f.example/x?page=3"));
        assert_eq!(next_page("<https://f.example/x?page=1>; rel=\"last\""), None);
        assert_eq!(next_page("nonsense"), None);
    }
}
