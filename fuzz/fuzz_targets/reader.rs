#![no_main]

libfuzzer_sys::fuzz_target!(init: surety_fuzz::seeds::write("reader"), |data: &[u8]| {
    surety_fuzz::arbitrary::reader(data)
});
