//! libFuzzer's entrance to [`svclab_fuzz::targets::archive`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| svclab_fuzz::targets::archive::check(data));
