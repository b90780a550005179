//! JSON as configurations have it, with comments.

/// The text without comments, and without commas in front of a closing bracket.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.trim_start_matches('\u{feff}').chars().peekable();
    let mut in_text = false;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if in_text => {
                out.push(letter);
                out.extend(letters.next());
            }
            '"' => {
                in_text = !in_text;
                out.push(letter);
            }
            '/' if !in_text && letters.peek() == Some(&'/') => {
                while letters.next_if(|letter| *letter != '\n').is_some() {}
            }
            '/' if !in_text && letters.peek() == Some(&'*') => {
                let mut last = ' ';
                letters.next();
                for letter in letters.by_ref() {
                    if last == '*' && letter == '/' {
                        break;
                    }
                    last = letter;
                }
            }
            '}' | ']' if !in_text => {
                let kept = out.trim_end().trim_end_matches(',').len();
                out.truncate(kept);
                out.push(letter);
            }
            letter => out.push(letter),
        }
    }
    out
}
