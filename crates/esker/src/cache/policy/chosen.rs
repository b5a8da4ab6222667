//! The policy of a shard. The default one is stored in place, so that a hit calls it directly; any other is
//! behind a pointer.

use std::ops::{Deref, DerefMut};

use super::Policy;
use super::s3_fifo::S3Fifo;
use crate::options::CachePolicy;

#[derive(Debug)]
pub(crate) enum Chosen {
    Default(S3Fifo),
    Other(Box<dyn Policy>),
}

impl Chosen {
    /// A policy that knows no pages yet.
    pub(crate) fn new(policy: CachePolicy) -> Self {
        match policy {
            CachePolicy::S3Fifo => Chosen::Default(S3Fifo::default()),
            other => Chosen::Other(super::new_policy(other)),
        }
    }
    #[inline]
    pub(crate) fn hit(&mut self, slot: u32) {
        match self {
            Chosen::Default(policy) => policy.hit(slot),
            Chosen::Other(policy) => policy.hit(slot),
        }
    }
}

impl Deref for Chosen {
    type Target = dyn Policy;

    fn deref(&self) -> &Self::Target {
        match self {
            Chosen::Default(policy) => policy,
            Chosen::Other(policy) => &**policy,
        }
    }
}

impl DerefMut for Chosen {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Chosen::Default(policy) => policy,
            Chosen::Other(policy) => &mut **policy,
        }
    }
}
