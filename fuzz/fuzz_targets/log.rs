//! Log segments: replayed and salvaged.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| esker::fuzzing::log(data));
