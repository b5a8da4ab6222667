//! The command line of `paper` and `separate-at`.

use super::plan::Scale;
use super::stores::CONTENDERS;
use crate::stores::Result;
use std::path::PathBuf;

pub(super) const USAGE: &str = "\
esker-bench paper [OPTIONS]
esker-bench separate-at [OPTIONS]

  paper          the experiments of the paper on huge values, every store in fresh processes: figures 5 to 9, mixes
  separate-at    put and get with everything inline and everything separated, values of 1 KiB to 1 MiB

  --full               the paper's numbers of values, and mixes of 13.59 GB: some 45 GB below DIR
  --largest            64.5 GB in 100 values of 645 MB: Esker and plain files alone, 78 GB below DIR
  --stores A,B,...     (default: all that are built in)
  --rows A,B,...       sizes and mixes (default: all): 64KB, ..., 645MB, read-heavy, average, write-heavy;
                       of separate-at: 1024, 2048, ..., 1048576
  --rounds N           interleaved; tables have the median (default 1)
  --seed S             of keys, values and orders (default 1)
  --dir DIR            where stores go (default: esker-bench in the temporary directory)
  --out DIR            results.tsv, tables.md and plots (default: paper-results)
  --from FILE          no measuring: tables and plots from a results.tsv
  --no-warm            do not fill free memory before each process
";

#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) scale: Scale,
    pub(super) stores: Vec<String>,
    /// Empty: all.
    pub(super) rows: Vec<String>,
    pub(super) rounds: u64,
    pub(super) seed: u64,
    pub(super) dir: PathBuf,
    pub(super) out: PathBuf,
    pub(super) from: Option<PathBuf>,
    pub(super) warm: bool,
}

fn list(text: &str) -> Vec<String> {
    text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

impl Options {
    pub(super) fn parse(words: &[String]) -> Result<Options> {
        let mut options = Options {
            scale: Scale::Scaled,
            stores: Vec::new(),
            rows: Vec::new(),
            rounds: 1,
            seed: 1,
            dir: std::env::temp_dir().join("esker-bench"),
            out: "paper-results".into(),
            from: None,
            warm: true,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match &word[..] {
                "--full" => options.scale = Scale::Full,
                "--largest" => options.scale = Scale::Largest,
                "--no-warm" => options.warm = false,
                "help" | "--help" => return Err(USAGE.into()),
                _ => {
                    let value = words.next().ok_or_else(|| format!("{word}?\n\n{USAGE}"))?;
                    options.set(word, value)?;
                }
            }
        }
        if options.stores.is_empty() {
            options.stores = match options.scale {
                Scale::Largest => ["esker", "files"].map(str::to_owned).to_vec(),
                _ => CONTENDERS.iter().map(|contender| contender.name.to_owned()).collect(),
            };
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let number = || value.parse::<u64>().map_err(|_| format!("{name}: {value:?} is no number"));
        match name {
            "--stores" => self.stores = list(value),
            "--rows" => self.rows = list(value),
            "--rounds" => self.rounds = number()?,
            "--seed" => self.seed = number()?,
            "--dir" => self.dir = value.into(),
            "--out" => self.out = value.into(),
            "--from" => self.from = Some(value.into()),
            _ => return Err(format!("no option {name}\n\n{USAGE}").into()),
        }
        Ok(())
    }

    pub(super) fn wants(&self, row: &str) -> bool {
        self.rows.is_empty() || self.rows.iter().any(|wanted| wanted == row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_and_defaults() {
        let options = parse("--full --rows 64KB,average --rounds 3").unwrap();
        assert_eq!((options.scale, options.rounds, options.warm), (Scale::Full, 3, true));
        assert!(options.wants("average") && !options.wants("1MB"));
        assert_eq!(options.stores.len(), CONTENDERS.len());
        assert_eq!(parse("--largest").unwrap().stores, ["esker", "files"]);
        assert!(parse("--rounds many").is_err());
        assert!(parse("--rounds").is_err());
        assert!(parse("--stroes esker").is_err());
    }
}
