//! `esker completions SHELL`, `esker man [COMMAND]`: generated from the definition of the arguments.

use std::fs;
use std::io;
use std::path::Path;

use clap::CommandFactory;
use clap_mangen::Man as Page;

use crate::args::{Cli, Completions, Man};
use crate::exit::{Failure, Outcome};
use crate::output::Out;

pub(crate) fn completions(args: &Completions) -> Outcome {
    Out::stdout()?.with(|out| {
        clap_complete::generate(args.shell, &mut Cli::command(), "esker", out.buffer());
        Ok(())
    })
}

pub(crate) fn pages(args: &Man) -> Outcome {
    let mut esker = Cli::command();
    esker.build();
    if let Some(dir) = &args.dir {
        return write_all(&esker, dir);
    }
    let page = match &args.command {
        None => esker,
        Some(name) => match every_page(&esker)
            .into_iter()
            .find(|page| page.get_name() == format!("esker-{name}"))
        {
            Some(page) => page,
            None => return Err(Failure::usage(format!("there is no command {name:?} (see `esker --help`)"))),
        },
    };
    Out::stdout()?.with(|out| {
        // A write to memory cannot fail.
        let _ = Page::new(page).render(out.buffer());
        Ok(())
    })
}

/// The pages of the commands: `esker-get`.
fn every_page(esker: &clap::Command) -> Vec<clap::Command> {
    let commands = esker.get_subcommands().filter(|command| command.get_name() != "help");
    commands.map(|command| command.clone().name(format!("esker-{}", command.get_name()))).collect()
}

fn write_all(esker: &clap::Command, dir: &Path) -> Outcome {
    let save = |page: clap::Command| -> Outcome {
        let path = dir.join(format!("{}.1", page.get_name()));
        let mut text = Vec::new();
        let rendered: io::Result<()> = Page::new(page).render(&mut text);
        let written = rendered.and_then(|()| fs::write(&path, text));
        written.map_err(|error| Failure::io("write", &path, &error))
    };
    fs::create_dir_all(dir).map_err(|error| Failure::io("create", dir, &error))?;
    save(esker.clone())?;
    every_page(esker).into_iter().try_for_each(save)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_know_every_command_and_option() {
        for shell in [clap_complete::Shell::Bash, clap_complete::Shell::Zsh, clap_complete::Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "esker", &mut script);
            let script = String::from_utf8(script).unwrap();
            for word in ["shell", "no-history", "values", "format", "key-column", "jsonl"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }

    #[test]
    fn every_command_has_a_page_with_its_options() {
        let dir = tempfile::tempdir().unwrap();
        let mut esker = Cli::command();
        esker.build();
        write_all(&esker, dir.path()).unwrap();
        assert!(dir.path().join("esker-export-tree.1").exists());
        for command in every_page(&esker) {
            let page = dir.path().join(format!("{}.1", command.get_name()));
            let page = fs::read_to_string(page).unwrap().replace("\\-", "-");
            for long in command.get_arguments().filter_map(clap::Arg::get_long) {
                assert!(page.contains(&format!("--{long}")), "{}: --{long}", command.get_name());
            }
        }
    }
}
