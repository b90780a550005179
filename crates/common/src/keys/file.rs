//! What the file of a private key and the file of trusted keys share.

use nix::fcntl::OFlag;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
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

/// Opens a regular file, or what a link leads to. A pipe or a device is refused: a read would wait, or find no end.
pub(super) fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    let is_regular = |found: &Metadata| match (found.is_dir(), found.is_file()) {
        (true, _) => Err(ErrorKind::IsADirectory.into()),
        (false, false) => Err(io::Error::other("it is no regular file, but a pipe or a device")),
        (false, true) => Ok(()),
    };
    // A device is not even opened. Another file may take the place meanwhile, and a pipe would wait for a writer.
    is_regular(&fs::metadata(path)?)?;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlag::O_NONBLOCK.bits());
    let file = options.open(path)?;
    let found = file.metadata()?;
    is_regular(&found)?;
    Ok((file, found))
}

/// The text of a file that has at most so many bytes.
pub(super) fn read_text(file: File, most_bytes: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(most_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > most_bytes) {
        return Err(io::Error::other(format!("it has more than {most_bytes} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is no UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;
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

    #[test]
    fn a_file_that_is_not_regular_too_long_or_no_text_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let read = |path: &Path| -> String {
            let text = open_regular(path).and_then(|(file, _)| read_text(file, 4));
            text.unwrap_or_else(|error| format!("error: {error}"))
        };
        mkfifo(&at("pipe"), Mode::S_IRWXU).unwrap();
        symlink("pipe", at("link")).unwrap();
        fs::write(at("most"), "four").unwrap();
        fs::write(at("long"), "fives").unwrap();
        fs::write(at("bytes"), b"\xff").unwrap();
        File::create(at("sparse")).unwrap().set_len(20 << 30).unwrap();
        for (name, expected) in [
            ("pipe", "error: it is no regular file, but a pipe or a device"),
            ("link", "error: it is no regular file, but a pipe or a device"),
            ("most", "four"),
            ("long", "error: it has more than 4 bytes"),
            ("sparse", "error: it has more than 4 bytes"),
            ("bytes", "error: it is no UTF-8 text"),
        ] {
            assert_eq!(read(&at(name)), expected, "{name}");
        }
        assert!(read(Path::new("/dev/zero")).contains("no regular file"));
        assert_eq!(read(folder.path()), "error: is a directory");
    }
}
