//! The second words of commands that are several: `CONFIG GET` and `CONFIG SET`, say.

use super::spec::fits;
use super::{Spec, is};

/// A command whose name has two words.
pub struct Subcommand {
    /// Its first word, in lower case.
    pub container: &'static str,
    /// Its second word, in lower case.
    pub name: &'static str,
    /// How many arguments it has, with both words; at least so many if negative.
    pub arity: i32,
    /// What follows, as `HELP` shows it.
    pub arguments: &'static str,
    /// What it does in short.
    pub summary: &'static str,
}

impl Subcommand {
    /// Whether it may have so many arguments, both words included.
    pub fn takes(&self, arguments: usize) -> bool {
        fits(self.arity, arguments)
    }
}

const fn sub(
    container: &'static str,
    name: &'static str,
    arity: i32,
    arguments: &'static str,
    summary: &'static str,
) -> Subcommand {
    Subcommand { container, name, arity, arguments, summary }
}

/// Sorted by their names.
const SUBCOMMANDS: &[Subcommand] = &[
    sub("acl", "cat", -2, "[<category>]", "Returns the categories, or the commands of one"),
    sub("acl", "deluser", -3, "<user> [<user> ...]", "Deletes users and closes their connections"),
    sub("acl", "dryrun", -4, "<user> <command> [<argument> ...]", "Says whether a user may do a command"),
    sub("acl", "genpass", -2, "[<bits>]", "Returns a random password"),
    sub("acl", "getuser", 3, "<user>", "Tells of a user"),
    sub("acl", "list", 2, "", "Returns the users, as ACL files have them"),
    sub("acl", "load", 2, "", "Reads the users from the file of the configuration"),
    sub("acl", "save", 2, "", "Writes the users to that file"),
    sub("acl", "setuser", -3, "<user> [<rule> ...]", "Makes or changes a user"),
    sub("acl", "users", 2, "", "Returns the names of the users"),
    sub("acl", "whoami", 2, "", "Returns the name of this connection's user"),
    sub("client", "getname", 2, "", "Returns the name of this connection"),
    sub("client", "id", 2, "", "Returns the number of this connection"),
    sub("client", "info", 2, "", "Tells of this connection"),
    sub(
        "client",
        "kill",
        -3,
        "<address> | <filter> <value> [<filter> <value> ...]",
        "Closes connections: filters are ADDR, ID, LADDR, SKIPME, TYPE and USER",
    ),
    sub("client", "list", -2, "[TYPE <type> | ID <id> [<id> ...]]", "Tells of connections, a line each"),
    sub("client", "no-evict", 3, "(ON|OFF)", "Does nothing: no client is evicted"),
    sub("client", "no-touch", 3, "(ON|OFF)", "Does nothing: how keys are used is not counted"),
    sub("client", "reply", 3, "(ON|OFF|SKIP)", "Chooses which replies this connection wants"),
    sub("client", "setinfo", 4, "(LIB-NAME|LIB-VER) <value>", "Tells which library the client uses"),
    sub("client", "setname", 3, "<name>", "Gives this connection a name"),
    sub("client", "unblock", -3, "<id> [TIMEOUT|ERROR]", "Ends the wait of a client for an element"),
    sub("command", "count", 2, "", "Returns the number of commands"),
    sub("command", "docs", -2, "[<name> ...]", "Tells what commands do"),
    sub("command", "getkeys", -3, "<name> [<argument> ...]", "Returns the keys among a command's arguments"),
    sub("command", "info", -2, "[<name> ...]", "Tells of commands what clients need to know"),
    sub("command", "list", -2, "", "Returns the names of all commands"),
    sub("config", "get", -3, "<pattern> [<pattern> ...]", "Returns settings whose names match"),
    sub("config", "resetstat", 2, "", "Begins the figures of INFO anew"),
    sub("config", "rewrite", 2, "", "Is an error: there is no file of settings"),
    sub("config", "set", -4, "<name> <value> [<name> <value> ...]", "Changes settings"),
    sub("function", "flush", -2, "[ASYNC|SYNC]", "Does nothing: there are no functions"),
    sub("latency", "doctor", 2, "", "Says in words what was slow"),
    sub("latency", "graph", 3, "<event>", "Draws what LATENCY HISTORY returns"),
    sub("latency", "histogram", -2, "[<command> ...]", "Returns how long commands took"),
    sub("latency", "history", 3, "<event>", "Returns times at which the event was slow"),
    sub("latency", "latest", 2, "", "Returns the last slow time of each event"),
    sub("latency", "reset", -2, "[<event> ...]", "Forgets slow events"),
    sub("memory", "usage", -3, "<key> [SAMPLES <count>]", "Estimates the bytes of a key and its value"),
    sub("object", "encoding", 3, "<key>", "Returns how Redis would store the value"),
    sub("object", "freq", 3, "<key>", "Is an error: how often keys are used is not counted"),
    sub("object", "idletime", 3, "<key>", "Returns 0: when keys were used last is not known"),
    sub("object", "refcount", 3, "<key>", "Returns 1: values are not shared"),
    sub("pubsub", "channels", -2, "[<pattern>]", "Returns the channels to which somebody listens"),
    sub("pubsub", "numpat", 2, "", "Returns the number of patterns to which somebody listens"),
    sub("pubsub", "numsub", -2, "[<channel> ...]", "Returns for each channel how many listen to it"),
    sub("pubsub", "shardchannels", -2, "[<pattern>]", "Returns nothing: there are no shard channels"),
    sub("slowlog", "get", -2, "[<count>]", "Returns slow commands, the newest first"),
    sub("slowlog", "len", 2, "", "Returns the number of slow commands that are kept"),
    sub("slowlog", "reset", 2, "", "Forgets the slow commands"),
    sub("slowlog", "why", -2, "[<count>]", "Returns slow commands, and what each has waited for"),
];

/// The subcommands of a command.
pub fn subcommands(container: &str) -> impl Iterator<Item = &'static Subcommand> {
    SUBCOMMANDS.iter().filter(move |sub| sub.container == container)
}

/// The subcommand of a command with this name, in any case of letters.
pub fn subcommand(container: &str, name: &[u8]) -> Option<&'static Subcommand> {
    subcommands(container).find(|sub| name.eq_ignore_ascii_case(sub.name.as_bytes()))
}

/// Why these arguments are no command, if the command has subcommands: there is no such subcommand, or it takes another
/// number of arguments.
pub fn misuse(spec: &Spec, arguments: &[&[u8]]) -> Option<String> {
    let word = arguments.get(1).filter(|_| spec.has_subcommands)?;
    let (name, takes) = match subcommand(spec.name, word) {
        Some(sub) => (sub.name, sub.takes(arguments.len())),
        None if is(word, "HELP") => ("help", arguments.len() == 2),
        None => {
            let word = String::from_utf8_lossy(&word[..word.len().min(128)]);
            let container = spec.name.to_ascii_uppercase();
            return Some(format!("ERR unknown subcommand '{word}'. Try {container} HELP."));
        }
    };
    (!takes).then(|| format!("ERR wrong number of arguments for '{}|{name}' command", spec.name))
}

/// Whether the arguments ask for the help of a command with subcommands.
pub fn asks_for_help(spec: &Spec, arguments: &[&[u8]]) -> bool {
    spec.has_subcommands && is_help(arguments)
}

/// Whether the arguments of a command with subcommands ask for its help.
pub(super) fn is_help(arguments: &[&[u8]]) -> bool {
    matches!(arguments, [_, word] if is(word, "HELP"))
}

/// What a command with subcommands answers to `HELP`.
pub fn help(container: &str) -> Vec<String> {
    let name = container.to_ascii_uppercase();
    let mut lines = vec![format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")];
    for sub in subcommands(container) {
        lines.push(format!("{} {}", sub.name.to_ascii_uppercase(), sub.arguments).trim_end().to_owned());
        lines.push(format!("    {}.", sub.summary));
    }
    lines.extend(["HELP".to_owned(), "    Prints this help.".to_owned()]);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_belong_to_commands_and_are_sorted() {
        for sub in SUBCOMMANDS {
            assert!(super::super::spec(sub.container.as_bytes()).is_some(), "{}", sub.container);
        }
        for spec in super::super::specs() {
            assert_eq!(spec.has_subcommands, subcommands(spec.name).next().is_some(), "{}", spec.name);
        }
        assert!(SUBCOMMANDS.is_sorted_by_key(|sub| (sub.container, sub.name)));
    }

    #[test]
    fn help_shows_each() {
        let lines = help("slowlog");
        assert_eq!(lines.len(), 1 + 2 * 4 + 2);
        assert_eq!(lines[0], "SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
        assert_eq!(lines[1..3], ["GET [<count>]", "    Returns slow commands, the newest first."]);
        assert_eq!(lines[3], "LEN");
    }

    #[test]
    fn misuse_is_told() {
        let told = |line: &str| {
            let arguments: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            misuse(super::super::spec(arguments[0]).unwrap(), &arguments)
        };
        assert_eq!(told("CONFIG Get x"), None);
        assert_eq!(told("GET GET x"), None);
        assert_eq!(told("CLIENT help"), None);
        let wrong = told("Client KILL").unwrap();
        assert_eq!(wrong, "ERR wrong number of arguments for 'client|kill' command");
        let wrong = told("CLIENT HELP me").unwrap();
        assert_eq!(wrong, "ERR wrong number of arguments for 'client|help' command");
        assert_eq!(told("CONFIG GOT x").unwrap(), "ERR unknown subcommand 'GOT'. Try CONFIG HELP.");
    }
}
