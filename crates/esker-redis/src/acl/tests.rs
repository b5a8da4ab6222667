use super::*;

/// Keeps passwords as they are.
struct Open;

impl Keeper for Open {
    fn keep(&mut self, secret: &Secret, _: &[String]) -> Result<String, &'static str> {
        Ok(match secret {
            Secret::Clear(password) => format!("${}", String::from_utf8_lossy(password)),
            Secret::Sha256(digest) => format!("${}", digest[0]),
        })
    }

    fn find(&mut self, secret: &Secret, kept: &[String]) -> Option<usize> {
        let wanted = self.keep(secret, kept).ok()?;
        kept.iter().position(|kept| *kept == wanted)
    }

    fn accepts(&mut self, kept: &str) -> bool {
        kept != "$bad"
    }
}

fn apply(user: &mut User, rules: &str) -> Result<(), &'static str> {
    for word in rules.split_whitespace() {
        user.apply(&Rule::parse(word.as_bytes())?, &mut Open)?;
    }
    Ok(())
}

fn user(rules: &str) -> User {
    let mut user = User::new();
    apply(&mut user, rules).unwrap_or_else(|why| panic!("{rules}: {why}"));
    user
}

fn shown(user: &User) -> String {
    String::from_utf8(user.rules()).unwrap()
}

fn check(user: &User, line: &str, database: u16) -> Option<Denied> {
    let arguments: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let spec = crate::spec(arguments[0]).unwrap_or_else(|| panic!("{line}: no command"));
    assert!(spec.takes(arguments.len()), "{line}");
    user.check(spec, &arguments, database)
}

#[test]
fn rules_are_shown_as_they_count() {
    for (rules, expected) in [
        ("", "off resetchannels -@all"),
        ("on >a >b >a <b", "on $a resetchannels -@all"),
        ("on >a nopass", "on nopass resetchannels -@all"),
        ("nopass >a", "off $a resetchannels -@all"),
        ("nopass resetpass", "off resetchannels -@all"),
        ("~a ~b %R~a %W~c %rw~d", "off ~a ~b %W~c ~d resetchannels -@all"),
        ("%R~a %W~a", "off ~a resetchannels -@all"),
        ("~a allkeys &x &* +@ALL", "off ~* &* +@all"),
        ("~a resetkeys &x &x &y", "off resetchannels &x &y -@all"),
        ("+get -get +GET +config -config|set", "off resetchannels -@all +get +config -config|set"),
        ("+config|set +config", "off resetchannels -@all +config"),
        ("+@all -@dangerous +info", "off resetchannels +@all -@dangerous +info"),
        ("+get allcommands", "off resetchannels +@all"),
        ("+@read -@read +@read", "off resetchannels -@all +@read"),
        ("db=0,2-4", "off resetchannels db=0,2-4 -@all"),
        ("db=7 db=*", "off resetchannels -@all"),
        ("on >a ~* &* +@all db=3 reset", "off resetchannels -@all"),
        ("sanitize-payload clearselectors", "off resetchannels -@all"),
    ] {
        let made = user(rules);
        assert_eq!(shown(&made), expected, "{rules}");
        // What is shown makes the same user again.
        assert_eq!(shown(&user(&shown(&made))), expected);
    }
    assert_eq!(shown(&User::default_user()), "on nopass ~* &* +@all");
}

#[test]
fn wrong_rules_are_refused() {
    let sha256 = "#e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    for (rules, why) in [
        ("nope", "Syntax error"),
        ("%X~a", "Syntax error"),
        ("%~a", "Syntax error"),
        ("%RR~a", "Syntax error"),
        ("%R", "Syntax error"),
        ("#abc", "The password hash must be exactly"),
        (&sha256.to_uppercase(), "The password hash must be exactly"),
        (&sha256[..64], "The password hash must be exactly"),
        (&format!("{sha256}00"), "The password hash must be exactly"),
        ("<none", "The password you are trying to remove"),
        ("$bad", "This is nothing that is kept"),
        ("+nope", "Unknown command or category"),
        ("+@nope", "Unknown command or category"),
        ("+config|nope", "Unknown command or category"),
        ("+", "Unknown command or category"),
        ("-@", "Unknown command or category"),
        ("+get|x", "Allowing first-arg of a command"),
        ("+config|get|x", "Allowing first-arg of a subcommand"),
        ("(+get)", "Selectors are not supported"),
        ("allkeys ~a", "Adding a pattern after the * pattern (or the 'allkeys'"),
        ("allchannels &a", "Adding a pattern after the * pattern (or the 'allchannels'"),
        ("db=", "db= needs"),
        ("db=1-", "db= needs"),
        ("db=4-2", "db= needs"),
        ("db=70000", "db= needs"),
        ("db=+1", "db= needs"),
        (&format!("db={}", "1,".repeat(300) + "1"), "db= needs"),
        (&format!("~{}", "a".repeat(1025)), "A pattern has at most"),
        (&format!(">{}", "a".repeat(4097)), "A password has at most"),
        (&(0..17).map(|n| format!(" >{n}")).collect::<String>(), "A user has at most 16 passwords"),
        (&(0..4097).map(|n| format!(" ~{n}")).collect::<String>(), "A user has at most 4096 patterns"),
        (&(0..4097).map(|n| format!(" &{n}")).collect::<String>(), "A user has at most 4096 patterns"),
    ] {
        let refused = apply(&mut User::new(), rules).expect_err(rules);
        assert!(refused.starts_with(why), "{rules}: {refused}");
    }
    for word in [b"~a b".as_slice(), b"~a\nuser b", b"&a\0", b"~\x0b", b"$\xff"] {
        assert_eq!(Rule::parse(word), Err("Syntax error"));
    }
    assert!(apply(&mut User::new(), sha256).is_ok());
}

#[test]
fn passwords_are_not_shown() {
    for word in [">secret", "<secret", "#secret", "!secret", "$secret"] {
        assert!(!Rule::shown(word.as_bytes()).contains("secret"));
    }
    assert_eq!(format!("{:?}", Rule::parse(b">secret").unwrap()), "Rule(AddPassword(Secret(..)))");
}

#[test]
fn commands_are_allowed_by_name_subcommand_and_category() {
    let denied = |name| Some(Denied::Command(name));
    let some = user("allkeys +@read +set -get +config|get +client -client|kill");
    for (line, expected) in [
        ("mget a", None),
        ("set a 1", None),
        ("get a", denied("get")),
        ("del a", denied("del")),
        ("config get x", None),
        ("config set x 1", denied("config|set")),
        ("config nope", denied("config")),
        ("client id", None),
        ("client kill id 1", denied("client|kill")),
        ("client list", None),
        ("object encoding a", None),
        ("ping", denied("ping")),
        ("auth a b", None),
        ("hello 3", None),
        ("quit", None),
        ("reset", None),
    ] {
        assert_eq!(check(&some, line, 0), expected, "{line}");
    }
    let most = user("allkeys allchannels +@all -@dangerous +keys");
    assert_eq!(check(&most, "flushall", 0), denied("flushall"));
    assert_eq!(check(&most, "acl setuser x", 0), denied("acl|setuser"));
    assert_eq!(check(&most, "acl whoami", 0), None);
    assert_eq!(check(&most, "keys *", 0), None);
    // As in Redis, a category that has a command has all its subcommands.
    assert_eq!(check(&user("+@slow"), "config set a b", 0), None);
}

#[test]
fn keys_are_read_and_written_by_pattern() {
    let user = user("+@all ~own:* %R~in:* %W~out:*");
    let key = |key: &str| Some(Denied::Key(key.as_bytes().to_vec()));
    for (line, expected) in [
        ("get own:1", None),
        ("get in:1", None),
        ("get out:1", key("out:1")),
        ("get other", key("other")),
        ("set out:1 x", None),
        ("set out:1 get", None),
        ("set out:1 x get", key("out:1")),
        ("set in:1 x", key("in:1")),
        ("incr out:1", key("out:1")),
        ("exists in:1 out:1 own:1", None),
        ("strlen out:1", None),
        ("type other", key("other")),
        ("mget own:1 in:1 out:1", key("out:1")),
        ("mset own:1 x out:1 y in:1 z", key("in:1")),
        ("copy in:1 out:1", None),
        ("copy out:1 in:1", key("out:1")),
        ("rename in:1 out:1", key("in:1")),
        ("rename own:1 out:1", None),
        ("zunionstore out:1 2 in:1 own:1", None),
        ("zunionstore out:1 2 in:1 out:1", key("out:1")),
        ("zunionstore in:1 1 in:1", key("in:1")),
        ("sinterstore own:1 in:1", None),
        ("blpop own:1 other 0", key("other")),
        ("watch other", key("other")),
        ("object encoding other", key("other")),
        ("memory usage own:1", None),
        ("keys *", None),
        ("scan 0", None),
        ("dbsize", None),
        ("flushall", None),
        ("range own:a own:z", None),
        ("range in:a in:z", None),
        ("range own: other", key("own:")),
        ("range out:a out:z", key("out:a")),
        // An end that is empty is none.
        ("range own:a ", key("own:a")),
        ("rangedel own:a own:z", None),
        ("rangedel out:a out:z", None),
        ("rangedel in:a in:z", key("in:a")),
    ] {
        assert_eq!(check(&user, line, 0), expected, "{line}");
    }
    let odd = self::user("+@all ~a?* ~b*c ~*d");
    for line in ["range ab ac", "range b1c b2c", "range 1d 2d", "range x y"] {
        assert!(check(&odd, line, 0).is_some(), "{line}");
    }
    assert_eq!(check(&self::user("+@all %R~*"), "range  ", 0), None);
    assert!(check(&self::user("+@all %R~*"), "rangedel  ", 0).is_some());
}

#[test]
fn channels_are_used_by_pattern() {
    let user = user("+@all &news:* &one");
    let channel = |name: &str| Some(Denied::Channel(name.as_bytes().to_vec()));
    for (line, expected) in [
        ("subscribe news:a one", None),
        ("subscribe news:a two", channel("two")),
        ("psubscribe news:*", None),
        ("psubscribe news:a*", channel("news:a*")),
        ("psubscribe *", channel("*")),
        ("publish news:a two", None),
        ("publish two news:a", channel("two")),
        ("unsubscribe two", None),
        ("punsubscribe *", None),
        ("pubsub channels", None),
    ] {
        assert_eq!(check(&user, line, 0), expected, "{line}");
    }
}

#[test]
fn databases_are_used_by_number() {
    let user = user("+@all ~* &* db=0,3-4");
    for (line, database, expected) in [
        ("get a", 0, None),
        ("get a", 3, None),
        ("get a", 1, Some(Denied::Database)),
        ("scan 0", 1, Some(Denied::Database)),
        ("dbsize", 1, Some(Denied::Database)),
        ("range a b", 1, Some(Denied::Database)),
        ("flushdb", 1, Some(Denied::Database)),
        ("watch a", 1, Some(Denied::Database)),
        ("flushall", 0, Some(Denied::AllDatabases)),
        ("select 1", 0, Some(Denied::Database)),
        ("select 4", 1, None),
        ("select 99999", 0, None),
        ("select x", 0, None),
        ("ping", 1, None),
        ("publish c x", 1, None),
        ("move a 3", 0, None),
        ("move a 1", 0, Some(Denied::Database)),
        ("copy a b db 1", 0, Some(Denied::Database)),
        ("copy a b replace DB 4", 0, None),
        ("copy a b db", 0, None),
    ] {
        assert_eq!(check(&user, line, database), expected, "{line} in {database}");
    }
    assert!(!user.is_unrestricted());
    assert!(self::user("+@all ~* &* db=*").is_unrestricted());
}

#[test]
fn files_are_read_line_by_line() {
    let text =
        b"# comment\n\nuser default on nopass ~* &* +@all\r\n\tuser  ann on >secret ~a:* +@read\nuser b";
    let found = lines(text).unwrap();
    let names: Vec<(usize, &[u8])> = found.iter().map(|line| (line.number, line.name.as_slice())).collect();
    assert_eq!(names, [(3, &b"default"[..]), (4, b"ann"), (5, b"b")]);
    assert!(found.iter().flat_map(|line| &line.rules).all(|(_, shown)| !shown.contains("secret")));
    for (text, expected) in [
        ("on nopass", "line 1: a line begins with `user` and a name"),
        ("\nuser", "line 2: `user` needs a name of 1 to 256 bytes"),
        ("user a on\nuser a off", "line 2: the user 'a' is there twice"),
        ("user a on >secret +nope", "line 1: '+nope': Unknown command or category name in ACL"),
        (
            "user a #secret",
            "line 1: '#(redacted)': The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters",
        ),
        ("user a (+get ~x)", "line 1: '(+get': Selectors are not supported"),
    ] {
        assert_eq!(lines(text.as_bytes()).unwrap_err().to_string(), expected);
    }
    assert!(lines(&[b"user ".to_vec(), vec![b'x'; 257]].concat()).is_err());
    assert!(lines(b"\0\xff").is_err());
    assert!(lines(b"").unwrap().is_empty());
}
