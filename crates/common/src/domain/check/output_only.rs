//! `output_only`: the final text is not blank once control JSON and characters without width are
//! removed.

use super::{Evidence, Reason};
use crate::domain::control::visible_text;

pub(super) fn evaluate(evidence: &Evidence<'_>) -> Result<(), Reason> {
    let text = visible_text(evidence.final_text());
    if text.chars().all(|letter| letter.is_whitespace() || has_no_width(letter)) {
        return Err(Reason::OutputEmpty);
    }
    Ok(())
}

/// Whether a character shows nothing: Unicode's format characters, variation selectors, fillers and
/// tags. A text of them alone is no answer.
const fn has_no_width(letter: char) -> bool {
    matches!(
        letter,
        '\u{0}'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}
