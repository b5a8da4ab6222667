//! Command lines, lines of the shell, lines of a command file.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| esker_cli::fuzzing::command(data));
