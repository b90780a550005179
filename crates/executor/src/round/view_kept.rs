//! What the checks of one owner wrote to ignored paths: a layer for each check, so that its further runs start from the same
//! layers as its first one.
//!
//! ```text
//!   OWN/of           the check whose writes are in OWN/upper
//!   OWN/layers/00    the same folders of the check before, with the number of its place
//! ```

use super::view_layers::PLACED;
use crate::scratch::{entries, make};
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use surety_sandbox::remove_tree;

/// The most layers: the options of a mount with all their paths have to fit in one page.
pub(super) const MAX_LAYERS: usize = 12;

const OF: &str = "of";
const LAYERS: &str = "layers";

/// Lays away what the check before wrote, before the first run of a check.
pub(super) fn begin(own: &Path, check: &str) -> io::Result<()> {
    let upper = own.join("upper");
    if upper.is_dir() && is_of(own, check) {
        // It runs once more from its beginning.
        remove_tree(&upper)?;
    }
    let number = numbered(own)?.len();
    // Behind the last layer checks share one, which no further run finds.
    if upper.is_dir() && number < MAX_LAYERS && !entries(&upper)?.is_empty() {
        let layer = own.join(LAYERS).join(format!("{number:02}"));
        make(&layer)?;
        for name in [OF, PLACED, "upper"] {
            match fs::rename(own.join(name), layer.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
    }
    make(own)?;
    fs::write(own.join(OF), check)
}

/// The layers that lie below a run of a check, the last one first: those of the checks before it.
pub(super) fn below(own: &Path, check: &str, is_first: bool) -> io::Result<Vec<PathBuf>> {
    let layers = numbered(own)?;
    let before: Vec<PathBuf> =
        layers.iter().take_while(|layer| !is_of(layer, check)).cloned().collect();
    let is_last = !is_first
        && before.len() == layers.len()
        && layers.len() < MAX_LAYERS
        && !is_of(own, check)
        && own.join("upper").is_dir();
    let last = is_last.then(|| own.to_owned());
    Ok(before.into_iter().chain(last).rev().collect())
}

/// Every layer, the last one first, without that which is written.
pub(super) fn all(own: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(numbered(own)?.into_iter().rev().collect())
}

/// Whether a layer above removed a path, or a folder above it.
pub(super) fn is_removed(path: &Path, above: &[PathBuf]) -> bool {
    let is_mark = |at: PathBuf| {
        fs::symlink_metadata(at).is_ok_and(|found| found.file_type().is_char_device())
    };
    above.iter().any(|layer| path.ancestors().any(|it| is_mark(layer.join(it))))
}

fn is_of(folder: &Path, check: &str) -> bool {
    fs::read(folder.join(OF)).is_ok_and(|of| of == check.as_bytes())
}

fn numbered(own: &Path) -> io::Result<Vec<PathBuf>> {
    let layers = own.join(LAYERS);
    if !layers.is_dir() {
        return Ok(Vec::new());
    }
    let mut found: Vec<PathBuf> = entries(&layers)?.into_iter().map(|it| it.path()).collect();
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_runs_of_a_check_find_what_checks_before_it_wrote_and_not_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path();
        let layer = |number: &str| own.join("layers").join(number);
        for check in ["a", "b"] {
            begin(own, check).unwrap();
            fs::create_dir(own.join("upper")).unwrap();
            fs::write(own.join("upper").join(check), "").unwrap();
        }
        assert!(layer("00").join("upper/a").exists());
        assert_eq!(below(own, "a", false).unwrap(), Vec::<PathBuf>::new());
        assert_eq!(below(own, "b", true).unwrap(), [layer("00")]);
        assert_eq!(below(own, "b", false).unwrap(), [layer("00")]);
        assert_eq!(below(own, "hidden", false).unwrap(), [own.to_owned(), layer("00")]);
    }
}
