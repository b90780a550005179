#![no_main]

libfuzzer_sys::fuzz_target!(init: surety_fuzz::seeds::write("patch"), |data: &[u8]| {
    surety_fuzz::arbitrary::patch(data)
});
