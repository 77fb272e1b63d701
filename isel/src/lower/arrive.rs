//! Workspaces, the count of blocks that arrive, and the counter from which programs draw tiles.
//!
//! ```text
//!  every thread: its stores ─ barrier ─┐
//!  thread 0:      atom.acq_rel.inc ─ st.shared ─ barrier ─┐        acquire: sees what the others released
//!  every thread:                                 ld.shared, == n - 1 ─► whether this block is the last
//! ```
//!
//! The increment wraps, so the last block leaves a zero. One thread arrives for the block. The barriers before and behind
//! it make its order that of all threads: causality order is transitive (PTX ISA, "Memory consistency model: causality
//! order"). Results before an arrival are stored by threads: it does not wait for tensor copies (`plan/order.rs`).

use super::Lower;
use crate::Result;
use crate::facts::{WORKSPACE_ALIGN, launch_expr};
use crate::tiles::in_shared;
use crate::window::Window;
use warplift_ir::machine::{self, Attr, BufferData, BufferKind, Guard, NewInst, Place, Ty};
use warplift_ir::manifest::{Expr, ExprOp, Param};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{CmpOp, Inst, Op, Value};
use warplift_ir::types::Elem;

/// Bytes of the next tile's number in shared memory.
const NEXT_TILE_BYTES: u32 = 4;

impl Lower<'_, '_> {
    /// An array in the launch's workspace: its address is a parameter.
    pub(super) fn lower_workspace(&mut self, inst: Inst) -> Result<()> {
        let k = self.k;
        let mut elements = Expr::Const(1);
        for &extent in k.args(inst) {
            let Some(extent) = self.launch_extent(extent)? else {
                return self.error("a workspace whose extents depend on more than integer arguments");
            };
            elements = Expr::op(ExprOp::Mul, elements, Expr::op(ExprOp::Max, extent, Expr::zero()));
        }
        let bits = Expr::Const(k.ty(k.result(inst)).elem().bits().into());
        let number = self.workspace_of(Expr::op(ExprOp::Mul, elements, bits));
        let new = NewInst::new(Opcode::LdParam64, &[], &[Ty::B64]).attr(Attr::Param(number));
        let address = self.at_entry().value(new);
        let address = self.at_entry().op(Opcode::ToGlobal, &[address], Ty::B64);
        self.func.values[address].uniform = true;
        self.set(k.result(inst), address);
        Ok(())
    }

    /// An extent that the launch knows: of arguments, or the number of programs.
    fn launch_extent(&self, extent: Value) -> Result<Option<Expr>> {
        let counts = self.k.def(extent).is_some_and(|d| matches!(self.k.insts[d].op, Op::ProgramCount));
        if !counts {
            return Ok(launch_expr(self.k, extent));
        }
        let [launched, ..] = self.grid()?;
        let programs = Expr::op(ExprOp::Mul, launched, Expr::Const(self.teams.into()));
        Ok(Some(Expr::op(ExprOp::Div, programs, Expr::Const(self.blocks.into()))))
    }

    /// A part of the workspace with so many bits: the number of the parameter with its address.
    fn workspace_of(&mut self, bits: Expr) -> u32 {
        let align = Expr::Const(WORKSPACE_ALIGN);
        let whole = Expr::op(ExprOp::CeilDiv, bits, Expr::Const(8 * WORKSPACE_ALIGN));
        let bytes = Expr::op(ExprOp::Mul, whole, align);
        let offset = self.workspace.clone();
        self.workspace = Expr::op(ExprOp::Add, offset.clone(), bytes);
        self.params.push(Param::Workspace { offset });
        self.params.len() as u32 - 1
    }

    /// The counter from which programs draw tiles, and the stages in which a block hands on the next tile's number.
    pub(super) fn tile_counter(&mut self) -> u32 {
        let (bytes, kind) = (NEXT_TILE_BYTES, BufferKind::NextTile);
        self.buffers.push(BufferData { name: "next tile".to_owned(), bytes, align: bytes, kind });
        self.workspace_of(Expr::Const(Elem::Uint(32).bits().into()))
    }

    /// Counts this block at an element. All its threads learn whether it is the last one.
    pub(super) fn lower_arrive(&mut self, inst: Inst) -> Result<()> {
        let k = self.k;
        if self.blocks > 1 {
            return self.error("`arrive` of blocks that hold a tile together");
        }
        let (&all, at) = k.args(inst).split_last().unwrap_or((&k.grid[0], &[]));
        let all = self.scalar(all)?;
        let most = self.at().add_imm(all, -1);
        if in_shared(k, inst) {
            return self.error("`arrive` counts blocks: an array in shared memory is of one");
        }
        let view = self.view(at[0])?;
        self.limit_steps(at[0])?;
        let window = Window::of(k, at[0]);
        let (mut address, mut inside) = (view.base, None);
        for (d, &index) in at[1..].iter().enumerate() {
            let index = self.scalar(index)?;
            address = self.step(address, index, view.strides[d], Elem::Uint(32).bits());
            if window.as_ref().is_some_and(|w| k.is_unbounded(w.extent(k, w.kept[d]))) {
                continue;
            }
            // Unsigned: a negative index is outside too.
            let new = NewInst::new(Opcode::SetpU32, &[index, view.extents[d]], &[Ty::Pred]);
            let within = self.at().value(new.attr(Attr::Cmp(CmpOp::Lt)));
            inside = Some(self.both(inside, within));
        }
        let (thread, zero) = (self.thread(), self.at_entry().imm(0));
        let first = self.at_entry().compare(CmpOp::Eq, thread, zero);
        let access = self.single_access(inst);
        let attr = Attr::GlobalMem { offset: 0, count: 1, access };
        let counts = self.both(inside, first);
        let new = NewInst::new(Opcode::AtomIncU32, &[address, most], &[Ty::B32]).attr(attr);
        let before = self.at().value(new.guard(Some(Guard { pred: counts, negated: false })));
        let before = self.told_by(first, before);
        let last = self.at().compare(CmpOp::Eq, before, most);
        let last = self.both(inside, last);
        self.set(k.result(inst), last);
        Ok(())
    }

    /// The register of the thread whose predicate `teller` is true, in all threads.
    fn told_by(&mut self, teller: machine::Value, x: machine::Value) -> machine::Value {
        let buffer = self.scratch("arrived".to_owned(), 1, Elem::Uint(32));
        let attr = || Attr::PlaceMem { place: Place { buffer, offset: 0 }, count: 1 };
        let base = self.at_entry().imm(0);
        let guard = Some(Guard { pred: teller, negated: false });
        self.at().push(NewInst::new(Opcode::StShared, &[base, x], &[]).attr(attr()).guard(guard));
        let told = self.at().value(NewInst::new(Opcode::LdShared, &[base], &[Ty::B32]).attr(attr()));
        self.func.values[told].uniform = true;
        told
    }
}
