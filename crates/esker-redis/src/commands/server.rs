//! Commands about connections and the server, which a server does itself.

use super::{ALL, Family, Flags, Keys, READS, Spec, of_server};

const ADMIN: Flags = Flags { is_admin: true, ..READS };

/// What commands about clusters do.
const CLUSTER: &str = "Is an error: cluster support is disabled";

use Family::{Connection, PubSub, Server, Transaction};

pub(crate) const COMMANDS: &[Spec] = &[
    of_server("acl", -2, Server, READS, Keys::None, "Tells of users and their rights, or changes them")
        .with_subcommands(),
    of_server("auth", -2, Connection, READS, Keys::None, "Says who the client is"),
    of_server("client", -2, Connection, READS, Keys::None, "Asks about connections, or changes them")
        .with_subcommands(),
    of_server("echo", 2, Connection, READS, Keys::None, "Returns its argument"),
    of_server("hello", -1, Connection, READS, Keys::None, "Chooses the version of the protocol"),
    of_server("ping", -1, Connection, READS, Keys::None, "Returns PONG, or its argument"),
    of_server("quit", -1, Connection, READS, Keys::None, "Closes the connection"),
    of_server("reset", 1, Connection, READS, Keys::None, "Makes the connection as new"),
    of_server("select", 2, Connection, READS, Keys::None, "Chooses the database"),
    of_server(
        "bgsave",
        -1,
        Server,
        ADMIN,
        Keys::None,
        "Makes a backup in the directory of the configuration",
    ),
    of_server("asking", 1, Server, READS, Keys::None, CLUSTER),
    of_server("cluster", -2, Server, READS, Keys::None, CLUSTER),
    of_server("readonly", 1, Server, READS, Keys::None, CLUSTER),
    of_server("readwrite", 1, Server, READS, Keys::None, CLUSTER),
    of_server("command", -1, Server, READS, Keys::None, "Tells of commands").with_subcommands(),
    of_server("config", -2, Server, ADMIN, Keys::None, "Asks for settings, or changes them")
        .with_subcommands(),
    of_server(
        "function",
        -2,
        Server,
        READS,
        Keys::None,
        "FUNCTION FLUSH does nothing: there are no functions",
    )
    .with_subcommands(),
    of_server("info", -1, Server, READS, Keys::None, "Tells of the server"),
    of_server("lastsave", 1, Server, ADMIN, Keys::None, "Tells when the last backup was made"),
    of_server("latency", -2, Server, ADMIN, Keys::None, "Tells of slow events").with_subcommands(),
    of_server("role", 1, Server, READS, Keys::None, "Tells the role of the server"),
    of_server("slowlog", -2, Server, ADMIN, Keys::None, "Tells of slow commands").with_subcommands(),
    of_server("time", 1, Server, READS, Keys::None, "Tells the time"),
    of_server("wait", 3, Server, READS, Keys::None, "Waits for replicas, of which there are none"),
    of_server("waitaof", 4, Server, READS, Keys::None, "Waits until the client's writes survive power loss"),
    of_server("discard", 1, Transaction, READS, Keys::None, "Forgets the commands since MULTI"),
    of_server("exec", 1, Transaction, READS, Keys::None, "Does the commands since MULTI as one step"),
    of_server("multi", 1, Transaction, READS, Keys::None, "Gathers commands for EXEC"),
    of_server("unwatch", 1, Transaction, READS, Keys::None, "Forgets the watched keys"),
    of_server(
        "watch",
        -2,
        Transaction,
        READS,
        ALL,
        "Makes the next EXEC fail if these keys change before it",
    ),
    of_server("psubscribe", -2, PubSub, READS, Keys::None, "Listens to channels whose names match patterns"),
    of_server("publish", 3, PubSub, READS, Keys::None, "Sends a message to a channel"),
    of_server("pubsub", -2, PubSub, READS, Keys::None, "Tells of channels").with_subcommands(),
    of_server("punsubscribe", -1, PubSub, READS, Keys::None, "Stops listening to patterns"),
    of_server("subscribe", -2, PubSub, READS, Keys::None, "Listens to channels"),
    of_server("unsubscribe", -1, PubSub, READS, Keys::None, "Stops listening to channels"),
];
