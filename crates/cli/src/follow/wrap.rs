//! Texts as wide as the terminal, by the columns that their characters take. Pure.

use unicode_width::UnicodeWidthChar;

/// The columns of a tab.
const TAB: &str = "    ";

/// The text, cut at this many columns.
pub(super) fn fit(text: &str, width: usize) -> String {
    let mut columns = 0;
    let mut kept = String::new();
    for letter in text.chars() {
        let wide = letter.width().unwrap_or(0);
        if columns + wide > width {
            let least = width.saturating_sub(1);
            while columns > least {
                columns -= kept.pop().and_then(|letter| letter.width()).unwrap_or(0);
            }
            kept.push('…');
            break;
        }
        columns += wide;
        kept.push(letter);
    }
    kept
}

/// The text in lines of at most this many columns, at its blanks where that is possible.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(2);
    let mut lines = Vec::new();
    let (mut current, mut columns) = (String::new(), 0);
    for letter in text.replace('\t', TAB).chars() {
        let wide = letter.width().unwrap_or(0);
        // What stands behind the last blank may itself leave no room for a wide character.
        while columns + wide > width {
            let blank = current.rfind(' ').filter(|at| !current[..*at].trim().is_empty());
            let rest = blank.map(|at| current.split_off(at + 1)).unwrap_or_default();
            columns = rest.chars().filter_map(UnicodeWidthChar::width).sum();
            lines.push(current.trim_end().to_owned());
            current = rest;
        }
        columns += wide;
        current.push(letter);
    }
    if !current.is_empty() {
        lines.push(current);
    }
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unicode_width::UnicodeWidthStr;

    use super::*;

    #[test]
    fn lines_end_at_blanks_and_long_words_are_cut() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!((fit("abcdef", 4), fit("abc", 4)), ("abc…".to_owned(), "abc".to_owned()));
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(wrapped("日aéa \u{300} aa日", 3), ["日a", "éa", "\u{300}", "aa", "日"]);
        assert!(wrapped("", 5).is_empty());
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal_and_no_character_is_lost(text in "[a-z 日é\u{300}]{0,80}", width in 2_usize..30) {
            prop_assert!(fit(&text, width).width() <= width);
            let lines = wrapped(&text, width);
            prop_assert!(lines.iter().all(|line| line.width() <= width));
            let letters = |text: &str| text.chars().filter(|it| *it != ' ').collect::<String>();
            prop_assert_eq!(letters(&lines.concat()), letters(&text));
        }
    }
}
