//! Names of axes. An axis counts registers, lanes, memory or a dimension of a tensor.

use super::LayoutError;
use std::fmt;

/// Longest name of a user's axis in bytes.
const SYMBOL_BYTES: usize = 14;

/// A user's axis name, stored inline: 1 to 14 ASCII letters, digits or underscores.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol([u8; SYMBOL_BYTES]);

impl Symbol {
    /// Makes a name; refuses an empty one, one over 14 bytes, and characters outside `[A-Za-z0-9_]`.
    pub fn new(name: &str) -> Result<Symbol, LayoutError> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        if name.is_empty() || name.len() > SYMBOL_BYTES || !name.bytes().all(plain) {
            return Err(LayoutError::Name(name.chars().take(40).collect()));
        }
        let mut bytes = [0; SYMBOL_BYTES];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Ok(Symbol(bytes))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|&b| b == 0).unwrap_or(SYMBOL_BYTES);
        std::str::from_utf8(&self.0[..end]).unwrap_or("?")
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The label of an input or output axis of a layout (a labelled dimension of Linear Layouts,
/// section 4.1; a named axis of Axe, section 2.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Axis {
    /// Elements that one thread holds in registers.
    Reg,
    /// Threads of a warp, 0 to 31.
    Lane,
    /// Warps of a warpgroup if the layout has [`Axis::Warpgroup`] too, else warps of the block.
    Warp,
    /// Warpgroups (128 threads) of the block.
    Warpgroup,
    /// Blocks of a cluster.
    Cta,
    /// Clusters of the grid.
    Cluster,
    /// Devices.
    Gpu,
    /// Offset in memory in elements (Axe's axis `m`).
    Mem,
    /// Logical dimension of a tensor, 0 the outermost.
    Dim(u8),
    /// An axis named by the user, such as the partitions `P` of another machine.
    User(Symbol),
}

/// The hardware axes and how they are written.
const NAMES: [(&str, Axis); 8] = [
    ("reg", Axis::Reg),
    ("lane", Axis::Lane),
    ("warp", Axis::Warp),
    ("warpgroup", Axis::Warpgroup),
    ("cta", Axis::Cta),
    ("cluster", Axis::Cluster),
    ("gpu", Axis::Gpu),
    ("m", Axis::Mem),
];

impl Axis {
    /// Reads an axis as [`Display`](fmt::Display) writes it: `reg`, `m`, `d0`, or a user's name. Refuses dimensions beyond `d255`.
    pub fn parse(name: &str) -> Result<Axis, LayoutError> {
        if let Some((_, axis)) = NAMES.iter().find(|(n, _)| *n == name) {
            return Ok(*axis);
        }
        let number =
            name.strip_prefix('d').filter(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        match number.map(str::parse) {
            Some(Ok(dim)) => Ok(Axis::Dim(dim)),
            Some(Err(_)) => Err(LayoutError::Dimension(name.chars().take(40).collect())),
            None => Ok(Axis::User(Symbol::new(name)?)),
        }
    }

    /// Whether the axis says which thread, block or device holds an element.
    pub fn is_processor(self) -> bool {
        !matches!(self, Axis::Reg | Axis::Mem | Axis::Dim(_) | Axis::User(_))
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Axis::Dim(d) => write!(f, "d{d}"),
            Axis::User(s) => f.write_str(s.as_str()),
            _ => {
                let named = NAMES.iter().find(|(_, a)| a == self);
                f.write_str(named.map_or("?", |(n, _)| n))
            }
        }
    }
}
