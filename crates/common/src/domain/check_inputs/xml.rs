//! Reads the elements of an XML document with their places, so that parts of it can be exchanged and all else
//! stays as it is written.

use std::ops::Range;

/// The largest document that is read, in bytes, and the deepest nesting.
const MAX_BYTES: usize = 4 << 20;
const MAX_DEPTH: usize = 100;

/// One element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Element {
    /// The names of the elements around it, from the outermost, and its own.
    pub(super) path: Vec<String>,
    /// Its place, with its tags.
    pub(super) span: Range<usize>,
    /// The place of its content; empty at its end for one without.
    pub(super) content: Range<usize>,
    /// Its first tag.
    pub(super) tag: Range<usize>,
}

impl Element {
    pub(super) fn name(&self) -> &str {
        self.path.last().map_or("", String::as_str)
    }

    /// The name of the element around it.
    pub(super) fn parent(&self) -> &str {
        self.path.iter().rev().nth(1).map_or("", String::as_str)
    }

    /// Whether another element lies inside it.
    pub(super) fn holds(&self, other: &Self) -> bool {
        self.content.start <= other.span.start && other.span.end <= self.content.end
    }
}

/// Every element, in the order of their ends; none for a document that is not well-formed, or that declares
/// entities.
pub(super) fn elements(text: &str) -> Option<Vec<Element>> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let (mut found, mut open): (Vec<Element>, Vec<Element>) = (Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(begin) = text.get(at..)?.find('<') {
        let begin = at + begin;
        let rest = text.get(begin..)?;
        let skipped = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")];
        if let Some((start, end)) = skipped.into_iter().find(|(start, _)| rest.starts_with(start)) {
            at = begin + start.len() + rest.get(start.len()..)?.find(end)? + end.len();
            continue;
        }
        let end = begin + tag_end(rest)?;
        let inside = text.get(begin + 1..end - 1)?;
        if inside.starts_with('!') {
            // A document type with declarations of its own may change what the text means.
            if inside.contains('[') {
                return None;
            }
        } else if let Some(name) = inside.strip_prefix('/') {
            let mut element = open.pop().filter(|element| element.name() == name.trim())?;
            element.content.end = begin;
            element.span.end = end;
            found.push(element);
        } else {
            let is_empty = inside.ends_with('/');
            let name = inside.split(|c: char| c.is_whitespace() || c == '/').next()?.to_owned();
            if name.is_empty() || open.len() >= MAX_DEPTH {
                return None;
            }
            let mut path = open.last().map(|above| above.path.clone()).unwrap_or_default();
            path.push(name);
            let element = Element { path, span: begin..end, content: end..end, tag: begin..end };
            if is_empty { found.push(element) } else { open.push(element) }
        }
        at = end;
    }
    open.is_empty().then_some(found)
}

/// The length of a tag; a `>` in quotes does not end it.
fn tag_end(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(mark), letter) if mark == letter => quote = None,
            (None, '"' | '\'') => quote = Some(letter),
            (None, '>') => return Some(at + 1),
            (Some(_) | None, _) => {}
        }
    }
    None
}

/// The text of an element without elements inside, trimmed.
pub(super) fn text_of<'t>(text: &'t str, element: &Element) -> &'t str {
    text.get(element.content.clone()).unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_their_places_and_a_broken_document_has_none() {
        let text = "<?xml version=\"1.0\"?>\n<!-- <a> -->\n<p>\n  <a x='>'>1</a><b/><![CDATA[<c>]]>\n</p>\n";
        let found = elements(text).unwrap();
        let paths: Vec<String> = found.iter().map(|element| element.path.join("/")).collect();
        assert_eq!(paths, ["p/a", "p/b", "p"]);
        assert_eq!(text_of(text, &found[0]), "1");
        assert_eq!(text.get(found[0].span.clone()), Some("<a x='>'>1</a>"));
        assert!(found[2].holds(&found[1]));
        for broken in
            ["<a>", "<a></b>", "</a>", "<a", "<!DOCTYPE a [<!ENTITY x \"y\">]><a/>", "<a><!--"]
        {
            assert_eq!(elements(broken), None, "{broken}");
        }
    }
}
