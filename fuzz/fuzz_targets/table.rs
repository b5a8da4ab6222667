//! Tables, part by part and whole.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| esker::fuzzing::table(data));
