//! The command line of the Esker key-value store.
//!
//! `args` says what can be typed, `commands` does it (one file each), `exit` says how it ends. The
//! rest is shared: `store` opens, `datatype`, `escapes` and `ranges` read keys and bounds, `lines`, `unpack` and `feed` read
//! input, `formats` are those of files of rows, `steady` reads files that others may write to, `writes` batches what goes into the store, `stream`
//! moves long values, `output` and `json` print what comes out, `unseen` has files appear whole. `shell` runs the same commands line by line;
//! `interrupt` is its Ctrl-C.
//!
//! A library only so that `fuzz/` reaches it: [`main`] is all that it offers.

mod args;
mod behind;
mod commands;
mod datatype;
mod escapes;
mod exit;
mod feed;
mod formats;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod interrupt;
mod json;
mod kind;
mod lines;
mod output;
mod progress;
mod ranges;
mod shell;
mod steady;
mod store;
mod stream;
mod summary;
mod unpack;
mod unseen;
mod utc;
mod writes;

use std::process::ExitCode;

use clap::Parser;

use crate::exit::Failure;

/// Does what the arguments of the process say.
pub fn main() -> ExitCode {
    let done = match args::Cli::try_parse() {
        Ok(cli) => {
            store::say_memory(cli.global.memory);
            commands::run(cli)
        }
        Err(message) => return usage(&message),
    };
    done.map_or_else(Failure::report, |()| ExitCode::SUCCESS)
}

/// Prints the help that was asked for (exit code 0), or what is wrong with the arguments (2).
fn usage(message: &clap::Error) -> ExitCode {
    let printed = exit::print(message);
    match printed {
        Err(error) if !message.use_stderr() => Failure::output(&"standard output", &error).report(),
        _ if message.use_stderr() => ExitCode::from(2),
        _ => ExitCode::SUCCESS,
    }
}
