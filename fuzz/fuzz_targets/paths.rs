#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| surety_fuzz::paths(data));
