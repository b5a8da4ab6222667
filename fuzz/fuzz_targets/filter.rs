//! Texts of the filter language: no text makes the parser panic, hang or take all memory, and an error names a place in it.
#![no_main]

use esker_table::{Error, Filter};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    match Filter::parse(data) {
        Ok(filter) => {
            // Blanks and parentheses around a filter mean nothing.
            let text = [b"\t(", data, b" ) "].concat();
            if let Ok(other) = Filter::parse(&text) {
                assert_eq!(filter, other);
            }
        }
        Err(Error::Filter { at, message }) => assert!(at <= data.len() && !message.is_empty()),
        Err(error) => panic!("{error}"),
    }
});
