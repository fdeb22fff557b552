//! Named network namespaces in the private `/run`.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use netns_rs::{Env, NetNs};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};

use super::LabError;
use super::sandbox::NAMESPACES;

/// The folder of named namespaces, for netns-rs.
#[derive(Debug, Clone, Copy)]
pub(super) struct PrivateRun;

impl Env for PrivateRun {
    fn persist_dir(&self) -> PathBuf {
        PathBuf::from(NAMESPACES)
    }

    /// Does nothing: the folder exists, and its mount is private to the lab, so nothing is shared with the host.
    fn init(&self) -> netns_rs::Result<()> {
        Ok(())
    }
}

/// A namespace that is held open.
#[derive(Debug)]
pub(super) struct Namespace {
    name: String,
    inner: NetNs<PrivateRun>,
}

impl Namespace {
    /// Creates a namespace. `ip netns exec` in the lab's mount namespace knows it by the name that [`file_name`] returns.
    pub(super) fn new(name: &str) -> Result<Self, LabError> {
        let made = make(Path::new(NAMESPACES), &file_name(name));
        made.map_err(|source| LabError::NoNamespace { netns: name.to_owned(), source })?;
        let inner = NetNs::get_from_env(file_name(name), PrivateRun);
        let inner = inner.map_err(|source| LabError::Namespace { netns: name.to_owned(), source })?;
        Ok(Self { name: name.to_owned(), inner })
    }

    /// Its name, as the scenario writes it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Runs a function with the calling thread inside the namespace.
    pub(super) fn run<T>(&self, function: impl FnOnce() -> T) -> Result<T, LabError> {
        self.inner.run(|_| function()).map_err(|source| LabError::Namespace { netns: self.name.clone(), source })
    }

    /// The file descriptor that identifies it in netlink messages.
    pub(super) fn fd(&self) -> std::os::fd::RawFd {
        use std::os::fd::AsRawFd;
        self.file().as_raw_fd()
    }

    /// The file that holds it open.
    pub(super) fn file(&self) -> &File {
        self.inner.file()
    }
}

/// Creates a network namespace and binds it to a name in a folder, as `ip netns add` does. The calling thread returns to its own namespace.
/// netns-rs would start a thread for this, and panics if it gets none.
fn make(folder: &Path, name: &str) -> io::Result<()> {
    const THIS_THREADS: &str = "/proc/thread-self/ns/net";
    let origin = File::open(THIS_THREADS)?;
    let file = folder.join(name);
    File::create(&file)?;
    unshare(CloneFlags::CLONE_NEWNET)?;
    let none = None::<&str>;
    let named = mount(Some(THIS_THREADS), &file, none, MsFlags::MS_BIND, none);
    setns(origin, CloneFlags::CLONE_NEWNET)?;
    Ok(named?)
}

/// The namespace of this name.
pub(super) fn find<'lab>(namespaces: &'lab [Namespace], name: &str) -> Result<&'lab Namespace, LabError> {
    let found = namespaces.iter().find(|namespace| namespace.name() == name);
    found.ok_or_else(|| LabError::Unknown { netns: name.to_owned() })
}

/// The file name of a namespace, with `_` for `/`. File names are unique: `_` itself, which Kubernetes names never contain, is written
/// `%5F`.
pub(super) fn file_name(netns: &str) -> String {
    netns.replace('%', "%25").replace('_', "%5F").replace('/', "_")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::file_name;

    #[rstest]
    #[case("pod/a/b", "pod_a_b")]
    #[case("pod/a-b", "pod_a-b")]
    #[case("pod/a_b", "pod_a%5Fb")]
    #[case("pod/a%5Fb", "pod_a%255Fb")]
    fn a_file_names_one_namespace(#[case] netns: &str, #[case] expected: &str) {
        assert_eq!(file_name(netns), expected);
    }
}
