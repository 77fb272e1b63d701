//! What arrays hold that the kernel computes with as more than numbers, unless the user gives it.
//!
//! ```text
//!  view x : f32[reduce_max(load count[0] ..)]     count: extents, 1 to 256
//!  store gy[reduce_max(load index[i] ..)], t      index: each place once, so that no two blocks write the same
//!  view_as(cast(load s[i], i32) << 23, f32)       s:     exponents around 1, so that results are finite
//! ```

use super::given::Contents;
use super::rounding::behind;
use rustc_hash::FxHashSet;
use warplift_ir::tile::{BinOp, Inst, Kernel, Op, Value};
use warplift_ir::types::Elem;

/// Greatest extent that is drawn.
const EXTENT: i64 = 256;
/// Exponents of scales go so far from that of 1.
const SCALE: i64 = 3;
/// The exponent of 1 in f32 and bf16.
const BIAS: i64 = 127;

/// The contents of such arrays by name.
pub(super) fn usual(kernel: &Kernel) -> Vec<(String, Contents)> {
    let mut found: Vec<(String, Contents)> = Vec::new();
    let mut all = |values: Vec<Value>, least_bits: u32, contents: Contents| {
        for (name, elem) in arrays_behind(kernel, values) {
            let wide = elem.is_int() && elem.bits() >= least_bits;
            if wide && !found.iter().any(|(n, _)| *n == name) {
                found.push((name, contents.clone()));
            }
        }
    };
    all(arguments(kernel, extents), 32, Contents::Integers(1, EXTENT));
    all(arguments(kernel, scales), 8, Contents::Integers(BIAS - SCALE, BIAS + SCALE));
    all(arguments(kernel, places), 32, Contents::Permutation);
    found
}

fn arguments(kernel: &Kernel, of: impl Fn(&Kernel, Inst) -> Vec<Value>) -> Vec<Value> {
    let mut values = Vec::new();
    kernel.walk(|_, inst| values.extend(of(kernel, inst)));
    values
}

/// The extents of a view.
fn extents(k: &Kernel, inst: Inst) -> Vec<Value> {
    if matches!(k.insts[inst].op, Op::View { .. }) { k.args(inst)[1..].to_vec() } else { Vec::new() }
}

/// The indices of a store.
fn places(k: &Kernel, inst: Inst) -> Vec<Value> {
    match (&k.insts[inst].op, k.args(inst)) {
        (Op::Store, [_, places @ .., _]) => places.to_vec(),
        _ => Vec::new(),
    }
}

/// Integers that become the exponent of a float.
fn scales(k: &Kernel, inst: Inst) -> Vec<Value> {
    let (Op::ViewAs(to), [bits]) = (&k.insts[inst].op, k.args(inst)) else { return Vec::new() };
    let mantissa = match to {
        Elem::F32 => 23,
        Elem::Bf16 => 7,
        _ => return Vec::new(),
    };
    let shift = k.def(*bits).filter(|&d| matches!(k.insts[d].op, Op::Binary(BinOp::Shl)));
    let by = |d: &Inst| amount(k, k.args(*d)[1]) == Some(mantissa);
    shift.filter(by).map_or(Vec::new(), |d| vec![k.args(d)[0]])
}

/// A constant, also one that fills a tile.
fn amount(k: &Kernel, value: Value) -> Option<i64> {
    let filled = k.def(value).filter(|&d| matches!(k.insts[d].op, Op::Full | Op::Cast | Op::Broadcast));
    k.int_const(value).or_else(|| amount(k, k.args(filled?)[0]))
}

/// The arrays whose elements values are computed from.
fn arrays_behind(kernel: &Kernel, values: Vec<Value>) -> Vec<(String, Elem)> {
    let (mut seen, mut work, mut found) = (FxHashSet::default(), values, Vec::new());
    while let Some(v) = work.pop() {
        if !seen.insert(v) {
            continue;
        }
        let load = kernel.def(v).filter(|&d| matches!(kernel.insts[d].op, Op::Load | Op::AsyncCopy));
        match load {
            Some(load) => found.extend(array(kernel, kernel.args(load)[0])),
            None => work.extend(behind(kernel, v)),
        }
    }
    found
}

/// Name and element type of the array behind a view.
fn array(kernel: &Kernel, view: Value) -> Option<(String, Elem)> {
    let pointer = *kernel.args(kernel.def(kernel.whole_view(view))?).first()?;
    let param = kernel.params.iter().find(|p| p.value == pointer)?;
    Some((param.name.clone(), kernel.ty(view).elem()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warplift_ir::tile::parse_file;

    #[test]
    fn arrays_are_known_by_what_their_elements_become() {
        let text =
            "kernel k(c: ptr<i32>, s: ptr<u8>, p: ptr<i32>, x: ptr<f32>, y: ptr<f32>, q: ptr<i32>) { grid 4
            gc = view c : i32[1] gs = view s : u8[4] gp = view p : i32[4] gq = view q : i32[4]
            n = reduce_max(load gc[0] : i32[1], 0)
            gx = view x : f32[n] gy = view y : f32[4]
            i = block_index
            e = view_as(cast(load gs[i] : u8[1], i32) << 23, f32)
            k = reduce_max(load gp[i] : i32[1], 0)
            z = cast(load gq[i] : i32[1], f32)
            store gy[k * 1], (load gx[i] : f32[1]) * e + z }";
        let kernel = parse_file(text, "").unwrap().kernels.remove(0);
        let mut found = usual(&kernel);
        found.sort_by(|a, b| a.0.cmp(&b.0));
        let wanted = [
            ("c", Contents::Integers(1, 256)),
            ("p", Contents::Permutation),
            ("s", Contents::Integers(124, 130)),
        ];
        assert_eq!(found, wanted.map(|(n, c)| (n.to_owned(), c)));
    }
}
