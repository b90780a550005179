//! The examples of a document that Rust runs as tests.

use super::rust;

/// The examples of the start that a document no longer has, as it writes them; none where it has all.
pub fn missing_examples(before: &str, now: &str) -> Option<String> {
    let mut left = rust::examples(now);
    let mut missing = rust::examples(before);
    missing.retain(|example| match left.iter().position(|it| it == example) {
        Some(at) => {
            left.remove(at);
            false
        }
        None => true,
    });
    let write = |example: &String| format!("```{example}```\n\n");
    (!missing.is_empty()).then(|| missing.iter().map(write).collect())
}

/// The documents that a Rust file no longer has as documentation, as items that have them.
pub fn missing_documents(before: &str, now: &str) -> Option<String> {
    let named = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let lines = lines.filter(|line| line.contains("doc") && line.contains("include_str!"));
        let named = lines.filter_map(|line| line.split_once("include_str!")?.1.split('"').nth(1));
        named.map(str::to_owned).collect()
    };
    let own = named(now);
    let missing = named(before).into_iter().filter(|path| !own.contains(path));
    let item = |(at, path): (usize, String)| {
        format!(
            "\n#[doc = include_str!({path:?})]\n#[allow(dead_code)]\nmod examples_of_the_start_{at} {{}}\n"
        )
    };
    let items: String = missing.enumerate().map(item).collect();
    (!items.is_empty()).then_some(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_that_is_no_documentation_any_more_is_missing() {
        let before = "#![doc = include_str!(\"../README.md\")]\nmod a;\n";
        assert_eq!(missing_documents(before, &before.replace("mod a", "mod b")), None);
        for now in ["mod a;\n", "// #![doc = include_str!(\"../README.md\")]\nmod a;\n"] {
            let items = missing_documents(before, now).unwrap();
            assert!(items.contains("include_str!(\"../README.md\")"), "{items}");
        }
    }

    #[test]
    fn an_example_that_is_changed_or_gone_is_missing() {
        let before = "# A\n```\nassert!(a());\n```\ntext\n```text\nno test\n```\n";
        assert_eq!(missing_examples(before, &before.replace("text\n", "more\n")), None);
        for now in ["# A\n", "```\nassert!(true);\n```\n", "```ignore\nassert!(a());\n```\n"] {
            let missing = missing_examples(before, now);
            assert_eq!(missing.as_deref(), Some("```\nassert!(a());\n```\n\n"), "{now}");
        }
    }
}
