#![no_main]

libfuzzer_sys::fuzz_target!(init: surety_fuzz::seeds::write("receipts"), |data: &[u8]| {
    surety_fuzz::arbitrary::receipts(data)
});
