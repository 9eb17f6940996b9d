//! Where things are: the checkout, what is built from it, and what is cached.

use std::env;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// The checkout that this command works on.
#[derive(Clone, Debug)]
pub struct Workspace {
    root: PathBuf,
    target: PathBuf,
}

impl Workspace {
    /// The checkout named by the front door, else the one around the current
    /// directory.
    ///
    /// # Errors
    /// When there is none.
    pub fn find() -> Result<Self> {
        let start = match env::var_os("CHITIN_ROOT") {
            Some(root) => PathBuf::from(root),
            None => env::current_dir().map_err(|error| Failure::new(error.to_string()))?,
        };
        let root = start
            .ancestors()
            .find(|folder| folder.join("rust-toolchain.toml").exists() && folder.join("abi").is_dir())
            .ok_or_else(|| Failure::new("this is not a Chitin checkout: start ./chitin there"))?;
        Ok(Self::at(root))
    }

    /// The checkout at `root`.
    pub fn at(root: &Path) -> Self {
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
        Self { root: root.to_owned(), target: root.join(target) }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What cargo builds for the kernel, with the kernel's code model.
    pub fn kernel_target(&self) -> PathBuf {
        self.target.join("kernel")
    }

    /// What cargo builds for programs inside the machine.
    pub fn guest_target(&self) -> PathBuf {
        self.target.join("guest")
    }

    /// Transcripts and results of the last test run.
    pub fn test_results(&self) -> PathBuf {
        self.target.join("test")
    }

    /// Downloaded packages and answers of slow probes; safe to delete. `CHITIN_CACHE` names another folder.
    pub fn cache(&self) -> PathBuf {
        env::var_os("CHITIN_CACHE").map_or_else(|| self.root.join("cache"), |folder| self.root.join(folder))
    }
}

#[cfg(test)]
mod tests {
    use toml::{Table, Value};

    /// The front door looks only into these folders to see whether the host command is older than its sources.
    #[test]
    fn the_front_door_watches_every_crate_that_the_host_command_links() {
        let parse = |text: &str| text.parse::<Table>().unwrap();
        let own = [include_str!("../Cargo.toml"), include_str!("../../develop/Cargo.toml")].map(parse);
        let whole = parse(include_str!("../../../Cargo.toml"));
        let path_of = |name: &String| whole["workspace"]["dependencies"].get(name)?.get("path").and_then(Value::as_str);
        let names = own.iter().flat_map(|own| own["dependencies"].as_table().unwrap().keys());
        let paths: Vec<&str> = names.filter_map(path_of).collect();
        let script = include_str!("../../../chitin");
        let watched = script.lines().find(|line| line.contains("-newer")).unwrap();
        assert!(paths.len() > 1, "{paths:?}");
        for path in paths {
            let is_watched = |folder: &str| path == folder || path.starts_with(&format!("{folder}/"));
            assert!(watched.split_whitespace().any(is_watched), "./chitin does not look into {path}");
        }
    }
}
