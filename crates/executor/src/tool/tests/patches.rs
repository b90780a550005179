//! Patches of several files.

use super::*;
use crate::tool::{FileWrite, Probe};
use serde_json::json;
use std::os::unix::fs::{PermissionsExt, symlink};

const TWO_FILES: &str = "\
--- a/src/one.txt
+++ b/src/one.txt
@@ -1,3 +1,3 @@
 first
-second
+zweite
 third
--- a/src/two.txt
+++ b/src/two.txt
@@ -1 +1,2 @@
 only
+more
";

fn project() -> ToolFixture {
    let fixture = ToolFixture::new();
    fixture.put("src/one.txt", "first\nsecond\nthird\n");
    fixture.put("src/two.txt", "only\n");
    fixture
}

#[tokio::test]
async fn a_patch_changes_creates_removes_and_renames_files() {
    let fixture = project();
    fixture.put("old.txt", "gone\n");
    fixture.put("name.txt", "kept\nline\n");
    let patch = "\
diff --git a/old.txt b/old.txt
deleted file mode 100644
--- a/old.txt
+++ /dev/null
@@ -1 +0,0 @@
-gone
diff --git a/bin/run b/bin/run
new file mode 100755
--- /dev/null
+++ b/bin/run
@@ -0,0 +1 @@
+#!/bin/sh
diff --git a/name.txt b/other.txt
similarity index 50%
rename from name.txt
rename to other.txt
--- a/name.txt
+++ b/other.txt
@@ -1,2 +1,2 @@
 kept
-line
+changed
diff --git a/src/two.txt b/src/two.txt
--- a/src/two.txt
+++ b/src/two.txt
@@ -1 +1 @@
-only
+two
";
    let outcome = fixture.call("apply_patch", json!({"patch": patch})).await;
    assert!(outcome.success, "{}", outcome.summary);
    assert_eq!(names_in(&fixture.root), ["bin", "other.txt", "src"]);
    assert_eq!(fixture.text("other.txt"), "kept\nchanged\n");
    assert_eq!(fixture.text("src/two.txt"), "two\n");
    let mode = fs::metadata(fixture.root.join("bin/run")).unwrap().permissions().mode();
    assert_eq!(mode & 0o100, 0o100, "the new file is executable");
    let removed = |path: &str, before: &str| Fact::FileWritten {
        path: path.to_owned(),
        before_digest: Some(json::sha256_hex(before.as_bytes())),
        after_digest: None,
    };
    let expected = [
        written("bin/run", None, "#!/bin/sh\n"),
        removed("name.txt", "kept\nline\n"),
        removed("old.txt", "gone\n"),
        written("other.txt", None, "kept\nchanged\n"),
        written("src/two.txt", Some("only\n"), "two\n"),
    ];
    assert_eq!(outcome.facts, expected);
    let said = "created bin/run\nremoved name.txt\nremoved old.txt\ncreated other.txt\nchanged src/two.txt\n";
    assert_eq!(output(&outcome), said);
}

#[tokio::test]
async fn a_patch_of_which_one_part_does_not_fit_changes_nothing() {
    for (patch, code, named) in [
        (TWO_FILES.replace("only", "another"), ErrorCode::PatchConflict, "src/two.txt"),
        (TWO_FILES.replace("two.txt", "three.txt"), ErrorCode::FileNotFound, "src/three.txt"),
        (TWO_FILES.replace("src/two.txt", "../outside/secret.txt"), ErrorCode::PathOutsideWorkspace, "secret"),
        (TWO_FILES.replace("--- a/src/two.txt", "--- /dev/null"), ErrorCode::PatchConflict, "src/two.txt"),
        ("no patch".to_owned(), ErrorCode::PatchInvalid, "unified diff"),
        ("--- a/x\n+++ b/x\n@@ -1,9 +1 @@\n-a\n".to_owned(), ErrorCode::PatchInvalid, "cannot be read"),
        (
            "diff --git a/link b/link\nnew file mode 120000\n--- /dev/null\n+++ b/link\n@@ -0,0 +1 @@\n+/etc/passwd\n".to_owned(),
            ErrorCode::PatchInvalid,
            "is a link",
        ),
        (
            "diff --git a/src/one.txt b/src/one.txt\nold mode 100644\nnew mode 100755\n".to_owned(),
            ErrorCode::PatchInvalid,
            "mode",
        ),
    ] {
        let fixture = project();
        let outcome = fixture.call("apply_patch", json!({"patch": patch})).await;
        assert_eq!(outcome.error_code, Some(code), "{}\n{patch}", outcome.summary);
        assert!(outcome.summary.contains(named), "{}", outcome.summary);
        assert_eq!(fixture.text("src/one.txt"), "first\nsecond\nthird\n");
        assert_eq!(names_in(&fixture.root.join("src")), ["one.txt", "two.txt"]);
        let intended = fixture.intend("apply_patch", json!({"patch": patch})).unwrap_err();
        assert_eq!(intended.code, code);
    }
}

#[tokio::test]
async fn a_failure_in_the_middle_puts_back_what_was_changed_before_it() {
    let fixture = project();
    // The second name is a folder by the time of the rename.
    let patch =
        TWO_FILES.replace("--- a/src/two.txt", "--- /dev/null").replace("src/two.txt", "src/zz");
    let patch = patch.replace("@@ -1 +1,2 @@\n only\n", "@@ -0,0 +1 @@\n");
    fs::create_dir(fixture.root.join("src/zz")).unwrap();
    let outcome = fixture.call("apply_patch", json!({"patch": patch})).await;
    assert!(!outcome.success);
    assert_eq!(fixture.text("src/one.txt"), "first\nsecond\nthird\n");
    assert_eq!(names_in(&fixture.root.join("src")), ["one.txt", "two.txt", "zz"]);
}

#[tokio::test]
async fn a_patch_stays_in_the_scope_of_its_step_and_removes_no_link() {
    let fixture = ToolFixture::scoped(&["src/one.txt"]);
    fixture.put("src/one.txt", "first\nsecond\nthird\n");
    fixture.put("src/two.txt", "only\n");
    let outcome = fixture.call("apply_patch", json!({"patch": TWO_FILES})).await;
    assert_eq!(outcome.error_code, Some(ErrorCode::WriteScopeViolation));
    assert_eq!(fixture.text("src/one.txt"), "first\nsecond\nthird\n");
    let fixture = project();
    symlink("src/two.txt", fixture.root.join("link")).unwrap();
    let patch = "--- a/link\n+++ /dev/null\n@@ -1 +0,0 @@\n-only\n";
    let outcome = fixture.call("apply_patch", json!({"patch": patch})).await;
    assert_eq!(outcome.error_code, Some(ErrorCode::NotAFile));
    assert_eq!(fixture.text("src/two.txt"), "only\n");
}

#[tokio::test]
async fn the_result_of_a_patch_after_a_crash_is_determined_from_all_its_files() {
    let fixture = project();
    let args = json!({"patch": TWO_FILES});
    let intended = fixture.intend("apply_patch", args.clone()).unwrap();
    let stored = serde_json::to_string(&intended).unwrap();
    let effect: Effect = serde_json::from_str(&stored).unwrap();
    let digest = |text: &str| Some(json::sha256_hex(text.as_bytes()));
    let one = FileWrite {
        path: "src/one.txt".to_owned(),
        before_digest: digest("first\nsecond\nthird\n"),
        after_digest: digest("first\nzweite\nthird\n"),
    };
    assert!(matches!(&effect, Effect::Writes { files } if files.len() == 2 && files[0] == one));
    let probe = || effect.probe(&fixture.ctx.workspace().unwrap());
    assert_eq!(probe(), Probe::DidNotHappen);
    let outcome = fixture.call("apply_patch", args).await;
    assert_eq!(probe(), Probe::Happened(outcome.facts));
    fixture.put("src/one.txt", "first\nsecond\nthird\n");
    assert_eq!(probe(), Probe::Unknown, "one file is changed and the other is not");
}
