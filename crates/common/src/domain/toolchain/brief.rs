//! A short name for a branch.

/// The longest slug, in bytes.
pub const MAX_BRIEF: usize = 40;

/// A slug of a title: lower-case ASCII letters and digits with single hyphens, at most [`MAX_BRIEF`] bytes. A
/// title without such characters becomes `issue`.
pub fn brief(title: &str) -> String {
    let mut slug = String::new();
    for word in title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        let hyphen = usize::from(!slug.is_empty());
        let room = MAX_BRIEF.saturating_sub(slug.len() + hyphen);
        if room < word.len() && !slug.is_empty() {
            break;
        }
        if hyphen == 1 {
            slug.push('-');
        }
        slug.push_str(&word[..word.len().min(room)].to_ascii_lowercase());
    }
    if slug.is_empty() { "issue".to_owned() } else { slug }
}
