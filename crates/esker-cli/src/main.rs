//! The program `esker`; see the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    esker_cli::main()
}
