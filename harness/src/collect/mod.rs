//! One archive of what a node shows: rules, addresses, connections, settings, kube-proxy's configuration and log, objects.
//!
//! The script is all there is: [`SCRIPT`] runs on nodes without svclab, and [`collect`] runs the same text. [`crate::evidence`]
//! reads the archive.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// The script, for a POSIX shell.
pub const SCRIPT: &str = include_str!("collect.sh");

/// What came of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    /// Whether the archive was written.
    pub is_written: bool,
    /// The archive's path, as the script prints it.
    pub archive: String,
    /// What the script reports: commands that failed, and why there is no archive.
    pub messages: String,
}

/// Collects what this node shows into an archive (tar.gz), or into one in this folder that is named after node and time.
///
/// # Errors
///
/// Without a shell.
pub fn collect(archive: Option<&Path>) -> io::Result<Collected> {
    let mut command = Command::new("sh");
    command.args(["-s", "--"]).args(archive);
    let mut shell = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    // A shell that ends early does not read all of it.
    let written = shell.stdin.take().map(|mut stdin| stdin.write_all(SCRIPT.as_bytes()));
    let output = shell.wait_with_output()?;
    if let Some(Err(error)) = written
        && output.status.success()
    {
        return Err(error);
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    Ok(Collected { is_written: output.status.success(), archive: text(&output.stdout), messages: text(&output.stderr) })
}
