//! Whether a mapping speaks of what its kernel has.

use super::VerifyError;
use crate::tile::{Depth, Kernel, Loc, Mapping, Op, ParamData, Type};

/// Stages of a loop's rings at most: barriers alone would fill shared memory long before.
const MAX_STAGES: u32 = 256;

/// Checks the names and numbers of a mapping; gives all violations.
pub fn verify_mapping(kernel: &Kernel, mapping: &Mapping) -> Result<(), Vec<VerifyError>> {
    let mut errors = Vec::new();
    let mut error = |item: usize, message: String| {
        let loc = mapping.locs.get(item).copied().unwrap_or(Loc::default());
        errors.push(VerifyError { inst: None, loc, message });
    };
    if !mapping.kernel.is_empty() && mapping.kernel != kernel.name {
        let (of, name) = (&mapping.kernel, &kernel.name);
        error(usize::MAX, format!("a mapping of `{of}` does not fit kernel `{name}`"));
    }
    for (i, (name, value)) in mapping.tunables.iter().enumerate() {
        if !kernel.tunables.values().any(|t| t.name == *name) {
            error(i, format!("kernel `{}` has no tunable `{name}`", kernel.name));
        } else if *value < 1 {
            error(i, format!("tunable `{name}` is {value}, must be 1 or more"));
        }
    }
    let loops = loop_names(kernel);
    for (i, (name, looped)) in mapping.loops.iter().enumerate() {
        let item = mapping.tunables.len() + i;
        if !loops.contains(&name.as_str()) {
            error(item, format!("kernel `{}` has no loop `{name}`", kernel.name));
        }
        if let Depth::Stages(stages) = looped.pipeline
            && !(1..=MAX_STAGES).contains(&stages)
        {
            error(
                item,
                format!("the pipeline of loop `{name}` has {stages} stages, 1 to {MAX_STAGES} are possible"),
            );
        }
    }
    for (i, (name, array)) in mapping.arrays.iter().enumerate() {
        let pointer = |p: &ParamData| p.name == *name && matches!(kernel.ty(p.value), Type::Ptr(_));
        if !kernel.params.iter().any(pointer) {
            let item = mapping.tunables.len() + mapping.loops.len() + i;
            error(item, format!("kernel `{}` has no pointer argument `{name}`", kernel.name));
        }
        if array.early && !mapping.whole.programmatic {
            let item = mapping.tunables.len() + mapping.loops.len() + i;
            let what = "a `programmatic` kernel waits for the grid before it; other kernels start after it";
            error(item, format!("array `{name}` is loaded `early`: {what}"));
        }
    }
    for (i, (name, _)) in mapping.tiles.iter().enumerate() {
        let tile =
            |(v, n): (crate::tile::Value, &String)| n == name && matches!(kernel.ty(v), Type::Tile(..));
        if !kernel.values.keys().any(|v| tile((v, &kernel.names[v]))) {
            let item = mapping.tunables.len() + mapping.loops.len() + mapping.arrays.len() + i;
            error(item, format!("kernel `{}` has no tile `{name}`", kernel.name));
        }
    }
    if [mapping.whole.cluster, mapping.whole.alternate, mapping.whole.blocks, mapping.whole.resident]
        .contains(&0)
        || mapping.whole.warps == Some(0)
        || mapping.whole.chunk == Some(0)
    {
        error(
            usize::MAX,
            "cluster, alternate, blocks, resident, warps and chunk must be 1 or more".to_owned(),
        );
    }
    for (i, (name, looped)) in mapping.loops.iter().enumerate() {
        if looped.turns.is_some_and(|n| n > 1) {
            error(mapping.tunables.len() + i, format!("loop `{name}`: turns are 0 or 1"));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn loop_names(kernel: &Kernel) -> Vec<&str> {
    let loops = kernel.insts.values().filter(|d| matches!(d.op, Op::For));
    let counters = loops.filter_map(|d| kernel.blocks.get(*d.blocks.first()?)?.params.first());
    counters.map(|&v| kernel.names[v].as_str()).collect()
}
