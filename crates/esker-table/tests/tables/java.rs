//! Regular expressions as Java has them: a table of cases, and random ones that Java itself answers (`scripts/hbase short`).

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use esker_table::Comparator;

const TEXTS: &str = "\u{0}\u{1}\u{7}\t\n\u{b}\r\u{1b} !#$&()*+,-./019:=?@ABEKQZ[\\]^_`abekqsz{|}~\u{7f}\u{85}\u{a0}\u{df}\u{e4}\u{c4}\u{17f}\
                     \u{2028}\u{2029}\u{212a}\u{3b1}\u{391}\u{5d0}\u{3000}\u{fffd}\u{1f600}";

/// What expressions are made of. Each is one that Java's documentation lists, or a part of one.
const PARTS: &[&str] = &[
    "a",
    "b",
    "k",
    "A",
    "1",
    "_",
    " ",
    "-",
    "\u{e4}",
    "\n",
    "\r",
    ".",
    ".",
    "^",
    "^",
    "$",
    "$",
    r"\A",
    r"\z",
    r"\Z",
    r"\G",
    r"\b",
    r"\B",
    r"\d",
    r"\D",
    r"\w",
    r"\W",
    r"\s",
    r"\S",
    r"\h",
    r"\H",
    r"\v",
    r"\V",
    r"\R",
    "(",
    "(",
    "(?:",
    "(?<n>",
    "(?i)",
    "(?i:",
    "(?-i)",
    "(?m)",
    "(?s)",
    "(?-s)",
    "(?d)",
    "(?dm)",
    "(?>",
    ")",
    ")",
    ")",
    "|",
    "|",
    "?",
    "*",
    "+",
    "{2}",
    "{0,1}",
    "{1,}",
    "{",
    "}",
    "??",
    "*?",
    "+?",
    "*+",
    "[",
    "[",
    "[^",
    "[^",
    "]",
    "]",
    "]",
    "&&",
    "&",
    "[a-k]",
    "[^a-k]",
    "a-b",
    "[ab]",
    "[a&&b]",
    "[a-k&&[^b]]",
    r"\Q",
    r"\Q",
    r"\E",
    r"\E",
    "\\",
    r"\\",
    r"\.",
    r"\-",
    r"\n",
    r"\r",
    r"\t",
    r"\f",
    r"\a",
    r"\e",
    r"\x61",
    r"\x{e4}",
    r"\x{2028}",
    r"\u0061",
    r"\u2028",
    r"\ud83d\ude00",
    r"\0141",
    r"\07",
    r"\cA",
    r"\p{Lower}",
    r"\p{Upper}",
    r"\p{Alpha}",
    r"\p{Punct}",
    r"\p{Graph}",
    r"\p{Print}",
    r"\p{Blank}",
    r"\p{Cntrl}",
    r"\p{XDigit}",
    r"\p{Space}",
    r"\p{ASCII}",
    r"\p{Alnum}",
    r"\p{Digit}",
    r"\pL",
    r"\PL",
    r"\p{L}",
    r"\p{Lu}",
    r"\p{IsLatin}",
    r"\p{IsGreek}",
    r"\p{IsAlphabetic}",
    r"\p{IsUppercase}",
    r"\p{gc=Ll}",
    r"\p{script=Hebrew}",
    r"\p{L1}",
    r"\p{LC}",
    r"\p{all}",
    r"\P{Zs}",
    r"\p{IsWhite_Space}",
    ",",
    "#",
    "=",
    "!",
    ":",
    "<",
    ">",
];

#[test]
fn expressions_mean_what_they_mean_in_java() {
    for (pattern, matches, others) in [
        // A last line end.
        (
            "^ab$",
            &["ab", "ab\n", "ab\r\n", "ab\r", "ab\u{85}", "ab\u{2028}"][..],
            &["ab\n\n", "ab\n\r", "abc", "xab"][..],
        ),
        (r"a\r$", &["a\r"], &["a\r\n", "b"]),
        (r"ab\Z", &["ab", "ab\n"], &["ab\nb"]),
        (r"ab\z", &["ab"], &["ab\n"]),
        ("(a$|b)c?", &["a\n", "bc"], &["ac"]),
        ("(?d)a$", &["a\n"], &["a\r", "a\r\n"]),
        ("a$$", &["a", "a\n", "a\r\n"], &["ab", "a\n\n"]),
        (r"a$\Z$", &["a", "a\n"], &["ab"]),
        ("(?m)a$$", &["a\nb", "a\u{85}b"], &["ab"]),
        ("(?m)^^a", &["b\na"], &["ba"]),
        ("(?<n1>a)(?<n2>b)", &["ab"], &["a"]),
        // Quotes.
        (r"\Qa.b\E", &["a.b"], &["axb"]),
        (r"\Qa\\.b", &[r"a\\.b"], &["a.b"]),
        (r"x\Q*\E+y", &["x**y"], &["xxy"]),
        (r"[\Q^]\E]+$", &["^]"], &["a"]),
        // Lines.
        ("(?m)^b", &["a\nb", "a\r\nb", "b", "a\u{2028}b"], &["ab"]),
        ("(?m)a$", &["a\nb", "a\r\nb", "a"], &["ab"]),
        ("(?-s)a.b", &["axb"], &["a\nb", "a\u{85}b"]),
        // Characters.
        (r"^\d\w\s$", &["1_\t"], &["\u{661}_\t", "1\u{e4} "]),
        (r"\x41\x{42}\u0043\0104\t\cA\e", &["ABCD\t\u{1}\u{1b}"], &["ABCD"]),
        (r"\ud83d\ude00", &["\u{1f600}"], &["a"]),
        (r"^\R$", &["\r\n", "\u{2029}"], &["\n\n\n", "a"]),
        (r"^[\h\v]+$", &[" \t\u{a0}\n"], &["a"]),
        ("(?i)\u{e4}k", &["\u{e4}K"], &["\u{c4}k", "\u{e4}\u{212a}"]),
        ("(?iu)\u{e4}k", &["\u{e4}K", "\u{c4}\u{212a}"], &["a"]),
        (r"^\p{IsLatin}\p{Lu}\p{Punct}\P{L}$", &["aB!1"], &["ab!1"]),
        // Classes.
        ("^[a-z&&[^m-p]]$", &["a", "q"], &["m"]),
        ("^[a-d[m-p]]$", &["b", "n"], &["e"]),
        ("^[^a-c&&b]$", &["a", "x"], &["b"]),
        ("^[]a]$", &["]", "a"], &["b"]),
        ("^[a-]$", &["-"], &["b"]),
        // Quantifiers, of which the second is of nothing.
        ("^a{2}{3}$", &["aa"], &["aaaaaa"]),
        ("^a{2,3}?$", &["aa", "aaa"], &["a"]),
        ("a++", &["aa"], &["b"]),
        ("x(?>ab|a)", &["xa"], &["ab"]),
    ] {
        let regex = Comparator::java_regex(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
        for text in matches {
            assert!(regex.is_match(text.as_bytes()), "{pattern} {text:?}");
        }
        for text in others {
            assert!(!regex.is_match(text.as_bytes()), "{pattern} {text:?}");
        }
    }
    // What is not UTF-8 is U+FFFD.
    assert!(Comparator::java_regex("^a.b$").unwrap().is_match(b"a\xffb"));
    let replaced = Comparator::java_regex("^a\u{fffd}").unwrap();
    assert!(replaced.is_match(b"a\xff") && replaced.beginnings().unwrap()[0].bytes == b"a");
    assert!(!Comparator::java_regex_no_case("\u{e4}").unwrap().is_match("\u{c4}".as_bytes()));
}

#[test]
fn what_has_no_equal_is_refused_with_the_reason() {
    for (pattern, reason) in [
        ("a(?=b)", "look-ahead"),
        ("(?<!a)b", "look-behind"),
        (r"(a)\1", "back references"),
        (r"(?<x>a)\k<x>", "back references"),
        ("(?>ab|a)b", "atomic"),
        ("a*+b", "atomic"),
        (r"\X", "grapheme"),
        (r"\N{SPACE}", "names"),
        ("a$b", "after `$`"),
        ("a$(?d)$", "after `$`"),
        ("(?<n1>a)(?<n1>b)", "two groups with the name \"n1\""),
        ("(?<x>a(?<x>b))", "two groups with the name \"x\""),
        ("(?m)^a*", "does not match at the end"),
        ("(?m)a^b", "before `^`"),
        ("(?x)a", "comments"),
        ("(?U)a", "(?U)"),
        (r"\p{InGreek}", "blocks"),
        (r"\p{javaLowerCase}", "Character"),
        (r"\p{Nope}", "no property"),
        ("a**", "nothing before"),
        ("a{2,1}", "less than"),
        ("(a", "lacks"),
        ("a)", "without"),
        ("[a", "lacks"),
        ("[b-a]", "empty"),
        (r"\y", "means nothing"),
        ("a{99999999999}", "repetitions"),
    ] {
        let error = Comparator::java_regex(pattern).unwrap_err().to_string();
        assert!(error.contains(reason), "{pattern}: {error}");
    }
    for hostile in [
        "(".repeat(16_000),
        "[".repeat(16_000),
        "[a&&".repeat(4_000),
        "(?>".repeat(5_000),
        "a?".repeat(8_000),
    ] {
        let _ = Comparator::java_regex(&hostile);
    }
}

/// Random expressions and texts, of which Java says whether they match: `ESKER_JAVA` is its command.
#[test]
fn random_expressions_mean_what_they_mean_in_java() {
    let Ok(java) = std::env::var("ESKER_JAVA") else {
        println!("ESKER_JAVA is not set: Java is not asked");
        return;
    };
    let number =
        |name: &str, otherwise: u64| std::env::var(name).map_or(otherwise, |value| value.parse().unwrap());
    let (cases, seed) = (number("ESKER_CASES", 20_000), number("ESKER_SEED", 47));
    println!("ESKER_SEED={seed}");
    let mut rng = test_kit::Rng::new(seed);
    let mut random = move |below: usize| rng.index(below);
    let characters: Vec<char> = TEXTS.chars().collect();
    let mut asked = Vec::new();
    for _ in 0..cases {
        let pattern: String = (0..1 + random(7)).map(|_| PARTS[random(PARTS.len())]).collect();
        let few: Vec<char> = (0..3).map(|_| characters[random(characters.len())]).collect();
        let texts: Vec<Vec<u8>> = (0..12)
            .map(|_| {
                let mut text = String::new();
                for _ in 0..random(5) {
                    let of_pattern = pattern.chars().nth(random(pattern.chars().count())).unwrap();
                    text.push(
                        [of_pattern, few[random(3)], characters[random(characters.len())], '\n', 'a']
                            [random(5)],
                    );
                }
                let mut text = text.into_bytes();
                if random(20) == 0 {
                    text.push(0xff);
                }
                text
            })
            .collect();
        asked.push((random(4) == 0, pattern, texts));
    }
    let hexadecimal = |bytes: &[u8]| {
        bytes.iter().fold("x".to_owned(), |mut text, byte| {
            write!(text, "{byte:02x}").unwrap();
            text
        })
    };
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/hbase/Regex.java");
    let mut child =
        Command::new(java).arg(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for (ignores_case, pattern, texts) in &asked {
        let texts: Vec<String> = texts.iter().map(|text| hexadecimal(text)).collect();
        let case = u8::from(*ignores_case);
        writeln!(input, "{case} {} {}", hexadecimal(pattern.as_bytes()), texts.join(" ")).unwrap();
    }
    drop(input);
    let answers = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(answers.lines().count(), asked.len());
    let (mut compared, mut refused, mut wrong) = (0, std::collections::BTreeMap::new(), Vec::new());
    for ((ignores_case, pattern, texts), answer) in asked.iter().zip(answers.lines()) {
        let regex = if *ignores_case {
            Comparator::java_regex_no_case(pattern)
        } else {
            Comparator::java_regex(pattern)
        };
        match (regex, answer) {
            (Err(_), "E") => {}
            (Ok(_), "E") => wrong.push(format!("{pattern:?} is refused by Java")),
            (Err(error), _) => *refused.entry(error.to_string()).or_insert(0) += 1,
            (Ok(regex), answer) => {
                for (text, answer) in texts.iter().zip(answer.chars()) {
                    let is_ascii = text.is_ascii() || !(pattern.contains(r"\b") || pattern.contains(r"\B"));
                    compared += usize::from(is_ascii);
                    if is_ascii && regex.is_match(text) != (answer == '1') {
                        let text = text.escape_ascii();
                        wrong.push(format!("{pattern:?} {ignores_case} \"{text}\": Java says {answer}"));
                    }
                }
            }
        }
    }
    println!("compared {compared} texts; refused: {refused:#?}");
    assert!(wrong.is_empty(), "{} differ: {:#?}", wrong.len(), &wrong[..wrong.len().min(40)]);
    assert!(compared as u64 > cases, "too few can be compared: {compared}");
}
