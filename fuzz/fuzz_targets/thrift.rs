//! Messages of HBase's Thrift clients, in both protocols: no bytes make the reader panic, hang or take all memory, and the end of
//! a message does not depend on the parts in which it comes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| esker_thrift::fuzzing::message(data));
