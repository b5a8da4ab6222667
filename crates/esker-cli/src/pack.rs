//! Compresses output with gzip or zstd on its way into a file. `unpack` reads it.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::unpack::Packed;

/// Compresses into a file.
pub(crate) enum Packer {
    Gzip(GzEncoder<Arc<File>>),
    Zstd(zstd::Encoder<'static, Arc<File>>),
}

impl Packer {
    pub(crate) fn new(packed: Packed, file: Arc<File>) -> io::Result<Self> {
        match packed {
            Packed::Gzip => Ok(Packer::Gzip(GzEncoder::new(file, Compression::default()))),
            Packed::Zstd => {
                let mut encoder = zstd::Encoder::new(file, zstd::DEFAULT_COMPRESSION_LEVEL)?;
                // As gzip does: damaged data must not be read as something else.
                encoder.include_checksum(true)?;
                Ok(Packer::Zstd(encoder))
            }
        }
    }

    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Packer::Gzip(encoder) => encoder.write_all(bytes),
            Packer::Zstd(encoder) => encoder.write_all(bytes),
        }
    }

    /// Writes buffered bytes, and the end of the stream.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self {
            Packer::Gzip(encoder) => encoder.finish().map(drop),
            Packer::Zstd(encoder) => encoder.finish().map(drop),
        }
    }
}
