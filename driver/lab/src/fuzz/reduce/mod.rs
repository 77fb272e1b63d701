//! Reduces a failing case.
//!
//! The reduction is greedy. It tries one simplification after the other and keeps it if the case still fails, until
//! none is kept. A step that leaves the domain of the generator is not kept: blocks that then write the same elements, or
//! an operation that is not defined, would fail in another way. After each step it drops unused instructions, parameters, sizes and mapped loops, and reads the text
//! back. The result is therefore always a case that a file can hold.

mod edit;
mod simplify;

use super::check::in_domain;
use super::{Case, Failure, check};
use simplify::{Simplification, simplifications};
use std::time::{Duration, Instant};
use warplift_ir::target::SM90A;
use warplift_ir::tile::{verify, verify_mapping};

/// The smallest case found within the time for which `fails` holds, as it does for `case`.
pub fn reduce(case: &Case, fails: impl Fn(&Case) -> bool, time: Duration) -> Case {
    let start = Instant::now();
    let mut best = case.clone();
    loop {
        let mut found = false;
        let mut at = 0;
        let mut list = simplifications(&best);
        while let Some(step) = list.get(at) {
            if start.elapsed() > time {
                return best;
            }
            match simpler(&best, step).filter(in_domain).filter(&fails) {
                Some(case) => {
                    best = case;
                    list = simplifications(&best);
                    found = true;
                }
                None => at += 1,
            }
        }
        if !found {
            return best;
        }
    }
}

impl Case {
    /// A small case that fails like this one, with the failure as its note.
    pub fn reduced(&self, failure: &Failure, time: Duration) -> Self {
        let alike = |case: &Self| check(case).is_err_and(|f| f.is_like(failure));
        let mut small = reduce(self, alike, time);
        small.note = check(&small).err().map_or_else(String::new, |f| f.to_string());
        small
    }
}

/// The case after one simplification; `None` if it is invalid or unchanged.
fn simpler(case: &Case, step: &Simplification) -> Option<Case> {
    let mut new = case.clone();
    simplify::apply(&mut new, step)?;
    edit::do_dead(&mut new.kernel);
    let used = |name: &str| new.kernel.params.iter().any(|p| p.name == name);
    new.sizes.retain(|n, _| used(n));
    new.mapping.arrays.retain(|(n, _)| used(n));
    let loops: Vec<String> = new
        .kernel
        .insts
        .keys()
        .filter_map(|i| warplift_isel::loop_name(&new.kernel, i).map(str::to_owned))
        .collect();
    new.mapping.loops.retain(|(n, _)| loops.contains(n));
    verify(&new.kernel).and_then(|()| verify_mapping(&new.kernel, &new.mapping, &SM90A)).ok()?;
    let again: Case = new.to_string().parse().ok()?;
    (again.to_string() != case.to_string()).then_some(again)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warplift::problem::{Sizes, grid_of};
    use warplift_ir::tile::{BinOp, Op};

    const TEXT: &str = "# sizes: n = 200, p = 3\n# sms: 3\n# data: 1
        kernel k(x: ptr<f16> align 16, n: i32 % 4, p: i32) {
            tunable B = 64
            grid cdiv(n, B)
            i = block_index
            g = view x : f16[n]
            t = load g[i * B] : f16[B]
            s, r = for j in 0..p carry a = t, b = t {
                c = if i < 2 { yield max(a, b) * 2.0 } else { yield b }
                yield a + c, b
            }
            u = cast(exp(cast(s, f32)), f16)
            store g[i * B], u + r
            store g[i * B], s
        }
        mapping k { B = 32 for j: pipeline 2 kernel: persistent, warps 8 }";

    fn has(case: &Case, wanted: &Op) -> bool {
        let mut found = false;
        case.kernel.walk(|_, i| found |= case.kernel.insts[i].op == *wanted);
        found
    }

    #[test]
    fn what_does_not_matter_goes() {
        let case: Case = TEXT.parse().unwrap();
        let max = Op::Binary(BinOp::Max);
        let small = reduce(&case, |c| has(c, &max), Duration::from_secs(20));
        assert!(has(&small, &max));
        let mut count = 0;
        small.kernel.walk(|_, _| count += 1);
        assert!(count <= 14, "{count} instructions are left:\n{small}");
        assert!(small.kernel.params.len() < 3 && !small.mapping.whole.persistent, "{small}");
        assert!(!has(&small, &Op::For) && !has(&small, &Op::If), "{small}");
    }

    /// Without the block's index every block would store to the same place, which fails too, and in the same words.
    #[test]
    fn blocks_stay_apart() {
        let case: Case = TEXT.parse().unwrap();
        assert!(in_domain(&case));
        let merged: Case = TEXT.replace("store g[i * B], s", "store g[0], s").parse().unwrap();
        assert!(!in_domain(&merged));
        let several = |c: &Case| {
            let sizes = c.sizes.iter().map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>().join(",");
            let sizes = Sizes::parse(&c.kernel, &sizes).ok();
            sizes.and_then(|s| grid_of(&c.kernel, &s)).is_some_and(|grid| grid[0] > 1)
        };
        let wide = |c: &Case| has(c, &Op::Store) && several(c);
        let small = reduce(&case, wide, Duration::from_secs(20));
        assert!(in_domain(&small) && has(&small, &Op::BlockIndex(0)), "{small}");
    }

    #[test]
    fn loops_stay_where_they_matter() {
        let case: Case = TEXT.parse().unwrap();
        let small = reduce(&case, |c| has(c, &Op::For) && c.sizes.len() > 1, Duration::from_secs(20));
        assert!(has(&small, &Op::For) && !has(&small, &Op::If), "{small}");
        assert!(small.sizes.values().all(|&v| v <= 1), "{small}");
    }
}
