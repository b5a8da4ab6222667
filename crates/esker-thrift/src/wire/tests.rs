use super::*;

/// A message with a value of every type, nested, in fields near and far.
fn message(protocol: Protocol) -> Vec<u8> {
    let mut sink = Sink::new(protocol, Vec::new());
    sink.head(b"name", 70_000, false);
    sink.field_bool(0, 1, true);
    sink.field_bool(1, 2, false);
    sink.field(2, 3, Kind::I64);
    sink.i64(i64::MIN);
    sink.field(3, 300, Kind::I32);
    sink.i32(-1);
    sink.field(300, 301, Kind::Map);
    let pairs = sink.map(Kind::Bytes, Kind::Struct);
    sink.joined(b"f", b':', b"q");
    sink.field(0, 1, Kind::Byte);
    sink.byte(7);
    sink.stop();
    sink.close(pairs, 1);
    sink.field(301, 302, Kind::List);
    let list = sink.list(Kind::Bool);
    sink.element_bool(true);
    sink.element_bool(false);
    sink.close(list, 2);
    sink.field(302, 303, Kind::Map);
    sink.no_pairs(Kind::Bytes, Kind::Bytes);
    sink.stop();
    sink.out
}

const PROTOCOLS: [Protocol; 2] = [Protocol::Binary, Protocol::Compact];

#[test]
fn what_is_written_is_read() {
    for protocol in PROTOCOLS {
        let message = message(protocol);
        let mut source = Source::new(protocol, &message);
        let head = source.head().unwrap();
        assert_eq!((head.name, head.purpose, head.sequence), (&b"name"[..], Purpose::Answer, 70_000));
        let mut last = 0;
        let mut next =
            |source: &mut Source<'_>| source.field(&mut last).unwrap().map(|field| (field.id, field.kind));
        assert_eq!(next(&mut source), Some((1, Kind::Bool)));
        assert_eq!(source.bool(), Ok(true));
        assert_eq!(next(&mut source), Some((2, Kind::Bool)));
        assert_eq!(source.bool(), Ok(false));
        assert_eq!(next(&mut source), Some((3, Kind::I64)));
        assert_eq!(source.i64(), Ok(i64::MIN));
        assert_eq!(next(&mut source), Some((300, Kind::I32)));
        assert_eq!(source.i32(), Ok(-1));
        assert_eq!(next(&mut source), Some((301, Kind::Map)));
        source.skip(Kind::Map).unwrap();
        assert_eq!(next(&mut source), Some((302, Kind::List)));
        assert_eq!(source.list(1), Ok((Kind::Bool, 2)));
        assert_eq!((source.bool(), source.bool()), (Ok(true), Ok(false)));
        assert_eq!(next(&mut source), Some((303, Kind::Map)));
        source.skip(Kind::Map).unwrap();
        assert_eq!(next(&mut source), None);
        assert_eq!(source.at, message.len());
    }
}

#[test]
fn the_end_of_a_message_is_found_whatever_parts_it_comes_in() {
    for protocol in PROTOCOLS {
        let message = message(protocol);
        let mut followed = message.clone();
        followed.extend_from_slice(b"more");
        for part in 1..=followed.len() {
            let (mut measure, mut there) = (Measure::default(), 0);
            let len = loop {
                match measure.len(protocol, &followed[..there]) {
                    Ok(len) => break len,
                    Err(Fault::Missing(missing)) => assert!(missing > 0 && there + missing <= message.len()),
                    Err(fault) => panic!("{fault:?}"),
                }
                there = (there + part).min(followed.len());
            };
            assert_eq!(len, message.len(), "{protocol:?} in parts of {part}");
        }
    }
}

#[test]
fn lengths_and_depths_that_lie_are_refused() {
    let missing = |fault| matches!(fault, Err(Fault::Missing(_)));
    let bad = |fault| matches!(fault, Err(Fault::Bad(_)));
    let skip = |protocol, bytes: &[u8], kind| Source::new(protocol, bytes).skip(kind);
    assert!(missing(skip(Protocol::Binary, &[0x7f, 0xff, 0xff, 0xff, 1], Kind::Bytes)));
    assert!(bad(skip(Protocol::Binary, &[0xff; 8], Kind::Bytes)));
    assert!(bad(skip(Protocol::Compact, &[0xff; 11], Kind::Bytes)));
    assert!(bad(skip(Protocol::Compact, &[0xff, 0xff, 0xff, 0xff, 0x0f], Kind::Bytes)));
    assert!(bad(skip(Protocol::Binary, &[0, 0, 0, 0, 1, 0], Kind::List)));
    assert!(missing(skip(Protocol::Compact, &[0xfc, 0xff, 0xff, 0xff, 0xff, 0x07], Kind::List)));
    for (protocol, level) in [(Protocol::Binary, &[12, 0, 1][..]), (Protocol::Compact, &[0x1c][..])] {
        let deep = level.repeat(10_000);
        assert!(bad(skip(protocol, &deep, Kind::Struct)));
        let mut shallow = level.repeat(60);
        shallow.extend([0; 61]);
        assert_eq!(skip(protocol, &shallow, Kind::Struct), Ok(()));
    }
    // An element of a list takes a byte at least, so a number of them needs as many.
    assert!(missing(Source::new(Protocol::Binary, &[12, 0, 0, 1, 0]).list(1).map(drop)));
}
