//! libFuzzer's entrance to [`svclab_rules_fuzz::targets::nft_text`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| svclab_rules_fuzz::targets::nft_text::check(data));
