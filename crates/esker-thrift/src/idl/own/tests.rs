use super::*;
use crate::wire::{Protocol, Sink};

const IDL: &str = include_str!("../../../Esker.thrift");

/// The fields of what `Esker.thrift` declares: `number, type, name`.
fn fields(text: &str) -> Vec<(i16, &str, &str)> {
    let mut fields = Vec::new();
    for part in text.split([',', '\n']).map(str::trim) {
        let Some((number, rest)) = part.split_once(": ") else { continue };
        let Ok(number) = number.parse() else { continue };
        let mut words = rest.split(' ').filter(|word| *word != "optional");
        fields.push((number, words.next().unwrap(), words.next().unwrap()));
    }
    fields
}

/// What is between the braces behind `head`.
fn body(head: &str) -> &'static str {
    let behind = IDL.split(head).nth(1).unwrap();
    behind.split('}').next().unwrap()
}

/// Writes a value of a type of `Esker.thrift`, and notes how it is shown.
fn write(sink: &mut Sink, kind: &str, shown: &mut Vec<String>) {
    let number = shown.len() as i32 + 1000;
    if let Some(element) = kind.strip_prefix("list<") {
        if element == "binary>" {
            let count = sink.list(Kind::Bytes);
            write(sink, "binary", shown);
            return sink.close(count, 1);
        }
        let count = sink.list(Kind::Struct);
        structure(sink, &fields(body(&format!("struct {} {{", element.trim_end_matches('>')))), shown);
        sink.stop();
        return sink.close(count, 1);
    }
    match kind {
        "string" | "binary" => {
            sink.bytes(format!("v{number}").as_bytes());
            shown.push(format!("{:?}", format!("v{number}").as_bytes()));
        }
        "i64" => {
            sink.i64(i64::from(number));
            shown.push(format!("{number}"));
        }
        "i32" => {
            sink.i32(number);
            shown.push(format!("{number}"));
        }
        "EskerScan" => {
            structure(sink, &fields(body("struct EskerScan {")), shown);
            sink.stop();
        }
        "MutationKind" | "ConditionKind" => {
            sink.i32(number);
            shown.push(format!("kind: {number}"));
        }
        other => panic!("the type {other}"),
    }
}

fn structure(sink: &mut Sink, fields: &[(i16, &str, &str)], shown: &mut Vec<String>) {
    let mut last = 0;
    for (id, kind, name) in fields {
        if *kind == "bool" {
            sink.field_bool(last, *id, true);
            shown
                .push(format!("{}: true", if *name == "reversed" { "is_reversed" } else { "shows_deletes" }));
            last = *id;
            continue;
        }
        let of_wire = match *kind {
            "string" | "binary" => Kind::Bytes,
            "i64" => Kind::I64,
            kind if kind.starts_with("list<") => Kind::List,
            kind if kind.starts_with("Esker") => Kind::Struct,
            _ => Kind::I32,
        };
        sink.field(last, *id, of_wire);
        write(sink, kind, shown);
        last = *id;
    }
}

/// Each method of the file is read here, with all that it declares.
#[test]
fn calls_are_read_as_the_interfaces_file_says() {
    let (mut methods, mut values) = (0, 0);
    for line in IDL.lines().map(str::trim).filter(|line| !line.starts_with('*')) {
        let Some((declared, rest)) = line.split_once('(') else { continue };
        let Some((_, name)) = declared.split_once(" esker") else { continue };
        let arguments = fields(rest.split(')').next().unwrap());
        for protocol in [Protocol::Binary, Protocol::Compact] {
            let (mut sink, mut shown) = (Sink::new(protocol, Vec::new()), Vec::new());
            structure(&mut sink, &arguments, &mut shown);
            sink.stop();
            let name = format!("esker{name}");
            let call = Call::decode(&name, &mut Source::new(protocol, &sink.out), &mut None).unwrap();
            let call = format!("{:?}", call.unwrap_or_else(|| panic!("there is no {name}")));
            for value in &shown {
                assert!(call.contains(value), "{name}: {value} is not in {call}");
            }
            values += shown.len();
        }
        methods += 1;
    }
    let here = include_str!("../own.rs").matches("\n    \"esker").count();
    assert_eq!(methods, here);
    assert!(values > 50, "{values}");
}

#[test]
fn kinds_have_the_numbers_of_the_interfaces_file() {
    let number = |body: &str, name: &str| -> i32 {
        let line = body.lines().find_map(|line| line.trim().strip_prefix(&format!("{name} = ")));
        line.and_then(|number| number.trim_end_matches(',').parse().ok()).unwrap_or_else(|| panic!("{name}"))
    };
    let (mutations, conditions) = (body("enum MutationKind {"), body("enum ConditionKind {"));
    let own = [
        ("PUT", PUT),
        ("DELETE_ROW", DELETE_ROW),
        ("DELETE_FAMILY", DELETE_FAMILY),
        ("DELETE_COLUMN", DELETE_COLUMN),
        ("DELETE_VERSION", DELETE_VERSION),
        ("INCREMENT", INCREMENT),
        ("APPEND", APPEND),
    ];
    assert!(own.iter().all(|(name, kind)| number(mutations, name) == *kind));
    assert_eq!(mutations.matches(" = ").count(), own.len());
    let own = [
        ("ABSENT", ABSENT),
        ("PRESENT", PRESENT),
        ("EQUAL", EQUAL),
        ("NOT_EQUAL", NOT_EQUAL),
        ("LESS", LESS),
        ("LESS_OR_EQUAL", LESS_OR_EQUAL),
        ("GREATER", GREATER),
        ("GREATER_OR_EQUAL", GREATER_OR_EQUAL),
    ];
    assert!(own.iter().all(|(name, kind)| number(conditions, name) == *kind));
    assert_eq!(conditions.matches(" = ").count(), own.len());
    let deletes = body("enum DeleteKind {");
    let own = ["ROW", "FAMILY", "COLUMN", "VERSION"];
    for (name, (kind, _)) in own.into_iter().zip(DELETE_KINDS) {
        assert_eq!(number(deletes, name), kind, "{name}");
    }
    assert_eq!(deletes.matches(" = ").count(), own.len());
    use crate::fail::Thrown;
    let errors = body("enum ErrorKind {");
    let own = [
        ("FAILED", Thrown::Io),
        ("INVALID", Thrown::Argument),
        ("DENIED", Thrown::Denied),
        ("NO_TABLE", Thrown::NoTable),
        ("TABLE_EXISTS", Thrown::Exists),
        ("NO_FAMILY", Thrown::NoFamily),
        ("NO_NAMESPACE", Thrown::NoNamespace),
        ("NAMESPACE_EXISTS", Thrown::NamespaceExists),
        ("NAMESPACE_IN_USE", Thrown::NamespaceInUse),
        ("DISABLED", Thrown::Disabled),
        ("SCHEMA_CHANGED", Thrown::SchemaChanged),
    ];
    for (name, kind) in own {
        assert_eq!((number(errors, name), Thrown::of_kind(kind.kind())), (kind.kind(), kind), "{name}");
    }
    assert_eq!(errors.matches(" = ").count(), own.len());
}

#[test]
fn the_lists_of_a_call_take_no_more_memory_than_the_limit() {
    // Two rows: each has a list of about half the limit, and the rows count too.
    let most = (crate::wire::ELEMENTS_LEN_MAX - 2 * ROW_LEN) / PUT_LEN;
    let call = |mutations: [usize; 2]| {
        let mut sink = Sink::new(Protocol::Compact, Vec::new());
        sink.field(0, 2, Kind::List);
        let rows = sink.list(Kind::Struct);
        for count in mutations {
            sink.field(0, 2, Kind::List);
            let list = sink.list(Kind::Struct);
            (0..count).for_each(|_| sink.stop());
            sink.close(list, count as u32);
            sink.stop();
        }
        sink.close(rows, 2);
        sink.stop();
        match Call::decode("eskerMutateRows", &mut Source::new(Protocol::Compact, &sink.out), &mut None) {
            Ok(Some(Call::MutateRows { rows, .. })) => Ok(rows.iter().map(|row| row.mutations.len()).sum()),
            Ok(other) => panic!("{other:?}"),
            Err(fault) => Err(fault),
        }
    };
    assert!(size_of::<Mutation<'_>>() < PUT_LEN && size_of::<Row<'_>>() < ROW_LEN);
    assert_eq!(call([most / 2, most - most / 2]), Ok(most));
    assert!(matches!(call([most / 2, most - most / 2 + 1]), Err(Fault::Bad(_))));
}
