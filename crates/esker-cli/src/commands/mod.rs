//! The commands, one file each.

mod admin;
mod backup;
mod check;
mod count;
mod delete;
mod destroy;
#[cfg(fuzzing)]
pub(crate) mod escape;
#[cfg(not(fuzzing))]
mod escape;
mod export;
mod export_dir;
mod export_notes;
mod get;
mod import;
mod import_dir;
mod ls;
mod manual;
mod merge;
mod names;
mod port;
mod put;
mod ql;
mod repair;
#[cfg(fuzzing)]
pub(crate) mod run;
#[cfg(not(fuzzing))]
mod run;
mod scan;
pub(crate) mod serve;
mod stats;
mod strangers;
mod thrift;
mod transfer;
mod trees;

use crate::args::{Cli, Command};
use crate::exit::{Failure, Outcome};

/// Runs a command, of the command line or of a line of the shell.
pub(crate) fn run(cli: Cli) -> Outcome {
    let Cli { global, command } = cli;
    if global.url.is_some() {
        refuse_files(&command)?;
    }
    match command {
        Command::Put(args) => put::run(&global, &args),
        Command::Get(args) => get::run(&global, &args),
        Command::Delete(args) => delete::run(&global, &args),
        Command::Merge(args) => merge::run(&global, &args),
        Command::Mv(args) => transfer::run(&global, &args, false),
        Command::Cp(args) => transfer::run(&global, &args, true),
        Command::Scan(args) => scan::run(&global, &args),
        Command::Count(args) => count::run(&global, &args),
        Command::Ls(args) => ls::run(&global, &args),
        Command::Run(args) => run::run(&global, &args),
        Command::Check => check::run(&global),
        Command::Compact => admin::compact(&global),
        Command::Stats(args) => stats::run(&global, &args),
        Command::Trees(args) => trees::run(&global, &args),
        Command::Dump(args) => admin::dump(&global, &args),
        Command::Checkpoint(args) => admin::checkpoint(&global, &args),
        Command::ExportTree(args) => port::export(&global, &args),
        Command::ImportTree(args) => port::import(&global, &args),
        Command::Backup(args) => backup::run(&global, &args),
        Command::Restore(args) => backup::restore(&global, &args),
        Command::Repair => repair::run(&global),
        Command::Destroy(args) => destroy::run(&global, &args),
        Command::Import(args) => import::run(&global, &args),
        Command::Export(args) => export::run(&global, &args),
        // The shell itself runs commands, so it is not one of them.
        Command::Shell(_) => Err(Failure::usage("a shell cannot run inside the shell")),
        Command::Serve(args) => serve::run(&global, &args),
        Command::Ql(args) => ql::run(&global, &args),
        Command::Thrift(args) => thrift::run(&global, &args),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::pages(&args),
    }
}

/// Refuses, on a server, the commands that work on the files of a store.
fn refuse_files(command: &Command) -> Outcome {
    let (name, instead) = match command {
        Command::Check => ("check", ""),
        Command::Compact => ("compact", ""),
        Command::Stats(_) => ("stats", "; `redis-cli info` prints figures of a server"),
        Command::Trees(_) => ("trees", "; `redis-cli info keyspace` lists the databases of a server"),
        Command::Checkpoint(_) => ("checkpoint", ""),
        Command::ExportTree(_) => ("export-tree", "; `esker export` writes the rows of a database"),
        Command::ImportTree(_) => ("import-tree", "; `esker import` puts rows into a database"),
        Command::Backup(_) => ("backup", "; `BGSAVE` has the server make a backup"),
        Command::Repair => ("repair", ""),
        Command::Destroy(_) => ("destroy", "; `esker delete --all` empties a database"),
        Command::Serve(_) => ("serve", ""),
        Command::Thrift(_) => ("thrift", ""),
        _ => return Ok(()),
    };
    Err(Failure::usage(format!(
        "`esker {name}` works on the files of a store, and not by way of a server: use --db DIR when no server has the store \
         open{instead}"
    )))
}
