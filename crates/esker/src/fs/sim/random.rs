//! Files of a simulated disk that are written at offsets.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

use super::content::Content;
use super::faults::Op;
use super::handles::Handle;
use crate::error::{Error, Result};
use crate::fs::{RandomFile, ReadFile, UserFile};

/// The maximum length of a file, in bytes: its pages are listed in memory.
const LEN_MAX: u64 = 1 << 40;

/// Size of one copy from a user's file.
const SHARED_AT_ONCE: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct SimRandom(pub(super) Handle);

impl SimRandom {
    /// `EFBIG`, as an operating system reports it.
    fn check_end(&self, doing: &str, offset: u64, len: u64) -> Result<()> {
        if offset.checked_add(len).is_some_and(|end| end <= LEN_MAX) {
            return Ok(());
        }
        let too_big = io::Error::from(io::ErrorKind::FileTooLarge);
        Err(Error::io(doing, self.path(), too_big).at_offset(offset))
    }
}

impl ReadFile for SimRandom {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.0.read(buf, offset, false)
    }

    fn len(&self) -> u64 {
        self.0.world.lock().file(self.0.id).map_or(0, Content::len)
    }

    fn path(&self) -> &Path {
        &self.0.path
    }

    fn prefetch(&self, _offset: u64, _len: u64) {}
}

impl RandomFile for SimRandom {
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> Result<()> {
        let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
        for part in parts {
            bytes.extend_from_slice(part);
        }
        self.check_end("write into the file", offset, bytes.len() as u64)?;
        let Handle { world, id, path } = &self.0;
        let mut world = world.lock();
        let admitted = world.begin(Op::WriteAt, path);
        if admitted.is_ok() {
            let space = world.check_write(*id, offset, bytes.len() as u64, path);
            space.map_err(|error| error.at_offset(offset))?;
        }
        let dead = world.dead;
        let content = world.file_mut(*id).map_err(|error| self.0.io_error("write into the file", error))?;
        match &admitted {
            Ok(()) => content.write(offset, &bytes),
            Err(_) if dead => {}
            Err(_) => {
                let len = content.len();
                content.write(offset, &bytes[..bytes.len() / 2]);
                if content.len() > len {
                    content.set_len(len);
                }
            }
        }
        admitted.map_err(|error| error.at_offset(offset))
    }

    /// Simulated blocks are not shared with files of the real disk, but the caller cannot tell the difference.
    fn share_from(&self, source: &UserFile, len: u64, offset: u64) -> u64 {
        let mut buf = vec![0; SHARED_AT_ONCE];
        let mut taken = 0;
        while taken < len {
            let room = usize::try_from(len - taken).unwrap_or(usize::MAX).min(buf.len());
            let Ok(count @ 1..) = source.read_at(&mut buf[..room], taken) else { break };
            if self.write_at(&[IoSlice::new(&buf[..count])], offset + taken).is_err() {
                break;
            }
            taken += count as u64;
        }
        taken
    }

    fn sync(&self) -> Result<()> {
        self.0.sync()
    }

    fn start_writeback(&self, _offset: u64, _len: u64) {
        self.0.world.lock().write_back_some(self.0.id);
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.check_end("set the length of the file", len, 0)?;
        let Handle { world, id, path } = &self.0;
        let mut world = world.lock();
        world.begin(Op::SetLen, path).map_err(|error| error.at_offset(len))?;
        let content = world.file_mut(*id);
        content.map_err(|error| self.0.io_error("set the length of the file", error))?.set_len(len);
        Ok(())
    }

    fn as_read(self: Arc<Self>) -> Arc<dyn ReadFile> {
        self
    }
}
