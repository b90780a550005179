//! What an executor uses of its machine: the sandbox of commands, its folders, its open files.

use crate::tool;
use crate::{ServeError, Setup, blocking, round, scratch, workspace_git};
use std::path::{Path, PathBuf};
use surety_common::config::ExecutorConfig;
use surety_common::domain::workspace::Reserved;
use surety_common::wire::server;

/// The open files of each running command: two pipes, its helper and the socket to it, and its run's folder.
const FILES_OF_A_COMMAND: u64 = 5;
/// The open files for connections, logs, and files that tools read.
const FILES_BESIDE: u64 = 64;

/// Probes the sandbox of this machine, and logs the level. Commands see none of the `key_files` of models. Answers the folders
/// that no run may work in as well.
pub(crate) async fn confine(
    setup: &Setup,
    key_files: Vec<PathBuf>,
) -> Result<(tool::Sandbox, Reserved), ServeError> {
    let config = setup.executor.sandbox.clone();
    let data_dir = setup.executor.executor_data_dir.clone();
    let mut hidden = setup.hidden.clone();
    hidden.extend(setup.common.token_file.clone());
    hidden.extend(setup.executor.executor_key_file.clone());
    hidden.extend(setup.common.tls.client.tls_key_file.clone());
    let reserved = reserved(hidden.iter().cloned().chain([data_dir.clone()]));
    hidden.extend(key_files);
    let listed = setup.executor.executor_secrets.iter().flat_map(|secrets| &secrets.0);
    hidden.extend(listed.filter_map(tool::secret_file));
    let servers = setup.executor.mcp_servers()?;
    hidden.extend(servers.iter().flat_map(|server| server.secret_files()).map(Path::to_owned));
    hidden.extend(setup.executor.executor_mcp.clone());
    let forges = setup.common.forges()?;
    hidden.extend(forges.secret_files().map(Path::to_owned));
    hidden.extend(setup.common.forges_file.clone());
    let models = &setup.models.models;
    hidden.extend(models.model_profiles_file.clone());
    hidden.extend(setup.database_url.as_deref().and_then(socket_folder));
    let probing =
        tokio::task::spawn_blocking(move || tool::Sandbox::probe(&config, &data_dir, hidden));
    let sandbox = probing.await.map_err(|error| {
        let source = std::io::Error::other(error);
        tool::SandboxError::Scratch { path: setup.executor.executor_data_dir.clone(), source }
    })??;
    let machine = sandbox.machine();
    let reasons = machine.reasons().join(" ");
    if reasons.is_empty() {
        tracing::info!(sandbox = %machine.in_force(), "executor: commands run in the sandbox");
    } else {
        tracing::warn!(
            sandbox = %machine.in_force(),
            reasons,
            "executor: commands run in a weaker sandbox than the strongest; see docs/sandbox.md"
        );
    }
    Ok((sandbox, reserved))
}

/// What runs on git repositories are allowed here.
pub(crate) fn git_host(config: &ExecutorConfig) -> workspace_git::GitHost {
    let data_dir = &config.executor_data_dir;
    // Commands have to know the folder by its real path.
    let data_dir = data_dir.canonicalize().unwrap_or_else(|_| data_dir.clone());
    workspace_git::GitHost {
        allowed: config.repositories(),
        disk_mib: config.executor_repository_mib,
        clones: data_dir.join("clones"),
    }
}

/// Removes the views, the clones and the folders of commands that killed processes left on this machine.
pub(crate) async fn sweep(sandbox: &tool::Sandbox, clones: PathBuf) {
    let scratch = sandbox.scratch().to_owned();
    let sweeping = move || {
        let left = round::sweep_views(&scratch) + workspace_git::sweep_clones(&clones);
        let prefixes = [tool::mcp::SCRATCH_PREFIX, surety_sandbox::SCRATCH_PREFIX];
        left + prefixes.map(|prefix| scratch::sweep(&scratch, prefix)).iter().sum::<usize>()
    };
    match blocking::blocking(sweeping).await {
        Ok(0) | Err(_) => {}
        Ok(removed) => {
            tracing::info!(removed, "executor: removed the folders that killed processes left");
        }
    }
}

/// The folder of the database's socket, where the address names one.
fn socket_folder(database_url: &str) -> Option<PathBuf> {
    let (place, query) = database_url.split_once('?').unwrap_or((database_url, ""));
    let named = query.split('&').find_map(|part| part.strip_prefix("host="));
    let host = named.or_else(|| {
        let host = place.split_once("://")?.1;
        host.rsplit_once('@').map_or(host, |(_, host)| host).split('/').next()
    })?;
    let host = host.replace("%2F", "/").replace("%2f", "/");
    host.starts_with('/').then(|| PathBuf::from(host))
}

/// Warns when the commands of all slots need more open files than the process may have.
pub(crate) fn warn_of_open_files(slots: u32) {
    let needed = u64::from(slots) * FILES_OF_A_COMMAND + FILES_BESIDE;
    match server::open_files() {
        Ok(allowed) if allowed < needed => tracing::warn!(
            allowed,
            needed,
            "executor: the limit of open files is too low for all slots, so commands will wait; raise it or use fewer slots \
             (SURETY_EXECUTOR_SLOTS)"
        ),
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "executor: the limit of open files could not be read"),
    }
}

/// The folders that no run may work in: by their real paths, and as they are named. `data` are the folders and the files that
/// the service keeps for itself: what a tool of this process reads, no sandbox hides. Keys of models and secrets of tools are
/// taken out of what tools read.
fn reserved(data: impl Iterator<Item = PathBuf>) -> Reserved {
    let both = |path: PathBuf| {
        let real = path.canonicalize().ok();
        std::path::absolute(path).into_iter().chain(real)
    };
    let homes = std::env::home_dir().into_iter().filter(|home| home.parent().is_some());
    Reserved { homes: homes.flat_map(both).collect(), data: data.flat_map(both).collect() }
}
