//! What runs under the products: for each group of `HGMMA` (or `QGMMA`, `IGMMA`: all are counted as `HGMMA` here), the instructions between its issue and its wait.
//!
//! ```text
//!  HGMMA ..        HGMMA .., gsb0         a group is issued
//!  HGMMA ..        HGMMA .., gsb0         another one
//!  WARPGROUP.DEPBAR.LE gsb0, 0x1          ends all groups but the last one issued
//!  MUFU ..                                runs under the second
//!  WARPGROUP.DEPBAR.LE gsb0, 0x0          ends it
//! ```
//!
//! Code is followed in the order of the listing; a loop of products is followed around its back edge once, so that
//! groups that stay in flight over an iteration find their wait.

use super::flow::{Flow, Loop};
use super::instruction::{Instruction, WARPGROUP_PRODUCTS};
use std::collections::{BTreeMap, BTreeSet};

/// Classes of instructions, by the unit that runs them; the first that has a name.
const CLASSES: &[(&str, &[&str])] = &[
    ("HGMMA", WARPGROUP_PRODUCTS),
    ("MUFU", &["MUFU"]),
    ("FMA", &["FFMA", "FMUL", "FADD", "HFMA2", "HMUL2", "HADD2", "IMAD"]),
    (
        "ALU",
        &["FMNMX", "FSEL", "FSETP", "IADD3", "ISETP", "LOP3", "PRMT", "SEL", "SHF", "LEA", "VIADD", "MOV"],
    ),
    ("convert", &["F2FP", "F2F", "F2I", "I2F", "I2FP"]),
    ("shuffle", &["SHFL"]),
    ("shared", &["LDS", "STS", "LDSM", "STSM"]),
    ("global", &["LDG", "STG", "UTMASTG", "UTMALDG"]),
    ("barrier", &["SYNCS", "BAR", "MEMBAR", "FENCE"]),
];

fn class(i: &Instruction) -> &'static str {
    let found = CLASSES.iter().find(|(_, names)| names.contains(&i.name()));
    found.map_or(if i.name().starts_with('U') { "uniform" } else { "other" }, |c| c.0)
}

/// Groups that a wait leaves in flight, if an instruction is one.
fn leaves(i: &Instruction) -> Option<usize> {
    let text = i.operands.get(1).filter(|_| i.name() == "WARPGROUP" && i.has("DEPBAR"))?;
    usize::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

fn ends_group(i: &Instruction) -> bool {
    i.is_product() && i.operands.iter().any(|o| o == "gsb0")
}

/// Of each group, in words, what stands up to its wait, and how many such groups.
pub fn groups(flow: &Flow, blocks: &BTreeSet<usize>) -> BTreeMap<String, u32> {
    let holds =
        |blocks: &BTreeSet<usize>| blocks.iter().any(|b| flow.of(*b).iter().any(Instruction::is_product));
    let inside = |l: &&Loop| blocks.contains(&l.header) && holds(&l.blocks);
    let loops: Vec<&Loop> = flow.loops.iter().filter(inside).collect();
    let innermost = |l: &&&Loop| {
        let within = |o: &&&Loop| o.header != l.header && l.blocks.contains(&o.header);
        !loops.iter().any(|o| within(&o))
    };
    let innermost: Vec<&Loop> = loops.iter().filter(innermost).copied().collect();
    let mut all = BTreeMap::new();
    let mut count = |place: &str, code: &[&Instruction], first: usize| {
        for text in waits(code, first) {
            *all.entry(format!("{place}{text}")).or_default() += 1;
        }
    };
    for l in &innermost {
        let once: Vec<&Instruction> = l.blocks.iter().flat_map(|b| flow.of(*b)).collect();
        count("in a loop, ", &[&once[..], &once[..]].concat(), once.len());
    }
    let looped = |b: &&usize| innermost.iter().any(|l| l.blocks.contains(b));
    let rest: Vec<&Instruction> = blocks.iter().filter(|b| !looped(b)).flat_map(|b| flow.of(*b)).collect();
    count("", &rest, rest.len());
    all
}

/// What stands under each group that ends within the first instructions.
fn waits(code: &[&Instruction], first: usize) -> Vec<String> {
    let issued = (0..first).filter(|&at| ends_group(code[at]));
    let each = issued.map(|at| {
        let mut after = 0;
        let end = code[at + 1..].iter().position(|i| {
            after += usize::from(ends_group(i));
            leaves(i).is_some_and(|left| left <= after)
        });
        match end {
            None => "no wait in this part".to_owned(),
            Some(end) => format!("up to the wait: {}", between(&code[at + 1..at + 1 + end])),
        }
    });
    each.collect()
}

/// Numbers of instructions by class.
fn between(code: &[&Instruction]) -> String {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for i in code.iter().filter(|i| i.name() != "NOP" && leaves(i).is_none()) {
        *counts.entry(class(i)).or_default() += 1;
    }
    let list: Vec<String> = counts.iter().map(|(name, n)| format!("{name} {n}")).collect();
    if list.is_empty() { "nothing".to_owned() } else { list.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::super::instruction::parse;
    use super::*;

    /// Two products, the first awaited before the work, the second after it.
    const ITERATION: &str = "
        /*0000*/ HGMMA.64x256x16.F32 R24, gdesc[UR20], R24, gsb0 ;
        /*0010*/ UIADD3 UR4, UR4, 0x1, URZ ;
        /*0020*/ HGMMA.64x256x16.F32 R88, gdesc[UR20], R88 ;
        /*0030*/ HGMMA.64x256x16.F32 R88, gdesc[UR20], R88, gsb0 ;
        /*0040*/ WARPGROUP.DEPBAR.LE gsb0, 0x1 ;
        /*0050*/ MUFU.EX2 R3, R4 ;
        /*0060*/ FFMA R5, R3, R3, R4 ;
        /*0070*/ MUFU.EX2 R3, R5 ;
        /*0080*/ WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*0090*/ EXIT ;
";

    #[test]
    fn a_wait_ends_the_groups_that_it_does_not_leave() {
        let (code, _) = parse(ITERATION).expect("a listing");
        let code: Vec<&Instruction> = code.iter().collect();
        let found = waits(&code, code.len());
        assert_eq!(found, ["up to the wait: HGMMA 2, uniform 1", "up to the wait: FMA 1, MUFU 2"]);
        // Without the last wait the second group ends in the next iteration.
        let open: Vec<&Instruction> = code[..8].to_vec();
        let around = waits(&[&open[..], &open[..]].concat(), open.len());
        assert_eq!(around[1], "up to the wait: FMA 1, HGMMA 3, MUFU 2, uniform 1");
        assert_eq!(waits(&open, open.len())[1], "no wait in this part");
    }
}
