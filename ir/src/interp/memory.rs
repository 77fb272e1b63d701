//! Global memory: named buffers of bytes with bounds. Elements of less than a byte are packed with no
//! gaps, the first in the lowest bits.

use super::log::Log;
use super::number::{Number, from_bits, to_bits};
use crate::types::Elem;

/// A buffer of a [`Memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferId(usize);

#[derive(Clone, Debug)]
struct Buffer {
    name: String,
    bytes: Vec<u8>,
    /// Bytes up to which views extend it.
    limit: usize,
    /// The bits that are written, where the content is not defined from the start.
    defined: Option<Vec<u8>>,
}

/// The memory that a kernel works on, and what it printed.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    buffers: Vec<Buffer>,
    /// Lines that `print` gave, in order.
    pub printed: Vec<String>,
    /// Notes on writes, where someone asked for them.
    pub log: Option<Box<Log>>,
}

/// An access outside a buffer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bits {bit} to {} of `{buffer}`, which has {bytes} bytes", bit.saturating_add((*width).into()))]
pub struct OutOfBounds {
    /// The buffer's name.
    pub buffer: String,
    /// First bit of the access, from the buffer's start.
    pub bit: i128,
    /// Bits accessed.
    pub width: u32,
    /// The buffer's size.
    pub bytes: usize,
}

impl Memory {
    /// No buffers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a buffer.
    pub fn add(&mut self, name: &str, bytes: Vec<u8>) -> BufferId {
        let limit = bytes.len();
        self.add_open(name, bytes, limit)
    }

    /// Adds a buffer that every view of it extends by zeros as far as the view reaches, up to `limit` bytes. It measures
    /// arrays whose extents come from memory.
    pub fn add_open(&mut self, name: &str, bytes: Vec<u8>, limit: usize) -> BufferId {
        let name = name.to_owned();
        self.buffers.push(Buffer { name, bytes, limit, defined: None });
        BufferId(self.buffers.len() - 1)
    }

    /// The buffer of this name, of at least so many bytes: made of zeros, or as it was left.
    pub(super) fn kept(&mut self, name: &str, bytes: usize) -> BufferId {
        let id = self.find(name).unwrap_or_else(|| self.add(name, Vec::new()));
        let buffer = &mut self.buffers[id.0];
        buffer.bytes.resize(bytes.max(buffer.bytes.len()), 0);
        id
    }

    /// The buffer of this name, of so many bytes, none of which is defined.
    pub(super) fn undefined(&mut self, name: &str, bytes: usize) -> BufferId {
        let id = self.kept(name, bytes);
        self.buffers[id.0].defined = Some(vec![0; bytes]);
        id
    }

    /// Whether an element is written, or was there from the start. It lies inside.
    pub(super) fn is_defined(&self, id: BufferId, bit: i128, elem: Elem) -> bool {
        let defined = self.buffers.get(id.0).and_then(|b| b.defined.as_ref());
        let all = u64::MAX >> (64 - elem.bits());
        defined.is_none_or(|bits| get(bits, bit as usize, elem.bits()) == all)
    }

    /// A view reaches this many bits of a buffer: an open one grows. What lies beyond is found when it is accessed.
    pub(super) fn reach(&mut self, id: BufferId, bits: i128) {
        let Some(buffer) = self.buffers.get_mut(id.0) else { return };
        let wanted = usize::try_from(bits).map_or(0, |b| b.div_ceil(8));
        if wanted > buffer.bytes.len() && wanted <= buffer.limit {
            buffer.bytes.resize(wanted, 0);
        }
    }

    /// Adds a buffer of elements, rounded to their type.
    pub fn add_values(&mut self, name: &str, elem: Elem, values: &[f64]) -> BufferId {
        let number = |v: &f64| if elem.is_float() { Number::Float(*v) } else { Number::Int(*v as i64) };
        self.add_numbers(name, elem, &values.iter().map(number).collect::<Vec<_>>())
    }

    /// Adds an array of these numbers, which are of the kind of its elements.
    pub fn add_numbers(&mut self, name: &str, elem: Elem, numbers: &[Number]) -> BufferId {
        let bits = numbers.len() * elem.bits() as usize;
        let id = self.add(name, vec![0; bits.div_ceil(8)]);
        let bytes = &mut self.buffers[id.0].bytes;
        for (i, &number) in numbers.iter().enumerate() {
            put(bytes, i * elem.bits() as usize, elem.bits(), to_bits(elem, number));
        }
        id
    }

    /// The buffer of this name.
    pub fn find(&self, name: &str) -> Option<BufferId> {
        self.buffers.iter().position(|b| b.name == name).map(BufferId)
    }

    /// A buffer's bytes; none for an id of another memory.
    pub fn bytes(&self, id: BufferId) -> &[u8] {
        self.buffers.get(id.0).map_or(&[], |b| &b.bytes)
    }

    /// A buffer's elements as floats; 64-bit integers are rounded.
    pub fn values(&self, id: BufferId, elem: Elem) -> Vec<f64> {
        let bytes = self.bytes(id);
        let width = elem.bits();
        let count = bytes.len() * 8 / width as usize;
        (0..count).map(|i| from_bits(elem, get(bytes, i * width as usize, width)).as_f64()).collect()
    }

    /// The element at a bit.
    pub(super) fn read(&self, id: BufferId, bit: i128, elem: Elem) -> Result<Number, OutOfBounds> {
        let at = self.check(id, bit, elem.bits())?;
        Ok(from_bits(elem, get(self.bytes(id), at, elem.bits())))
    }

    /// Writes the element at a bit.
    pub(super) fn write(
        &mut self,
        id: BufferId,
        bit: i128,
        elem: Elem,
        value: Number,
    ) -> Result<(), OutOfBounds> {
        let at = self.check(id, bit, elem.bits())?;
        let buffer = &mut self.buffers[id.0];
        put(&mut buffer.bytes, at, elem.bits(), to_bits(elem, value));
        if let Some(defined) = &mut buffer.defined {
            put(defined, at, elem.bits(), u64::MAX);
        }
        Ok(())
    }

    fn check(&self, id: BufferId, bit: i128, width: u32) -> Result<usize, OutOfBounds> {
        let bytes = self.bytes(id).len();
        match usize::try_from(bit) {
            Ok(at) if at + width as usize <= bytes * 8 => Ok(at),
            _ => Err(OutOfBounds {
                buffer: self.buffers.get(id.0).map_or(String::new(), |b| b.name.clone()),
                bit,
                width,
                bytes,
            }),
        }
    }
}

/// Bits of a buffer; the stretch must lie inside.
pub(super) fn get(bytes: &[u8], bit: usize, width: u32) -> u64 {
    let last = (bit + width as usize - 1) / 8;
    let mut all = 0u128;
    for (i, &b) in bytes[bit / 8..=last].iter().enumerate() {
        all |= u128::from(b) << (8 * i);
    }
    (all >> (bit % 8)) as u64 & (u64::MAX >> (64 - width))
}

/// Sets bits of a buffer; the stretch must lie inside.
pub(super) fn put(bytes: &mut [u8], bit: usize, width: u32, value: u64) {
    let last = (bit + width as usize - 1) / 8;
    let mask = u128::from(u64::MAX >> (64 - width)) << (bit % 8);
    let value = u128::from(value) << (bit % 8);
    for (i, b) in bytes[bit / 8..=last].iter_mut().enumerate() {
        let (m, v) = ((mask >> (8 * i)) as u8, (value >> (8 * i)) as u8);
        *b = (*b & !m) | (v & m);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sub_byte_elements_are_packed() {
        let mut m = Memory::new();
        let id = m.add_values("i6", Elem::Int(6), &[-1.0, 0.0, 31.0, -32.0]);
        assert_eq!(m.bytes(id).len(), 3);
        assert_eq!(m.values(id, Elem::Int(6)), [-1.0, 0.0, 31.0, -32.0]);
        assert_eq!(m.write(id, 6, Elem::Int(6), Number::Int(5)), Ok(()));
        assert_eq!(m.values(id, Elem::Int(6)), [-1.0, 5.0, 31.0, -32.0]);
        assert_eq!(m.find("i6"), Some(id));
    }

    #[test]
    fn outside_is_an_error() {
        let mut m = Memory::new();
        let id = m.add("b", vec![0; 4]);
        assert!(m.read(id, 0, Elem::F32).is_ok());
        assert_eq!(m.read(id, 1, Elem::F32).unwrap_err().bytes, 4);
        assert!(m.write(id, -8, Elem::Int(8), Number::Int(1)).is_err());
    }
}
