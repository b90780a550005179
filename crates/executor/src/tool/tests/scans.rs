//! Listing, globbing, searching, and the runner's own observations.

use super::{ToolFixture, observed, output};
use crate::tool::ErrorCode;
use crate::tool::observe::{every, observe_content, observe_file};
use crate::tool::scan::SKIPPED_FOLDERS;
use serde_json::json;
use std::os::unix::fs::symlink;
use surety_common::domain::check::FileType;
use surety_common::domain::receipt::Fact;

fn content(path: &str, needle: &str, found: bool) -> Fact {
    Fact::Content { path: path.to_owned(), contains: needle.to_owned(), found }
}

fn project() -> ToolFixture {
    let fixture = ToolFixture::new();
    fixture.put(".gitignore", "*.log\n/secret/\n!keep.log\n");
    fixture.put("src/main.rs", "fn main() {}\n// größe here\n");
    fixture.put("src/lib.rs", "mod größe;\n");
    fixture.put("src/.gitignore", "generated.rs\n");
    fixture.put("src/generated.rs", "fn main() {}\n");
    fixture.put("trace.log", "fn main\n");
    fixture.put("keep.log", "fn main\n");
    fixture.put("secret/a.rs", "fn main\n");
    fixture.put(".hidden/a.rs", "fn main\n");
    fixture.put("image.png", b"\x89PNG\0fn main\n");
    for folder in SKIPPED_FOLDERS {
        fixture.put(&format!("{folder}/a.rs"), "fn main\n");
    }
    symlink(&fixture.outside, fixture.root.join("way_out")).unwrap();
    fixture
}

#[tokio::test]
async fn a_search_skips_ignored_files_and_skipped_folders() {
    let fixture = project();
    let outcome = fixture.call("grep", json!({"pattern": "fn main"})).await;
    assert_eq!(
        output(&outcome),
        ".hidden/a.rs:1:fn main\nkeep.log:1:fn main\nsrc/main.rs:1:fn main() {}\n"
    );
    assert_eq!(outcome.summary, "3 matches in 3 files");
}

#[tokio::test]
async fn a_search_stays_in_the_requested_folder() {
    let fixture = project();
    for (args, expected) in [
        (
            json!({"pattern": "größe", "path": "src"}),
            "src/lib.rs:1:mod größe;\nsrc/main.rs:2:// größe here\n",
        ),
        (
            json!({"pattern": "FN MAIN", "path": "src", "case_insensitive": true}),
            "src/main.rs:1:fn main() {}\n",
        ),
        (json!({"pattern": "FN MAIN"}), ""),
        (json!({"pattern": "^mod .*;$"}), "src/lib.rs:1:mod größe;\n"),
        (json!({"pattern": "fn", "glob": "main.*"}), "src/main.rs:1:fn main() {}\n"),
        (json!({"pattern": "fn", "glob": ".hidden/*.rs"}), ".hidden/a.rs:1:fn main\n"),
        (json!({"pattern": "fn", "path": "trace.log"}), "trace.log:1:fn main\n"),
        (json!({"pattern": "fn", "path": "target"}), "target/a.rs:1:fn main\n"),
    ] {
        let outcome = fixture.call("grep", args.clone()).await;
        assert!(outcome.success, "{args}: {}", outcome.summary);
        assert_eq!(output(&outcome), expected, "{args}");
    }
    for (args, code) in [
        (json!({"pattern": "("}), ErrorCode::PatternInvalid),
        (json!({"pattern": "a\\nb"}), ErrorCode::PatternInvalid),
        (json!({"pattern": "a", "path": "none"}), ErrorCode::FileNotFound),
        (json!({"pattern": "a", "glob": "../*"}), ErrorCode::PathOutsideWorkspace),
        (json!({"pattern": "a", "glob": "["}), ErrorCode::PatternInvalid),
    ] {
        let outcome = fixture.call("grep", args.clone()).await;
        assert_eq!(outcome.error_code, Some(code), "{args}");
    }
}

#[tokio::test]
async fn a_search_records_contents_only_for_a_literal_pattern() {
    let fixture = project();
    let found = fixture.call("grep", json!({"pattern": "mod größe;"})).await;
    assert_eq!(found.facts, [content("src/lib.rs", "mod größe;", true)]);
    for args in [
        json!({"pattern": "mod gr.*"}),
        json!({"pattern": "MOD GRÖSSE", "case_insensitive": true}),
        json!({"pattern": "mod größe", "case_insensitive": true}),
    ] {
        assert!(fixture.call("grep", args).await.facts.is_empty());
    }
    let nothing = fixture.call("grep", json!({"pattern": "no such text"})).await;
    assert!(nothing.summary.contains("try a shorter pattern"), "{}", nothing.summary);
}

#[tokio::test]
async fn a_glob_finds_files_by_their_paths() {
    let fixture = project();
    for (args, expected) in [
        (json!({"pattern": "**/*.rs"}), ".hidden/a.rs\nsrc/lib.rs\nsrc/main.rs\n"),
        (json!({"pattern": "*.rs"}), ""),
        (json!({"pattern": "*.rs", "path": "src"}), "src/lib.rs\nsrc/main.rs\n"),
        (json!({"pattern": "./src/{lib,none}.rs"}), "src/lib.rs\n"),
        (json!({"pattern": "way_out/*"}), ""),
    ] {
        let outcome = fixture.call("glob", args.clone()).await;
        assert_eq!(output(&outcome), expected, "{args}");
        assert!(outcome.success);
        let says_what_next = outcome.summary.contains("searches all folders");
        assert_eq!(says_what_next, expected.is_empty(), "{args}: {}", outcome.summary);
    }
    for pattern in ["../*", "/etc/*", "src/../../*"] {
        let outcome = fixture.call("glob", json!({"pattern": pattern})).await;
        assert_eq!(outcome.error_code, Some(ErrorCode::PathOutsideWorkspace));
    }
}

#[tokio::test]
async fn a_folder_is_listed_with_the_kinds_of_its_entries() {
    let fixture = ToolFixture::new();
    fixture.put("ä.txt", "");
    fixture.put("b/c", "");
    symlink("b", fixture.root.join("a")).unwrap();
    let outcome = fixture.call("list_dir", json!({})).await;
    assert_eq!(output(&outcome), "a@\nb/\nä.txt\n");
    assert_eq!(outcome.facts, [observed(".", true)]);
    let outcome = fixture.call("list_dir", json!({"path": "none"})).await;
    assert_eq!(outcome.error_code, Some(ErrorCode::FileNotFound));
    assert_eq!(outcome.facts, [observed("none", false)]);
    let outcome = fixture.call("list_dir", json!({"path": "b/c"})).await;
    assert_eq!(outcome.error_code, Some(ErrorCode::NotADirectory));
}

#[test]
fn the_runner_observes_existing_files_and_none_outside() {
    let fixture = ToolFixture::new();
    fixture.put("a/ö.txt", "x");
    symlink("../outside/secret.txt", fixture.root.join("out")).unwrap();
    symlink("nowhere", fixture.root.join("dangling")).unwrap();
    let inside = fixture.root.join("a/ö.txt");
    for (path, named, exists) in [
        ("a/ö.txt", "a/ö.txt", true),
        ("./a/", "a", true),
        (inside.to_str().unwrap(), "a/ö.txt", true),
        ("none", "none", false),
        ("a/ö.txt/below", "a/ö.txt/below", false),
        ("../outside/secret.txt", "../outside/secret.txt", false),
        ("out", "out", false),
        ("dangling", "dangling", false),
    ] {
        let workspace = fixture.ctx.workspace().unwrap();
        let fact = observe_file(&workspace, path, FileType::Any, &every).unwrap();
        assert_eq!(fact, observed(named, exists), "{path}");
    }
}

#[test]
fn the_runner_observes_a_file_by_any_name_of_the_workspace() {
    let fixture = ToolFixture::new();
    fixture.put("a/b.txt", "x");
    symlink(&fixture.root, fixture.outside.join("linked")).unwrap();
    symlink(fixture.root.join("a"), fixture.outside.join("below")).unwrap();
    let workspace = fixture.ctx.workspace().unwrap();
    let below = |path: &str| fixture.outside.join(path).to_str().unwrap().to_owned();
    let observe = |path: &str| observe_file(&workspace, path, FileType::File, &every).unwrap();
    assert_eq!(observe(&below("linked/a/b.txt")), observed("a/b.txt", true));
    assert_eq!(observe(&below("linked/./a/../none")), observed("none", false));
    assert_eq!(observe(&below("linked/a/*.txt")), observed("a/*.txt", true));
    for outside in ["secret.txt", "linked/../secret.txt", "below/b.txt"] {
        assert_eq!(observe(&below(outside)), observed(&below(outside), false), "{outside}");
    }
    // Only a check is read so: a call names its paths as the workspace was given.
    assert!(workspace.locate(&below("linked/a/b.txt")).is_err());
}

#[test]
fn the_runner_finds_the_type_that_a_check_asks_for_and_the_matches_of_a_glob() {
    use FileType::{Any, File, Folder, Link};
    let fixture = ToolFixture::new();
    fixture.put("a/b/c.txt", "one");
    fixture.put("a/d.md", "two");
    fixture.put("x[1].txt", "literal");
    fixture.put("../outside/e.txt", "three");
    symlink("a/d.md", fixture.root.join("link")).unwrap();
    symlink("../outside", fixture.root.join("out")).unwrap();
    symlink("nowhere", fixture.root.join("dangling")).unwrap();
    let workspace = fixture.ctx.workspace().unwrap();
    for (path, file_type, exists) in [
        ("a", File, false),
        ("a", Folder, true),
        ("a/d.md", File, true),
        ("a/d.md", Folder, false),
        ("link", File, true),
        ("link", Link, true),
        ("dangling", Link, true),
        ("dangling", Any, false),
        ("a/d.md", Link, false),
        ("a/*.md", File, true),
        ("a/*.txt", File, false),
        ("a/*/*.txt", File, true),
        ("**/c.txt", File, true),
        ("**", File, true),
        ("a/?", Folder, true),
        ("a/?", File, false),
        ("a/[a-c]/c.*", File, true),
        ("x[1].txt", File, true),
        ("out/*.txt", File, false),
        ("**/e.txt", File, false),
        ("none/*", Any, false),
        ("[", Any, false),
    ] {
        let fact = observe_file(&workspace, path, file_type, &every).unwrap();
        assert_eq!(fact, observed(path, exists), "{path} {file_type}");
    }
    let found = |path, needle| observe_content(&workspace, path, needle, &every).unwrap();
    for (path, needle, expected) in
        [("a/**", "one", true), ("a/*", "two", true), ("a/*", "one", false)]
    {
        let Fact::Content { found, .. } = found(path, needle) else { panic!("a content fact") };
        assert_eq!(found, expected, "{path} {needle}");
    }
}

#[test]
fn the_runner_finds_a_text_anywhere_in_a_large_file_and_in_bytes() {
    let fixture = ToolFixture::new();
    // The needle crosses the end of the first 64 KiB that are read.
    let text = format!("{}nadel größe{}", "n".repeat((64 << 10) - 3), "x".repeat(100_000));
    fixture.put("large.txt", text);
    fixture.put("binary", b"\xff\xfe\0wort\xff");
    symlink("../outside/secret.txt", fixture.root.join("out")).unwrap();
    for (path, needle, found) in [
        ("large.txt", "nnadel größe", true),
        ("large.txt", "nadelx", false),
        ("binary", "wort", true),
        ("none", "x", false),
        ("out", "secret", false),
        ("../outside/secret.txt", "secret", false),
    ] {
        let fact =
            observe_content(&fixture.ctx.workspace().unwrap(), path, needle, &every).unwrap();
        assert_eq!(fact, content(path, needle, found));
    }
}

#[tokio::test]
async fn a_common_word_does_not_fill_a_receipt() {
    let fixture = ToolFixture::new();
    for number in 0..150 {
        fixture.put(&format!("{number}.txt"), "word\n");
    }
    let outcome = fixture.call("grep", json!({"pattern": "word"})).await;
    assert_eq!(output(&outcome).lines().count(), 150);
    assert_eq!(outcome.facts.len(), 100);
}
