//! Reading, writing and editing, and paths that must never be reached.

use super::{ToolFixture, names_in, observed, output, written};
use crate::tool::{Effect, ErrorCode, Probe};
use serde_json::json;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicBool, Ordering};

#[tokio::test]
async fn no_path_leads_out_of_the_workspace() {
    let fixture = ToolFixture::new();
    symlink(&fixture.outside, fixture.root.join("folder_out")).unwrap();
    symlink("../outside", fixture.root.join("relative_out")).unwrap();
    symlink(fixture.outside.join("secret.txt"), fixture.root.join("file_out")).unwrap();
    symlink("relative_out", fixture.root.join("link_to_link")).unwrap();
    let absolute = fixture.outside.join("secret.txt");
    for path in [
        "../outside/secret.txt",
        "x/../../outside/secret.txt",
        absolute.to_str().unwrap(),
        "folder_out/secret.txt",
        "relative_out/secret.txt",
        "file_out",
        "link_to_link/secret.txt",
        "/proc/self/root/etc/passwd",
        "/",
    ] {
        for (tool, args) in [
            ("read_file", json!({"path": path})),
            ("write_file", json!({"path": path, "content": "gone"})),
            ("edit_file", json!({"path": path, "old_text": "s", "new_text": "t"})),
            ("grep", json!({"path": path, "pattern": "s"})),
        ] {
            let outcome = fixture.call(tool, args).await;
            let code = Some(ErrorCode::PathOutsideWorkspace);
            assert_eq!(outcome.error_code, code, "{tool} {path}: {outcome:?}");
            assert!(outcome.facts.is_empty(), "{tool} {path}");
        }
    }
    for path in ["..", "folder_out", "relative_out", "link_to_link"] {
        for (tool, args) in [
            ("find_symbol", json!({"name": "x", "path": path})),
            ("list_dir", json!({"path": path})),
            ("glob", json!({"path": path, "pattern": "*"})),
            ("run_command", json!({"argv": ["ls"], "cwd": path})),
        ] {
            let outcome = fixture.call(tool, args).await;
            let code = Some(ErrorCode::PathOutsideWorkspace);
            assert_eq!(outcome.error_code, code, "{tool} {path}: {outcome:?}");
        }
    }
    let secret = fs::read_to_string(fixture.outside.join("secret.txt")).unwrap();
    assert_eq!(secret, "secret");
    assert_eq!(names_in(&fixture.outside), ["secret.txt"]);
}

#[tokio::test]
async fn files_inside_are_reached_by_every_spelling_of_their_paths() {
    let fixture = ToolFixture::new();
    fixture.put("src/größe 測試.txt", "ünï\n");
    symlink("src", fixture.root.join("link")).unwrap();
    let absolute = fixture.root.join("src/größe 測試.txt");
    for (path, named) in [
        ("src/größe 測試.txt", "src/größe 測試.txt"),
        ("./src/../src/größe 測試.txt", "src/größe 測試.txt"),
        ("../work/src/größe 測試.txt", "src/größe 測試.txt"),
        (absolute.to_str().unwrap(), "src/größe 測試.txt"),
        ("link/größe 測試.txt", "link/größe 測試.txt"),
    ] {
        let outcome = fixture.call("read_file", json!({"path": path})).await;
        assert_eq!(output(&outcome), "ünï\n", "{path}");
        assert_eq!(outcome.facts, [observed(named, true)]);
    }
}

/// Another thread repeatedly replaces a folder by a link to the outside while calls are made.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_is_replaced_by_a_link_exposes_no_file_outside() {
    use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
    let fixture = ToolFixture::new();
    fixture.put("spot/secret.txt", "inside");
    symlink(&fixture.outside, fixture.root.join("trap")).unwrap();
    let (spot, trap) = (fixture.root.join("spot"), fixture.root.join("trap"));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let exchange = RenameFlags::RENAME_EXCHANGE;
                renameat2(AT_FDCWD, &spot, AT_FDCWD, &trap, exchange).unwrap();
            }
        });
        for turn in 0..5000 {
            let workspace = &fixture.ctx.workspace().unwrap();
            let path = workspace.locate("spot/secret.txt").unwrap();
            // A call may fail; when it succeeds it must have used the folder inside.
            if let Ok(text) = workspace.read(&path, 100) {
                assert!(text.starts_with(b"inside"), "read from outside");
            }
            if turn % 10 == 0 {
                drop(workspace.write(&path, b"inside!", &fixture.ctx.write_scope));
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let secret = fs::read_to_string(fixture.outside.join("secret.txt")).unwrap();
    assert_eq!(secret, "secret");
    assert_eq!(names_in(&fixture.outside), ["secret.txt"]);
}

#[tokio::test]
async fn a_file_that_is_not_text_is_refused_by_name() {
    let fixture = ToolFixture::new();
    fixture.put("binary", [0xff, 0xfe, 0x00]);
    fixture.put("nul", "a\0b");
    fs::create_dir(fixture.root.join("folder")).unwrap();
    nix::unistd::mkfifo(&fixture.root.join("pipe"), nix::sys::stat::Mode::S_IRUSR).unwrap();
    for (path, code, facts) in [
        ("none", ErrorCode::FileNotFound, vec![observed("none", false)]),
        ("binary", ErrorCode::NotText, vec![]),
        ("nul", ErrorCode::NotText, vec![]),
        ("folder", ErrorCode::NotAFile, vec![]),
        ("pipe", ErrorCode::NotAFile, vec![]),
        ("nul/inner", ErrorCode::NotADirectory, vec![]),
        ("a\0b", ErrorCode::PathInvalid, vec![]),
    ] {
        let outcome = fixture.call("read_file", json!({"path": path})).await;
        assert_eq!(outcome.error_code, Some(code), "{path:?}");
        assert_eq!(outcome.facts, facts, "{path:?}");
        assert!(!outcome.success);
    }
}

#[tokio::test]
async fn lines_are_read_from_the_requested_offset() {
    let fixture = ToolFixture::new();
    fixture.put("a.txt", "one\ntwo\nthree\nfour");
    for (args, expected) in [
        (json!({"path": "a.txt"}), "one\ntwo\nthree\nfour"),
        (json!({"path": "a.txt", "offset": 2, "limit": 2}), "two\nthree\n"),
        (json!({"path": "a.txt", "offset": 4}), "four"),
        (json!({"path": "a.txt", "offset": 9}), ""),
        (json!({"path": "a.txt", "limit": 1}), "one\n"),
    ] {
        let outcome = fixture.call("read_file", args).await;
        assert_eq!(output(&outcome), expected);
    }
}

#[tokio::test]
async fn a_large_file_is_read_whole() {
    let fixture = ToolFixture::new();
    let text = "0123456789abcdef".repeat(400_000);
    fixture.put("large.txt", &text);
    let outcome = fixture.call("read_file", json!({"path": "large.txt"})).await;
    assert!(output(&outcome) == text);
}

#[tokio::test]
async fn a_write_creates_its_folders_and_records_both_digests() {
    let fixture = ToolFixture::new();
    let args = json!({"path": "new/größe/a.txt", "content": "one"});
    let outcome = fixture.call("write_file", args).await;
    assert_eq!(outcome.facts, [written("new/größe/a.txt", None, "one")]);
    let args = json!({"path": "new/größe/a.txt", "content": "two"});
    let outcome = fixture.call("write_file", args).await;
    assert_eq!(outcome.facts, [written("new/größe/a.txt", Some("one"), "two")]);
    assert_eq!(fixture.text("new/größe/a.txt"), "two");
    assert_eq!(names_in(&fixture.root.join("new/größe")), ["a.txt"]);
}

#[tokio::test]
async fn a_write_keeps_the_files_mode_and_replaces_it_in_one_step() {
    let fixture = ToolFixture::new();
    fixture.put("run.sh", "old");
    let path = fixture.root.join("run.sh");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
    fs::hard_link(&path, fixture.root.join("other_name")).unwrap();
    fixture.call("write_file", json!({"path": "run.sh", "content": "new"})).await;
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o751);
    // A reader with the old file open, or with a hard link to it, still has its whole content.
    assert_eq!(fixture.text("other_name"), "old");
    assert_eq!(fixture.text("run.sh"), "new");
}

#[tokio::test]
async fn a_failed_write_leaves_the_old_content_and_no_temporary_file() {
    let fixture = ToolFixture::new();
    fs::create_dir_all(fixture.root.join("spot/inner")).unwrap();
    let args = json!({"path": "spot", "content": "x"});
    let outcome = fixture.call("write_file", args).await;
    assert_eq!(outcome.error_code, Some(ErrorCode::NotAFile));
    let args = json!({"path": ".", "content": "x"});
    let outcome = fixture.call("write_file", args).await;
    assert_eq!(outcome.error_code, Some(ErrorCode::NotAFile));
    assert_eq!(names_in(&fixture.root), ["spot"]);
    assert_eq!(names_in(&fixture.root.join("spot")), ["inner"]);
}

#[tokio::test]
async fn a_write_through_a_link_changes_its_target_and_records_both_names() {
    let fixture = ToolFixture::new();
    fixture.put("AGENTS.md", "old");
    symlink("AGENTS.md", fixture.root.join("CLAUDE.md")).unwrap();
    let args = json!({"path": "CLAUDE.md", "content": "new"});
    let effect = fixture.intend("write_file", args.clone()).unwrap();
    let outcome = fixture.call("write_file", args).await;
    let probed = effect.probe(&fixture.ctx.workspace().unwrap());
    assert_eq!(probed, Probe::Happened(outcome.facts.clone()));
    assert_eq!(
        outcome.facts,
        [written("AGENTS.md", Some("old"), "new"), written("CLAUDE.md", Some("old"), "new")]
    );
    assert_eq!(fixture.text("AGENTS.md"), "new");
    assert!(fixture.root.join("CLAUDE.md").is_symlink());
}

#[tokio::test]
async fn a_step_writes_inside_its_scope_only_links_included() {
    let fixture = ToolFixture::scoped(&["src/**"]);
    fixture.put("docs/a.md", "x");
    fs::create_dir(fixture.root.join("src")).unwrap();
    symlink("../docs", fixture.root.join("src/docs")).unwrap();
    for path in ["docs/a.md", "src/../docs/a.md", "src/docs/a.md", "src/docs/new/b.md"] {
        for (tool, args) in [
            ("write_file", json!({"path": path, "content": "y"})),
            ("edit_file", json!({"path": path, "old_text": "x", "new_text": "y"})),
        ] {
            if tool == "edit_file" && path.ends_with("b.md") {
                continue;
            }
            let code = ErrorCode::WriteScopeViolation;
            let outcome = fixture.call(tool, args.clone()).await;
            assert_eq!(outcome.error_code, Some(code), "{tool} {path}");
            let intended = fixture.intend(tool, args).unwrap_err();
            assert_eq!(intended.code, code, "{tool} {path}");
        }
    }
    assert_eq!(fixture.text("docs/a.md"), "x");
    assert_eq!(names_in(&fixture.root.join("docs")), ["a.md"]);
    let args = json!({"path": "src/deep/b.rs", "content": "y"});
    assert!(fixture.call("write_file", args).await.success);
}

#[tokio::test]
async fn an_edit_replaces_exactly_one_occurrence_or_fails_with_a_reason() {
    let fixture = ToolFixture::new();
    fixture.put("a.txt", "eins zwei zwei drei größe");
    for (old, all, expected) in [
        ("vier", false, Err((ErrorCode::TextNotFound, "does not contain old_text"))),
        ("zwei", false, Err((ErrorCode::TextNotUnique, "2 times"))),
        ("eins", false, Ok("uno zwei zwei drei größe")),
        ("größe", false, Ok("uno zwei zwei drei uno")),
        ("zwei", true, Ok("uno uno uno drei uno")),
    ] {
        let before = fixture.text("a.txt");
        let args = json!({"path": "a.txt", "old_text": old, "new_text": "uno", "replace_all": all});
        let outcome = fixture.call("edit_file", args).await;
        match expected {
            Ok(after) => {
                assert_eq!(fixture.text("a.txt"), after);
                assert_eq!(outcome.facts, [written("a.txt", Some(&before), after)]);
            }
            Err((code, count)) => {
                assert_eq!(outcome.error_code, Some(code));
                assert!(outcome.summary.contains(count), "{}", outcome.summary);
                assert_eq!(fixture.text("a.txt"), before);
            }
        }
    }
    let args = json!({"path": "none", "old_text": "a", "new_text": "b"});
    let outcome = fixture.call("edit_file", args).await;
    assert_eq!(outcome.error_code, Some(ErrorCode::FileNotFound));
}

#[tokio::test]
async fn the_result_of_a_write_after_a_crash_is_determined_from_the_file() {
    for (tool, old, args) in [
        ("write_file", None, json!({"path": "a.txt", "content": "new"})),
        ("write_file", Some("old"), json!({"path": "a.txt", "content": "new"})),
        ("edit_file", Some("old"), json!({"path": "a.txt", "old_text": "old", "new_text": "new"})),
    ] {
        let fixture = ToolFixture::new();
        if let Some(old) = old {
            fixture.put("a.txt", old);
        }
        let intended = fixture.intend(tool, args.clone()).unwrap();
        let stored = serde_json::to_string(&intended).unwrap();
        let effect: Effect = serde_json::from_str(&stored).unwrap();
        let probe = || {
            let tool = fixture.registry.get(tool).unwrap();
            tool.probe(&fixture.ctx, &effect)
        };
        assert_eq!(probe(), Probe::DidNotHappen);
        let outcome = fixture.call(tool, args).await;
        assert_eq!(probe(), Probe::Happened(outcome.facts));
        fixture.put("a.txt", "another writer's");
        assert_eq!(probe(), Probe::Unknown);
    }
}

#[test]
fn an_effect_without_distinct_digests_is_unknown_after_a_crash() {
    let fixture = ToolFixture::new();
    let intended = fixture.intend("run_command", json!({"argv": ["make"]}));
    assert_eq!(intended, Ok(Effect::Unknown));
    let intended = fixture.intend("read_file", json!({"path": "a"}));
    assert_eq!(intended, Ok(Effect::None));
    assert_eq!(Effect::Unknown.probe(&fixture.ctx.workspace().unwrap()), Probe::Unknown);
    assert_eq!(Effect::None.probe(&fixture.ctx.workspace().unwrap()), Probe::DidNotHappen);
}
