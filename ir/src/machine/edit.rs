//! Positions and uses. A function finds the block of an instruction and the users of a value in constant time.
//! The methods that edit it keep the answers true.
//!
//! ```text
//!  insert_at(b, 2, make)    i0 i1 │ i2 i3    ─►    i0 i1 │ the instructions that make pushes │ i2 i3
//!  take(b) .. append(b, i)  a block is rebuilt, instruction by instruction
//! ```
//!
//! A removed instruction stands in no block. Its data stay until the function is dropped.

use super::func::Users;
use super::*;
use crate::target::Opcode;
use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;

impl<'a> Func<'a> {
    /// The block that an instruction stands in; `None` for a removed one.
    pub fn block_of(&self, inst: Inst) -> Option<Block> {
        self.home[inst].expand()
    }

    /// The instruction that holds a nested block.
    pub fn holder(&self, block: Block) -> Option<Inst> {
        self.holder[block].expand()
    }

    /// The loop whose body a block is.
    pub fn loop_of(&self, block: Block) -> Option<Inst> {
        self.holder(block).filter(|&i| self.insts[i].op == Opcode::For)
    }

    /// The innermost loop around a block, also where branches stand between.
    pub fn loop_around(&self, block: Block) -> Option<Inst> {
        self.around(block).find_map(|b| self.loop_of(b))
    }

    /// Whether `block` is `outer` or is nested in it at any depth.
    pub fn is_within(&self, block: Block, outer: Block) -> bool {
        self.around(block).any(|b| b == outer)
    }

    /// Whether a block is nested in an instruction at any depth.
    pub fn is_inside(&self, block: Block, inst: Inst) -> bool {
        self.around(block).any(|b| self.holder(b) == Some(inst))
    }

    /// A block and all blocks around it, from the inside out.
    pub fn around(&self, block: Block) -> impl Iterator<Item = Block> + '_ {
        std::iter::successors(Some(block), |&b| self.block_of(self.holder(b)?))
    }

    /// Whether a block is nested in a loop at any depth.
    pub fn repeats(&self, block: Block) -> bool {
        self.around(block).any(|b| self.loop_of(b).is_some())
    }

    /// The block that defines a value: as a parameter, or by an instruction.
    pub fn home_of(&self, value: Value) -> Option<Block> {
        match self.values[value].def {
            ValueDef::Result(inst, _) => self.block_of(inst),
            ValueDef::Param(block, _) => Some(block),
        }
    }

    /// Whether a value is defined in a block or in one nested in it.
    pub fn is_defined_in(&self, value: Value, block: Block) -> bool {
        self.home_of(value).is_some_and(|home| self.is_within(home, block))
    }

    /// The instructions that name a value as operand, guard or argument of a target; each once.
    pub fn users(&self, value: Value) -> impl Iterator<Item = Inst> + '_ {
        let users = self.users.get_or_init(|| self.all_users());
        users[value].iter().copied().filter(|&i| self.block_of(i).is_some())
    }

    fn all_users(&self) -> Users {
        let mut users = Users::new();
        self.insts.keys().for_each(|inst| note(&mut users, self.named(inst), inst));
        users
    }

    /// Values that an instruction names.
    pub fn named(&self, inst: Inst) -> impl Iterator<Item = Value> + '_ {
        let d = &self.insts[inst];
        let passed = d.targets.iter().flat_map(|t| t.args);
        d.args.iter().chain(passed).copied().chain(d.guard.map(|g| g.pred))
    }

    /// Adds an instruction to the users of the values that it names, if the users are known.
    pub(super) fn note_uses(&mut self, inst: Inst) {
        if let Some(mut users) = self.users.take() {
            note(&mut users, self.named(inst), inst);
            let _ = self.users.set(users);
        }
    }

    /// Changes the values that an instruction names.
    fn rename_with(&mut self, inst: Inst, change: impl FnOnce(&mut InstData<'a>)) {
        self.note_edit(inst);
        let Some(mut users) = self.users.take() else { return change(&mut self.insts[inst]) };
        self.named(inst).for_each(|v| users[v].retain(|i| *i != inst));
        change(&mut self.insts[inst]);
        note(&mut users, self.named(inst), inst);
        let _ = self.users.set(users);
    }

    /// Starts to note edited instructions, from now on. [`Func::take_edits`] returns them.
    pub fn follow_edits(&mut self) {
        self.edits = Some(Vec::new());
    }

    /// The instructions that were made, moved, removed or changed since the last call, each once, in the order of their
    /// numbers. `None` if nobody follows the edits.
    pub fn take_edits(&mut self) -> Option<Vec<Inst>> {
        let mut edited = std::mem::take(self.edits.as_mut()?);
        edited.sort_unstable();
        edited.dedup();
        Some(edited)
    }

    /// Gives an instruction another operation and other attributes. Operands and results stay.
    pub fn set_op(&mut self, inst: Inst, op: Opcode, attr: Attr) {
        let d = &mut self.insts[inst];
        (d.op, d.attr) = (op, attr);
        self.note_edit(inst);
    }

    pub(super) fn note_edit(&mut self, inst: Inst) {
        if let Some(edits) = &mut self.edits {
            edits.push(inst);
        }
    }

    /// Gives an instruction other operands.
    pub fn set_args(&mut self, inst: Inst, args: &[Value]) {
        let args = self.list(args);
        self.rename_with(inst, |d| d.args = args);
    }

    /// Gives an instruction another guard, or none.
    pub fn set_guard(&mut self, inst: Inst, guard: Option<Guard>) {
        self.rename_with(inst, |d| d.guard = guard);
    }

    /// Adds a target to a branch.
    pub fn add_target(&mut self, inst: Inst, block: Block, args: &[Value]) {
        let args = self.list(args);
        self.rename_with(inst, |d| d.targets.push(BlockCall { block, args }));
    }

    /// Replaces target number `n` of a branch.
    pub fn set_target(&mut self, inst: Inst, n: usize, block: Block, args: &[Value]) {
        let args = self.list(args);
        self.rename_with(inst, |d| d.targets[n] = BlockCall { block, args });
    }

    /// Replaces every value `v` that an instruction names by `to(v)`.
    pub fn rename(&mut self, inst: Inst, to: impl Fn(Value) -> Value) {
        if self.named(inst).all(|v| to(v) == v) {
            return;
        }
        let all = |vs: &[Value]| vs.iter().map(|&v| to(v)).collect::<SmallVec<[Value; 8]>>();
        let args = self.list(&all(self.insts[inst].args));
        let passed: SmallVec<[&'a [Value]; 2]> =
            self.insts[inst].targets.iter().map(|t| self.list(&all(t.args))).collect();
        self.rename_with(inst, |d| {
            d.args = args;
            d.guard = d.guard.map(|g| Guard { pred: to(g.pred), ..g });
            d.targets.iter_mut().zip(passed).for_each(|(t, args)| t.args = args);
        });
    }

    /// Runs `make`, which pushes instructions to the end of a block, and moves them before its instruction number `at`.
    pub fn insert_at<T>(&mut self, block: Block, at: usize, make: impl FnOnce(&mut Self) -> T) -> T {
        let rest = self.blocks[block].insts.0.split_off(at);
        let made = make(self);
        self.blocks[block].insts.0.extend(rest);
        made
    }

    /// Removes an instruction from its block.
    pub fn remove(&mut self, inst: Inst) {
        if let Some(block) = self.home[inst].take() {
            self.blocks[block].insts.0.retain(|&i| i != inst);
            self.note_edit(inst);
        }
    }

    /// Removes and returns the last instruction of a block.
    pub fn pop(&mut self, block: Block) -> Option<Inst> {
        let inst = self.blocks[block].insts.0.pop()?;
        self.home[inst] = None.into();
        self.note_edit(inst);
        Some(inst)
    }

    /// Removes the instructions of a block that `keep` rejects.
    pub fn retain(&mut self, block: Block, mut keep: impl FnMut(&Self, Inst) -> bool) {
        let mut insts = std::mem::take(&mut self.blocks[block].insts.0);
        insts.retain(|&i| {
            let kept = keep(self, i);
            if !kept {
                self.home[i] = None.into();
                self.note_edit(i);
            }
            kept
        });
        self.blocks[block].insts.0 = insts;
    }

    /// Removes all instructions of a block and returns them in order.
    pub fn take(&mut self, block: Block) -> Vec<Inst> {
        let insts = std::mem::take(&mut self.blocks[block].insts.0);
        for &inst in &insts {
            self.home[inst] = None.into();
            self.note_edit(inst);
        }
        insts
    }

    /// Appends a detached instruction to a block.
    pub fn append(&mut self, block: Block, inst: Inst) {
        self.insert(block, self.blocks[block].insts.len(), inst);
    }

    /// Inserts a detached instruction before instruction number `at` of a block.
    pub fn insert(&mut self, block: Block, at: usize, inst: Inst) {
        debug_assert!(self.home[inst].is_none(), "{inst} stands in {:?}", self.home[inst]);
        self.blocks[block].insts.0.insert(at, inst);
        self.home[inst] = block.into();
        self.note_edit(inst);
    }

    /// Builds the tables of a function that was assembled without the editing methods. If a reachable and a removed
    /// instruction hold the same block, it belongs to the reachable one.
    pub(super) fn make_tables(&mut self) {
        for (block, d) in self.blocks.iter() {
            d.insts.iter().for_each(|&i| self.home[i] = block.into());
        }
        for standing in [false, true] {
            for (inst, d) in self.insts.iter().filter(|&(i, _)| self.home[i].is_some() == standing) {
                d.blocks.iter().for_each(|&b| self.holder[b] = inst.into());
            }
        }
    }

    /// The places where the tables contradict the code, each with its instruction.
    pub(super) fn wrong_tables(&self) -> Vec<(Inst, String)> {
        let mut wrong = Vec::new();
        let mut stands: SecondaryMap<Inst, PackedOption<Block>> = SecondaryMap::new();
        for (block, d) in self.blocks.iter() {
            for &inst in &d.insts {
                if let Some(other) = stands[inst].expand() {
                    wrong.push((inst, format!("it stands in {block} and in {other}")));
                }
                stands[inst] = block.into();
            }
        }
        for (inst, d) in self.insts.iter() {
            if stands[inst] != self.home[inst] {
                let [is, says] = [stands[inst], self.home[inst]].map(|b| b.expand());
                wrong.push((inst, format!("it stands in {is:?}, the table says {says:?}")));
            }
            for &b in d.blocks.iter().filter(|&&b| stands[inst].is_some() && self.holder(b) != Some(inst)) {
                wrong.push((inst, format!("it holds {b}, the table says {:?}", self.holder(b))));
            }
        }
        if let Some(users) = self.users.get() {
            let all = self.all_users();
            let same = |v: Value| {
                let sorted = |u: &Users| u[v].iter().copied().collect::<std::collections::BTreeSet<Inst>>();
                sorted(users) == sorted(&all)
            };
            let differs = self.values.keys().filter(|&v| !same(v));
            wrong.extend(differs.filter_map(|v| {
                let at = all[v].first().or_else(|| users[v].first())?;
                Some((*at, format!("{v} is read by {:?}, the table says {:?}", all[v], users[v])))
            }));
        }
        wrong
    }
}

fn note(users: &mut Users, named: impl Iterator<Item = Value>, inst: Inst) {
    for v in named {
        if let Err(at) = users[v].binary_search(&inst) {
            users[v].insert(at, inst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bump;
    use crate::tile::Loc;

    /// A loop that adds to its counter, behind a constant.
    fn looped<'a>(bump: &'a Bump) -> (Func<'a>, [Inst; 3], Block) {
        let mut func = Func::new(bump);
        let (entry, body) = (func.entry, func.new_block());
        let counter = func.append_param(body, Ty::B32, true);
        let zero = func.push(entry, NewInst::new(Opcode::Const, &[], &[Ty::B32]).attr(Attr::Imm(0)));
        let v = func.result(zero);
        let add = func.push(body, NewInst::new(Opcode::AddS32, &[counter, v], &[Ty::B32]));
        func.push(body, NewInst::new(Opcode::Yield, &[], &[]));
        let looped = func.push(entry, NewInst::new(Opcode::For, &[v, v, v], &[]).blocks(&[body]));
        (func, [zero, add, looped], body)
    }

    #[test]
    fn where_things_stand_is_known_and_edits_keep_it() {
        let bump = Bump::new();
        let (mut func, [zero, add, looped], body) = looped(&bump);
        let entry = func.entry;
        assert_eq!(
            (func.block_of(add), func.loop_of(body), func.loop_of(entry)),
            (Some(body), Some(looped), None)
        );
        assert!(func.repeats(body) && !func.repeats(entry) && func.is_within(body, entry));
        assert!(func.is_defined_in(func.result(add), entry) && !func.is_defined_in(func.result(zero), body));
        let v = func.result(zero);
        assert_eq!(func.users(v).collect::<Vec<_>>(), [add, looped]);
        let counter = func.blocks[body].params[0];
        let more = func.insert_at(body, 0, |f| Cursor::new(f, body, Loc::default()).add_imm(counter, 4));
        assert_eq!(func.block_of(func.def(more).unwrap()), Some(body));
        assert_eq!(func.users(counter).count(), 2);
        func.set_args(add, &[more, more]);
        assert_eq!(func.users(more).collect::<Vec<_>>(), [add]);
        assert_eq!(func.users(v).collect::<Vec<_>>(), [looped]);
        func.rename(add, |r| if r == more { v } else { r });
        assert_eq!(func.users(v).count(), 2);
        func.remove(add);
        assert_eq!((func.block_of(add), func.users(v).count()), (None, 1));
        let all = func.take(body);
        all.into_iter().for_each(|i| func.append(body, i));
        func.retain(body, |f, i| f.insts[i].op != Opcode::AddS32);
        assert_eq!(func.blocks[body].insts.len(), 2, "a constant and the end");
        assert_eq!(func.wrong_tables(), []);
    }

    #[test]
    fn every_edit_is_noted_once() {
        let bump = Bump::new();
        let (mut func, [zero, add, looped], body) = looped(&bump);
        assert_eq!(func.take_edits(), None, "nobody follows");
        func.follow_edits();
        let counter = func.blocks[body].params[0];
        func.set_args(add, &[counter, counter]);
        func.set_op(add, Opcode::MulS32, Attr::None);
        assert_eq!(func.take_edits(), Some(vec![add]));
        let more = func.push(body, NewInst::new(Opcode::AddS32, &[counter, counter], &[Ty::B32]));
        let popped = func.pop(body);
        assert_eq!((popped, func.take_edits()), (Some(more), Some(vec![more])));
        func.remove(looped);
        func.retain(func.entry, |_, _| false);
        assert_eq!(func.take_edits(), Some(vec![zero, looped]));
        func.append(func.entry, looped);
        let all = func.take(body);
        assert_eq!(func.take_edits().map(|e| e.len()), Some(1 + all.len()));
    }

    #[test]
    fn an_edit_past_the_tables_is_found() {
        let bump = Bump::new();
        let (mut func, [zero, add, _], _) = looped(&bump);
        let v = func.result(zero);
        assert_eq!(func.users(v).count(), 2);
        func.insts[add].args = &[];
        let wrong = func.wrong_tables();
        assert!(matches!(&wrong[..], [(_, why), ..] if why.contains("is read by")), "{wrong:?}");
    }
}
