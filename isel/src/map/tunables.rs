//! Tunables become constants: in shapes, slices and arithmetic.

use crate::{IselError, Result};
use warplift_ir::tile::{Dim, Kernel, MAX_TILE_ELEMENTS, Mapping, Op, Shape, Type};

/// A copy of the kernel without tunables.
///
/// # Errors
/// An extent that becomes zero or fractional, a tile that becomes too large.
pub fn do_tunables(kernel: &Kernel, mapping: &Mapping) -> Result<Kernel> {
    let mut k = kernel.clone();
    let value = |t| {
        let data = &kernel.tunables[t];
        mapping.tunable(&data.name).unwrap_or(data.default)
    };
    let resolve = |d: Dim| {
        d.resolve(value).filter(|&e| e > 0).map(Dim::new).ok_or_else(|| {
            let t = d
                .tunable
                .map_or(String::from("1"), |t| format!("{} = {}", kernel.tunables[t].name, value(t)));
            IselError::whole(format!("extent {t} * {} / {} is no positive whole number", d.mul, d.div))
        })
    };
    for v in k.values.values_mut() {
        if let Type::Tile(elem, shape) = v.ty {
            let dims: Vec<Dim> = shape.dims().iter().map(|&d| resolve(d)).collect::<Result<_>>()?;
            check_size(&dims)?;
            v.ty = Type::Tile(elem, Shape::new(&dims).unwrap_or(shape));
        }
    }
    for data in k.insts.values_mut() {
        match &mut data.op {
            // An offset may be zero, an extent may not.
            Op::Dim(d) => {
                *d = d
                    .resolve(value)
                    .filter(|&e| i32::try_from(e).is_ok())
                    .map(Dim::new)
                    .ok_or_else(|| IselError::whole("a tunable's multiple is fractional or no i32"))?
            }
            Op::Slice(offsets) => {
                for d in offsets {
                    *d = d
                        .resolve(value)
                        .map(Dim::new)
                        .ok_or_else(|| IselError::whole("a slice's offset is fractional"))?;
                }
            }
            _ => {}
        }
    }
    k.tunables.clear();
    Ok(k)
}

/// The limit that the verifier holds the tunables' defaults to.
fn check_size(dims: &[Dim]) -> Result<()> {
    let extents = dims.iter().map(|d| u64::from(d.mul));
    let elements = extents.clone().try_fold(1u64, u64::checked_mul);
    if elements.is_some_and(|n| n <= MAX_TILE_ELEMENTS) {
        return Ok(());
    }
    let extents: Vec<String> = extents.map(|e| e.to_string()).collect();
    let shape = extents.join(", ");
    Err(IselError::whole(format!("a tile [{shape}] has more than {MAX_TILE_ELEMENTS} elements")))
}
