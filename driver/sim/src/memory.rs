//! Global memory: named buffers with exact bounds.

use super::global_shadow::GlobalShadow;
use super::space::GLOBAL;

/// A buffer of [`Memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferId(pub(crate) usize);

#[derive(Debug)]
struct Buffer {
    name: String,
    base: u64,
    data: Vec<u8>,
    /// One flag a byte, `true` where nobody wrote yet; empty for a buffer that began defined.
    poison: Vec<bool>,
}

/// The simulated GPU's global memory. An access outside every buffer is a hazard, and so is a read
/// of a poisoned byte.
#[derive(Debug, Default)]
pub struct Memory {
    buffers: Vec<Buffer>,
    /// Its accesses in this run.
    pub(crate) races: GlobalShadow,
}

/// Limit on the bytes of a launch's buffers. The simulator needs several times as much for its checks.
pub const MEMORY_LIMIT: u64 = 1 << 30;
/// Least bytes between two buffers, so that a stray address hits none.
const GAP: u64 = 1 << 16;

impl Memory {
    /// Memory without buffers.
    pub fn new() -> Self {
        Self::default()
    }

    /// A buffer with these bytes, aligned to 256 bytes as the CUDA allocator does.
    pub fn alloc(&mut self, name: &str, data: Vec<u8>) -> BufferId {
        self.push(name, data, Vec::new())
    }

    /// A buffer of so many bytes that nobody has written: reading it before writing is a hazard.
    pub fn alloc_poisoned(&mut self, name: &str, bytes: usize) -> BufferId {
        self.push(name, vec![0xff; bytes], vec![true; bytes])
    }

    fn push(&mut self, name: &str, data: Vec<u8>, poison: Vec<bool>) -> BufferId {
        let base = self
            .buffers
            .last()
            .map_or(GLOBAL, |b| (b.base + b.data.len() as u64 + GAP).next_multiple_of(GAP));
        self.buffers.push(Buffer { name: name.to_owned(), base, data, poison });
        BufferId(self.buffers.len() - 1)
    }

    /// The buffer of this name that has at least so many bytes.
    pub fn named(&self, name: &str, bytes: usize) -> Option<BufferId> {
        self.buffers.iter().position(|b| b.name == name && b.data.len() >= bytes).map(BufferId)
    }

    /// The bytes of a buffer.
    pub fn bytes(&self, id: BufferId) -> &[u8] {
        self.buffers.get(id.0).map_or(&[], |b| &b.data)
    }

    /// The bytes of a buffer, to change them from the host.
    pub fn bytes_mut(&mut self, id: BufferId) -> &mut [u8] {
        match self.buffers.get_mut(id.0) {
            Some(b) => &mut b.data,
            None => &mut [],
        }
    }

    /// Bytes of all buffers.
    pub(crate) fn bytes_in_all(&self) -> u64 {
        self.buffers.iter().map(|b| b.data.len() as u64).sum()
    }

    /// Number of bytes of a buffer that were never written.
    pub fn poisoned(&self, id: BufferId) -> usize {
        let flags = self.buffers.get(id.0).map_or(&[][..], |b| &b.poison);
        flags.iter().filter(|p| **p).count()
    }

    /// The device address of a buffer.
    pub fn address(&self, id: BufferId) -> u64 {
        self.buffers.get(id.0).map_or(0, |b| b.base)
    }

    fn find(&self, address: u64, bytes: u64) -> Option<(usize, usize)> {
        let i = self.buffers.partition_point(|b| b.base <= address).checked_sub(1)?;
        let b = &self.buffers[i];
        let offset = address - b.base;
        let end = offset.checked_add(bytes)?;
        (end <= b.data.len() as u64).then_some((i, offset as usize))
    }

    /// The bytes at an address, and whether all of them are defined.
    pub(crate) fn load(&self, address: u64, bytes: usize) -> Option<(&[u8], bool)> {
        let (i, offset) = self.find(address, bytes as u64)?;
        let b = &self.buffers[i];
        let defined = b.poison.is_empty() || !b.poison[offset..offset + bytes].contains(&true);
        Some((&b.data[offset..offset + bytes], defined))
    }

    /// Writes bytes; false where no buffer holds them all.
    pub(crate) fn store(&mut self, address: u64, bytes: &[u8]) -> bool {
        let Some((i, offset)) = self.find(address, bytes.len() as u64) else {
            return false;
        };
        let b = &mut self.buffers[i];
        b.data[offset..offset + bytes.len()].copy_from_slice(bytes);
        if !b.poison.is_empty() {
            b.poison[offset..offset + bytes.len()].fill(false);
        }
        true
    }

    /// The name of the buffer nearest below an address, and the distance from its start.
    pub(crate) fn nearest(&self, address: u64) -> Option<(&str, u64, usize)> {
        let i = self.buffers.partition_point(|b| b.base <= address).checked_sub(1)?;
        let b = &self.buffers[i];
        Some((&b.name, address - b.base, b.data.len()))
    }
}
