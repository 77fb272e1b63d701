//! Tensor maps as numbers, and the bytes of their boxes.
//!
//! ```text
//!  shared address of box element (i0, i1, ...) = base + (.. i2 * box1 + i1) * pitch + i0 * size
//!  pitch: box0 * size, or the swizzle's span where the box is narrower
//!  and its bits 4.. are exclusive-ored with bits 7.. (1, 2 or 3 of them for 32, 64, 128 bytes)
//! ```
//! Source: CUDA driver API, `cuTensorMapEncodeTiled`; PTX ISA, "Tensor-data movement: swizzling
//! modes".

use super::float::{BF16, F16, F32, F64};
use super::inst::Ty;

/// The arguments of `cuTensorMapEncodeTiled` with interleave none and zero fill. Index 0 is the
/// innermost dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMapDesc {
    /// Global address.
    pub address: u64,
    /// Element type: `u8 u16 u32 i32 u64 i64 f16 f32 f64 bf16 tf32`.
    pub element: String,
    /// Extents in elements. With one of 0 nothing is inside: the driver has no such map, the launcher makes one
    /// over spare memory.
    pub dims: Vec<u64>,
    /// Strides in bytes of dimensions 1 and up.
    pub strides: Vec<u64>,
    /// Box in elements.
    pub box_dims: Vec<u32>,
    /// Swizzle span in bytes: 0 (none), 32, 64 or 128.
    pub swizzle: u32,
}

/// One run of bytes that lie together both in global and in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Global address, or `None` outside the tensor.
    pub global: Option<u64>,
    /// Shared offset with the swizzle applied.
    pub shared: u32,
    pub bytes: u32,
}

impl TensorMapDesc {
    /// The element's type.
    pub(crate) fn ty(&self) -> Option<Ty> {
        Some(match self.element.as_str() {
            "u8" => Ty::U(8),
            "u16" => Ty::U(16),
            "u32" => Ty::U(32),
            "i32" => Ty::S(32),
            "u64" => Ty::U(64),
            "i64" => Ty::S(64),
            "f16" => Ty::F(F16),
            "bf16" => Ty::F(BF16),
            "f32" | "tf32" => Ty::F(F32),
            "f64" => Ty::F(F64),
            _ => return None,
        })
    }

    fn size(&self) -> u32 {
        self.ty().map_or(1, Ty::bytes)
    }

    /// The driver's reasons to refuse it.
    pub(crate) fn check(&self) -> Result<(), String> {
        let rank = self.dims.len();
        if self.ty().is_none() {
            return Err(format!("no element type `{}`", self.element));
        }
        if !(1..=5).contains(&rank) || self.box_dims.len() != rank || self.strides.len() + 1 != rank {
            return Err(format!(
                "{rank} extents, {} strides and a box of {} dimensions",
                self.strides.len(),
                self.box_dims.len()
            ));
        }
        if !self.address.is_multiple_of(16) {
            return Err(format!("address {:#x} is no multiple of 16", self.address));
        }
        if let Some(d) = self.dims.iter().find(|d| **d > 1 << 32) {
            return Err(format!("extent {d} is over 2^32"));
        }
        if let Some(s) = self.strides.iter().find(|s| **s % 16 != 0 || **s >= 1 << 40) {
            return Err(format!("stride {s} is no multiple of 16 below 2^40"));
        }
        self.check_box()
    }

    fn check_box(&self) -> Result<(), String> {
        if let Some(b) = self.box_dims.iter().find(|b| !(1..=256).contains(*b)) {
            return Err(format!("box extent {b} is not from 1 to 256"));
        }
        let inner = self.box_dims[0] * self.size();
        if !inner.is_multiple_of(16) {
            return Err(format!("inner box of {inner} bytes is no multiple of 16"));
        }
        match self.swizzle {
            0 => Ok(()),
            32 | 64 | 128 if inner > self.swizzle => {
                Err(format!("inner box of {inner} bytes is wider than the swizzle span of {}", self.swizzle))
            }
            32 | 64 | 128 => Ok(()),
            s => Err(format!("no swizzle of {s} bytes")),
        }
    }

    /// Why a box at these coordinates is no copy that the hardware makes as the definition says;
    /// `stores` says of a store whether it reduces.
    ///
    /// The first two rules are not in the PTX ISA: an H200 ends the kernel with an illegal instruction.
    /// The third one it breaks silently: where the extent cuts 16 bytes, all of them are reduced.
    pub(crate) fn refuses(&self, coordinates: &[i32], stores: Option<bool>) -> Option<String> {
        let size = i64::from(self.size());
        let first = i64::from(coordinates[0]) * size;
        if first % 16 != 0 {
            return Some(format!("the box begins at byte {first} of its rows, which is no multiple of 16"));
        }
        let reduces = stores?;
        if let Some(c) = coordinates.iter().find(|c| **c < 0) {
            return Some(format!("a store to a box that begins at coordinate {c}"));
        }
        let extent = self.dims[0] as i64 * size;
        let cut = extent % 16 != 0 && first + i64::from(self.box_dims[0]) * size > extent;
        (reduces && size == 2 && cut && first < extent).then(|| {
            format!("a reduction that is cut at byte {extent} of its rows, which is no multiple of 16")
        })
    }

    /// Bytes of a whole box.
    pub(crate) fn box_bytes(&self) -> u32 {
        self.box_dims.iter().product::<u32>() * self.size()
    }

    /// Bytes of shared memory that it takes: of each row of a swizzled box the whole pitch, in which its pieces change places.
    pub(crate) fn shared_bytes(&self) -> u32 {
        let rows: u32 = self.box_dims[1..].iter().product();
        if self.swizzle > 0 { rows * self.pitch() } else { self.box_bytes() }
    }

    /// Bytes from a row to the next in shared memory. Under a swizzle, rows of a box that is narrower than its span keep it.
    fn pitch(&self) -> u32 {
        u32::max(self.box_dims[0] * self.size(), self.swizzle)
    }

    /// Alignment that the box needs in shared memory.
    pub(crate) fn alignment(&self) -> u32 {
        128
    }

    /// Calls `f` with every run of a box at these coordinates.
    pub(crate) fn runs<E>(
        &self,
        coordinates: &[i32],
        base: u32,
        mut f: impl FnMut(Run) -> Result<(), E>,
    ) -> Result<(), E> {
        let row = self.box_dims[0] * self.size();
        let rows: u32 = self.box_dims[1..].iter().product();
        for r in 0..rows {
            let at = self.row_address(coordinates, r);
            self.row_runs(coordinates[0], at, base + r * self.pitch(), row, &mut f)?;
        }
        Ok(())
    }

    /// Global address of column 0 of the box's row `r`; `None` outside.
    fn row_address(&self, coordinates: &[i32], r: u32) -> Option<u64> {
        let mut rest = r;
        let mut address = self.address;
        let outer = coordinates.iter().zip(&self.dims).zip(&self.box_dims).skip(1);
        for (((c, dim), extent), stride) in outer.zip(&self.strides) {
            let i = i64::from(*c) + i64::from(rest % extent);
            rest /= extent;
            let i = u64::try_from(i).ok().filter(|i| i < dim)?;
            address = address.wrapping_add(i.wrapping_mul(*stride));
        }
        Some(address)
    }

    /// The row in pieces of at most 16 bytes, cut where it leaves the tensor.
    fn row_runs<E>(
        &self,
        first: i32,
        row: Option<u64>,
        shared: u32,
        bytes: u32,
        f: &mut impl FnMut(Run) -> Result<(), E>,
    ) -> Result<(), E> {
        let size = i64::from(self.size());
        let start = i64::from(first) * size;
        let clip = |v: i64| v.clamp(0, i64::from(bytes)) as u32;
        // The part of the row that lies inside the tensor.
        let (low, high) = (clip(-start), clip(self.dims[0] as i64 * size - start));
        let mut at = 0;
        while at < bytes {
            let cuts = [(at / 16 + 1) * 16, low, high];
            let end = cuts.into_iter().filter(|c| *c > at).min().unwrap_or(bytes);
            let inside = (low..high).contains(&at);
            f(Run {
                global: row.filter(|_| inside).map(|r| r.wrapping_add_signed(start + i64::from(at))),
                shared: swizzle(shared + at, self.swizzle),
                bytes: end - at,
            })?;
            at = end;
        }
        Ok(())
    }
}

/// The swizzle of a shared address.
pub(crate) fn swizzle(address: u32, span: u32) -> u32 {
    match span {
        32 => address ^ (address >> 7 & 1) << 4,
        64 => address ^ (address >> 7 & 3) << 4,
        128 => address ^ (address >> 7 & 7) << 4,
        _ => address,
    }
}
