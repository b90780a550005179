//! Which files of the machine a command sees: system folders, the toolchains that its environment
//! names, and the caches of package managers. A person's home is empty but for these.

use crate::git;
use crate::spec::Tree;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Programs, libraries and the machine's configuration.
const SYSTEM: [&str; 18] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/snap",
    // What package managers know, and what packages of the machine put there.
    "/var/lib/dpkg",
    "/var/lib/gems",
    "/var/lib/ghc",
    "/var/lib/pacman",
    "/var/lib/rpm",
    "/var/lib/texmf",
];

/// Secrets below folders of the machine's configuration that everybody may enter.
const SECRETS: [&str; 3] = ["/etc/ssl/private", "/etc/sudoers.d", "/etc/wireguard"];

/// Toolchains below a home folder, and the tools' configuration that holds no secret.
const HOME_TOOLS: [&str; 40] = [
    ".asdf",
    ".bun/bin",
    ".cabal/bin",
    ".cargo/bin",
    ".cargo/config",
    ".cargo/config.toml",
    ".cargo/env",
    ".config/uv",
    ".deno/bin",
    ".dotnet",
    ".elan",
    ".fnm",
    ".ghcup",
    ".goenv",
    ".jenv",
    ".juliaup",
    ".local/bin",
    ".local/lib",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/uv",
    ".local/share/virtualenvs",
    ".nix-profile",
    ".nodenv",
    ".npm-global",
    ".nvm",
    ".opam",
    ".phpenv",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".rvm",
    ".sdkman",
    ".stack/programs",
    ".swiftly",
    ".volta",
    "go/bin",
    "miniconda3",
];

/// Caches of package managers and compilers below a home folder.
const HOME_CACHES: [&str; 34] = [
    ".bundle/cache",
    ".cache/Cypress",
    ".cache/bazelisk",
    ".cache/ccache",
    ".cache/composer",
    ".cache/coursier",
    ".cache/deno",
    ".cache/go-build",
    ".cache/huggingface",
    ".cache/ms-playwright",
    ".cache/node-gyp",
    ".cache/pip",
    ".cache/pnpm",
    ".cache/pre-commit",
    ".cache/puppeteer",
    ".cache/pypoetry",
    ".cache/sccache",
    ".cache/uv",
    ".cache/yarn",
    ".cache/zig",
    ".cargo/git",
    ".cargo/registry",
    ".composer/cache",
    ".gem",
    ".gradle/caches",
    ".gradle/wrapper",
    ".hex",
    ".ivy2/cache",
    ".m2/repository",
    ".mix",
    ".npm",
    ".nuget/packages",
    ".pub-cache",
    "go/pkg/mod",
];

/// Credentials that tools keep in these folders.
const HOME_SECRETS: [&str; 5] = [
    ".cache/huggingface/stored_tokens",
    ".cache/huggingface/token",
    ".gem/credentials",
    ".hex/hex.config",
    ".pub-cache/credentials.json",
];

/// Variables that name a toolchain.
const TOOL_VARIABLES: [&str; 13] = [
    "DOTNET_ROOT",
    "GOROOT",
    "GOTOOLDIR",
    "JAVA_HOME",
    "M2_HOME",
    "MAVEN_HOME",
    "NVM_DIR",
    "PNPM_HOME",
    "PYENV_ROOT",
    "RUSTUP_HOME",
    "SDKMAN_DIR",
    "SDKROOT",
    "VIRTUAL_ENV",
];

/// Variables that name a folder of a tool, and what of it is a toolchain or a cache.
const TOOL_FOLDERS: [(&str, &[&str], &[&str]); 5] = [
    ("CARGO_HOME", &["bin", "config", "config.toml", "env"], &["registry", "git"]),
    ("GOPATH", &["bin"], &["pkg/mod"]),
    ("GOMODCACHE", &[], &[""]),
    ("GOCACHE", &[], &[""]),
    ("GRADLE_USER_HOME", &[], &["caches", "wrapper"]),
];

/// Configuration of tools below a home folder that decides how a later command behaves. A participant with
/// its own home may read it and not change it.
const HOME_CONFIGURATION: [&str; 17] = [
    ".bazelrc",
    ".bundle/config",
    ".bunfig.toml",
    ".config/git",
    ".config/go",
    ".config/pip",
    ".config/pnpm",
    ".gemrc",
    ".gitconfig",
    ".gradle/gradle.properties",
    ".gradle/init.d",
    ".gradle/init.gradle",
    ".m2/settings.xml",
    ".npmrc",
    ".pip",
    ".yarnrc",
    ".yarnrc.yml",
];

/// Where the machine keeps the addresses of its name servers, outside of the system folders.
const NAME_SERVICES: [&str; 3] = ["/run/systemd/resolve", "/run/NetworkManager", "/run/resolvconf"];

/// What a service keeps from its commands, and what it adds for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Folders {
    /// The service's own: data folder, token files, the database's socket.
    pub hidden: Vec<PathBuf>,
    /// What the operator lets commands read besides what is found.
    pub read_only: Vec<PathBuf>,
    /// What the operator lets commands write besides their workspace.
    pub writable: Vec<PathBuf>,
    /// On disk, for what goes away with a command; made by the service.
    pub scratch: PathBuf,
}

/// The files of this machine that commands with one environment see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostTree {
    tree: Tree,
    home: Option<PathBuf>,
    /// What would be shown if it were there.
    absent: Vec<PathBuf>,
}

impl HostTree {
    /// Looks the machine over for what this environment names.
    pub fn of<'e>(
        environment: impl IntoIterator<Item = (&'e OsStr, &'e OsStr)>,
        folders: &Folders,
    ) -> Self {
        let environment: Vec<_> = environment.into_iter().collect();
        let variable = |name: &str| {
            let found = environment.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| PathBuf::from(value)).filter(|path| path.is_absolute())
        };
        let home = variable("HOME").filter(|home| home.parent().is_some());
        let mut host = Self { home: home.clone(), ..Self::default() };
        host.tree.scratch.clone_from(&folders.scratch);
        host.tree.hidden.clone_from(&folders.hidden);
        SYSTEM.iter().for_each(|path| host.read(Path::new(path)));
        folders.read_only.iter().for_each(|path| host.read(path));
        host.tree
            .writable
            .extend(folders.writable.iter().filter_map(|path| path.canonicalize().ok()));
        host.hide_secrets();
        if let Some(home) = &home {
            HOME_TOOLS.iter().for_each(|path| host.read(&home.join(path)));
            HOME_CACHES.iter().for_each(|path| host.cache(&home.join(path)));
            host.tree.hidden.extend(home_secrets(home));
            host.tree.private.push(home.clone());
            host.tree.files.push((home.join(".gitconfig"), git::configuration(home)));
        }
        for path in TOOL_VARIABLES.iter().filter_map(|name| variable(name)) {
            host.read_prefix(&path);
        }
        for (name, tools, caches) in TOOL_FOLDERS {
            let Some(folder) = variable(name) else { continue };
            tools.iter().for_each(|path| host.read(&folder.join(path)));
            caches.iter().for_each(|path| host.cache(&folder.join(path)));
        }
        let path = environment.iter().find(|(key, _)| *key == "PATH");
        for entry in path.iter().flat_map(|(_, path)| std::env::split_paths(path)) {
            if entry.is_absolute() {
                host.read_program_folder(&entry);
            }
        }
        host
    }

    /// What a command on a workspace sees. `workspace` has no links in it; `given` is the name by which
    /// it is known, `writable` what of it may be written, relative to it, and `git` what [`crate::folders_of_git`] found.
    pub fn tree(
        &self,
        workspace: &Path,
        given: &Path,
        writable: &[PathBuf],
        git: &[PathBuf],
    ) -> Tree {
        let mut tree = self.tree.clone();
        tree.read_only.extend(self.shown(git).iter().cloned());
        tree.writable.extend(writable.iter().map(|path| workspace.join(path)));
        tree.workspace = workspace.to_owned();
        if given != workspace {
            tree.links.push((given.to_owned(), workspace.to_owned()));
        }
        // Nothing of the workspace may be hidden by what is put around it.
        tree.private.retain(|path| !path.starts_with(workspace));
        tree.files.retain(|(path, _)| !path.starts_with(workspace));
        tree.read_only.retain(|path| !path.starts_with(workspace));
        tree.caches.retain(|path| !path.starts_with(workspace));
        tree
    }

    /// What a participant sees that works with a person's own home: toolchains and their configuration are
    /// read-only, and what it writes to a cache goes away with it, so that no later command meets it.
    pub fn participant(&self, workspace: &Path, given: &Path, git: &[PathBuf]) -> Tree {
        let mut tree = self.tree(workspace, given, &[PathBuf::new()], git);
        tree.private.clear();
        tree.files.clear();
        if let Some(home) = &self.home {
            // A person's command has the person's credentials.
            let own: Vec<_> = home_secrets(home).collect();
            tree.hidden.retain(|path| !own.contains(path));
        }
        let home = self.home.as_deref().and_then(|home| home.canonicalize().ok());
        // It may commit; the files of an enclosing work tree are shown to later commands.
        for folder in self.shown(git) {
            let inside = folder.join(".git");
            let is_borrowed = folder.file_name().is_some_and(|name| name == "objects");
            if inside.is_dir() {
                tree.writable.push(inside);
            } else if !inside.exists() && !is_borrowed {
                tree.writable.push(folder.clone());
            }
        }
        if let Some(home) = home {
            let kept = HOME_CONFIGURATION.iter().map(|path| home.join(path));
            tree.read_only.extend(kept.filter_map(|path| path.canonicalize().ok()));
            tree.writable.push(home);
        }
        tree.read_only.extend(NAME_SERVICES.map(PathBuf::from));
        // A path that is named twice has the wider right.
        tree.read_only.retain(|path| !tree.writable.contains(path));
        tree
    }

    /// The folders of git: none where a person's home lies in one of them.
    fn shown<'g>(&self, git: &'g [PathBuf]) -> &'g [PathBuf] {
        let holds_home =
            |folder: &PathBuf| self.home.as_ref().is_some_and(|home| home.starts_with(folder));
        if git.iter().any(holds_home) { &[] } else { git }
    }

    /// What a later command would see, and what is not there now: toolchains, configurations, caches and
    /// program folders.
    pub fn absent(&self) -> &[PathBuf] {
        &self.absent
    }

    /// Shows a path to be read, and where a link leads, that as well.
    fn read(&mut self, path: &Path) {
        if let Some(real) = self.real(path) {
            self.tree.read_only.push(real);
        }
    }

    fn cache(&mut self, path: &Path) {
        if let Some(real) = self.real(path) {
            // An overlay has a folder below it.
            let paths =
                if real.is_dir() { &mut self.tree.caches } else { &mut self.tree.read_only };
            paths.push(real);
        }
    }

    /// A path without links, when it is there; the link is shown too.
    fn real(&mut self, path: &Path) -> Option<PathBuf> {
        let Ok(real) = path.canonicalize() else {
            self.absent.push(path.to_owned());
            return None;
        };
        if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
            // As the machine has it, which may be relative.
            let target = fs::read_link(path).unwrap_or_else(|_| real.clone());
            self.tree.links.push((path.to_owned(), target));
        } else if real != path {
            self.tree.links.push((path.to_owned(), real.clone()));
        }
        (!self.is_too_wide(&real)).then_some(real)
    }

    /// Shows a folder of `PATH`, and what its programs were installed with.
    fn read_program_folder(&mut self, folder: &Path) {
        self.read(folder);
        let Ok(real) = folder.canonicalize() else { return };
        let is_named_for_programs =
            real.file_name().is_some_and(|name| name == "bin" || name == "shims");
        if let Some(prefix) = real.parent().filter(|_| is_named_for_programs) {
            self.read_prefix(prefix);
        }
    }

    fn read_prefix(&mut self, prefix: &Path) {
        let Ok(real) = prefix.canonicalize() else { return };
        // These hold more than programs: credentials, keyrings, histories.
        let mixed = [".cargo", ".local", ".config", ".cache", ".gradle", ".m2"];
        let is_mixed =
            real.file_name().and_then(OsStr::to_str).is_some_and(|name| mixed.contains(&name));
        if !is_mixed {
            self.read(&real);
        }
    }

    /// Whether a folder holds a person's home, all homes, or a part of the machine that is no
    /// toolchain.
    fn is_too_wide(&self, path: &Path) -> bool {
        let home = self.home.as_deref().and_then(|home| home.canonicalize().ok());
        let wide = ["/", "/home", "/root", "/srv", "/mnt", "/tmp", "/var", "/proc", "/sys", "/dev"];
        wide.iter().any(|wide| path == Path::new(wide))
            || path.parent() == Some(Path::new("/home"))
            || home.is_some_and(|home| home.starts_with(path))
            || self.tree.hidden.iter().any(|hidden| path.starts_with(hidden))
    }

    /// Hides what the machine keeps from other accounts: without capabilities root still owns it.
    fn hide_secrets(&mut self) {
        let hidden = &mut self.tree.hidden;
        hidden.extend(SECRETS.map(PathBuf::from));
        let closed = |folder: &str| {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries
                .filter(|entry| {
                    entry.metadata().is_ok_and(|found| {
                        found.permissions().mode() & 0o004 == 0 && found.uid() == 0
                    })
                })
                .map(|entry| entry.path())
        };
        hidden.extend(closed("/etc"));
        hidden.extend(closed("/etc/ssh"));
    }
}

/// Where these files are, or would be; not through a link of a folder above.
fn home_secrets(home: &Path) -> impl Iterator<Item = PathBuf> {
    HOME_SECRETS.iter().map(|path| {
        let path = home.join(path);
        let real = path.parent().and_then(|above| above.canonicalize().ok());
        real.zip(path.file_name()).map(|(above, name)| above.join(name)).unwrap_or(path)
    })
}

/// The environment that a command gets, as the spec holds it.
impl Tree {
    /// Every variable as the spec holds it.
    pub fn environment<'e>(
        variables: impl IntoIterator<Item = (&'e OsStr, &'e OsStr)>,
    ) -> Vec<(OsString, OsString)> {
        let own = variables.into_iter().map(|(name, value)| {
            // The machine's temporary folder is not there, the command's own is at this path.
            let value = if name == "TMPDIR" { OsStr::new("/tmp") } else { value };
            (name.to_owned(), value.to_owned())
        });
        own.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(environment: &[(&str, &str)], hidden: &[PathBuf]) -> HostTree {
        let environment =
            environment.iter().map(|(name, value)| (OsStr::new(name), OsStr::new(value)));
        HostTree::of(environment, &Folders { hidden: hidden.to_vec(), ..Folders::default() })
    }

    #[test]
    fn a_home_shows_its_toolchains_and_not_what_lies_beside_them() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap().join("me");
        for path in [".cargo/bin", ".cargo/registry", ".local/bin", ".local/share/keyrings", "bin"]
        {
            fs::create_dir_all(home.join(path)).unwrap();
        }
        let text = |path: &str| home.join(path).to_string_lossy().into_owned();
        let path = [".cargo/bin", ".local/bin", "bin"].map(text).join(":");
        let found = host(&[("HOME", &text("")), ("PATH", &path)], &[]);
        let shows = |path: &str| {
            let path = home.join(path);
            found.tree.read_only.iter().any(|shown| path.starts_with(shown))
        };
        assert!(shows(".cargo/bin") && shows(".local/bin/x") && shows("bin/x"));
        assert!(!shows(".cargo/credentials.toml") && !shows(".local/share/keyrings"));
        assert!(!shows("") && !shows("secret"));
        assert_eq!(found.tree.caches, [home.join(".cargo/registry")]);
    }

    #[test]
    fn the_prefix_of_a_program_folder_is_shown_unless_it_is_a_home_or_the_services_own() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for path in ["node/v20/bin", "data/tools/bin", "home/bin"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        let text = |path: &str| root.join(path).to_string_lossy().into_owned();
        let path = ["node/v20/bin", "data/tools/bin", "home/bin"].map(text).join(":");
        let found = host(&[("HOME", &text("home")), ("PATH", &path)], &[root.join("data")]);
        let shown: Vec<_> =
            found.tree.read_only.iter().filter(|path| path.starts_with(&root)).collect();
        assert_eq!(
            shown,
            [&root.join("node/v20/bin"), &root.join("node/v20"), &root.join("home/bin")]
        );
    }

    #[test]
    fn a_participant_has_its_home_and_changes_no_toolchain() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap().join("me");
        for path in [".cargo/bin", ".cargo/registry", ".config/git", "repo/.git", "repo/crates/a"] {
            fs::create_dir_all(home.join(path)).unwrap();
        }
        fs::write(home.join(".npmrc"), "").unwrap();
        let text = |path: &str| home.join(path).to_string_lossy().into_owned();
        let found = host(&[("HOME", home.to_str().unwrap()), ("PATH", &text(".cargo/bin"))], &[]);
        let workspace = home.join("repo/crates/a");
        let tree = found.participant(&workspace, &workspace, &git::folders_of_git(&workspace));
        let named = |paths: &[PathBuf], path: &str| paths.contains(&home.join(path));
        assert!(tree.private.is_empty() && tree.files.is_empty());
        for path in ["", "repo/.git", "repo/crates/a/"] {
            assert!(named(&tree.writable, path), "{path} in {:?}", tree.writable);
        }
        for path in [".cargo/bin", ".npmrc", ".config/git", "repo"] {
            assert!(named(&tree.read_only, path), "{path} in {:?}", tree.read_only);
        }
        assert_eq!(tree.caches, [home.join(".cargo/registry")]);
        let absent = found.absent();
        assert!(named(absent, ".local/bin") && !named(absent, ".cargo/bin"), "{absent:?}");
    }
}
