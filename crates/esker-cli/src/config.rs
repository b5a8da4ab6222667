//! The configuration of `serve`: flags, variables and a TOML file, under the same names.
//!
//! ```text
//! flag --max-clients  >  variable ESKER_MAX_CLIENTS  >  max-clients in the file of --config  >  default
//! ```
//! The definition of the flags is the only list of settings. `args/serve.rs` gives each its variable. [`complete`]
//! reads the file and turns its settings into flags, behind those of the command line; the parser of flags then checks
//! them as if they had been typed. Options of all commands are settings too if they have a variable.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory};
use toml::de::{DeTable, DeValue};

use crate::args::{Cli, PASSWORD, PRINT};
use crate::exit::{Failure, Outcome};

/// The command that has a configuration.
const SERVE: &str = "serve";

/// The flag that names the file. As [`PRINT`], it is not a setting.
const CONFIG: &str = "config";

/// The longest file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where the server listens if it is not told where. Each front end without its flag is off if any has one.
const FRONT_ENDS: [(&str, &str); 2] = [("resp", "127.0.0.1:6379"), ("http", "127.0.0.1:8080")];

/// Where the value of a setting comes from, if not from a flag, a variable or the definition.
enum Origin {
    File { line: usize },
    FrontEnds,
}

/// What completed a command line.
#[derive(Default)]
pub(crate) struct Completed {
    file: PathBuf,
    origins: BTreeMap<String, Origin>,
}

/// Completes a command line of `serve` by its file, and by the addresses of the front ends. Other lines stay as they
/// are, and so do wrong ones: their parser says what is wrong.
pub(crate) fn complete(line: &mut Vec<OsString>) -> Outcome<Completed> {
    let mut completed = Completed::default();
    if !line.iter().any(|word| word == SERVE) {
        return Ok(completed);
    }
    let command = built();
    let Ok(matches) = command.clone().ignore_errors(true).try_get_matches_from(line.iter()) else {
        return Ok(completed);
    };
    let Some((SERVE, given)) = matches.subcommand() else { return Ok(completed) };
    let is_given = |name: &str| matches!(given.value_source(id_of(&command, name).as_str()), Some(source) if source != ValueSource::DefaultValue);
    let mut more = Vec::new();
    if let Ok(Some(path)) = given.try_get_one::<PathBuf>(CONFIG) {
        completed.file.clone_from(path);
        for setting in read(&command, path)? {
            if !is_given(&setting.name) {
                more.extend(setting.flags);
                completed.origins.insert(setting.name, Origin::File { line: setting.line });
            }
        }
    }
    let has = |name: &str| is_given(name) || completed.origins.contains_key(name);
    if !FRONT_ENDS.iter().any(|(name, _)| has(name)) {
        for (name, address) in FRONT_ENDS {
            more.push(format!("--{name}={address}").into());
            completed.origins.insert(name.to_owned(), Origin::FrontEnds);
        }
    }
    let end = line.iter().position(|word| word == "--").unwrap_or(line.len());
    line.splice(end..end, more);
    Ok(completed)
}

/// The definition of the command line, with the options of all commands at each of them.
fn built() -> Command {
    let mut command = Cli::command();
    command.build();
    command
}

/// The settings: the flags of `serve`, and the options of all commands that have a variable.
fn settings(command: &Command) -> impl Iterator<Item = &Arg> {
    let flags = command.find_subcommand(SERVE).into_iter().flat_map(Command::get_arguments);
    flags.filter(|flag| {
        let is_setting = !flag.is_global_set() || flag.get_env().is_some();
        is_setting && flag.get_long().is_some_and(|name| !["help", "version", CONFIG, PRINT].contains(&name))
    })
}

fn setting<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    settings(command).find(|flag| flag.get_long() == Some(name))
}

/// What the parser calls the setting.
fn id_of(command: &Command, name: &str) -> String {
    setting(command, name).map_or_else(|| name.to_owned(), |flag| flag.get_id().to_string())
}

// ---- the file ----------------------------------------------------------------------------------------

/// A setting of the file, as flags.
struct Setting {
    name: String,
    line: usize,
    flags: Vec<OsString>,
}

/// The settings of the file at `path`, each of them sound.
fn read(command: &Command, path: &Path) -> Outcome<Vec<Setting>> {
    let text = text_of(path)?;
    let line_of =
        |span: Range<usize>| 1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count();
    let wrong = |line: usize, why: &str| Failure::usage(format!("{}:{line}: {why}", path.display()));
    // The parser's own text shows the line, which may have a password.
    let table = DeTable::parse(&text)
        .map_err(|error| wrong(error.span().map_or(1, line_of), error.message()))?
        .into_inner();
    let mut found = Vec::new();
    for (name, value) in table {
        let line = line_of(name.span());
        let name = name.into_inner().into_owned();
        let Some(flag) = setting(command, &name) else { return Err(wrong(line, &unknown(command, &name))) };
        let flags = flags(flag, &name, value.get_ref()).map_err(|why| wrong(line, &why))?;
        check(command, &name, &flags).map_err(|why| wrong(line, &why))?;
        found.push(Setting { name, line, flags });
    }
    Ok(found)
}

fn text_of(path: &Path) -> Outcome<String> {
    let failed =
        |why: String| Failure::usage(format!("cannot read the configuration {}: {why}", path.display()));
    let metadata = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?;
    if !metadata.is_file() {
        // A pipe may never end, or never begin.
        return Err(failed("it is no regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| failed(error.to_string()))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(failed(format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let line =
            1 + error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count();
        failed(format!("line {line} is not UTF-8"))
    })
}

fn unknown(command: &Command, name: &str) -> String {
    let meant = name.to_ascii_lowercase().replace('_', "-");
    match setting(command, &meant) {
        Some(_) => format!("there is no setting {name:?}: it is called {meant}"),
        None => format!("there is no setting {name:?} (`esker serve --print-config` lists all)"),
    }
}

/// The flags that a value of the file stands for, or why it stands for none.
fn flags(flag: &Arg, name: &str, value: &DeValue<'_>) -> Result<Vec<OsString>, String> {
    let one = |value: &DeValue<'_>| scalar(value).map(|value| OsString::from(format!("--{name}={value}")));
    match (value, flag.get_action()) {
        (DeValue::Boolean(is_set), ArgAction::SetTrue) => {
            Ok(is_set.then(|| format!("--{name}").into()).into_iter().collect())
        }
        (_, ArgAction::SetTrue) => Err(format!("{name} is true or false")),
        (DeValue::Array(values), ArgAction::Append) => {
            let flags: Option<Vec<OsString>> = values.iter().map(|value| one(value.get_ref())).collect();
            flags.ok_or_else(|| format!("{name} is an array of texts"))
        }
        (DeValue::Array(_), _) => Err(format!("{name} has one value")),
        (value, _) => match one(value) {
            Some(flag) => Ok(vec![flag]),
            None => Err(format!("{name} is a text or a whole number, and no {}", value.type_str())),
        },
    }
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.clone().into_owned()),
        DeValue::Integer(number) => {
            let number = i64::from_str_radix(number.as_str(), number.radix()).ok()?;
            Some(number.to_string())
        }
        DeValue::Boolean(is) => Some(is.to_string()),
        _ => None,
    }
}

/// Has the parser of flags check a setting by itself.
fn check(command: &Command, name: &str, flags: &[OsString]) -> Result<(), String> {
    let line = ["esker", SERVE].map(OsString::from).into_iter().chain(flags.iter().cloned());
    let Err(error) = command.clone().try_get_matches_from(line) else { return Ok(()) };
    // What is wrong with others is said later.
    let Some(ContextValue::String(about)) = error.get(ContextKind::InvalidArg) else { return Ok(()) };
    if about.split([' ', '=']).next() != Some(&format!("--{name}")) {
        return Ok(());
    }
    if setting(command, name).is_some_and(is_secret) {
        return Err(format!("{name} has a wrong value"));
    }
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim).take_while(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let said: Vec<&str> = std::iter::once(first.trim_start_matches("error: ")).chain(lines).collect();
    Err(said.join(" "))
}

// ---- --print-config ----------------------------------------------------------------------------------

/// Whether nobody may see the value: help does not show what its variable holds either.
fn is_secret(flag: &Arg) -> bool {
    flag.is_hide_env_values_set()
}

impl Completed {
    /// The configuration in force, as a file that gives the same again.
    pub(crate) fn print(&self, line: &[OsString]) -> Outcome<String> {
        let command = built();
        let matches =
            command.clone().try_get_matches_from(line).map_err(|error| Failure::usage(error.to_string()))?;
        let mut text = "# The configuration of `esker serve` that is in force.\n".to_owned();
        let Some((_, given)) = matches.subcommand() else { return Ok(text) };
        for flag in settings(&command) {
            let Some(name) = flag.get_long() else { continue };
            let from = self.origin(flag, name, given);
            // Writing to a string cannot fail.
            let _ = match value_of(flag, name, given)? {
                None => writeln!(text, "# {name} is not set"),
                Some(_) if is_secret(flag) => writeln!(text, "# {name} is set, and secret  # {from}"),
                Some(value) => writeln!(text, "{name} = {value}  # {from}"),
            };
        }
        if std::env::var_os(PASSWORD).is_some() {
            let _ = writeln!(text, "# the password of the user default is in {PASSWORD}, and secret");
        }
        Ok(text)
    }

    fn origin(&self, flag: &Arg, name: &str, given: &ArgMatches) -> String {
        match (self.origins.get(name), given.value_source(flag.get_id().as_str())) {
            (Some(Origin::File { line }), _) => {
                format!("line {line} of {}", self.file.display().to_string().escape_debug())
            }
            (Some(Origin::FrontEnds), _) | (None, None | Some(ValueSource::DefaultValue)) => {
                "default".to_owned()
            }
            (None, Some(ValueSource::EnvVariable)) => {
                flag.get_env().map_or_else(String::new, |variable| variable.display().to_string())
            }
            (None, Some(_)) => format!("--{name}"),
        }
    }
}

/// The value of a setting in TOML.
fn value_of(flag: &Arg, name: &str, given: &ArgMatches) -> Outcome<Option<String>> {
    let id = flag.get_id().as_str();
    if matches!(flag.get_action(), ArgAction::SetTrue) {
        return Ok(Some(given.get_flag(id).to_string()));
    }
    let Ok(Some(values)) = given.try_get_raw(id) else { return Ok(None) };
    let texts: Option<Vec<&str>> = values.map(std::ffi::OsStr::to_str).collect();
    let Some(texts) = texts else {
        return Err(Failure::usage(format!("{name} is not UTF-8, so no file of TOML can have it")));
    };
    if matches!(flag.get_action(), ArgAction::Append) {
        let quoted: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
        return Ok(Some(format!("[{}]", quoted.join(", "))));
    }
    Ok(texts.first().map(|text| {
        let is_number = text.parse::<i64>().is_ok_and(|number| number.to_string() == **text);
        if is_number { (*text).to_owned() } else { quoted(text) }
    }))
}

/// A text as TOML writes it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(letter));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each flag of `serve` has a variable of its name, and can stand in a file.
    #[test]
    fn flags_have_the_names_of_their_settings() {
        let command = built();
        let names: Vec<&str> = settings(&command).filter_map(Arg::get_long).collect();
        for name in ["db", "memory", "resp", "max-clients", "durability"] {
            assert!(names.contains(&name), "{name} of {names:?}");
        }
        for flag in settings(&command) {
            let name = flag.get_long().unwrap();
            let variable = format!("ESKER_{}", name.to_uppercase().replace('-', "_"));
            assert_eq!(flag.get_env().and_then(std::ffi::OsStr::to_str), Some(variable.as_str()));
        }
    }

    #[test]
    fn texts_are_quoted() {
        assert_eq!(quoted("a\"b\\c\n\u{7f}é"), "\"a\\\"b\\\\c\\u000A\\u007Fé\"");
        let text = "\u{0}\t\"\\'#=é\u{85}";
        let file = format!("x = {}", quoted(text));
        let table = DeTable::parse(&file).unwrap().into_inner();
        assert_eq!(table.values().next().unwrap().get_ref().as_str(), Some(text));
    }
}
