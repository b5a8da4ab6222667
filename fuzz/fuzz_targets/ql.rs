//! Texts of EskerQL: whatever is read as a statement is printed so that it is read as the same.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    for located in esker_ql::statements(data).map_while(Result::ok) {
        let text = located.statement.to_string();
        let mut again = esker_ql::statements(text.as_bytes());
        let same = again.next().and_then(Result::ok).map(|located| located.statement);
        assert_eq!(same, Some(located.statement), "{text}");
        assert!(again.next().is_none(), "{text}");
    }
});
