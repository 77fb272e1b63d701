//! Tunables become constants: in shapes, slices and arithmetic. What the mapping assumes of arguments becomes facts of them.
//!
//! ```text
//!  tunable BM = 128, mapping: BM = 64      f32[BM, 8 * BM / 4]   ─►   f32[64, 128]
//!                                          assert BM % 32 == 0   ─►   gone, since it holds
//! ```

use crate::{IselError, Result};
use warplift_ir::tile::{
    Dim, Inst, Item, Kernel, MAX_TILE_ELEMENTS, Mapping, Op, Shape, Tunable, Type, Value,
};

/// A copy of the kernel in which every tunable is a constant: the mapping's value, else the text's default. Its arguments
/// have the facts that the mapping assumes.
///
/// # Errors
/// A value outside its tunable's domain, an assert that does not hold, an extent that becomes zero or fractional, a tile
/// that becomes too large.
pub fn do_tunables(kernel: &Kernel, mapping: &Mapping) -> Result<Kernel> {
    let mut k = kernel.clone();
    k.assume(mapping);
    let values = Values { kernel, mapping };
    values.in_their_domains()?;
    values.settle(&mut k)?;
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
    fn of(&self, t: Tunable) -> i64 {
        self.mapping.value_of(&self.kernel.tunables[t])
    }

    fn resolved(&self, d: Dim) -> Option<Dim> {
        d.resolve(|t| self.of(t)).map(Dim::new)
    }

    fn in_their_domains(&self) -> Result<()> {
        let refused = |t: Tunable| Some((t, self.kernel.tunables[t].refuses(self.of(t))?));
        match self.kernel.tunables.keys().find_map(refused) {
            Some((t, why)) => Err(self.error(None, &[Dim::tunable(t)], why)),
            None => Ok(()),
        }
    }

    /// Takes away the asserts that the values decide.
    fn settle(&self, k: &mut Kernel) -> Result<()> {
        let settled = self.kernel.settled(|t| self.of(t));
        if let Some(unmet) = settled.unmet.first() {
            let dims: Vec<Dim> = unmet.tunables.iter().map(|&t| Dim::tunable(t)).collect();
            return Err(self.error(Some(unmet.inst), &dims, unmet.message.as_str()));
        }
        for block in k.blocks.values_mut().filter(|_| !settled.asserts.is_empty()) {
            block.insts.retain(|inst| !settled.asserts.contains(inst));
        }
        Ok(())
    }

    /// An extent of a tile.
    fn extent(&self, tile: Value, d: Dim) -> Result<Dim> {
        self.resolved(d).filter(|e| e.constant() > Some(0)).ok_or_else(|| {
            let message = format!("extent {} is not a positive integer", self.text(d));
            self.error(self.kernel.def(tile), &[d], message)
        })
    }

    /// A multiple of a tunable as an i32.
    fn word(&self, inst: Inst, d: Dim) -> Result<Dim> {
        self.resolved(d).filter(|e| e.constant().is_some_and(|n| i32::try_from(n).is_ok())).ok_or_else(|| {
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

    /// `BM * 3 / 16 (BM = 8)`
    fn text(&self, d: Dim) -> String {
        let value = |t| format!("{} = {}", self.kernel.tunables[t].name, self.of(t));
        let values: Vec<String> = d.tunables().map(value).collect();
        format!("{} ({})", self.kernel.extent_text(d), values.join(", "))
    }

    /// An error at the word of the mapping that sets one of the tunables, else at an instruction.
    fn error(&self, inst: Option<Inst>, dims: &[Dim], message: impl Into<String>) -> IselError {
        let names = dims.iter().flat_map(|d| d.tunables()).map(|t| self.kernel.tunables[t].name.as_str());
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
    let extents = dims.iter().map(|d| u64::from(d.constant().unwrap_or(0)));
    let elements = extents.clone().try_fold(1u64, u64::checked_mul);
    if elements.is_some_and(|n| n <= MAX_TILE_ELEMENTS) {
        return Ok(());
    }
    let extents: Vec<String> = extents.map(|e| e.to_string()).collect();
    let shape = extents.join(", ");
    Err(format!("a tile [{shape}] has more than {MAX_TILE_ELEMENTS} elements"))
}
