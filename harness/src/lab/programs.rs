//! The programs that a lab calls.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::LabError;

/// Where administrators' programs are; plain users often have none of them in `PATH`.
const ADMINISTRATORS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Where a program is: in `PATH`, or where administrators' programs are.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(ADMINISTRATORS.map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|file| is_executable(file))
}

/// A call of a program.
///
/// # Errors
///
/// [`LabError::Missing`] where there is no such program.
pub(crate) fn command(program: &str) -> Result<Command, LabError> {
    find(program).map(Command::new).ok_or_else(|| LabError::Missing { program: program.to_owned() })
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_in_the_path_is_found() {
        let found = find("sh").expect("every system has a shell");
        assert!(found.ends_with("sh") && found.is_absolute(), "{found:?}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = command("svclab-knows-no-such-program").expect_err("there is no such program");
        assert_eq!(error.to_string(), "svclab-knows-no-such-program is not installed");
    }
}
