//! Users and their rights: what a client may do follows its user at once.

use crate::client::{Client, Value};
use crate::host::{Host, Store, wait_until};

/// A server with a user `u` that has these rights, a client that may do all, and one that is `u`.
fn with_user(rules: &str) -> (Host, Client, Client) {
    let host = Host::start();
    let (mut admin, mut user) = (host.client(), host.client());
    admin.check(&format!("ACL SETUSER u on nopass {rules} => +OK"));
    user.check("AUTH u any => +OK");
    (host, admin, user)
}

const NO_KEY: &str = "-NOPERM this user has no permissions to access one of the keys used as arguments";
const NO_CHANNEL: &str =
    "-NOPERM this user has no permissions to access one of the channels used as arguments";
const NO_DATABASE: &str = "-NOPERM this user has no permissions to access this database";

fn no_command(name: &str) -> String {
    format!("-NOPERM this user has no permissions to run the '{name}' command")
}

#[test]
fn rights_change_for_connections_that_are_there() {
    let (_host, mut admin, mut user) = with_user("+get ~a");
    user.check(&format!("GET a => $-1\n GET b => {NO_KEY}\n SET a 1 => {}", no_command("set")));
    admin.check("ACL SETUSER u +set ~b => +OK");
    user.check("SET b 1 => +OK\n GET b => 1");
    admin.check("ACL SETUSER u -get => +OK");
    user.check(&format!("GET b => {}", no_command("get")));
    // As in Redis, one that is switched off stays connected, and nobody becomes it any more.
    admin.check("ACL SETUSER u off => +OK");
    user.check("SET b 2 => +OK\n AUTH u x => -WRONGPASS invalid username-password pair or user is disabled.");
    user.check("SET b 3 => +OK");
    assert_eq!(admin.figure("acl_access_denied_cmd"), 2);
    assert_eq!(admin.figure("acl_access_denied_key"), 1);
    assert_eq!(admin.figure("acl_access_denied_auth"), 1);
}

#[test]
fn a_wrong_rule_changes_nothing() {
    let (_host, mut admin, _) = with_user("+get ~a");
    let before = admin.call("ACL LIST").to_string();
    for rules in ["+set nope", "~b >pw %x~", "reset +nope", "on off <none", "+get (+set)"] {
        let reply = admin.call(&format!("ACL SETUSER u {rules}"));
        assert!(reply.to_string().starts_with("-ERR Error in ACL SETUSER modifier '"), "{reply}");
    }
    assert_eq!(admin.call("ACL LIST").to_string(), before);
    admin.check("ACL GETUSER none => $-1\n ACL DELUSER none => :0");
    admin.check("ACL DELUSER u default => -ERR The 'default' user cannot be removed");
    assert!(admin.call_with(&["ACL", "SETUSER", "a b"]).is_error());
    assert!(admin.call_with(&["ACL", "SETUSER", ""]).is_error());
    assert!(admin.call_with(&[b"ACL".to_vec(), b"SETUSER".to_vec(), vec![b'x'; 1 << 20]]).is_error());
    assert_eq!(admin.call("ACL LIST").to_string(), before);
}

#[test]
fn a_thousand_rules_and_users() {
    let (host, mut admin, mut user) = with_user("-@all");
    let mut command = vec!["ACL".to_owned(), "SETUSER".to_owned(), "u".to_owned(), "+@all".to_owned()];
    command.extend((0..4000).map(|number| format!("~key:{number}:*")));
    assert_eq!(admin.call_with(&command).to_string(), "+OK");
    user.check(&format!("SET key:3999:x 1 => +OK\n SET key:4000:x 1 => {NO_KEY}"));
    command.extend((0..7000).map(|_| "+get".to_owned()));
    assert!(admin.call_with(&command).is_error());
    let passwords: Vec<String> = (0..65).map(|number| format!(">{number}")).collect();
    assert!(admin.call(&format!("ACL SETUSER u {}", passwords.join(" "))).is_error());
    for number in 0..1000 {
        admin.check(&format!("ACL SETUSER user{number} on +@read ~{number} => +OK"));
    }
    let Value::Array(users) = admin.call("ACL USERS") else { panic!("no users") };
    assert_eq!(users.len(), 1002);
    host.client().check("PING => +PONG");
}

#[test]
fn a_user_that_is_deleted_is_disconnected() {
    let (host, mut admin, mut user) = with_user("+@all ~* &*");
    let (mut waiting, mut listening) = (host.client(), host.client());
    waiting.check("AUTH u x => +OK");
    waiting.send("BLPOP list 0");
    listening.check("AUTH u x => +OK\n SUBSCRIBE c => [subscribe c :1]");
    host.wait_for_blocked(1);
    admin.check("ACL DELUSER none u => :1");
    for client in [&mut user, &mut waiting, &mut listening] {
        assert!(client.is_closed());
    }
    admin.check("RPUSH list x => :1\n LLEN list => :1\n ACL USERS => [default]");
    // One that deletes itself has its reply.
    admin.check("ACL SETUSER v on nopass +acl => +OK");
    let mut own = host.client();
    own.check("AUTH v x => +OK");
    own.send("ACL DELUSER v");
    assert_eq!(own.read_to_end(), [Value::Integer(1)]);
    wait_until("all of them have gone", || admin.figure("connected_clients") == 1);
}

/// While the replies before it are written, its right goes: it does not wait yet. The socket does not hold them all.
#[test]
fn a_right_that_goes_before_the_wait_begins() {
    let (host, mut admin, _) = with_user("+@all ~list:*");
    admin.call_with(&[b"SET", &b"list:long"[..], &vec![b'x'; 250_000]]);
    let mut user = host.unix_client();
    user.check("AUTH u any => +OK");
    user.send_bytes(b"GET list:long\r\nBLPOP list:a 0\r\n");
    wait_until("it writes the reply", || admin.call("CLIENT LIST").to_string().contains("cmd=blpop"));
    admin.check("ACL SETUSER u resetkeys ~other => +OK");
    assert_eq!(user.read().bytes().len(), 250_000);
    assert_eq!(user.read().to_string(), NO_KEY);
    admin.check("RPUSH list:a x => :1\n LLEN list:a => :1");
}

#[test]
fn one_that_waits_for_what_it_may_not_have_any_more_is_disconnected() {
    let (host, mut admin, mut user) = with_user("+@all ~list:* &news:*");
    user.send("BLPOP list:a 0");
    host.wait_for_blocked(1);
    let mut listening = host.client();
    listening.check("AUTH u x => +OK\n SUBSCRIBE news:a => [subscribe news:a :1]");
    let mut by_pattern = host.client();
    by_pattern.check("AUTH u x => +OK\n PSUBSCRIBE news:* => [psubscribe news:* :1]");
    admin.check("ACL SETUSER u +get => +OK\n PUBLISH news:a 1 => :2");
    assert_eq!(listening.read().to_string(), "[message news:a 1]");
    admin.check("ACL SETUSER u resetkeys ~other => +OK");
    assert!(user.is_closed());
    admin.check("RPUSH list:a x => :1\n LLEN list:a => :1");
    admin.check("ACL SETUSER u resetchannels &news:a => +OK");
    by_pattern.read();
    assert!(by_pattern.is_closed());
    admin.check("PUBLISH news:a 2 => :1");
    assert_eq!(listening.read().to_string(), "[message news:a 2]");
    admin.check("ACL SETUSER u resetchannels => +OK");
    assert!(listening.is_closed());
}

#[test]
fn transactions_ask_twice() {
    let (_host, mut admin, mut user) = with_user("+@all ~a &c");
    user.check(&format!("MULTI => +OK\n SET a 1 => +QUEUED\n SET b 1 => {NO_KEY}"));
    user.check("EXEC => -EXECABORT Transaction discarded because of previous errors.\n GET a => $-1");
    user.check("MULTI => +OK\n SET a 1 => +QUEUED\n PUBLISH c x => +QUEUED\n INCR a => +QUEUED");
    admin.check("ACL SETUSER u -publish -incr => +OK");
    let why = "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: no permission to execute the command or subcommand";
    user.check(&format!("EXEC => [+OK {why} {why}]\n GET a => 1"));
    user.check("MULTI => +OK\n AUTH u x => -ERR Command not allowed inside a transaction");
    user.check("DISCARD => +OK");
    // What waits is no part of a transaction.
    admin.check(
        "MULTI => +OK\n ACL SETUSER v => +QUEUED\n ACL WHOAMI => +QUEUED
        EXEC => [-ERR this command cannot be a part of a transaction default]\n ACL GETUSER v => $-1",
    );
}

#[test]
fn databases_are_a_right() {
    let (_host, mut admin, mut user) = with_user("+@all ~* &* db=1-2");
    user.check(&format!(
        "GET a => {NO_DATABASE}
        DBSIZE => {NO_DATABASE}
        PING => +PONG
        SELECT 3 => {NO_DATABASE}
        SELECT 1 => +OK
        SET a 1 => +OK
        COPY a b DB 2 => :1
        COPY a b DB 0 => {NO_DATABASE}
        MOVE a 0 => {NO_DATABASE}
        FLUSHALL => -NOPERM this user has no permissions to access all databases"
    ));
    // A database that is selected within a transaction counts for what follows.
    let why = "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: no permission to access the database";
    user.check("MULTI => +OK\n SELECT 2 => +QUEUED\n GET b => +QUEUED\n EXEC => [+OK 1]");
    user.check("MULTI => +OK\n SELECT 1 => +QUEUED\n GET a => +QUEUED");
    admin.check("ACL SETUSER u db=2 => +OK");
    user.check(&format!("EXEC => [{why} $-1]\n SET b 2 => +OK"));
    user.check("MULTI => +OK\n SET x 1 => +QUEUED\n SET y 1 => +QUEUED");
    admin.check("ACL SETUSER u db=0 => +OK");
    user.check(&format!("EXEC => [{why} {why}]"));
    admin.check("SELECT 2 => +OK\n GET b => 2\n EXISTS x y => :0");
    assert_eq!(
        admin.call("ACL GETUSER u").to_string(),
        "[flags [on nopass] passwords [] commands +@all keys ~* channels &* selectors [] databases db=0]"
    );
}

#[test]
fn ranges_stay_within_patterns() {
    let (_host, mut admin, mut user) = with_user("+@all ~own:*");
    admin.check("MSET own:1 a own:2 b other c => +OK");
    user.check(&format!(
        "RANGE own:1 own:9 KEYS => [own:1 own:2]
        RANGE own: zzz => {NO_KEY}
        RANGE a own:9 => {NO_KEY}
        RANGEDEL own:2 own:9 => :1
        RANGEDEL a zzz => {NO_KEY}"
    ));
    assert_eq!(user.call_with(&["RANGE", "own:", ""]).to_string(), NO_KEY);
    admin.check("EXISTS own:1 own:2 other => :2");
}

/// Commands that wait or go to the pool, and keyspace events, ask as all do.
#[test]
fn checks_come_before_everything_else() {
    let (_host, mut admin, mut user) = with_user("+@all -keys -flushall ~a");
    user.check(&format!(
        "BLPOP a b 0 => {NO_KEY}
        BLMOVE a b LEFT LEFT 0 => {NO_KEY}
        WATCH a b => {NO_KEY}
        KEYS * => {}
        FLUSHALL => {}
        SUBSCRIBE __keyspace@0__:b => {NO_CHANNEL}
        PSUBSCRIBE * => {NO_CHANNEL}
        OBJECT ENCODING b => {NO_KEY}
        MEMORY USAGE b => {NO_KEY}
        BLPOP a 0.001 => *-1",
        no_command("keys"),
        no_command("flushall"),
    ));
    admin.check("ACL DRYRUN u GET a => +OK\n ACL DRYRUN u GET b => This user has no permissions to access the 'b' key");
    admin.check("ACL DRYRUN u KEYS * => This user has no permissions to run the 'keys' command");
    admin.check("ACL DRYRUN v GET a => -ERR User 'v' not found");
    let huge = vec![b'x'; 1 << 20];
    assert_eq!(user.call_with(&[b"SET", &b"b"[..], &huge]).to_string(), NO_KEY);
}

#[test]
fn clients_tell_who_they_are() {
    let (host, mut admin, mut user) = with_user("+@all -client|kill ~*");
    let list = admin.call("CLIENT LIST").to_string();
    assert_eq!(list.matches(" user=u ").count(), 1, "{list}");
    assert_eq!(list.matches(" user=default ").count(), 1, "{list}");
    assert!(user.call("CLIENT INFO").to_string().contains(" user=u "));
    user.check(&format!("CLIENT KILL USER default => {}", no_command("client|kill")));
    admin.check("CLIENT KILL USER nobody => -ERR No such user 'nobody'\n CLIENT KILL USER u => :1");
    assert!(user.is_closed());
    let info = host.client().call("COMMAND INFO config get").to_string();
    assert!(info.contains("+@read +@string +@fast"), "{info}");
    let Value::Array(categories) = admin.call("ACL CAT") else { panic!("no categories") };
    assert_eq!(categories.len(), 21);
    let long = admin.call("ACL GENPASS");
    assert_eq!(long.bytes().len(), 64);
    assert_ne!(long, admin.call("ACL GENPASS"));
    assert_eq!(admin.call("ACL GENPASS 5").bytes().len(), 2);
    assert_eq!(admin.call("ACL GENPASS 4096").bytes().len(), 1024);
    assert!(admin.call("ACL GENPASS 4097").is_error());
}

/// What carries passwords is kept and shown without them.
#[test]
fn passwords_are_shown_nowhere() {
    let host = Host::start();
    let mut admin = host.client();
    admin.check("CONFIG SET slowlog-log-slower-than 0 => +OK");
    admin.check("ACL SETUSER u on >secret ~* +@all => +OK");
    admin.check("AUTH u secret => +OK\n HELLO 2 AUTH u wrongsecret => -WRONGPASS invalid username-password pair or user is disabled.");
    admin.call("CONFIG SET requirepass secret");
    admin.call("CONFIG SET masterauth secret");
    admin.call("ACL SETUSER u >othersecret <nosecret");
    admin.call("ACL SETUSER u #secret");
    for command in
        ["SLOWLOG GET -1", "INFO everything", "CLIENT LIST", "ACL LIST", "ACL GETUSER u", "CONFIG GET *"]
    {
        let told = admin.call(command).to_string();
        assert!(!told.contains("secret"), "{command}: {told}");
    }
    let slow = admin.call("SLOWLOG GET -1").to_string();
    assert!(slow.contains("[AUTH (redacted) (redacted)]"), "{slow}");
    assert!(slow.contains("[HELLO 2 AUTH (redacted) (redacted)]"), "{slow}");
    assert!(slow.contains("[ACL SETUSER (redacted) (redacted) (redacted) (redacted) (redacted)]"), "{slow}");
    assert!(slow.contains("[CONFIG SET requirepass (redacted)]"), "{slow}");
    admin.call("HELLO 3 SETNAME auth AUTH v hidden1");
    admin.call("HELLO 3 AUTH v hidden2 AUTH v hidden3");
    admin.call("HELLO AUTH v hidden4");
    let slow = admin.call("SLOWLOG GET 3").to_string();
    assert!(slow.contains("(redacted)") && !slow.contains("hidden"), "{slow}");
    let reply = admin.call("ACL SETUSER u <nosecret").to_string();
    assert!(!reply.contains("secret"), "{reply}");
}

#[test]
fn the_default_user_can_be_less_than_all() {
    let host = Host::of(&Store::in_memory(), |_| {});
    let mut admin = host.client();
    admin.check("ACL SETUSER root on >pw ~* &* +@all => +OK\n ACL SETUSER default resetkeys ~public:* -@all +get => +OK");
    admin
        .check(&format!("GET public:a => $-1\n GET a => {NO_KEY}\n SET public:a 1 => {}", no_command("set")));
    admin.check("AUTH root pw => +OK\n SET a 1 => +OK\n RESET => +RESET");
    admin.check(&format!("GET a => {NO_KEY}\n AUTH root pw => +OK\n ACL SETUSER default off => +OK"));
    let mut new = host.client();
    new.check("GET public:a => -NOAUTH Authentication required.\n AUTH root pw => +OK\n GET a => 1");
}

/// As an option that is given twice, the last one counts.
#[test]
fn no_option_leads_to_another_database() {
    let (_host, mut admin, mut user) = with_user("+@all ~* db=0");
    admin.check("SELECT 5 => +OK\n SET there kept => +OK\n SELECT 0 => +OK\n SET k v => +OK");
    for command in [
        "COPY k there DB 5 REPLACE",
        "COPY k there DB 0 REPLACE DB 5",
        "COPY k there DB 5 DB 0 REPLACE",
        "COPY k there REPLACE db 0 Db 5",
        "MOVE k 5",
        "SELECT 5",
    ] {
        user.check(&format!("{command} => {NO_DATABASE}"));
    }
    user.check("COPY k l DB 0 DB 0 => :1");
    admin.check("SELECT 5 => +OK\n GET there => kept\n DBSIZE => :1");
}
