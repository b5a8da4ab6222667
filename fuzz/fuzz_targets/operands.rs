//! What merges store.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| esker::fuzzing::operands(data));
