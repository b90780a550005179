//! Generates the wire code from `proto/`, where the feature `wire` asks for it.

/// Where the protobuf files are, from this crate.
#[cfg(feature = "wire")]
const PROTO_ROOT: &str = "../../proto";

#[cfg(feature = "wire")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::path::{Path, PathBuf};

    println!("cargo::rerun-if-changed={PROTO_ROOT}");
    let mut files = std::fs::read_dir(Path::new(PROTO_ROOT).join("surety/v1"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<PathBuf>, _>>()?;
    files.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "proto")
    });
    files.sort();

    let mut compiler = protox::Compiler::new([PROTO_ROOT])?;
    compiler
        .include_imports(true)
        .include_source_info(true)
        .open_files(files)?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    // protox encodes the set itself: `prost_types` would drop what it does not know.
    std::fs::write(
        out.join("surety_descriptor.bin"),
        compiler.encode_file_descriptor_set(),
    )?;
    tonic_prost_build::configure()
        // ToolService has an RPC named Connect, which the generated `connect` would clash with;
        // clients are made from a channel of `wire::client`.
        .build_transport(false)
        .btree_map(".")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}

#[cfg(not(feature = "wire"))]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
