//! Writes whose folder cannot be flushed.

use super::*;
use std::fs;

/// The same change over a descriptor with which names are changed and nothing is flushed.
fn unflushable(staged: Staged) -> Staged {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let folder = fcntl::openat(&staged.folder, ".", flags, Mode::empty()).unwrap();
    Staged { folder, ..staged }
}

#[test]
fn a_file_whose_change_cannot_be_flushed_is_put_back_like_those_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::open(folder.path()).unwrap();
    let old =
        [("one", Some("old one")), ("two", Some("old two")), ("new", None), ("gone", Some("x"))];
    let text = |name: &str| fs::read_to_string(folder.path().join(name)).ok();
    for last in ["two", "new", "gone"] {
        for (name, content) in old {
            if let Some(content) = content {
                fs::write(folder.path().join(name), content).unwrap();
            }
        }
        let stage = |name: &str| {
            let content = (name != "gone").then(|| b"changed".to_vec());
            let path = RelPath::real(name.into());
            let change = Change { path, content, executable: false };
            workspace.stage(change, &WriteScope::whole()).unwrap()
        };
        let staged = [stage("one"), unflushable(stage(last))];
        let failed = commit_all(&staged).unwrap_err();
        assert!(failed.to_string().contains(last), "{failed}");
        drop(staged);
        for (name, content) in old {
            assert_eq!(text(name).as_deref(), content, "{name} after {last} failed");
        }
        let names = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(names, 3, "a temporary file is left");
    }
}
