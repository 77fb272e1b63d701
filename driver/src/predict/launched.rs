//! What a launch is given: sizes, and the contents of arrays where they are known.
//!
//! ```text
//!  n = load counts[i] ──► counts given     the walk reads it: bounds, coordinates and branches follow
//!                     └─► counts unknown   a loop that it bounds makes 16 trips; the prediction says so
//! ```

use crate::problem::Sizes;
use std::collections::BTreeMap;

/// Contents of arrays by the names of the arguments, as they lie in memory. What is written during the launch is not
/// seen.
pub type Arrays = BTreeMap<String, Vec<u8>>;

static NOTHING: Arrays = Arrays::new();

/// A launch to predict.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'d> {
    /// Scalar arguments.
    pub sizes: &'d Sizes,
    /// Arrays whose contents are known.
    pub arrays: &'d Arrays,
}

impl<'d> From<&'d Sizes> for Launch<'d> {
    fn from(sizes: &'d Sizes) -> Self {
        Self { sizes, arrays: &NOTHING }
    }
}

/// Bits of an address below those that tell pointers apart.
const POINTER_BITS: u32 = 40;

/// Where the memory of a parameter is taken to be.
pub fn pointer(parameter: u32) -> i64 {
    i64::from(parameter + 1) << POINTER_BITS
}

/// The parameter whose memory an address is in, and the byte in it.
pub fn parameter_at(address: i64) -> Option<(u32, u64)> {
    let parameter = u32::try_from(address >> POINTER_BITS).ok()?.checked_sub(1)?;
    Some((parameter, (address & ((1 << POINTER_BITS) - 1)) as u64))
}

/// Contents of arrays by parameter.
pub struct Contents<'d>(Vec<Option<&'d [u8]>>);

impl<'d> Contents<'d> {
    /// Of parameters with these names, if they are arguments.
    pub fn new<'n>(names: impl Iterator<Item = Option<&'n str>>, arrays: &'d Arrays) -> Self {
        Self(names.map(|name| arrays.get(name?).map(Vec::as_slice)).collect())
    }

    /// The number of so many bytes at an address; `None` where it is not known.
    pub fn read(&self, address: i64, bytes: usize) -> Option<i64> {
        let (parameter, at) = parameter_at(address)?;
        let array = (*self.0.get(parameter as usize)?)?;
        let at = usize::try_from(at).ok()?;
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(array.get(at..at.checked_add(bytes)?)?);
        let number = i64::from_le_bytes(number);
        // Words of 32 bits are kept signed; shorter ones are filled with zeros.
        Some(if bytes == 4 { i64::from(number as i32) } else { number })
    }

    /// Whether the contents of a parameter's array are known.
    pub fn has(&self, parameter: u32) -> bool {
        self.0.get(parameter as usize).is_some_and(Option::is_some)
    }
}
