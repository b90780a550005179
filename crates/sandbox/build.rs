//! Computes the name of this build of the helper, by which a service knows a helper of its own sources.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

/// What the helper's program is built from.
const SOURCES: [&str; 3] = ["src", "../symbols/src", "../../Cargo.lock"];

fn main() -> io::Result<()> {
    let mut files = Vec::new();
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
        files_below(Path::new(source), &mut files)?;
    }
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        file.hash(&mut hasher);
        fs::read(&file)?.hash(&mut hasher);
    }
    println!("cargo::rustc-env=SURETY_SANDBOX_BUILD={:016x}", hasher.finish());
    Ok(())
}

fn files_below(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if path.is_file() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        files_below(&entry?.path(), files)?;
    }
    Ok(())
}
