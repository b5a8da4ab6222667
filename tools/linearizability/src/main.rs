//! Writes histories of concurrent clients of one store, for `main.go` beside it to check.
//!
//! ```text
//! record DIR HISTORIES SEED OUT      runs clients until there are so many histories
//! ```
//! The clients are in a child process, which is killed every now and then, at any moment; the next one opens the store
//! and goes on with the history that was cut off. Each client says in a line of its own what it is about to do, and in
//! another what came of it. What has no second line may have happened or not: it was under way at the kill, or its
//! client stopped waiting for it (another thread does it, some time).
//!
//! ```text
//! {"h":7,"id":31,"t":8812301,"e":"call","op":"txn","w":[[0,31],[2,0]]}      history, operation, ns; key, value
//! {"h":7,"id":31,"t":8823456,"e":"ret","r":[[1,17]]}                        what was read; value 0: absent
//! {"h":7,"id":31,"t":8823456,"e":"fail"}                                    it has not happened
//! ```

mod clients;

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use test_kit::Rng;

pub(crate) type Failed = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse::<u64>().map_err(|_| Failed::from(format!("{word} is no number")));
    let done = match words[..] {
        ["record", dir, histories, seed, out] => number(histories)
            .and_then(|histories| record(Path::new(dir), histories, number(seed)?, Path::new(out))),
        ["clients", dir, first, end, seed] => {
            number(first).and_then(|first| clients::run(Path::new(dir), first..number(end)?, number(seed)?))
        }
        _ => Err("record DIR HISTORIES SEED OUT".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Starts clients and kills them until there are `histories`.
fn record(dir: &Path, histories: u64, seed: u64, out: &Path) -> Result<(), Failed> {
    let mut out = std::io::BufWriter::new(File::create(out)?);
    let mut rng = Rng::new(seed);
    let (mut current, mut kills) = (0, 0);
    while current < histories {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["clients", &dir.display().to_string()])
            .args([current, histories, rng.next()].map(|number| number.to_string()))
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().ok_or("no pipe")?;
        let (lines_in, lines) = channel();
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if lines_in.send(line).is_err() {
                    return;
                }
            }
        });
        let dies = Instant::now() + Duration::from_millis(20 + rng.below(400));
        let mut killed = false;
        loop {
            let left = if killed { Duration::MAX } else { dies.saturating_duration_since(Instant::now()) };
            match lines.recv_timeout(left.min(Duration::from_secs(60))) {
                Ok(line) => {
                    // Lines of a killed process end anywhere.
                    let Some(history) = history_of(&line) else { continue };
                    current = current.max(history);
                    writeln!(out, "{line}")?;
                }
                Err(RecvTimeoutError::Timeout) if killed => return Err("the clients do not end".into()),
                Err(RecvTimeoutError::Timeout) => {
                    child.kill()?;
                    killed = true;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        reader.join().map_err(|_| "the reader failed")?;
        let status = child.wait()?;
        if status.success() {
            current = histories;
        } else if !killed {
            return Err(format!("the clients failed ({status}) in history {current}").into());
        } else {
            kills += 1;
        }
    }
    out.flush()?;
    eprintln!("{histories} histories, {kills} kills; seed {seed}");
    Ok(())
}

/// The history of a whole line.
fn history_of(line: &str) -> Option<u64> {
    let (number, _) = line.strip_suffix('}')?.strip_prefix("{\"h\":")?.split_once(',')?;
    number.parse().ok()
}
