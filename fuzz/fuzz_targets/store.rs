//! All files of a store, changed: checked, shown, opened, repaired.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| esker::fuzzing::store(data));
