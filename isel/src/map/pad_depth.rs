//! Depths that tensor cores have no step for are padded with zeros. Heads of 40 or 72 halves are read as 48 or 80, those of
//! 104 as 128, which wide swizzles divide: what lies past the end of the array's rows is its fill.
//!
//! ```text
//!  view q : f16[n, 40]    load q[i, 0] : f16[64, 40]     ─►     load q[i, 0] : f16[64, 48]
//! ```

use crate::operand::padded_row;
use crate::window::Window;
use rustc_hash::FxHashMap;
use warplift_ir::tile::{Dim, Inst, Kernel, Op, Shape, Type, Value};

/// Bits of a product's step along its depth: 16 halves, 32 bytes, 8 words.
const STEP_BITS: u32 = 256;

/// Pads the operands of all products.
pub fn do_pad_depth(k: &mut Kernel) {
    let mut uses: FxHashMap<Value, u32> = FxHashMap::default();
    k.walk(|_, inst| k.args(inst).iter().for_each(|&v| *uses.entry(v).or_default() += 1));
    for product in k.insts.keys().filter(|&i| matches!(k.insts[i].op, Op::Mma { .. })).collect::<Vec<_>>() {
        let sides = [1, 2].map(|side| Padded::of(k, &uses, product, side));
        if let [Some(a), Some(b)] = sides {
            let depth = a.depth.max(b.depth);
            [a, b].iter().for_each(|p| p.pad(k, depth));
        }
    }
}

/// An operand that is padded along the depth: the tiles from the operand to its load, the depth's dimension in each, and the
/// depth it should have.
struct Padded {
    tiles: Vec<(Value, usize)>,
    depth: u32,
}

impl Padded {
    /// Operand `side` of a product, if its depth is no whole number of steps and zeros follow it in memory. Nothing else
    /// may use the tile.
    fn of(k: &Kernel, uses: &FxHashMap<Value, u32>, product: Inst, side: usize) -> Option<Self> {
        let (mut v, mut dim) = (k.args(product)[side], 2 - side);
        let mut tiles = Vec::new();
        let load = loop {
            tiles.push((v, dim));
            let def = k.def(v).filter(|_| uses.get(&v) == Some(&1))?;
            match &k.insts[def].op {
                Op::Trans(perm) if perm[..] == [1, 0] => (v, dim) = (k.args(def)[0], 1 - dim),
                Op::Load => break def,
                _ => return None,
            }
        };
        let Type::Tile(elem, shape) = k.ty(v) else { return None };
        let extent = shape.extents()?.get(dim).copied()?;
        let bits = elem.bits();
        let depth = match Window::of(k, k.args(load)[0])?.unit(k) == Some(dim) {
            true => padded_row((extent * bits).div_ceil(8)) * 8 / bits,
            false => extent.next_multiple_of(STEP_BITS / bits),
        };
        let odd = !extent.is_multiple_of(STEP_BITS / bits);
        (odd && ends_there(k, load, dim, extent)).then_some(Self { tiles, depth })
    }

    fn pad(&self, k: &mut Kernel, depth: u32) {
        self.tiles.iter().for_each(|&(v, dim)| set_extent(k, v, dim, depth));
    }
}

/// Gives a dimension of a tile another extent.
pub(super) fn set_extent(k: &mut Kernel, v: Value, dim: usize, extent: u32) {
    let Type::Tile(elem, shape) = k.ty(v) else { return };
    let mut dims = shape.dims().to_vec();
    dims[dim] = Dim::new(extent);
    if let Some(shape) = Shape::new(&dims) {
        k.values[v].ty = Type::Tile(elem, shape);
    }
}

/// Whether a load or a store ends where its view ends along a dimension, which is filled with zeros from there on.
pub(super) fn ends_there(k: &Kernel, access: Inst, dim: usize, extent: u32) -> bool {
    let args = k.args(access);
    let ends = |w: Window| {
        let whole = w.kept.get(dim).map(|&d| w.extent(k, d))?;
        let end = k.int_const(*args.get(1 + dim)?)?.checked_add(extent.into())?;
        Some(w.fill(k) == 0.0 && k.int_const(whole)? == end)
    };
    Window::of(k, args[0]).and_then(ends).unwrap_or(false)
}
