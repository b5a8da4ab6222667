use super::*;
use crate::wire::{Protocol, Sink};

#[test]
fn unknown_fields_and_other_types_are_passed_over() {
    for protocol in [Protocol::Binary, Protocol::Compact] {
        let mut sink = Sink::new(protocol, Vec::new());
        sink.field(0, 1, Kind::Bytes);
        sink.bytes(b"t");
        sink.field(1, 2, Kind::I64);
        sink.i64(5);
        sink.field_bool(2, 3, true);
        sink.field(3, 77, Kind::Struct);
        sink.field_bool(0, 1, false);
        sink.stop();
        sink.stop();
        let call = Call::decode("getRow", &mut Source::new(protocol, &sink.out), &mut None);
        assert_eq!(call, Ok(Some(Call::GetRow { table: b"t", row: b"" })));
        assert_eq!(Call::decode("getrow", &mut Source::new(protocol, &sink.out), &mut None), Ok(None));
    }
}

#[test]
fn structures_are_read() {
    for protocol in [Protocol::Binary, Protocol::Compact] {
        let mut sink = Sink::new(protocol, Vec::new());
        sink.field(0, 2, Kind::List);
        let batches = sink.list(Kind::Struct);
        sink.field(0, 1, Kind::Bytes);
        sink.bytes(b"r");
        sink.field(1, 2, Kind::List);
        let mutations = sink.list(Kind::Struct);
        sink.field_bool(0, 1, true);
        sink.field(1, 2, Kind::Bytes);
        sink.bytes(b"f:q");
        sink.field_bool(2, 4, true);
        sink.stop();
        sink.close(mutations, 1);
        sink.stop();
        sink.close(batches, 1);
        sink.field(2, 3, Kind::I64);
        sink.i64(-7);
        sink.stop();
        let mutations = vec![Mutation { is_delete: true, column: b"f:q", value: b"" }];
        let batches = vec![BatchMutation { row: b"r", mutations }];
        let call = Call::decode("mutateRowsTs", &mut Source::new(protocol, &sink.out), &mut None);
        assert_eq!(call, Ok(Some(Call::MutateRowsTs { table: b"", batches, timestamp: -7 })));
    }
}

#[test]
fn lists_take_no_more_memory_than_the_limit() {
    let mut list = vec![15, 0, 2, 12];
    let count = crate::wire::ELEMENTS_LEN_MAX / ROW_LEN + 1;
    list.extend((count as u32).to_be_bytes());
    list.resize(list.len() + count + 1, 0);
    let call = Call::decode("mutateRows", &mut Source::new(Protocol::Binary, &list), &mut None);
    assert!(matches!(call, Err(Fault::Bad(_))));
}
