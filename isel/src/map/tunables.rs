//! Tunables become constants: in shapes, slices and arithmetic.
//!
//! ```text
//!  tunable BM = 128, mapping: BM = 64      f32[BM, 8 * BM / 4]   ─►   f32[64, 128]
//! ```

use crate::{IselError, Result};
use warplift_ir::tile::{Dim, Inst, Item, Kernel, MAX_TILE_ELEMENTS, Mapping, Op, Shape, Type, Value};

/// A copy of the kernel in which every tunable is a constant: the mapping's value, else the text's default.
///
/// # Errors
/// An extent becomes zero or fractional, or a tile becomes too large.
pub fn do_tunables(kernel: &Kernel, mapping: &Mapping) -> Result<Kernel> {
    let mut k = kernel.clone();
    let values = Values { kernel, mapping };
    for v in kernel.values.keys() {
        if let Type::Tile(elem, shape) = kernel.ty(v) {
            let dims = shape.dims().iter().map(|&d| values.extent(v, d)).collect::<Result<Vec<_>>>()?;
            check_size(&dims).map_err(|message| values.error(kernel.def(v), shape.dims(), message))?;
            k.values[v].ty = Type::Tile(elem, Shape::new(&dims).unwrap_or(shape));
        }
    }
    for (inst, data) in k.insts.iter_mut() {
        match &mut data.op {
            // An offset may be zero, an extent may not.
            Op::Dim(d) => *d = values.word(inst, *d)?,
            Op::Slice(offsets) => {
                offsets.iter_mut().try_for_each(|d| values.offset(inst, *d).map(|o| *d = o))?
            }
            _ => {}
        }
    }
    k.tunables.clear();
    Ok(k)
}

/// Values of tunables, and the errors for values that do not fit.
struct Values<'k> {
    kernel: &'k Kernel,
    mapping: &'k Mapping,
}

impl Values<'_> {
    fn resolved(&self, d: Dim) -> Option<Dim> {
        let value = |t| {
            let data = &self.kernel.tunables[t];
            self.mapping.tunable(&data.name).unwrap_or(data.default)
        };
        d.resolve(value).map(Dim::new)
    }

    /// An extent of a tile.
    fn extent(&self, tile: Value, d: Dim) -> Result<Dim> {
        self.resolved(d).filter(|e| e.mul > 0).ok_or_else(|| {
            let message = format!("extent {} is not a positive integer", self.text(d));
            self.error(self.kernel.def(tile), &[d], message)
        })
    }

    /// A multiple of a tunable as an i32.
    fn word(&self, inst: Inst, d: Dim) -> Result<Dim> {
        self.resolved(d).filter(|e| i32::try_from(e.mul).is_ok()).ok_or_else(|| {
            let message = format!("{} is not an integer of 32 bits", self.text(d));
            self.error(Some(inst), &[d], message)
        })
    }

    /// An offset of a slice.
    fn offset(&self, inst: Inst, d: Dim) -> Result<Dim> {
        self.resolved(d).ok_or_else(|| {
            let message = format!("the offset {} of a slice is not an integer", self.text(d));
            self.error(Some(inst), &[d], message)
        })
    }

    /// `BM = 8 * 3 / 16`
    fn text(&self, d: Dim) -> String {
        let name = |t| {
            let data = &self.kernel.tunables[t];
            format!("{} = {}", data.name, self.mapping.tunable(&data.name).unwrap_or(data.default))
        };
        format!("{} * {} / {}", d.tunable.map_or(String::from("1"), name), d.mul, d.div)
    }

    /// An error at the word of the mapping that sets one of the tunables, else at an instruction.
    fn error(&self, inst: Option<Inst>, dims: &[Dim], message: String) -> IselError {
        let names = dims.iter().filter_map(|d| Some(self.kernel.tunables[d.tunable?].name.as_str()));
        let given = |name| self.mapping.tunables.iter().position(|(n, _)| n == name);
        match (names.filter_map(given).next(), inst) {
            (Some(n), _) => IselError::said(self.mapping, Item::Tunable(n), "", message),
            (None, Some(inst)) => IselError::at(self.kernel, inst, message),
            (None, None) => IselError::whole(message),
        }
    }
}

/// The limit on elements that the verifier applies to the defaults of the tunables.
fn check_size(dims: &[Dim]) -> std::result::Result<(), String> {
    let extents = dims.iter().map(|d| u64::from(d.mul));
    let elements = extents.clone().try_fold(1u64, u64::checked_mul);
    if elements.is_some_and(|n| n <= MAX_TILE_ELEMENTS) {
        return Ok(());
    }
    let extents: Vec<String> = extents.map(|e| e.to_string()).collect();
    let shape = extents.join(", ");
    Err(format!("a tile [{shape}] has more than {MAX_TILE_ELEMENTS} elements"))
}
