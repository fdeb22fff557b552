//! Every scenario of the library, run for real with both implementations of iptables.

use std::path::PathBuf;

use rstest::rstest;
use svclab::Backend;
use svclab::testing;

#[rstest]
fn holds(
    #[files("../scenarios/**/*.yaml")]
    #[exclude("/(invalid|manifests)/")]
    scenario: PathBuf,
    #[values(Backend::Nft, Backend::Legacy)] backend: Backend,
) {
    testing::assert_holds(scenario, backend);
}
