#![no_main]

libfuzzer_sys::fuzz_target!(init: surety_fuzz::seeds::write("commands"), |data: &[u8]| {
    surety_fuzz::arbitrary::commands(data)
});
