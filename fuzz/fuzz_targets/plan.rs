#![no_main]

libfuzzer_sys::fuzz_target!(init: surety_fuzz::seeds::write("plan"), |data: &[u8]| {
    surety_fuzz::arbitrary::plan(data)
});
