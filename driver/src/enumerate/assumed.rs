//! What a chosen mapping assumes of arguments, because the launch's sizes say it and the text does not.
//!
//! ```text
//!  view a : f16[m, k]     rows begin at multiples of 2 k bytes      k = 4096   k % 8   16 bytes: tensor copies, vectors
//!                                                                   k = 4100   k % 4    8 bytes: copies of 8 by threads
//!                                                                   k = 4095            the text alone
//! ```
//!
//! Scales of groups of 128 lie in rows of `k / 128`: 16 bytes of halves need `k % 1024`.
//!
//! Only what says where rows begin is assumed, of arrays that begin at multiples themselves: by the text, or granted.

use super::grants::Grants;
use crate::problem::Sizes;
use std::collections::BTreeMap;
use warplift_ir::manifest::Expr;
use warplift_ir::tile::{Assumption, Inst, Kernel, Mapping, Op, ParamData, Promise, Value};
use warplift_isel::facts::{divisor, gcd, is_multiple, launch_expr, lcm};

/// Bytes of the widest access.
const WIDEST: u64 = 16;

/// What a mapping for these sizes may assume, in the order of the signature.
pub(super) fn assumed(kernel: &Kernel, sizes: &Sizes, grants: &Grants) -> Vec<(String, Promise)> {
    let numbers = numbers(kernel, sizes, grants);
    let of = |p: &ParamData| {
        let granted = grants.alignment(&p.name).min(WIDEST);
        let aligned = (granted > p.facts.align).then_some(Promise::Align(granted));
        let number = |&multiple: &i64| Promise::Number(Assumption { multiple, ..Assumption::default() });
        Some((p.name.clone(), aligned.or_else(|| numbers.get(&p.name).map(number))?))
    };
    kernel.params.iter().filter_map(of).collect()
}

/// Integers that say where rows begin, and what they are found to be multiples of beyond their facts.
fn numbers(kernel: &Kernel, sizes: &Sizes, grants: &Grants) -> BTreeMap<String, i64> {
    let mut found = BTreeMap::new();
    let by_defaults = warplift_isel::map::do_tunables(kernel, &Mapping::default());
    let kernel = &by_defaults.unwrap_or_else(|_| kernel.clone());
    for inst in kernel.insts.keys() {
        let Some(wanted) = wanted(kernel, inst, grants) else { continue };
        for (name, distance) in between_rows(kernel, inst, wanted) {
            let Some(multiple) = multiple(kernel, (&name, distance), sizes, wanted) else { continue };
            if grants.tells(&name) {
                let known: &mut i64 = found.entry(name).or_insert(multiple);
                *known = multiple.max(*known);
            }
        }
    }
    found
}

/// Elements of the widest access to the array of a view, or of several such that end with an element; `None` where the array begins
/// anywhere.
fn wanted(kernel: &Kernel, view: Inst, grants: &Grants) -> Option<i64> {
    let Op::View { .. } = kernel.insts[view].op else { return None };
    let param = kernel.params.iter().find(|p| p.value == kernel.args(view)[0])?;
    let bytes = param.facts.align.max(grants.alignment(&param.name)).min(WIDEST);
    let (all, bits) = (8 * bytes as i64, i64::from(kernel.ty(kernel.result(view)).elem().bits()));
    Some(all / gcd(all, bits)).filter(|&elements| elements > 1)
}

/// The integer arguments that the distances between a view's rows depend on, with the distance, where it is not known to be a multiple
/// of `wanted` elements.
fn between_rows(kernel: &Kernel, view: Inst, wanted: i64) -> Vec<(String, Value)> {
    let args = &kernel.args(view)[1..];
    let distances = match kernel.insts[view].op {
        Op::View { strided: true, .. } => &args[args.len() / 2..],
        // All other distances are multiples of the last extent.
        _ if args.len() > 1 => &args[args.len() - 1..],
        _ => &[],
    };
    let distances = distances.iter().filter(|&&v| !is_multiple(kernel, v, wanted));
    let exprs = distances.filter_map(|&v| Some((launch_expr(kernel, v)?, v)));
    let names = exprs.flat_map(|(e, v)| {
        let own = |p: &&ParamData| mentions(&e, &p.name);
        kernel.params.iter().filter(own).map(|p| (p.name.clone(), v)).collect::<Vec<_>>()
    });
    names.collect()
}

fn mentions(e: &Expr, name: &str) -> bool {
    match e {
        Expr::Const(_) => false,
        Expr::Var(own) => own == name,
        Expr::Op(_, both) => mentions(&both.0, name) || mentions(&both.1, name),
    }
}

/// The least power of two dividing an argument that makes a distance a multiple of as much as the sizes allow, `wanted` at most, if
/// the facts do not say as much.
fn multiple(kernel: &Kernel, (name, distance): (&str, Value), sizes: &Sizes, wanted: i64) -> Option<i64> {
    let value = sizes.int(name).filter(|&v| v > 0)?;
    let mut told = kernel.clone();
    let param = told.params.iter().position(|p| p.name == name)?;
    let known = told.params[param].facts.multiple.max(1);
    let mut reached = |multiple: i64| {
        told.params[param].facts.multiple = multiple;
        gcd(divisor(&told, distance), wanted)
    };
    let (now, powers) = (reached(known), (0..=value.trailing_zeros()).map(|p| 1_i64 << p));
    let further = powers.map(|p| (reached(lcm(known, p)), p)).filter(|(r, _)| *r > now);
    further.max_by_key(|&(reached, power)| (reached, std::cmp::Reverse(power))).map(|(_, power)| power)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::find;

    fn kernel(text: &str) -> Kernel {
        warplift_ir::tile::parse_file(text, "").unwrap_or_else(|e| panic!("{e}")).kernels.remove(0)
    }

    fn told(kernel: &Kernel, sizes: &[(&str, i64)], aligned: &[&str]) -> String {
        let mut grants = Grants::default();
        aligned.iter().for_each(|name| grants.align(name, 16));
        grants.tell(sizes.iter().map(|s| s.0));
        let all = assumed(kernel, &Sizes::of_integers(sizes), &grants);
        all.iter().map(|(name, promise)| format!("{name}{promise}")).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn the_distance_of_rows_is_assumed_as_far_as_the_sizes_say_it() {
        let any = find("gemm_any").unwrap().parse().unwrap().kernels.remove(0);
        let all = ["a", "b", "c"];
        let of = |n: i64, k: i64| told(&any, &[("m", 512), ("n", n), ("k", k)], &all);
        let aligned = "a align 16, b align 16, c align 16";
        assert_eq!(of(4096, 4096), format!("{aligned}, n % 8, k % 8"));
        assert_eq!(of(4097, 4100), format!("{aligned}, k % 4"));
        assert_eq!(of(4098, 1023), format!("{aligned}, n % 2"));
        // Arrays that begin anywhere gain nothing by their rows.
        assert_eq!(told(&any, &[("m", 512), ("n", 64), ("k", 64)], &["c"]), "c align 16, n % 8");
        assert_eq!(told(&any, &[("m", 512), ("n", 64), ("k", 64)], &[]), "");
    }

    /// Scales of groups lie `k / 128` apart, elements of 6 bits end with 16 bytes at each 64th.
    #[test]
    fn a_quotient_of_an_argument_may_be_the_distance() {
        let weights = kernel(
            "kernel f(w: ptr<u6> align 16, s: ptr<f16> align 16, z: ptr<u4> align 16, n: i32, k: i32 % 128) {
                tunable GROUP = 128
                grid n
                gw = view w : u6[n, k]
                gs = view s : f16[n, cdiv(k, GROUP)]
                gz = view z : u4[n, k / 64]
            }",
        );
        let of = |k: i64| told(&weights, &[("n", 64), ("k", k)], &[]);
        assert_eq!(of(8192), "k % 2048");
        assert_eq!(of(1024), "k % 1024");
        assert_eq!(of(640), "");
    }

    /// The last extent says how far apart rows are: kernels are made for any number of heads and keys.
    #[test]
    fn other_extents_are_not_assumed() {
        let attention = find("attention").unwrap().parse().unwrap().kernels.remove(0);
        let sizes = [("batch", 4), ("heads", 16), ("queries", 4096), ("keys", 4096)];
        assert_eq!(told(&attention, &sizes, &[]), "");
    }

    #[test]
    fn facts_of_the_text_and_sizes_that_nobody_told_are_left_alone() {
        let gemm = find("gemm").unwrap().parse().unwrap().kernels.remove(0);
        assert_eq!(told(&gemm, &[("m", 512), ("n", 64), ("k", 64)], &[]), "");
        let wide = kernel(
            "kernel f(x: ptr<u8> align 16, y: ptr<f32> align 16, n: i32, half: i32 % 4, pitch: i32) {
                grid n
                gx = view x : u8[n, half / 2]
                gy = view y : f32[n, half] strides [pitch, 1]
            }",
        );
        assert_eq!(told(&wide, &[("n", 64), ("half", 48), ("pitch", 50)], &[]), "half % 16, pitch % 2");
        let untold = assumed(
            &wide,
            &Sizes::of_integers(&[("n", 64), ("half", 48), ("pitch", 52)]),
            &Grants::default(),
        );
        assert_eq!(untold, []);
    }
}
