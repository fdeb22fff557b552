//! One archive of what a node shows: rules, addresses, connections, settings, kube-proxy's configuration and log, objects.
//!
//! The script is all there is: [`SCRIPT`] runs on nodes without svclab, and [`collect`] runs the same text. [`crate::evidence`]
//! reads the archive.

use std::io::{self, Write};
use std::process::{Command, Stdio};

/// The script, for a POSIX shell.
pub const SCRIPT: &str = include_str!("collect.sh");

/// The outcome of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    /// Whether there is an archive.
    pub is_complete: bool,
    /// The archive (tar.gz), or the path that the script wrote it to.
    pub output: Vec<u8>,
    /// What the script reports: commands that failed, and why there is no archive.
    pub messages: String,
}

/// Where the archive goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// To the caller.
    Memory,
    /// Into a new file in this folder that is named after node and time.
    NewFile,
}

/// Collects what this node shows. The script is ended with the thread that calls this, and removes its temporary files then.
///
/// # Errors
///
/// Without a shell.
pub fn collect(target: Target) -> io::Result<Collected> {
    let start = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).args(["-s", "--"]).args((target == Target::Memory).then_some("-"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    };
    let mut shell = start("setpriv", &["--pdeathsig", "TERM", "sh"]).or_else(|_| start("sh", &[]))?;
    // A shell that ends early does not read all of it.
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
