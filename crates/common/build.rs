//! Generates the wire code from `proto/`, where the feature `wire` asks for it.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // `sqlx::migrate!` cannot see new files by itself.
    println!("cargo::rerun-if-changed=migrations");
    #[cfg(feature = "wire")]
    wire::generate()?;
    Ok(())
}

#[cfg(feature = "wire")]
mod wire {
    use std::error::Error;
    use std::path::{Path, PathBuf};

    /// Where the protobuf files are, from this crate.
    const PROTO_ROOT: &str = "../../proto";

    pub(super) fn generate() -> Result<(), Box<dyn Error>> {
        println!("cargo::rerun-if-changed={PROTO_ROOT}");
        let mut compiler = protox::Compiler::new([PROTO_ROOT])?;
        compiler.include_imports(true).include_source_info(true).open_files(proto_files()?)?;
        let out = PathBuf::from(std::env::var("OUT_DIR")?);
        // protox encodes the set itself: `prost_types` would drop what it does not know.
        std::fs::write(out.join("surety_descriptor.bin"), compiler.encode_file_descriptor_set())?;
        tonic_prost_build::configure()
            // ToolService has an RPC named Connect, which the generated `connect` would clash
            // with; clients are made from a channel of `wire::client`.
            .build_transport(false)
            .btree_map(".")
            .compile_fds(compiler.file_descriptor_set())?;
        Ok(())
    }

    fn proto_files() -> Result<Vec<PathBuf>, Box<dyn Error>> {
        let mut files = std::fs::read_dir(Path::new(PROTO_ROOT).join("surety/v1"))?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<Vec<PathBuf>, _>>()?;
        files.retain(|path| path.extension().is_some_and(|extension| extension == "proto"));
        files.sort();
        Ok(files)
    }
}
