//! Runs every scenario of the library with both implementations of iptables.

use std::path::PathBuf;

use rstest::rstest;
use svclab::Backend;
use svclab::testing;

#[rstest]
fn holds(
    #[files("../scenarios/**/*.yaml")]
    // Link impairments need a module that many kernels lack, so they are run only by name.
    #[exclude("/(invalid|manifests|netem)/")]
    scenario: PathBuf,
    #[values(Backend::Nft, Backend::Legacy)] backend: Backend,
) {
    testing::assert_holds(scenario, backend);
}
