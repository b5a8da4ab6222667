//! The command line of the Esker key-value store.
//!
//! - `args` defines the command line, `config` completes that of `serve` by its file, `commands` has a file for each
//!   command, `exit` the exit codes. `log` writes what a server logs, and `supervisor` tells systemd of it.
//! - `store` opens the store. `keyspace` is what commands work on, a tree of it or a database of a server, which `client`
//!   asks. `datatype`, `escapes` and `ranges` read keys and bounds.
//! - `lines`, `unpack` and `feed` read input; `steady` reads files that others may write to meanwhile. `formats` are
//!   the formats of rows. `writes` collects rows into batches. `stream` copies long values.
//! - `output` and `json` print. `pack` compresses output. `unseen` gives a file its name once it is whole.
//! - `shell` runs the same commands line by line; `interrupt` handles Ctrl-C. `ql` runs statements on tables; `history` keeps
//!   what was typed at a terminal.
//!
//! It is a library only so that `fuzz/` can reach it. Its one entry point is [`main`].

mod args;
mod behind;
mod client;
mod collections;
mod commands;
mod config;
mod datatype;
mod encoding;
mod escapes;
mod exit;
mod feed;
mod formats;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod history;
mod interrupt;
mod json;
mod keyspace;
mod kind;
mod lines;
mod log;
mod offline;
mod output;
mod pack;
mod permissions;
mod progress;
mod ql;
mod ranges;
mod shell;
mod steady;
mod store;
mod stream;
mod summary;
mod supervisor;
mod unpack;
mod unseen;
mod utc;
mod writes;

use std::process::ExitCode;

use crate::exit::Failure;
use crate::output::Out;

/// Runs the command in the arguments of the process.
pub fn main() -> ExitCode {
    interrupt::outlive_file_limits();
    let mut line = std::env::args_os().collect();
    let completed = match config::complete(&mut line) {
        Ok(completed) => completed,
        Err(failure) => return failure.report(),
    };
    let done = match args::Cli::parsed_from(&line) {
        Ok(args::Cli { command: args::Command::Serve(serve), .. }) if serve.print_config => {
            let text = commands::serve::check(&serve).and_then(|()| completed.print(&line));
            text.and_then(|text| Out::stdout()?.with(|out| out.write(text.as_bytes())))
        }
        Ok(cli) => {
            store::say_memory(cli.global.memory);
            match cli {
                args::Cli { global, command: args::Command::Shell(args) } => shell::run(global, &args),
                cli => commands::run(cli),
            }
        }
        Err(message) => return usage(&message),
    };
    done.map_or_else(Failure::report, |()| ExitCode::SUCCESS)
}

/// Prints the requested help (exit code 0), or what is wrong with the arguments (2).
fn usage(message: &clap::Error) -> ExitCode {
    let printed = exit::print(message);
    match printed {
        Err(error) if !message.use_stderr() => Failure::output(&"standard output", &error).report(),
        _ if message.use_stderr() => ExitCode::from(2),
        _ => ExitCode::SUCCESS,
    }
}
