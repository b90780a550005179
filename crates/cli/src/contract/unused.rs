//! A checks file that lies in the work tree and has no effect.

use std::path::Path;

use surety_executor::revision::work_tree_top;

use super::file::Contract;
use crate::plan_file::read_text;
use crate::verify::DEFAULT_PLAN;

impl Contract {
    /// Why a checks file that lies in the work tree has no effect, and what to do; none where there is no such file,
    /// where another one was named, or where it is what the contract holds.
    #[must_use]
    pub fn unused_checks(&self) -> Option<String> {
        let root = Path::new(&self.workspace);
        let file = root.join(DEFAULT_PLAN);
        // Nothing else is opened: a pipe would not end.
        let is_there =
            |path: &Path| path.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
        match &self.checks {
            Some(checks) if checks.path != file || !is_there(&file) => None,
            Some(checks) => {
                let is_same = read_text(&file).is_ok_and(|text| text == checks.text);
                let taken =
                    if self.commit.is_some() { "that of the commit" } else { "it as it is" };
                (!is_same).then(|| {
                    format!(
                        "{DEFAULT_PLAN} of the workspace is not what this contract holds; `surety contract new` takes {taken}"
                    )
                })
            }
            None if is_there(&file) => Some(format!(
                "the contract has no checks of the user: {DEFAULT_PLAN} is in the workspace, and was not in {}; {}run \
                 `surety contract new`",
                self.start(),
                if self.commit.is_some() { "commit it, then " } else { "" }
            )),
            None => {
                let top = work_tree_top(root)?.join(DEFAULT_PLAN);
                is_there(&top).then(|| {
                    format!(
                        "the contract has no checks of the user: {} is not looked for from {}; name it with --checks, \
                         or its folder with --workspace, and run `surety contract new`",
                        top.display(),
                        root.display()
                    )
                })
            }
        }
    }
}
