//! The list of a backup's files, and what is restored by it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| esker::fuzzing::catalog(data));
