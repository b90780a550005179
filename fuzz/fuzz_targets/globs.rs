#![no_main]

libfuzzer_sys::fuzz_target!(init: surety_fuzz::seeds::write("globs"), |data: &[u8]| {
    surety_fuzz::arbitrary::globs(data)
});
