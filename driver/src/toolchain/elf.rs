//! Whether a cubin is whole: an ELF file all of whose parts lie inside it.
//!
//! ```text
//!  header ─► program headers, section headers ─► sections      each must end before the file does
//! ```
//!
//! On a full disk ptxas has left a part of a cubin and said nothing. (System V ABI, chapter 4, "Object files".)

/// Bytes of a header of a 64-bit file, and of a section's header.
const HEADER: usize = 64;
const SECTION: usize = 64;
/// A section without bytes in the file.
const NO_BITS: u64 = 8;

/// The little-endian number of so many bytes at a place.
fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let part = bytes.get(at..at.checked_add(width)?)?;
    Some(part.iter().rev().fold(0, |sum, &b| sum << 8 | u64::from(b)))
}

/// Whether the bytes are a 64-bit ELF file that was not cut.
pub(super) fn is_whole(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
        && bytes.len() >= HEADER
        && parts_end(bytes).is_some_and(|end| end <= bytes.len() as u64)
}

/// Where the last part ends; `None` where a header is cut, or a number is no place.
fn parts_end(bytes: &[u8]) -> Option<u64> {
    let table = |offset: usize, size: usize, count: usize| {
        let [size, count] = [number(bytes, size, 2)?, number(bytes, count, 2)?];
        number(bytes, offset, 8)?.checked_add(size * count)
    };
    let mut end = table(32, 54, 56)?.max(table(40, 58, 60)?);
    let (sections, count) = (number(bytes, 40, 8)?, number(bytes, 60, 2)?);
    for n in 0..count {
        let at = usize::try_from(sections.checked_add(n * SECTION as u64)?).ok()?;
        let field = |by: usize, width| number(bytes, at.checked_add(by)?, width);
        let [offset, size] = [field(24, 8)?, field(32, 8)?];
        if field(4, 4)? != NO_BITS {
            end = end.max(offset.checked_add(size)?);
        }
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of one section with four bytes behind the headers.
    fn file() -> Vec<u8> {
        let mut bytes = vec![0; HEADER + SECTION];
        bytes[..4].copy_from_slice(b"\x7fELF");
        (bytes[40], bytes[58], bytes[60]) = (HEADER as u8, SECTION as u8, 1);
        (bytes[HEADER + 24], bytes[HEADER + 32]) = ((HEADER + SECTION) as u8, 4);
        bytes.extend([1, 2, 3, 4]);
        bytes
    }

    #[test]
    fn a_file_is_whole_only_with_its_last_byte() {
        let whole = file();
        assert!(is_whole(&whole));
        assert!((0..whole.len()).all(|length| !is_whole(&whole[..length])));
        let mut other = whole.clone();
        other[0] = b'x';
        assert!(!is_whole(&other));
        // A section beyond all numbers, and one without bytes in the file.
        let mut far = whole.clone();
        far[HEADER + 24..HEADER + 32].fill(0xff);
        assert!(!is_whole(&far));
        // Section headers at the end of all numbers.
        let mut beyond = whole.clone();
        beyond[40..48].copy_from_slice(&(u64::MAX - 9).to_le_bytes());
        beyond[58] = 0;
        assert!(!is_whole(&beyond));
        let mut none = far;
        none[HEADER + 4] = NO_BITS as u8;
        (none[HEADER + 24], none[HEADER + 31]) = (0, 0);
        none[HEADER + 25..HEADER + 32].fill(0);
        assert!(is_whole(&none));
    }
}
