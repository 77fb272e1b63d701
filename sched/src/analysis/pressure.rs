//! Registers of fragments that are live at once, before register allocation. The number is an estimate from definitions
//! and last uses.

use rustc_hash::FxHashMap;
use warplift_ir::machine::{Block, Func, Inst, Value};

/// The most registers of a block's own fragments that are live at once. Fragments of nested blocks are included.
pub(crate) fn most_alive(func: &Func<'_>, block: Block) -> u32 {
    let insts = &func.blocks[block].insts;
    let place: FxHashMap<Inst, usize> = insts.iter().enumerate().map(|(n, &i)| (i, n)).collect();
    let mut change = vec![0i64; insts.len() + 1];
    let mut lives = |v: Value, from: usize| {
        let last = func.users(v).filter_map(|user| place_in(func, &place, block, user)).max();
        let regs = if func.ty(v).is_frag() { i64::from(func.ty(v).regs()) } else { 0 };
        change[from] += regs;
        change[last.unwrap_or(from).max(from) + 1] -= regs;
    };
    func.blocks[block].params.iter().for_each(|&p| lives(p, 0));
    for (n, &i) in insts.iter().enumerate() {
        func.insts[i].results.iter().for_each(|&r| lives(r, n));
    }
    let (mut alive, mut most) = (0, 0);
    for (n, &i) in insts.iter().enumerate() {
        alive += change[n];
        let inside = func.insts[i].blocks.iter().map(|&b| i64::from(most_alive(func, b))).max();
        most = most.max(alive + inside.unwrap_or(0));
    }
    most.max(0) as u32
}

/// The position in a block of `user`, or of the instruction that contains it.
fn place_in(func: &Func<'_>, place: &FxHashMap<Inst, usize>, block: Block, user: Inst) -> Option<usize> {
    let home = func.block_of(user)?;
    if home == block {
        return place.get(&user).copied();
    }
    func.around(home).filter_map(|b| func.holder(b)).find_map(|i| place.get(&i).copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use warplift_ir::Bump;
    use warplift_ir::machine::{Attr, NewInst, Ty};
    use warplift_ir::target::Opcode;

    #[test]
    fn fragments_count_from_their_definition_to_their_last_use() {
        let bump = Bump::new();
        let mut func = Func::new(&bump);
        let entry = func.entry;
        let mut make = |args: &[Value], regs: u16| {
            let new = NewInst::new(Opcode::Join, args, &[Ty::frag(regs)]);
            let made = func.push(entry, new.attr(Attr::None));
            func.result(made)
        };
        let a = make(&[], 16);
        let b = make(&[a], 8);
        let c = make(&[b], 4);
        let d = make(&[a, c], 2);
        make(&[d], 1);
        // a, b and c are live where c is defined.
        assert_eq!(most_alive(&func, entry), 28);
    }
}
