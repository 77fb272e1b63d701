//! What a text promises of its arguments, and the values of tunables for which sizes keep it.
//!
//! ```text
//!  tunable BN in {64, 128, 256} = 256      n = 192:   BN = 256 ✗   128 ✗   64 ✓     the nearest value that fits
//!  assert n % BN == 0                      n = 512:   BN = 256 ✓                    the default stays
//! ```
//!
//! The default stays wherever it can: what a mapping asks of sizes holds for all launches, not for those at hand alone.

use super::propose;
use crate::problem::Sizes;
use warplift_ir::target::Target;
use warplift_ir::tile::{Domain, Kernel, Mapping, Settled, Tunable, verify_mapping};

/// Steps of a domain that are tried to each side; behind them, halves and doubles.
const VALUES: i64 = 64;

/// Whether a mapping obeys the kernel and the sizes: what the text promises of arguments must hold for them.
pub(super) fn is_legal(kernel: &Kernel, mapping: &Mapping, sizes: &Sizes, target: &Target) -> bool {
    verify_mapping(kernel, mapping, target).is_ok()
        && mapping.admits(|name| sizes.int(name))
        && settled(kernel, mapping, sizes).unmet.is_empty()
}

fn settled(kernel: &Kernel, mapping: &Mapping, sizes: &Sizes) -> Settled {
    kernel.settled_with(|t| mapping.value_of(&kernel.tunables[t]), |name| sizes.int(name))
}

/// The mapping itself if it is legal, else the nearest one that is: of each promise that the sizes break, a tunable changes.
pub(super) fn kept(kernel: &Kernel, mapping: Mapping, sizes: &Sizes, target: &Target) -> Option<Mapping> {
    let broken = settled(kernel, &mapping, sizes).unmet.into_iter().flat_map(|unmet| unmet.tunables);
    let fixed = propose::in_views(kernel);
    let may = |t: &Tunable| kernel.tunables[*t].domain != Domain::Any && !fixed.contains(t);
    let broken: Vec<Tunable> = broken.filter(may).collect();
    let mut at = mapping;
    for tunable in broken {
        let with = |value: i64| {
            let mut other = at.clone();
            propose::set(&mut other, &[(kernel.tunables[tunable].name.clone(), value)]);
            other
        };
        let unmet = |m: &Mapping| settled(kernel, m, sizes).unmet.len();
        let (own, before) = (at.value_of(&kernel.tunables[tunable]), unmet(&at));
        let better = values(&kernel.tunables[tunable].domain, own).map(with).find(|m| unmet(m) < before);
        at = better.unwrap_or(at);
    }
    is_legal(kernel, &at, sizes, target).then_some(at)
}

/// Values of a domain near a tunable's own: smaller ones before greater ones, the nearest first.
fn values(domain: &Domain, own: i64) -> impl Iterator<Item = i64> + '_ {
    let step = if let Domain::Range { step, .. } = domain { *step } else { 1 };
    let near = move |n: i64| [-n, n].map(|n| own.saturating_add(step.saturating_mul(n)));
    let twofold = move |n: u32| [own >> n, own.saturating_mul(1 << n)];
    let mut all: Vec<i64> = match domain {
        Domain::OneOf(all) => all.clone(),
        _ => (1..VALUES).flat_map(near).chain((1..u64::BITS - 1).flat_map(twofold)).collect(),
    };
    all.retain(|&v| (1..=i64::from(i32::MAX)).contains(&v) && domain.contains(v));
    all.sort_by_key(|&v| (v > own, own.abs_diff(v)));
    all.dedup();
    all.into_iter()
}
