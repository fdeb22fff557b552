//! Every scenario of the library, run for real.

use std::path::PathBuf;

use rstest::rstest;
use svclab::testing;

#[rstest]
fn holds(
    #[files("../scenarios/**/*.yaml")]
    #[exclude("/(invalid|manifests)/")]
    scenario: PathBuf,
) {
    testing::assert_holds(scenario);
}
