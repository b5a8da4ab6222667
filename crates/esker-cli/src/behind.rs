//! A thread that writes buffers to a file in order, while the command fills the next one.
//!
//! At most [`QUEUE`] buffers are in flight; then the command waits. Writing a gigabyte of results costs half a second
//! of processor time, which the other core can spend.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// The most buffers in flight.
const QUEUE: usize = 2;

/// The command's handle of the thread.
pub(crate) struct WriteBehind {
    full: SyncSender<Vec<u8>>,
    /// Returns each buffer with the result of its write.
    written: Receiver<(io::Result<()>, Vec<u8>)>,
    on_their_way: usize,
}

impl WriteBehind {
    /// Starts to write to `file`.
    pub(crate) fn start(file: Arc<File>) -> io::Result<Self> {
        let (full, full_out) = sync_channel::<Vec<u8>>(QUEUE);
        let (written_in, written) = sync_channel(QUEUE);
        thread::Builder::new().name("writer".to_owned()).spawn(move || {
            for buffer in full_out {
                let result = file.as_ref().write_all(&buffer);
                if written_in.send((result, buffer)).is_err() {
                    return;
                }
            }
        })?;
        Ok(WriteBehind { full, written, on_their_way: 0 })
    }

    /// Sends `buffer` to the thread and replaces it with an empty one. An error belongs to an earlier buffer; buffers
    /// sent after that one may or may not have been written.
    pub(crate) fn send(&mut self, buffer: &mut Vec<u8>) -> io::Result<()> {
        let mut next = Vec::new();
        if self.on_their_way == QUEUE {
            next = self.take_back()?;
            next.clear();
        }
        let sent = self.full.send(std::mem::replace(buffer, next));
        sent.map_err(|_| io::Error::other("the thread that writes has ended"))?;
        self.on_their_way += 1;
        Ok(())
    }

    /// Waits until everything sent has been written.
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        while self.on_their_way > 0 {
            self.take_back()?;
        }
        Ok(())
    }

    fn take_back(&mut self) -> io::Result<Vec<u8>> {
        let back = self.written.recv();
        let (result, buffer) = back.map_err(|_| io::Error::other("the thread that writes has ended"))?;
        self.on_their_way -= 1;
        result.map(|()| buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_arrive_in_order() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut behind = WriteBehind::start(Arc::new(file.reopen().unwrap())).unwrap();
        let (mut buffer, mut expected) = (Vec::new(), Vec::new());
        for i in 0..50u8 {
            assert!(buffer.is_empty());
            buffer.extend(vec![i; usize::from(i) * 100]);
            expected.extend_from_slice(&buffer);
            behind.send(&mut buffer).unwrap();
        }
        behind.wait().unwrap();
        assert!(std::fs::read(file.path()).unwrap() == expected);
    }

    #[test]
    fn a_failure_comes_back() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut behind = WriteBehind::start(Arc::new(full)).unwrap();
        behind.send(&mut vec![0; 10]).unwrap();
        assert_eq!(behind.wait().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
