//! What proposals before tell of a later one: no program is compiled twice, and no refusal met twice.
//!
//! ```text
//!  x: staged                 x is left to the planner, which stages it too         the same program
//!  persistent, larger tiles  fewer registers were too many                         refused
//!  parts, order              a product of these extents was no warpgroups' product  refused
//! ```

use crate::{CompileError, Compiled};
use warplift_ir::tile::{ArrayMapping, Kernel, KernelMapping, Loc, LoopMapping, Mapping, Op, Raster, Way};

/// What became of the proposals so far.
#[derive(Default)]
pub(super) struct Told(Vec<(Mapping, Outcome)>);

/// What became of a proposal.
enum Outcome {
    /// It compiled. Of these arrays the planner staged what loops load, and the mapping did not ask for it.
    Compiled(Vec<String>),
    /// A role needs more registers than there are.
    Registers,
    /// A product has extents for which there are no instructions.
    Extents,
}

impl Told {
    /// Notes what became of a proposal.
    pub fn add(&mut self, kernel: &Kernel, mapping: &Mapping, made: Result<&Compiled, &CompileError>) {
        let unasked = |name: &String| mapping.arrays.iter().all(|a| a.0 != *name || a.1.way == Way::Fit);
        let outcome = match made {
            Ok(compiled) => {
                let staged = compiled.explained.staged.iter().filter(|name| unasked(name));
                Outcome::Compiled(staged.cloned().collect())
            }
            Err(CompileError::Registers(_)) => Outcome::Registers,
            Err(CompileError::Isel(e)) if e.loc.line > 0 && is_product(kernel, e.loc) => Outcome::Extents,
            Err(_) => return,
        };
        self.0.push((mapping.clone(), outcome));
    }

    /// Whether it is known what would become of a proposal: it is another one's program, or lacks what another one lacked.
    pub fn knows(&self, mapping: &Mapping) -> bool {
        self.0.iter().any(|(other, outcome)| match outcome {
            Outcome::Compiled(staged) => without(mapping, staged) == without(other, staged),
            Outcome::Registers => needs_more(mapping, other),
            Outcome::Extents => {
                let parts =
                    |(name, l): &(String, LoopMapping)| (name.clone(), LoopMapping { chunk: None, ..*l });
                let loops = |m: &Mapping| m.loops.iter().map(parts).collect::<Vec<_>>();
                let threads = |m: &Mapping| (m.whole.warps, m.whole.products);
                mapping.tunables == other.tunables
                    && mapping.arrays == other.arrays
                    && loops(mapping) == loops(other)
                    && threads(mapping) == threads(other)
            }
        })
    }
}

/// Whether a thread needs as many registers as under another mapping, or more: extents are as large or larger, blocks take one tile
/// or several, all else is the same. What the planner stages unasked for other extents tells nothing here.
fn needs_more(own: &Mapping, other: &Mapping) -> bool {
    let one_tile = KernelMapping { persistent: false, raster: Raster::default(), ..own.whole };
    own.arrays == other.arrays
        && own.loops == other.loops
        && (own.whole == other.whole || one_tile == other.whole)
        && own.tunables.len() == other.tunables.len()
        && own.tunables.iter().zip(&other.tunables).all(|(a, b)| a.0 == b.0 && is_larger(a.1, b.1))
}

/// Whether tiles of one extent take as many registers as of the other, or more. Powers of two take fewer than extents near them.
fn is_larger(extent: i64, than: i64) -> bool {
    let is_power = |n: i64| n.count_ones() == 1;
    extent == than || (extent > than && (is_power(than) || !is_power(extent)))
}

/// A mapping that does not ask for what the planner does unasked.
fn without(mapping: &Mapping, staged: &[String]) -> Mapping {
    let asked = ArrayMapping { way: Way::Staged, ..ArrayMapping::default() };
    let mut other = mapping.clone();
    other.arrays.retain(|(name, array)| !(*array == asked && staged.contains(name)));
    other
}

/// Whether a product stands at a place of the text.
fn is_product(kernel: &Kernel, loc: Loc) -> bool {
    kernel.insts.values().any(|d| matches!(d.op, Op::Mma { .. }) && d.loc == loc)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::enumerate::{Grants, mappings};
    use crate::{Limits, Options, compile};
    use warplift_ir::target::SM90A;

    /// Attention: what is added to the scores, and what the sums begin with.
    fn attention(added: &str, first: &str) -> Kernel {
        let text = format!(
            "kernel k(q: ptr<bf16> align 16, k: ptr<bf16> align 16, v: ptr<bf16> align 16, o: ptr<bf16> align 16,
                      f: ptr<f32> align 16, h: ptr<f16> align 16, sink: ptr<f32>, queries: i32, keys: i32 % 8) {{
                 const D = 128
                 tunable BM in 16..=256 step 8 = 128, BN in 16..=256 step 8 = 128
                 grid cdiv(queries, BM)
                 i = block_index
                 gq = view q : bf16[queries, D]
                 gk = view k : bf16[keys, D]
                 gv = view v : bf16[keys, D]
                 go = view o : bf16[queries, D]
                 gf = view f : f32[queries, keys]
                 gh = view h : f16[keys]
                 gs = view sink : f32[1]
                 tq = load gq[i*BM, 0] : bf16[BM, D]
                 none = full 0.0 : f32[BM, D]
                 zero = full 0.0 : f32[BM, BN]
                 low = full -1.0e30 : f32[BM]
                 nothing = (full 0.0 : f32[BM]) + {first}
                 m, l, acc = for t in 0..cdiv(keys, BN) carry m0 = low, l0 = nothing, acc0 = none {{
                     tk = load gk[t*BN, 0] : bf16[BN, D]
                     s = (mma zero, tq, trans(tk)) + {added}
                     m1 = max(m0, reduce_max(s, 1))
                     p = exp2(s - expand_dims(m1, 1))
                     alpha = exp2(m0 - m1)
                     l1 = l0 * alpha + reduce_sum(p, 1)
                     tv = load gv[t*BN, 0] : bf16[BN, D]
                     acc1 = mma acc0 * expand_dims(alpha, 1), cast(p, bf16), tv
                     yield m1, l1, acc1
                 }}
                 store go[i*BM, 0], cast(acc / expand_dims(l, 1), bf16)
             }}"
        );
        let file = warplift_ir::tile::parse_file(&text, "text").unwrap_or_else(|e| panic!("{e:?}\n{text}"));
        file.kernels.into_iter().next().unwrap()
    }

    /// Each known proposal is refused, or is the program of one that was tried. Returns how many are tried and known.
    fn known(kernel: &Kernel) -> (usize, usize) {
        let options =
            Options { limits: Limits { attempts: Some(2), ..Limits::default() }, ..Options::default() };
        let (mut told, mut tried, mut known) = (Told::default(), Vec::new(), 0);
        for mapping in mappings(kernel, &SM90A, &Grants::default()) {
            let made = compile(kernel, &mapping, &SM90A, &options);
            if !told.knows(&mapping) {
                told.add(kernel, &mapping, made.as_ref());
                tried.push(made.map_or_else(|e| e.to_string(), |made| made.ptx));
                continue;
            }
            known += 1;
            if let Ok(made) = made {
                assert!(tried.contains(&made.ptx), "a program of its own:\n{mapping}");
            }
        }
        (tried.len(), known)
    }

    #[test]
    fn what_is_passed_over_is_refused_or_was_tried() {
        let row = "expand_dims(cast(load gh[t*BN] : f16[BN], f32), 0)";
        let whole = "(load gf[i*BM, t*BN] : f32[BM, BN])";
        let sink = "(load gs[0] : f32)";
        for (added, first) in [(row, "0.0"), (whole, "0.0"), ("0.0", sink), (row, sink)] {
            let (tried, known) = known(&attention(added, first));
            assert!((12..=24).contains(&tried) && known >= 5, "{added}, {first}: {tried}, {known}");
        }
    }
}
