//! Tensor maps: what `cuTensorMapEncodeTiled` is asked, and whether it may be.
//!
//! The limits are checked here, with the number in the message, because the driver answers all of
//! them with one code and lets some pass: a box side over 256 hangs the kernel.
//!
//! Source: CUDA Driver API, chapter "Tensor Map Object Management"; PTX ISA, chapter "Tensors".

use super::api::{RawTensorMap, call};
use super::device::Device;
use super::error::CudaError;

/// Everything that a tensor map is made from; equal requests give equal maps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorMapRequest {
    /// Global address of element 0.
    pub address: u64,
    /// Type of the elements.
    pub element: ElementType,
    /// Extents in elements, innermost first.
    pub dims: Vec<u64>,
    /// Strides in bytes of dimensions 1 and up.
    pub strides: Vec<u64>,
    /// Box in elements, innermost first.
    pub box_dims: Vec<u32>,
    /// Swizzle span in bytes: 0, 32, 64 or 128.
    pub swizzle: u32,
    /// L2 promotion in bytes: 0, 64, 128 or 256.
    pub l2_promotion: u32,
}

/// Element type as the copy engine sees it: `CUtensorMapDataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ElementType {
    code: u32,
    bytes: u32,
}

/// Name in the manifest, `CUtensorMapDataType`, bytes.
const ELEMENTS: [(&str, u32, u32); 10] = [
    ("u8", 0, 1),
    ("u16", 1, 2),
    ("u32", 2, 4),
    ("i32", 3, 4),
    ("u64", 4, 8),
    ("i64", 5, 8),
    ("f16", 6, 2),
    ("f32", 7, 4),
    ("f64", 8, 8),
    ("bf16", 9, 2),
];

impl ElementType {
    /// The type of that name in the manifest.
    pub fn named(name: &str) -> Option<Self> {
        let row = ELEMENTS.iter().find(|row| row.0 == name);
        row.map(|&(_, code, bytes)| Self { code, bytes })
    }

    /// Bytes of an element.
    pub fn bytes(self) -> u64 {
        u64::from(self.bytes)
    }
}

/// A limit of the copy engine that a tensor map breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TensorMapError {
    /// Number of dimensions.
    #[error("{0} dimensions; a tensor map has 1 to 5")]
    Rank(usize),
    /// Lists of different lengths.
    #[error("{dims} dimensions need {dims} box sides and {} strides, not {sides} and {strides}", .dims - 1)]
    Lengths {
        /// Extents given.
        dims: usize,
        /// Box sides given.
        sides: usize,
        /// Strides given.
        strides: usize,
    },
    /// The element type is not one of the copy engine's.
    #[error("no tensor map has elements of type `{0}`")]
    Element(String),
    /// Address.
    #[error("address {0:#x} is not a multiple of 16")]
    Address(u64),
    /// Extent.
    #[error("extent {extent} of dimension {dimension} is not in 1..=2^32")]
    Extent {
        /// Dimension, innermost 0.
        dimension: usize,
        /// Value.
        extent: i64,
    },
    /// Stride not a multiple.
    #[error("stride of {stride} bytes in dimension {dimension} is not a multiple of 16")]
    StrideMultiple {
        /// Dimension, innermost 0.
        dimension: usize,
        /// Value.
        stride: u64,
    },
    /// Stride out of range.
    #[error("stride of {stride} bytes in dimension {dimension} is not in 0..2^40")]
    StrideRange {
        /// Dimension, innermost 0.
        dimension: usize,
        /// Value.
        stride: i64,
    },
    /// Box side.
    #[error("box side {side} of dimension {dimension} is not in 1..=256")]
    Box {
        /// Dimension, innermost 0.
        dimension: usize,
        /// Value.
        side: u32,
    },
    /// Innermost box side in bytes.
    #[error("the box is {0} bytes wide, not a multiple of 16")]
    BoxMultiple(u64),
    /// Box wider than its swizzle span.
    #[error("the box is {bytes} bytes wide, over its swizzle span of {swizzle}")]
    BoxOverSwizzle {
        /// Width.
        bytes: u64,
        /// Span.
        swizzle: u32,
    },
    /// Unknown swizzle span.
    #[error("swizzle span {0} is not 0, 32, 64 or 128")]
    Swizzle(u32),
    /// Unknown promotion.
    #[error("L2 promotion {0} is not 0, 64, 128 or 256")]
    Promotion(u32),
    /// The tensor is larger than the buffer it lies in.
    #[error("the tensor covers {needed} bytes, the buffer has {available}")]
    Bounds {
        /// Bytes from the base to the end of the last element.
        needed: u64,
        /// Bytes of the buffer behind the base.
        available: u64,
    },
}

const SWIZZLES: [u32; 4] = [0, 32, 64, 128];
const PROMOTIONS: [u32; 4] = [0, 64, 128, 256];

impl TensorMapRequest {
    /// Checks every limit of tiled maps without interleaving.
    ///
    /// # Errors
    /// The first limit broken.
    pub fn check(&self) -> Result<(), TensorMapError> {
        self.check_lengths()?;
        if !self.address.is_multiple_of(16) {
            return Err(TensorMapError::Address(self.address));
        }
        for (dimension, &extent) in self.dims.iter().enumerate() {
            if !(1..=1 << 32).contains(&extent) {
                let extent = extent as i64;
                return Err(TensorMapError::Extent { dimension, extent });
            }
        }
        self.check_strides()?;
        self.check_box()
    }

    fn check_lengths(&self) -> Result<(), TensorMapError> {
        let (dims, sides, strides) = (self.dims.len(), self.box_dims.len(), self.strides.len());
        if !(1..=5).contains(&dims) {
            return Err(TensorMapError::Rank(dims));
        }
        if sides != dims || strides != dims - 1 {
            return Err(TensorMapError::Lengths { dims, sides, strides });
        }
        Ok(())
    }

    fn check_strides(&self) -> Result<(), TensorMapError> {
        for (i, &stride) in self.strides.iter().enumerate() {
            let dimension = i + 1;
            if stride >= 1 << 40 {
                let stride = stride as i64;
                return Err(TensorMapError::StrideRange { dimension, stride });
            }
            if !stride.is_multiple_of(16) {
                return Err(TensorMapError::StrideMultiple { dimension, stride });
            }
        }
        Ok(())
    }

    fn check_box(&self) -> Result<(), TensorMapError> {
        for (dimension, &side) in self.box_dims.iter().enumerate() {
            if !(1..=256).contains(&side) {
                return Err(TensorMapError::Box { dimension, side });
            }
        }
        let bytes = u64::from(self.box_dims[0]) * self.element.bytes();
        let swizzle = self.swizzle;
        if !bytes.is_multiple_of(16) {
            return Err(TensorMapError::BoxMultiple(bytes));
        }
        if !SWIZZLES.contains(&swizzle) {
            return Err(TensorMapError::Swizzle(swizzle));
        }
        if swizzle != 0 && bytes > u64::from(swizzle) {
            return Err(TensorMapError::BoxOverSwizzle { bytes, swizzle });
        }
        if !PROMOTIONS.contains(&self.l2_promotion) {
            return Err(TensorMapError::Promotion(self.l2_promotion));
        }
        Ok(())
    }

    /// Bytes from the base to the end of the last element; `None` on overflow.
    pub fn extent_bytes(&self) -> Option<u64> {
        let inner = self.dims.first()?.checked_mul(self.element.bytes())?;
        let mut outer = self.dims[1..].iter().zip(&self.strides);
        outer.try_fold(inner, |sum, (&extent, &stride)| {
            sum.checked_add(extent.saturating_sub(1).checked_mul(stride)?)
        })
    }

    /// Encodes the map. The driver only computes: no device memory is touched.
    pub(crate) fn encode(&self, device: &Device) -> Result<RawTensorMap, CudaError> {
        let api = device.bind()?;
        let position = |table: [u32; 4], v| table.iter().position(|&t| t == v).unwrap_or(0) as u32;
        let swizzle = position(SWIZZLES, self.swizzle);
        let promotion = position(PROMOTIONS, self.l2_promotion);
        let unit = [1u32; 5];
        let mut map = RawTensorMap([0; 16]);
        call!(api.cuTensorMapEncodeTiled(
            &mut map,
            self.element.code,
            self.dims.len() as u32,
            self.address as *mut _,
            self.dims.as_ptr(),
            self.strides.as_ptr(),
            self.box_dims.as_ptr(),
            unit.as_ptr(),
            0, // no interleaving
            swizzle,
            promotion,
            0, // elements outside are zero
        ))?;
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> TensorMapRequest {
        TensorMapRequest {
            address: 0x7000_0000,
            element: ElementType::named("f16").unwrap(),
            dims: vec![4096, 8192],
            strides: vec![8192],
            box_dims: vec![64, 256],
            swizzle: 128,
            l2_promotion: 128,
        }
    }

    fn broken(change: impl FnOnce(&mut TensorMapRequest)) -> String {
        let mut request = good();
        change(&mut request);
        request.check().unwrap_err().to_string()
    }

    #[test]
    fn limits_name_their_numbers() {
        assert_eq!(good().check(), Ok(()));
        assert_eq!(good().extent_bytes(), Some(8191 * 8192 + 8192));
        let table = [
            (broken(|r| r.address += 8), "0x70000008 is not a multiple of 16"),
            (broken(|r| r.dims[1] = 0), "extent 0 of dimension 1"),
            (broken(|r| r.dims[0] = (1 << 32) + 1), "extent 4294967297 of dimension 0"),
            (broken(|r| r.strides[0] = 8200), "stride of 8200 bytes in dimension 1"),
            (broken(|r| r.strides[0] = 1 << 40), "is not in 0..2^40"),
            (broken(|r| r.box_dims[1] = 257), "box side 257 of dimension 1"),
            (broken(|r| r.box_dims[0] = 0), "box side 0 of dimension 0"),
            (broken(|r| r.box_dims[0] = 4), "8 bytes wide"),
            (broken(|r| r.box_dims[0] = 128), "256 bytes wide, over its swizzle span of 128"),
            (broken(|r| r.swizzle = 48), "swizzle span 48"),
            (broken(|r| r.l2_promotion = 32), "L2 promotion 32"),
            (broken(|r| r.dims = vec![]), "0 dimensions"),
            (broken(|r| r.strides.push(16)), "2 dimensions need 2 box sides and 1 strides"),
        ];
        for (message, part) in table {
            assert!(message.contains(part), "{message} / {part}");
        }
    }

    #[test]
    fn every_element_type_is_known_once() {
        for (name, code, bytes) in ELEMENTS {
            assert_eq!(ElementType::named(name), Some(ElementType { code, bytes }));
        }
        assert_eq!(ElementType::named("f8"), None);
    }
}
