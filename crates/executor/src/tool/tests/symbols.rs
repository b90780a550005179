//! Symbols, found by the real parser in the real sandbox.

use super::{ToolFixture, output};
use crate::tool::ErrorCode;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use surety_common::domain::receipt::Fact;

fn project() -> ToolFixture {
    let fixture = ToolFixture::new();
    fixture.put("src/lib.rs", "pub fn find() {}\n// find\nmod other;\n");
    fixture.put(
        "src/other.rs",
        "struct Tree;\nimpl Tree {\n    fn find(&self) { crate::find() }\n}\n",
    );
    fixture.put("web/app.ts", "export const find = () => 1;\nconst text = \"find\";\n");
    fixture.put("README.md", "How to find things: find\n");
    fixture.put("finder.rs", "fn finder() {}\n");
    fixture.put(".gitignore", "generated.rs\n");
    fixture.put("generated.rs", "fn find() {}\n");
    fixture.put("target/a.rs", "fn find() {}\n");
    fixture.put(".git/a.rs", "fn find() {}\n");
    fixture
}

fn content(path: &str) -> Fact {
    Fact::Content { path: path.to_owned(), contains: "find".to_owned(), found: true }
}

#[tokio::test]
async fn definitions_come_first_and_what_is_no_source_is_counted() {
    let fixture = project();
    let outcome = fixture.call("find_symbol", json!({"name": "find"})).await;
    assert!(outcome.success, "{}", outcome.summary);
    assert_eq!(
        output(&outcome),
        "src/lib.rs:1:8: definition, function: pub fn find() {}\n\
         src/other.rs:3:8: definition, method of Tree: fn find(&self) { crate::find() }\n\
         web/app.ts:1:14: definition, function: export const find = () => 1;\n\
         src/other.rs:3:29: use, name: fn find(&self) { crate::find() }\n\
         other_files_with_the_word: 1, such as README.md; search them with grep\n"
    );
    assert_eq!(
        outcome.summary,
        "3 definitions and 1 use in 3 files; 1 other file with the word, see grep"
    );
    assert_eq!(outcome.facts, ["src/lib.rs", "src/other.rs", "web/app.ts"].map(content));
    assert_eq!(outcome.sandbox, "");
}

#[tokio::test]
async fn a_search_is_narrowed_by_role_container_path_and_limit() {
    let fixture = project();
    for (args, lines, summary) in [
        (json!({"name": "find", "role": "uses"}), 2, "3 definitions and 1 use in 3 files"),
        (json!({"name": "find", "role": "definitions"}), 4, "3 definitions and 1 use in 3 files"),
        (
            json!({"name": "Tree::find", "role": "definitions"}),
            2,
            "1 definition and 1 use in 1 file; the uses are of any find, not only of Tree",
        ),
        (json!({"name": "find", "path": "src"}), 3, "2 definitions and 1 use in 2 files"),
        (json!({"name": "find", "path": "src/lib.rs"}), 1, "1 definition and 0 uses in 1 file"),
        (
            json!({"name": "find", "path": "src", "limit": 1}),
            1,
            "2 definitions and 1 use in 2 files; 1 are shown, narrow the path for others",
        ),
        (json!({"name": "find", "path": "target"}), 1, "1 definition and 0 uses in 1 file"),
    ] {
        let outcome = fixture.call("find_symbol", args.clone()).await;
        assert_eq!(output(&outcome).lines().count(), lines, "{args}: {}", output(&outcome));
        assert!(outcome.summary.starts_with(summary), "{args}: {}", outcome.summary);
    }
    for (args, code) in [
        (json!({"name": "a b"}), ErrorCode::ArgumentsInvalid),
        (json!({"name": "ö".repeat(101)}), ErrorCode::ArgumentsInvalid),
        (json!({"name": "a", "path": "none"}), ErrorCode::FileNotFound),
        (json!({"name": "a", "path": "../outside"}), ErrorCode::PathOutsideWorkspace),
    ] {
        let outcome = fixture.call("find_symbol", args.clone()).await;
        assert_eq!(outcome.error_code, Some(code), "{args}");
    }
}

#[tokio::test]
async fn a_search_without_a_result_says_what_to_try() {
    let fixture = project();
    fixture.put("only.rs", "// remark\n");
    for (args, advice) in [
        (
            json!({"name": "things"}),
            "no file of a parsed language has the word: search it with grep",
        ),
        (
            json!({"name": "remark"}),
            "the word stands in comments or texts only: search it with grep",
        ),
        (
            json!({"name": "Nothing"}),
            "no file has the word: try grep with a part of it, or another path",
        ),
        (json!({"name": "None.remark"}), "try the name without its container"),
        (json!({"name": "finder", "role": "uses"}), "try the role all"),
    ] {
        let outcome = fixture.call("find_symbol", args.clone()).await;
        assert!(outcome.success);
        assert!(outcome.summary.ends_with(advice), "{args}: {}", outcome.summary);
    }
}

#[tokio::test]
async fn hostile_files_are_named_and_do_not_hide_the_others() {
    let fixture = project();
    fixture.put("h/line.js", format!("find({});\n", "1,".repeat(5 << 20)));
    fixture.put("h/deep.c", format!("int find = {}", "(".repeat(1 << 18)));
    fixture.put("h/deep.js", format!("find({}", "[".repeat(1 << 18)));
    fixture.put("h/deep.py", format!("find({}", "(".repeat(1 << 18)));
    fixture.put("h/deep.rs", format!("fn find() {}", "{".repeat(1 << 18)));
    fixture.put("h/binary.py", b"find\0find\n");
    fixture.put("h/latin.c", b"int find; // gr\xf6\xdfe\n");
    fixture.put("../outside/secret.rs", "fn find() {}\n");
    symlink("../../outside/secret.rs", fixture.root.join("h/out.rs")).unwrap();
    symlink("../src/lib.rs", fixture.root.join("h/in.rs")).unwrap();
    symlink("loop.rs", fixture.root.join("h/loop.rs")).unwrap();
    mkfifo(&fixture.root.join("h/pipe.rs"), Mode::S_IRWXU).unwrap();
    fixture.put("z/last.go", "package z\n\nfunc find() {}\n");
    let outcome = fixture.call("find_symbol", json!({"name": "find"})).await;
    assert!(outcome.success, "{}", outcome.summary);
    for line in [
        "files_not_parsed: too_large: h/line.js\n",
        "files_not_parsed: binary: h/binary.py\n",
        "files_not_parsed: not_utf8: h/latin.c\n",
        "files_not_parsed: not_a_file: h/pipe.rs\n",
        "files_not_parsed: outside_workspace: h/out.rs\n",
        "src/lib.rs:1:8: definition, function: pub fn find() {}\n",
        "z/last.go:3:6: definition, function: func find() {}\n",
    ] {
        assert!(output(&outcome).contains(line), "{line}: {}", output(&outcome));
    }
    // Each deep file has an answer: places, or the reason why there are none.
    for deep in ["h/deep.c", "h/deep.js", "h/deep.py", "h/deep.rs"] {
        assert!(output(&outcome).contains(deep), "{deep}");
    }
    assert!(!output(&outcome).contains("secret"));
}

#[tokio::test]
async fn a_file_that_goes_away_while_it_is_searched_fails_no_call() {
    let fixture = project();
    for number in 0..300 {
        fixture.put(&format!("many/{number}.rs"), format!("fn find{number}() {{ find() }}\n"));
    }
    let root = fixture.root.clone();
    let remover = std::thread::spawn(move || {
        for number in 0..300 {
            let path = root.join(format!("many/{number}.rs"));
            match number % 3 {
                0 => fs::remove_file(&path).unwrap(),
                1 => fs::write(&path, "").unwrap(),
                _ => {
                    fs::remove_file(&path).unwrap();
                    symlink("/etc/passwd", &path).unwrap();
                }
            }
        }
    });
    let outcome = fixture.call("find_symbol", json!({"name": "find"})).await;
    remover.join().unwrap();
    assert!(outcome.success, "{}", outcome.summary);
    let outcome = fixture.call("find_symbol", json!({"name": "find"})).await;
    assert!(
        outcome.summary.starts_with("3 definitions and 1 use in 3 files; 100 files not parsed"),
        "{}",
        outcome.summary
    );
}

#[tokio::test]
async fn a_parser_has_no_network_and_writes_nothing_whatever_commands_may() {
    let fixture = project();
    let spec = fixture.ctx.sandbox.parser_spec(&fixture.ctx, String::new()).unwrap();
    assert_eq!(spec.network, surety_sandbox::Network::None);
    assert!(spec.tree.writable.is_empty() && spec.environment.is_empty());
    assert_eq!(spec.limits.file_bytes, 0);
}
