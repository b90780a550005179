//! The accounts that a text mentions.

use super::payload::is_login;

/// The most accounts of one text that become tasks.
const MOST: usize = 10;

/// The accounts that a Markdown text mentions as `@name`, each once, in order and in lower case. Code, quoted
/// lines and addresses of mail mention no account.
pub(super) fn mentions(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            is_code = !is_code;
        } else if !is_code && !trimmed.starts_with('>') {
            // Every second part between backticks is code.
            line.split('`').step_by(2).for_each(|part| of_line(part, &mut found));
        }
    }
    found.truncate(MOST);
    found
}

fn of_line(line: &str, found: &mut Vec<String>) {
    for (at, _) in line.match_indices('@') {
        let before = line[..at].chars().next_back();
        if before
            .is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/' | '@'))
        {
            continue;
        }
        let rest = &line[at + 1..];
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let name = rest[..end].trim_end_matches(['.', '-', '_']).to_ascii_lowercase();
        // `@owner/team` is a team, which is no account.
        let is_team = rest[end..].starts_with('/');
        if is_login(&name) && !is_team && !found.contains(&name) {
            found.push(name);
        }
    }
}
