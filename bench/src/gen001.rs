//! Command files for `esker run --keys u64` in source 001's form, and the output they must give.
//!
//! Keys are 0, 1, ... N - 1 in order (`missing`: N, N + 1, ... 2N - 1). A value is 128 characters made from key and
//! seed alone, so that the oracle needs no store: `get` with the seed of the last `put` names what must come back.

use crate::args::Args;
use crate::data::mix;
use crate::stores::Result;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

const VALUE_BYTES: usize = 128;

/// Makes values; holds a table of all pairs of letters, so that 12 random bits become two bytes at once.
struct ValueMaker {
    seed: u64,
    pairs: Vec<[u8; 2]>,
}

impl ValueMaker {
    fn new(seed: u64) -> ValueMaker {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";
        let letters = || ALPHABET.iter().copied();
        let pairs = letters().flat_map(|a| letters().map(move |b| [a, b])).collect();
        ValueMaker { seed: mix(seed), pairs }
    }

    fn make(&self, key: u64, value: &mut [u8; VALUE_BYTES]) {
        let (mut state, mut bits, mut left) = (self.seed ^ mix(key), 0, 0);
        for two in value.chunks_exact_mut(2) {
            if left == 0 {
                state = mix(state);
                (bits, left) = (state, 5);
            }
            two.copy_from_slice(&self.pairs[(bits & 4095) as usize]);
            bits >>= 12;
            left -= 1;
        }
    }
}

fn create(path: &Path) -> Result<BufWriter<File>> {
    let file = File::create(path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(BufWriter::with_capacity(1 << 20, file))
}

/// Writes the file of commands and, where asked for, the oracle.
pub(crate) fn run(args: &Args) -> Result<()> {
    let path = args.file.as_ref().ok_or("gen001 needs a file to write")?;
    let mut commands = create(path)?;
    let mut oracle = args.oracle.as_ref().map(|path| create(path)).transpose()?;
    generate(&args.mode, args.n, args.seed, &mut commands, oracle.as_mut())?;
    commands.flush()?;
    if let Some(mut oracle) = oracle {
        oracle.flush()?;
    }
    Ok(())
}

fn generate(
    mode: &str,
    n: u64,
    seed: u64,
    commands: &mut impl Write,
    mut oracle: Option<&mut impl Write>,
) -> Result<()> {
    let maker = ValueMaker::new(seed);
    let mut value = [0; VALUE_BYTES];
    for i in 0..n {
        match mode {
            "put" => {
                maker.make(i, &mut value);
                write!(commands, "PUT {i} ")?;
                commands.write_all(&value)?;
                commands.write_all(b"\n")?;
            }
            "get" => {
                writeln!(commands, "GET {i}")?;
                if let Some(oracle) = &mut oracle {
                    maker.make(i, &mut value);
                    write!(oracle, "{i} ")?;
                    oracle.write_all(&value)?;
                    oracle.write_all(b"\n")?;
                }
            }
            "missing" => {
                writeln!(commands, "GET {}", n + i)?;
                if let Some(oracle) = &mut oracle {
                    writeln!(oracle, "{} EMPTY", n + i)?;
                }
            }
            _ => return Err(format!("--mode: {mode:?} is none of put, get, missing").into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(mode: &str, seed: u64) -> (String, String) {
        let (mut commands, mut oracle) = (Vec::new(), Vec::new());
        generate(mode, 1000, seed, &mut commands, Some(&mut oracle)).unwrap();
        (String::from_utf8(commands).unwrap(), String::from_utf8(oracle).unwrap())
    }

    #[test]
    fn what_is_put_is_what_get_must_return() {
        let (puts, nothing) = files("put", 5);
        let (gets, oracle) = files("get", 5);
        assert_eq!(nothing, "");
        assert_eq!(puts.replace("PUT ", ""), oracle);
        assert_eq!(gets.lines().nth(999), Some("GET 999"));
        assert!(oracle.lines().all(|line| line.split(' ').nth(1).map(str::len) == Some(VALUE_BYTES)));
        assert_ne!(files("put", 6).0, puts);
    }

    #[test]
    fn missing_keys_follow_the_last() {
        let (gets, oracle) = files("missing", 5);
        assert!(gets.starts_with("GET 1000\n") && gets.ends_with("GET 1999\n"));
        assert!(oracle.starts_with("1000 EMPTY\n") && oracle.ends_with("1999 EMPTY\n"));
        assert!(generate("puts", 1, 1, &mut Vec::new(), None::<&mut Vec<u8>>).is_err());
    }
}
