//! Plain files, one for each value: what a file system does without any store.

use super::Huge;
use crate::stores::Result;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

pub(super) struct Files {
    dir: PathBuf,
}

impl Files {
    pub(super) fn open(dir: &Path) -> Result<Files> {
        std::fs::create_dir_all(dir)?;
        Ok(Files { dir: dir.to_path_buf() })
    }

    fn path(&self, key: &[u8]) -> Result<PathBuf> {
        Ok(self.dir.join(std::str::from_utf8(key)?))
    }
}

impl Huge for Files {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        let mut file = File::create(self.path(key)?)?;
        file.write_all(value)?;
        if sync {
            file.sync_data()?;
        }
        Ok(())
    }

    fn get(&self, key: &[u8], into: &mut [u8]) -> Result<Option<usize>> {
        let mut file = match File::open(self.path(key)?) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let length = file.metadata()?.len() as usize;
        file.read_exact(into.get_mut(..length).ok_or("a value is longer than was put")?)?;
        Ok(Some(length))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(std::fs::remove_file(self.path(key)?)?)
    }

    fn compact(&mut self) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
