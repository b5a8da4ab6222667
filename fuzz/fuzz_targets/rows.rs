//! Files of rows: lines, CSV, TSV, JSON Lines.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| esker_cli::fuzzing::rows(data));
