#![no_main]

libfuzzer_sys::fuzz_target!(init: surety_fuzz::seeds::write("decision"), |data: &[u8]| {
    surety_fuzz::arbitrary::decision(data)
});
