//! What the file of a private key and the file of trusted keys share.

use std::fs;
use std::path::{Path, PathBuf};

/// As many links as Linux follows.
const MOST_LINKS: u32 = 40;

/// The file that a path names, behind symbolic links: a file that replaces it has to have its place, and not that of a link.
/// The file need not be there.
pub(super) fn target(path: &Path) -> PathBuf {
    let mut target = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(leads_to) = fs::read_link(&target) else { break };
        target = target.with_file_name("").join(leads_to);
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_path_leads_to_the_file_behind_its_links() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("keys")).unwrap();
        symlink("keys/there", at("relative")).unwrap();
        symlink(at("relative"), at("absolute")).unwrap();
        symlink("round", at("round")).unwrap();
        for name in ["relative", "absolute", "keys/there"] {
            assert_eq!(target(&at(name)), at("keys/there"), "{name}");
        }
        assert_eq!(target(&at("round")), at("round"));
        assert_eq!(target(Path::new("none.pem")), Path::new("none.pem"));
    }
}
