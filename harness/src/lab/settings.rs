//! Kernel settings of a namespace.

use std::fs;

use super::LabError;
use crate::topology::Space;

/// Writes a namespace's settings. The calling thread must be inside of it: `/proc/sys/net` shows the reader's own.
///
/// # Errors
///
/// The first setting that the kernel refuses or does not know.
pub(super) fn write(space: &Space) -> Result<(), LabError> {
    for (name, value) in &space.sysctls {
        let path = format!("/proc/sys/net/{}", name.replace('.', "/"));
        if let Err(source) = fs::write(&path, value) {
            let setting =
                LabError::Setting { space: space.name.clone(), name: name.clone(), value: value.clone(), source };
            return Err(setting);
        }
    }
    Ok(())
}
