//! The commands: what each is called, which keys it has, and what it does.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::LazyLock;

use crate::context::Context;
use crate::fault::{Fault, ReadError};
use crate::resp::reply::Reply;

mod arguments;
mod bits;
pub mod blocking;
mod collections;
mod hashes;
mod keys;
mod lists;
mod random;
mod ranges;
mod scan;
mod server;
mod sets;
mod sorted_sets;
mod spec;
mod strings;
pub mod subcommands;

pub(crate) use arguments::{float, integer, is};
pub(crate) use spec::{
    ALL, ALL_BUT_LAST, FREES, FREES_ALL, ONE, PAIRS, READS, READS_ALL, Run, TWO, WRITES, WRITES_ALL, command,
    of_server,
};
pub use spec::{Family, Flags, Keys, Spec};

const TABLES: &[&[Spec]] = &[
    strings::COMMANDS,
    bits::COMMANDS,
    keys::COMMANDS,
    hashes::COMMANDS,
    sets::COMMANDS,
    sorted_sets::COMMANDS,
    lists::COMMANDS,
    ranges::COMMANDS,
    server::COMMANDS,
];

static BY_NAME: LazyLock<HashMap<&'static [u8], &'static Spec, BuildHasherDefault<NameHasher>>> =
    LazyLock::new(|| specs().map(|spec| (spec.name.as_bytes(), spec)).collect());

/// FNV-1a (Fowler, Noll, Vo, 1991). Nobody but this program puts names into the table, so nobody can make them collide.
struct NameHasher(u64);

impl Default for NameHasher {
    fn default() -> Self {
        NameHasher(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    /// The length of a name. A name is one slice, so its length says nothing that its bytes do not.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

/// All commands.
pub fn specs() -> impl Iterator<Item = &'static Spec> {
    TABLES.iter().copied().flatten()
}

/// The command with this name, in any case of letters.
pub fn spec(name: &[u8]) -> Option<&'static Spec> {
    let mut lower = [0_u8; 32];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    BY_NAME.get(&*lower).copied()
}

/// Does what `spec` says with `arguments`, the command's name included, and answers in `reply`. An error that the client
/// is told is an answer too; then nothing was written.
///
/// # Errors
/// [`ReadError`] when the store could not be read. Nothing was written or answered then: the command may be evaluated
/// again.
pub fn evaluate(
    ctx: &mut Context<'_>,
    spec: &Spec,
    arguments: &[&[u8]],
    reply: &mut Reply,
) -> Result<(), ReadError> {
    let begin = reply.bytes.len();
    let Some(run) = spec.run.filter(|_| spec.takes(arguments.len())) else {
        reply.error(&format!("ERR wrong number of arguments for '{}' command", spec.name));
        return Ok(());
    };
    if let Some(message) = subcommands::misuse(spec, arguments) {
        reply.error(&message);
        return Ok(());
    }
    ctx.session_mut().begin();
    let done = run(ctx, arguments, reply);
    let refused = ctx.session_mut().take_refused().map_or(Ok(()), Err);
    match done.and(refused) {
        Ok(()) => {
            ctx.note_lookups(spec.lookups(arguments));
            if !spec.flags.frees_space {
                ctx.session_mut().note_growth();
            }
            Ok(())
        }
        Err(fault) => {
            // A key of another type was found.
            let found = if fault.is_wrong_type() { spec.lookups(arguments) } else { 0 };
            ctx.note_lookups(found);
            ctx.session_mut().undo();
            ctx.take_events();
            ctx.take_touched();
            reply.truncate(begin);
            match fault {
                Fault::Told(message) => {
                    reply.error(&message);
                    Ok(())
                }
                Fault::Unread(error) => Err(error),
            }
        }
    }
}

/// Whether the argument at this place of a command may be a value that is not in memory ([`Long`](crate::Long)).
pub fn takes_long(command: &[u8], at: usize) -> bool {
    spec(command).is_some_and(|spec| match spec.name {
        "set" | "setnx" | "getset" => at == 2,
        "setex" | "psetex" | "cas" => at == 3,
        "mset" | "msetnx" => at >= 2 && at.is_multiple_of(2),
        _ => false,
    })
}
