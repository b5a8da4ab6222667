//! Keys, values, ranges, sizes, times and paths as typed.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| esker_cli::fuzzing::typed(data));
