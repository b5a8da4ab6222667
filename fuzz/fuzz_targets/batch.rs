//! The payload of a log record.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| esker::fuzzing::batch(data));
