use super::*;
use data_encoding::HEXLOWER;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};
use surety_common::domain::manifest::{Aspect, Content, Kind, changes, decode, digest, encode};
use tempfile::TempDir;

/// A folder with these files; a name that ends in `/` is a folder.
fn tree(files: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    files.iter().for_each(|file| put(folder.path(), file, file));
    folder
}

fn put(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    if path.as_os_str().as_bytes().ends_with(b"/") {
        fs::create_dir_all(&path).unwrap();
        return;
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn git(folder: &Path, arguments: &[&str]) {
    let done = Command::new("git")
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", folder)
        .args(["-c", "user.name=n", "-c", "user.email=e", "-c", "protocol.file.allow=always"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn begin(folder: &Path) -> (Snapshots, Manifest) {
    Snapshots::begin(&Workspace::open(folder).unwrap(), &[], &|| Ok(())).unwrap()
}

fn take(snapshots: &Snapshots, folder: &Path, previous: &Manifest, reach: Reach) -> Manifest {
    let workspace = Workspace::open(folder).unwrap();
    snapshots.take(&workspace, Some(previous), reach, &|| Ok(())).unwrap()
}

/// The files of a manifest, and whether each is ignored.
fn files(manifest: &Manifest) -> BTreeMap<String, bool> {
    let files = manifest.entries().iter().filter(|entry| entry.kind == Kind::File);
    files.map(|entry| (String::from_utf8_lossy(&entry.path).into_owned(), entry.ignored)).collect()
}

fn ignored(manifest: &Manifest) -> Vec<String> {
    files(manifest).into_iter().filter(|(_, ignored)| *ignored).map(|(path, _)| path).collect()
}

fn changed(before: &Manifest, after: &Manifest) -> Vec<(String, Aspect)> {
    changes(before, after)
        .filter(|change| change.is_of_content() && !change.is_ignored())
        .map(|change| {
            (String::from_utf8_lossy(change.path()).into_owned(), change.aspect().unwrap())
        })
        .collect()
}

#[test]
fn every_kind_of_thing_is_recorded_by_what_it_is() {
    let folder = tree(&["a/b.txt", "empty/"]);
    let at = |name: &str| folder.path().join(name);
    symlink("../nowhere", at("a/link")).unwrap();
    symlink("/", at("a/root")).unwrap();
    nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _socket = UnixListener::bind(at("socket")).unwrap();
    let odd = OsString::from_vec(b"\xff\xfe\n".to_vec());
    fs::write(folder.path().join(&odd), "odd").unwrap();
    fs::set_permissions(at("a/b.txt"), fs::Permissions::from_mode(0o4755)).unwrap();
    let (_, manifest) = begin(folder.path());
    let kinds: Vec<_> = manifest.entries().iter().map(|entry| (&*entry.path, entry.kind)).collect();
    let expected: [(&[u8], Kind); 8] = [
        (b"a", Kind::Folder),
        (b"a/b.txt", Kind::File),
        (b"a/link", Kind::Link),
        (b"a/root", Kind::Link),
        (b"empty", Kind::Folder),
        (b"pipe", Kind::Pipe),
        (b"socket", Kind::Socket),
        (b"\xff\xfe\n", Kind::File),
    ];
    assert_eq!(kinds, expected);
    let file = manifest.get(b"a/b.txt").unwrap();
    assert_eq!((file.mode, file.size), (0o4755, 7));
    let Content::File(found) = &file.content else { panic!("{file:?}") };
    assert_eq!(found.blake3, *blake3::hash(b"a/b.txt").as_bytes());
    let sha256 = surety_common::domain::json::sha256_hex(b"a/b.txt");
    assert_eq!(found.sha256.map(|digest| HEXLOWER.encode(&digest)), Some(sha256));
    let target = Content::Target(b"../nowhere".as_slice().into());
    assert_eq!(manifest.get(b"a/link").unwrap().content, target);
}

#[test]
fn what_may_not_be_read_is_recorded_as_such() {
    if nix::unistd::geteuid().is_root() {
        return;
    }
    let folder = tree(&["closed/inner", "secret", "open"]);
    let close = |name: &str, mode| {
        fs::set_permissions(folder.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    close("closed", 0);
    close("secret", 0);
    let (_, manifest) = begin(folder.path());
    close("closed", 0o755);
    assert_eq!(manifest.get(b"closed").unwrap().content, Content::Unreadable);
    assert_eq!(manifest.get(b"secret").unwrap().content, Content::Unreadable);
    assert!(manifest.get(b"closed/inner").is_none());
    assert!(matches!(manifest.get(b"open").unwrap().content, Content::File(_)));
}

#[test]
fn ignore_files_at_every_depth_decide_and_a_tracked_path_is_never_ignored() {
    let folder = tree(&[
        "src/main.rs",
        "target/debug/app",
        "target/kept.txt",
        "logs/a.log",
        "logs/keep.log",
        "sub/x.tmp",
        "sub/deep/y.tmp",
        "other.tmp",
        "private",
    ]);
    let root = folder.path();
    git(root, &["init", "-q"]);
    put(root, ".gitignore", "target/\n*.log\n");
    put(root, "logs/.gitignore", "!keep.log\n");
    put(root, "sub/.gitignore", "*.tmp\n");
    put(root, ".git/info/exclude", "private\n");
    git(root, &["add", "-f", "src", "target/kept.txt", ".gitignore"]);
    let (snapshots, manifest) = begin(root);
    let expected = ["logs/a.log", "private", "sub/deep/y.tmp", "sub/x.tmp", "target/debug/app"];
    assert_eq!(ignored(&manifest), expected);
    assert!(!files(&manifest).keys().any(|path| path.starts_with(".git/")));
    assert!(!manifest.get(b"target").unwrap().ignored, "something in it is tracked");
    assert_eq!(manifest.rules.tracked, [b"target/kept.txt"]);

    // A later snapshot goes by the rules of the first, whatever the files say by then.
    put(root, ".gitignore", "*\n");
    fs::remove_file(root.join("sub/.gitignore")).unwrap();
    put(root, "target/debug/new", "n");
    put(root, "target/kept.txt", "changed");
    put(root, "logs/b.log", "l");
    put(root, "new/.gitignore", "*\n");
    put(root, "new/file", "n");
    let later = take(&snapshots, root, &manifest, Reach::NotIgnored);
    let expected = [
        (".gitignore", Aspect::Content),
        ("new/.gitignore", Aspect::Added),
        ("new/file", Aspect::Added),
        ("sub/.gitignore", Aspect::Removed),
        ("target/kept.txt", Aspect::Content),
    ];
    let told = changed(&manifest, &later);
    assert_eq!(told, expected.map(|(path, aspect)| (path.to_owned(), aspect)));
    let whole = take(&snapshots, root, &manifest, Reach::Everything);
    assert!(ignored(&whole).contains(&"target/debug/new".to_owned()));
    assert_eq!(digest(&whole), digest(&later), "what is ignored is not in the digest");

    // So does one whose first was taken by another process.
    let stored = decode(&encode(&manifest)).unwrap();
    let resumed = Snapshots::resume(&stored.rules).unwrap();
    let again = take(&resumed, root, &stored, Reach::Everything);
    // Whether a stamp is steady depends on the time at which it was taken.
    assert_eq!((digest(&again), ignored(&again)), (digest(&whole), ignored(&whole)));
    assert!(changed(&whole, &again).is_empty());
}

#[test]
fn without_ignore_rules_well_known_names_count_as_ignored_unless_git_tracks_them() {
    let names =
        ["target/a", "a/node_modules/b/c", "bin/Debug/x", "bin/tool", "dist/kept", "dist/made"];
    let folder = tree(&names);
    let found = ignored(&begin(folder.path()).1);
    assert_eq!(found, ["a/node_modules/b/c", "bin/Debug/x", "dist/kept", "dist/made", "target/a"]);
    git(folder.path(), &["init", "-q"]);
    git(folder.path(), &["add", "-f", "dist/kept"]);
    let found = ignored(&begin(folder.path()).1);
    assert_eq!(found, ["a/node_modules/b/c", "bin/Debug/x", "target/a"]);
    put(folder.path(), ".gitignore", "*.log\n");
    assert!(ignored(&begin(folder.path()).1).is_empty(), "the rules say what is ignored");
    put(folder.path(), ".gitignore", "# only words\n\n");
    assert_eq!(ignored(&begin(folder.path()).1).len(), 3, "there is no rule in it");
    fs::remove_dir_all(folder.path().join(".git")).unwrap();
    fs::write(folder.path().join("build"), "a script").unwrap();
    assert!(!begin(folder.path()).1.get(b"build").unwrap().ignored, "a file is no build folder");
}

#[test]
fn a_workspace_inside_a_work_tree_goes_by_the_rules_above_it() {
    let folder = tree(&["packages/a/src/x", "packages/a/gen/y", "packages/a/made.o", "z.o"]);
    let root = folder.path();
    git(root, &["init", "-q"]);
    put(root, ".gitignore", "*.o\n/packages/a/gen/\n/src/\n");
    git(root, &["add", "-f", "packages/a/made.o"]);
    let inner = root.join("packages/a");
    let (snapshots, manifest) = begin(&inner);
    assert_eq!(ignored(&manifest), ["gen/y"]);
    put(&inner, "later.o", "o");
    let later = take(&snapshots, &inner, &manifest, Reach::Everything);
    assert_eq!(ignored(&later), ["gen/y", "later.o"]);
    // A folder that its work tree ignores as a whole goes by its own names only.
    let (_, own) = begin(&inner.join("gen"));
    assert!(ignored(&own).is_empty());
}

#[test]
fn the_content_of_an_ignored_path_counts_where_it_is_asked_for() {
    let folder = tree(&["dist/app.js", "dist/app.map", "a"]);
    let workspace = Workspace::open(folder.path()).unwrap();
    let (snapshots, manifest) =
        Snapshots::begin(&workspace, &["dist/*.js".to_owned()], &|| Ok(())).unwrap();
    let entry = manifest.get(b"dist/app.js").unwrap();
    assert!(entry.ignored && matches!(entry.content, Content::File(_)));
    assert_eq!(manifest.get(b"dist/app.map").unwrap().content, Content::None);
    put(folder.path(), "dist/app.js", "dist/app.js");
    let same = take(&snapshots, folder.path(), &manifest, Reach::Everything);
    assert!(changes(&manifest, &same).all(|change| change.path() != b"dist/app.js"));
}

/// What git itself says is tracked.
fn says_git(folder: &Path) -> Vec<String> {
    let said = Command::new("git").current_dir(folder).args(["ls-files", "-z"]).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let mut paths: Vec<_> = said.split_terminator('\0').map(str::to_owned).collect();
    paths.sort_unstable();
    paths
}

fn read_from_index(folder: &Path) -> Vec<String> {
    let tree = git::WorkTree::around(&folder.canonicalize().unwrap()).unwrap();
    let paths = tree.tracked().unwrap();
    paths.into_iter().map(|path| String::from_utf8(path).unwrap()).collect()
}

#[test]
fn the_index_is_read_in_every_form_that_git_writes() {
    let names: Vec<String> = (1..41).map(|n| format!("{}/file-{n}", "d".repeat(n))).collect();
    for (init, then) in [
        (&["init", "-q"][..], &[][..]),
        (&["init", "-q"], &["update-index", "--index-version", "3"]),
        (&["init", "-q"], &["update-index", "--index-version", "4"]),
        (&["init", "-q"], &["update-index", "--split-index"]),
        (&["init", "-q", "--object-format=sha256"], &[]),
    ] {
        let folder = tree(&names.iter().map(String::as_str).collect::<Vec<_>>());
        git(folder.path(), init);
        git(folder.path(), &["add", "."]);
        git(folder.path(), &["add", "-N", "."]);
        if !then.is_empty() {
            git(folder.path(), then);
        }
        put(folder.path(), "later", "l");
        git(folder.path(), &["add", "later"]);
        let said = says_git(folder.path());
        assert_eq!(said.len(), 41);
        assert_eq!(read_from_index(folder.path()), said, "{init:?} {then:?}");
    }
}

#[test]
fn work_trees_and_submodules_are_read_by_their_own_indexes() {
    let library = tree(&["lib.c", "lib.log"]);
    git(library.path(), &["init", "-q"]);
    git(library.path(), &["add", "-f", "."]);
    git(library.path(), &["commit", "-qm", "l"]);
    let folder = tree(&["repo/a", "repo/.gitignore"]);
    let repo = folder.path().join("repo");
    put(&repo, ".gitignore", "*.log\n");
    git(&repo, &["init", "-q"]);
    let from = library.path().to_str().unwrap();
    git(&repo, &["submodule", "--quiet", "add", from, "vendor/lib"]);
    git(&repo, &["add", "."]);
    git(&repo, &["commit", "-qm", "r"]);
    let tracked = read_from_index(&repo);
    assert!(tracked.contains(&"vendor/lib/lib.log".to_owned()), "{tracked:?}");
    assert!(ignored(&begin(&repo).1).is_empty());
    put(&repo, ".git/info/exclude", "secret\n");
    git(&repo, &["worktree", "add", "-q", "../tree"]);
    let tree = folder.path().join("tree");
    put(&tree, "secret", "s");
    put(&tree, "x.log", "x");
    assert_eq!(read_from_index(&tree), says_git(&tree));
    let (_, manifest) = begin(&tree);
    assert_eq!(ignored(&manifest), ["secret", "x.log"]);
    assert!(manifest.get(b".git").is_none(), "it says where git keeps the work tree");
}

#[test]
fn an_index_that_does_not_read_is_an_error_and_no_empty_one() {
    let folder = tree(&["a"]);
    git(folder.path(), &["init", "-q"]);
    put(folder.path(), ".git/index", "DIRC nonsense");
    let workspace = Workspace::open(folder.path()).unwrap();
    let error = Snapshots::begin(&workspace, &[], &|| Ok(())).unwrap_err();
    assert!(error.message.contains("index"), "{error}");
}

/// Waits until what was written is older than the clock's tick.
fn settle() {
    let until = Instant::now() + Duration::from_millis(40);
    while Instant::now() < until {
        std::thread::yield_now();
    }
}

#[test]
fn a_write_is_seen_though_size_and_time_were_put_back() {
    let folder = tree(&["a", "b"]);
    let root = folder.path();
    settle();
    let (snapshots, before) = begin(root);
    assert!(before.get(b"a").unwrap().stamp.steady);
    let time = fs::metadata(root.join("a")).unwrap().modified().unwrap();
    fs::write(root.join("a"), "A").unwrap();
    let file = fs::File::options().write(true).open(root.join("a")).unwrap();
    file.set_modified(time).unwrap();
    let after = take(&snapshots, root, &before, Reach::NotIgnored);
    assert_eq!(changed(&before, &after), [("a".to_owned(), Aspect::Content)]);
    // Set back in time, it is read again and is what it was.
    let old = SystemTime::now() - Duration::from_secs(3600);
    file.set_modified(old).unwrap();
    assert_eq!(changed(&after, &take(&snapshots, root, &after, Reach::NotIgnored)), []);
}

#[test]
fn a_write_in_the_same_tick_as_the_snapshot_is_seen() {
    let folder = tree(&["a"]);
    for round in 0..50 {
        let (snapshots, before) = begin(folder.path());
        let text = if round % 2 == 0 { "x" } else { "y" };
        fs::write(folder.path().join("a"), text).unwrap();
        let after = take(&snapshots, folder.path(), &before, Reach::NotIgnored);
        assert_eq!(changed(&before, &after).len(), 1, "round {round}");
    }
}

#[test]
fn a_file_put_in_the_place_of_another_is_seen() {
    let folder = tree(&["a", "b"]);
    let root = folder.path();
    settle();
    let (snapshots, before) = begin(root);
    fs::rename(root.join("b"), root.join("a")).unwrap();
    let after = take(&snapshots, root, &before, Reach::NotIgnored);
    let expected = [("a".to_owned(), Aspect::Content), ("b".to_owned(), Aspect::Removed)];
    assert_eq!(changed(&before, &after), expected);
}

#[test]
fn a_snapshot_ends_when_it_is_called_off() {
    let folder = tree(&["a/b/c"]);
    let workspace = Workspace::open(folder.path()).unwrap();
    let called_off = || Err(ToolError::new(crate::tool::ErrorCode::Cancelled, "called off"));
    let error = Snapshots::begin(&workspace, &[], &called_off).unwrap_err();
    assert_eq!(error.code.as_str(), "cancelled");
}

#[test]
fn a_snapshot_that_is_called_off_reads_no_file_to_its_end() {
    let folder = tree(&["a"]);
    // Hours of reading, and nothing on disk.
    let sparse = fs::File::create(folder.path().join("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    let workspace = Workspace::open(folder.path()).unwrap();
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let called_off = || match asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
        0..20 => Ok(()),
        _ => Err(ToolError::new(crate::tool::ErrorCode::Cancelled, "called off")),
    };
    let error = Snapshots::begin(&workspace, &[], &called_off).unwrap_err();
    assert_eq!(error.message, "called off");
}

#[test]
fn a_large_tree_is_the_same_with_one_walker_or_many() {
    let folder = tempfile::tempdir().unwrap();
    for outer in 0..30 {
        let inner = folder.path().join(format!("d{outer}"));
        fs::create_dir(&inner).unwrap();
        let count = if outer == 7 { 700 } else { 20 };
        (0..count).for_each(|n| fs::write(inner.join(n.to_string()), format!("{n}")).unwrap());
    }
    let (snapshots, first) = begin(folder.path());
    assert_eq!(files(&first).len(), 29 * 20 + 700);
    let again = take(&snapshots, folder.path(), &first, Reach::Everything);
    assert!(changes(&first, &again).next().is_none());
    let deep: PathBuf = (0..200).map(|_| OsStr::new("deep")).collect();
    fs::create_dir_all(folder.path().join(&deep)).unwrap();
    fs::write(folder.path().join(&deep).join("x"), "x").unwrap();
    let deeper = take(&snapshots, folder.path(), &again, Reach::Everything);
    assert_eq!(changed(&again, &deeper).len(), 1);
}
