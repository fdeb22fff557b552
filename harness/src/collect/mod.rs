//! An archive of a node's state: rules, addresses, connections, settings, kube-proxy's configuration and log, objects.
//!
//! Everything is in the script: [`SCRIPT`] runs on nodes without svclab, and [`collect`] runs the same text. [`crate::evidence`]
//! reads the archive.

use std::io::{self, Write};
use std::process::{Command, Stdio};

/// The script, for a POSIX shell.
pub const SCRIPT: &str = include_str!("collect.sh");

/// The outcome of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    /// Whether an archive was written.
    pub is_complete: bool,
    /// The archive (tar.gz), or the path that the script wrote it to.
    pub output: Vec<u8>,
    /// The script's messages: commands that failed, and why there is no archive.
    pub messages: String,
}

/// The destination of the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The caller.
    Memory,
    /// A new file in this folder, named after the node and the time.
    NewFile,
}

/// Collects this node's state. The script is terminated when the calling thread ends, and then removes its temporary files.
///
/// # Errors
///
/// If no shell can be started.
pub fn collect(target: Target) -> io::Result<Collected> {
    let start = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).args(["-s", "--"]).args((target == Target::Memory).then_some("-"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    };
    let mut shell = start("setpriv", &["--pdeathsig", "TERM", "sh"]).or_else(|_| start("sh", &[]))?;
    // A shell that exits early does not read the whole script.
    let written = shell.stdin.take().map(|mut stdin| stdin.write_all(SCRIPT.as_bytes()));
    let output = shell.wait_with_output()?;
    if let Some(Err(error)) = written
        && output.status.success()
    {
        return Err(error);
    }
    let messages = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    Ok(Collected { is_complete: output.status.success(), output: output.stdout, messages })
}
