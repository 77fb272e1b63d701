//! Files of NumPy (`numpy.save`), read as numbers in row-major order.
//!
//! ```text
//!  \x93NUMPY  version (2 bytes)  header length (2 or 4 bytes)  {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }  data
//! ```
//! Source: `numpy.lib.format`.

use half::f16;
use std::path::Path;

/// A number as a file has it: integers of 64 bits are exact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stored {
    /// Of a type of integers.
    Whole(i128),
    /// Of a type of floats.
    Real(f64),
}

impl Stored {
    /// The nearest f64.
    pub(super) fn as_f64(self) -> f64 {
        match self {
            Self::Whole(v) => v as f64,
            Self::Real(v) => v,
        }
    }
}

/// The numbers of a file.
///
/// # Errors
/// It cannot be read, is no such file, or has a type or an order that is not read.
pub(super) fn read(path: &Path) -> Result<Vec<Stored>, String> {
    let bytes = std::fs::read(path).map_err(|e| format!("reading {}: {e}", path.display()))?;
    numbers(&bytes).map_err(|why| format!("{}: {why}", path.display()))
}

/// Bytes of a number and how it is read.
type Form = (usize, fn(&[u8]) -> Stored);

/// A little-endian number of a Rust type.
macro_rules! number {
    ($ty:ty, $kind:ident) => {
        (size_of::<$ty>(), |bytes: &[u8]| {
            let mut own = [0; size_of::<$ty>()];
            own.copy_from_slice(bytes);
            Stored::$kind(<$ty>::from_le_bytes(own).into())
        })
    };
}

fn form(descr: &str) -> Option<Form> {
    Some(match descr.trim_start_matches(['<', '|', '=']) {
        "f8" => number!(f64, Real),
        "f4" => number!(f32, Real),
        "f2" => number!(f16, Real),
        "i8" => number!(i64, Whole),
        "i4" => number!(i32, Whole),
        "i2" => number!(i16, Whole),
        "i1" => number!(i8, Whole),
        "u8" => number!(u64, Whole),
        "u4" => number!(u32, Whole),
        "u2" => number!(u16, Whole),
        "u1" | "b1" => number!(u8, Whole),
        _ => return None,
    })
}

fn numbers(bytes: &[u8]) -> Result<Vec<Stored>, String> {
    let rest = bytes.strip_prefix(b"\x93NUMPY").ok_or("no file that numpy.save wrote")?;
    let cut = || "the file ends within its header".to_owned();
    let wide = rest.first().is_some_and(|major| *major > 1);
    let length = match (wide, rest) {
        (false, [_, _, a, b, ..]) => usize::from(u16::from_le_bytes([*a, *b])),
        (true, [_, _, a, b, c, d, ..]) => u32::from_le_bytes([*a, *b, *c, *d]) as usize,
        _ => return Err(cut()),
    };
    let start = if wide { 6 } else { 4 };
    let header = rest.get(start..start + length).ok_or_else(cut)?;
    let header = String::from_utf8_lossy(header);
    let after = |key: &str| header.split_once(key).map(|(_, r)| r.trim_start_matches([':', ' ']));
    let descr = after("'descr'").and_then(|r| r.strip_prefix('\'')?.split_once('\'')).ok_or_else(cut)?.0;
    if after("'fortran_order'").is_some_and(|r| r.starts_with("True")) {
        return Err("the array is in Fortran order; numpy.ascontiguousarray gives the other".to_owned());
    }
    let (size, read) = form(descr).ok_or_else(|| format!("numbers of type `{descr}` are not read"))?;
    let data = &rest[start + length..];
    Ok(data.chunks_exact(size).map(read).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file as NumPy 1.26 writes it.
    fn file(descr: &str, order: &str, data: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': (2,), }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn numbers_are_read_by_their_type() {
        use Stored::{Real, Whole};
        assert_eq!(numbers(&file("<i2", "False", &[1, 0, 0xff, 0xff])).unwrap(), [Whole(1), Whole(-1)]);
        assert_eq!(numbers(&file("<f4", "False", &1.5f32.to_le_bytes())).unwrap(), [Real(1.5)]);
        assert_eq!(numbers(&file("<f2", "False", &[0, 0x3c])).unwrap(), [Real(1.0)]);
        assert_eq!(numbers(&file("|u1", "False", &[200])).unwrap(), [Whole(200)]);
        let large = (1i64 << 53) + 1;
        assert_eq!(numbers(&file("<i8", "False", &large.to_le_bytes())).unwrap(), [Whole(large.into())]);
        assert_eq!(numbers(&file("<u8", "False", &[0xff; 8])).unwrap(), [Whole(u64::MAX.into())]);
        for (bytes, why) in [
            (file(">f4", "False", &[]), "type `>f4`"),
            (file("<f4", "True", &[]), "Fortran"),
            (b"PK".to_vec(), "numpy.save"),
            (file("<f4", "False", &[])[..20].to_vec(), "ends within"),
        ] {
            let error = numbers(&bytes).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
