//! Recognises what the service itself wrote on a forge.

use memchr::memmem;
use uuid::Uuid;

/// An account of the service.
pub type OwnAccount = String;

const BEGIN: &str = "<!-- surety:run=";
const END: &str = " -->";

/// The hidden mark of a comment or an issue that the service wrote for a run.
pub fn marker(run_id: Uuid) -> String {
    format!("{BEGIN}{run_id}{END}")
}

/// Whether a delivery may be about a text with the mark, before it is read: as JSON or as a form.
pub fn may_be_own(body: &[u8]) -> bool {
    ["surety:run", "surety%3Arun", "surety%3arun"]
        .iter()
        .any(|text| memmem::find(body, text.as_bytes()).is_some())
}

/// Whether the service wrote the text: one of its accounts is the author, and the text has its mark. The mark
/// alone proves nothing, because every account can copy it.
pub fn marks_own(own: &[OwnAccount], author: &str, text: &str) -> bool {
    let mut marks = text.match_indices(BEGIN).map(|(at, _)| &text[at + BEGIN.len()..]);
    let is_marked =
        marks.any(|rest| rest.split_once(END).is_some_and(|(id, _)| Uuid::try_parse(id).is_ok()));
    is_marked && own.iter().any(|account| account.eq_ignore_ascii_case(author))
}
