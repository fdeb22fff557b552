//! Kernel settings of a namespace.

use std::fs;
use std::io::ErrorKind;

use super::LabError;
use crate::topology::Space;

/// Writes a namespace's settings. The calling thread must be inside of it: `/proc/sys/net` shows the reader's own.
///
/// # Errors
///
/// The first setting that the kernel refuses or does not know. Without the module br_netfilter rules do not see a bridge's
/// packets, which is what 0 says; then that is no error.
pub(super) fn write(space: &Space) -> Result<(), LabError> {
    for (name, value) in &space.sysctls {
        let path = format!("/proc/sys/net/{}", name.replace('.', "/"));
        match fs::write(&path, value) {
            Err(error) if error.kind() == ErrorKind::NotFound && name.starts_with("bridge.") && value == "0" => {}
            Err(source) => {
                let (space, name, value) = (space.name.clone(), name.clone(), value.clone());
                return Err(LabError::Setting { space, name, value, source });
            }
            Ok(()) => {}
        }
    }
    Ok(())
}
