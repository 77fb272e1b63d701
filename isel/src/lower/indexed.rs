//! Accesses in which each element has its own index, or a mask.
//!
//! ```text
//!  load v[rows, j] : f16[M, N]      thread: rows in 2 registers, 8 columns in a vector each
//!      base + rows[0] * n + (j + column)  ─► ld.global.v4     guard: rows[0] < m
//!      base + rows[1] * n + (j + column)  ─► ld.global.v4     guard: rows[1] < m
//! ```
//!
//! A tile of indices has the layout of the accessed tile. What is equal along the contiguous dimension is a broadcast,
//! which takes no registers, and leaves the vectors along it whole.

use super::Lower;
use super::coords::register_coord;
use crate::Result;
use crate::tiles::accessed;
use rustc_hash::FxHashMap;
use warplift_ir::layout::{Axis, Layout};
use warplift_ir::machine::{self, Attr, IndexMap, NewInst, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{CmpOp, Inst, Type, Value};

/// The element of a fragment, or one scalar for all.
#[derive(Clone, Copy)]
pub(super) struct Element {
    of: machine::Value,
    register: Option<u16>,
}

impl Element {
    /// A number that elements of one fragment share if they are the same register.
    pub fn key(self) -> u64 {
        self.register.unwrap_or(0).into()
    }
}

/// The tiles of indices and the mask of an access.
#[derive(Clone, Default)]
pub(super) struct Each {
    /// By dimension, if there is one.
    indices: Vec<Option<(machine::Value, IndexMap)>>,
    mask: Option<(machine::Value, IndexMap)>,
    /// The register with these coordinates.
    registers: FxHashMap<Vec<u64>, u16>,
}

impl Each {
    /// Whether there are tiles of indices, or a mask.
    pub fn is_some(&self) -> bool {
        self.mask.is_some() || self.indices.iter().any(Option::is_some)
    }

    /// Whether the elements have their own indices along a dimension.
    pub fn gathers(&self, dim: usize) -> bool {
        self.indices.get(dim).is_some_and(Option::is_some)
    }

    /// The index along a dimension of the element at a register's coordinates.
    pub fn index(&self, dim: usize, at: &[u64]) -> Option<Element> {
        self.indices.get(dim)?.as_ref().map(|of| self.element(of, at))
    }

    /// The mask of the element at a register's coordinates.
    pub fn mask(&self, at: &[u64]) -> Option<Element> {
        self.mask.as_ref().map(|of| self.element(of, at))
    }

    fn element(&self, (of, map): &(machine::Value, IndexMap), at: &[u64]) -> Element {
        let register = self.registers.get(at).copied().unwrap_or(0);
        Element { of: *of, register: map.at(register) }
    }
}

impl Lower<'_, '_> {
    /// The tile that a write takes.
    pub(super) fn written(&self, inst: Inst) -> Value {
        accessed(self.k, inst)
    }

    /// Tiles of indices and the mask of an access whose tile has this layout.
    pub(super) fn each(&mut self, inst: Inst, layout: &Layout) -> Result<Each> {
        let (k, op) = (self.k, &self.k.insts[inst].op);
        let args = k.args(inst);
        let mut each = Each::default();
        for &v in &args[op.indices(args.len())] {
            let tile = matches!(k.ty(v), Type::Tile(..));
            each.indices.push(if tile { Some(self.operand(v)?) } else { None });
        }
        if op.is_masked() {
            each.mask = Some(self.operand(args[args.len() - 1])?);
        }
        for r in (0..layout.in_extent(Axis::Reg)).rev() {
            each.registers.insert(register_coord(layout, r), r as u16);
        }
        Ok(each)
    }

    /// A scalar register with an element.
    pub(super) fn element_of(&mut self, element: Element) -> machine::Value {
        match element.register {
            Some(r) => self.pick(element.of, vec![r]),
            None => element.of,
        }
    }

    /// Whether an element of a mask is true.
    pub(super) fn holds(&mut self, element: Element) -> machine::Value {
        let x = self.element_of(element);
        if self.func.ty(x) == Ty::Pred {
            return x;
        }
        let zero = self.at().imm(0);
        let new = NewInst::new(Opcode::SetpU32, &[x, zero], &[Ty::Pred]).attr(Attr::Cmp(CmpOp::Ne));
        self.at().value(new)
    }
}
