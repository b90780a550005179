//! What stands at the paths that checks are written as.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use surety_common::domain::check::Standing;
use surety_common::domain::check_inputs::is_product;
use surety_common::domain::path;

/// The extensions of scripts: without the mode of a program, they may have lost it.
const SCRIPTS: [&str; 17] = [
    "bash", "bat", "cjs", "cmd", "fish", "js", "ksh", "lua", "mjs", "php", "pl", "ps1", "py", "rb",
    "sh", "ts", "zsh",
];

/// What stands at a path, relative to a folder or absolute. A script that is not executable is told from data only where it
/// is a product by convention: a check that only looks for a test script would hold without a test.
#[must_use]
pub fn standing_at(folder: &Path, path: &Path) -> Option<Standing> {
    let at = folder.join(path);
    let found = fs::metadata(&at).ok()?;
    if found.is_file() && found.permissions().mode() & 0o111 != 0 {
        return Some(Standing::Program);
    }
    // No check finds a file elsewhere.
    path::Workspace::new(folder.to_str()?).resolve(path.to_str()?)?;
    if found.is_dir() {
        return Some(Standing::Folder);
    }
    if !found.is_file() {
        return None;
    }
    let extension = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
    let is_script = SCRIPTS.contains(&extension) || begins_as_script(&at, found.len());
    (!is_script || is_product(&path.to_string_lossy())).then_some(Standing::Data)
}

/// As [`standing_at`], for paths inside the folder only.
#[must_use]
pub fn standing_inside(folder: &Path, path: &str) -> Option<Standing> {
    let root = folder.to_str()?;
    let inside = path::Workspace::new(root).resolve(path)?;
    let real = folder.join(inside.as_ref()).canonicalize().ok()?;
    real.starts_with(folder.canonicalize().ok()?).then_some(())?;
    standing_at(folder, Path::new(inside.as_ref()))
}

/// Whether a file names its interpreter. One that cannot be read may.
fn begins_as_script(path: &Path, length: u64) -> bool {
    let mut start = [0; 2];
    let mut read = || File::open(path)?.read_exact(&mut start);
    length >= 2 && (read().is_err() || start == *b"#!")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_data_where_it_is_neither_executable_nor_a_script_without_its_mode() {
        use Standing::{Data, Folder, Program};
        let base = tempfile::tempdir().unwrap();
        let root = base.path().join("work");
        let put = |path: &str, text: &str, mode: u32| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        for (path, text, mode, expected) in [
            ("scripts/run", "x", 0o755, Some(Program)),
            ("scripts/data", "x", 0o644, Some(Data)),
            ("scripts/empty", "", 0o644, Some(Data)),
            ("scripts/lost", "#!/bin/sh\n", 0o644, None),
            ("scripts/lost.sh", "true\n", 0o644, None),
            ("src/sum.sh", "true\n", 0o644, Some(Data)),
        ] {
            put(path, text, mode);
            assert_eq!(standing_inside(&root, path), expected, "{path}");
            let whole = root.join(path);
            assert_eq!(standing_inside(&root, whole.to_str().unwrap()), expected, "{path}");
        }
        assert_eq!(standing_inside(&root, "src/"), Some(Folder));
        assert_eq!(standing_inside(&root, "none"), None);
        put("../other/run", "x", 0o755);
        std::os::unix::fs::symlink("../other", root.join("out")).unwrap();
        for outside in ["../other/run", "out/run", "/bin/sh"] {
            assert_eq!(standing_inside(&root, outside), None, "{outside}");
        }
        // A program elsewhere may be run, and no check finds another file there.
        assert_eq!(standing_at(&root, Path::new("/bin/sh")), Some(Program));
        assert_eq!(standing_at(&root, Path::new("/etc/passwd")), None);
    }
}
