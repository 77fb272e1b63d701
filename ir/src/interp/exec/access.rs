//! Accesses of a program: views, loads, stores and updates.
//!
//! ```text
//!  view  p : f16[m, n]        buffer, extents, strides ─► a place for each index, or none: outside
//!  load  v[i, j] : f16[M, N]  each element at its place; outside the view's fill
//! ```

use super::{Program, Result};
use crate::interp::Fault;
use crate::interp::arith::Undefined;
use crate::interp::memory::{BufferId, Memory};
use crate::interp::number::{Number, cast, to_bits};
use crate::interp::tile::{Extents, Tile, each_index};
use crate::interp::value::{UNBOUNDED, Val, View};
use crate::tile::{AtomicOp, Inst, MOST_INDEX, Op, Type};
use crate::types::Elem;
use cranelift_entity::EntityRef;
use smallvec::{SmallVec, smallvec};
use std::rc::Rc;

/// Bits of a workspace at most: 2 GiB.
const MAX_WORKSPACE: i64 = 1 << 34;
/// Bits of an array in shared memory at most: 1 MiB, more than any target has.
const MAX_SHARED: i64 = 1 << 23;

impl Program<'_> {
    pub(super) fn view(&mut self, inst: Inst, strided: bool, fill: f64) -> Result<Val> {
        let args = self.args(inst)?;
        let Some(Val::Ptr(buffer, offset)) = args.first().cloned() else {
            return Err(Fault::Invalid("a view of no pointer".to_owned()));
        };
        let types = self.kernel.args(inst)[1..].iter().map(|&v| self.kernel.ty(v));
        let numbers: SmallVec<[i64; 5]> =
            args[1..].iter().zip(types).map(|(v, ty)| saturated(ty, v.number(0).as_i64())).collect();
        let rank = numbers.len() / (1 + usize::from(strided));
        let extent = |d: usize| match self.kernel.is_unbounded(self.kernel.args(inst)[1 + d]) {
            true => UNBOUNDED,
            false => numbers[d],
        };
        let extents: SmallVec<[i64; 5]> = (0..rank).map(extent).collect();
        let strides = match strided {
            true => numbers[rank..].into(),
            false => row_major(&extents)?,
        };
        let last: i128 =
            extents.iter().zip(&strides).map(|(&e, &s)| i128::from(e - 1) * i128::from(s.max(0))).sum();
        // An unbounded view reaches as far as its accesses do.
        let open = extents.contains(&UNBOUNDED);
        if !open && extents.iter().all(|&e| e > 0) {
            let width = self.kernel.ty(self.kernel.result(inst)).elem().bits();
            self.memory.reach(buffer, i128::from(offset) * 8 + (last + 1) * i128::from(width));
        }
        Ok(Val::View(Rc::new(View { buffer, offset, first: 0, extents, strides, fill, open })))
    }

    /// The array of a workspace: one for all blocks, and for the next launch on this memory.
    pub(super) fn workspace(&mut self, inst: Inst, elem: Elem) -> Result<Val> {
        let mut bits = i64::from(elem.bits());
        for extent in self.args(inst)? {
            let more = bits.checked_mul(extent.number(0).as_i64().max(0));
            bits = more.filter(|&n| n <= MAX_WORKSPACE).ok_or(Undefined("a workspace is too large"))?;
        }
        let bytes = (bits as usize).div_ceil(8);
        let name = format!("{}'s workspace {}", self.kernel.name, inst.index());
        Ok(Val::Ptr(self.memory.kept(&name, bytes), 0))
    }

    /// An array of the block, whose content is not defined. The layout changes nothing that a program can see.
    pub(super) fn shared(&mut self, inst: Inst, elem: Elem) -> Result<Val> {
        let extents: SmallVec<[i64; 5]> =
            self.args(inst)?.iter().map(|v| v.number(0).as_i64().clamp(0, MAX_SHARED)).collect();
        let strides = row_major(&extents)?;
        let bits = extents.iter().try_fold(i64::from(elem.bits()), |n, &e| n.checked_mul(e));
        let bits = bits.filter(|&n| n <= MAX_SHARED).ok_or(Undefined("a shared array is too large"))?;
        let name = format!("{}'s shared array {}", self.kernel.name, inst.index());
        let buffer = self.memory.undefined(&name, (bits as usize).div_ceil(8));
        Ok(Val::View(Rc::new(View { buffer, offset: 0, first: 0, extents, strides, fill: 0.0, open: false })))
    }

    /// Counts this block at an element; whether it is the last one.
    pub(super) fn arrive(&mut self, inst: Inst) -> Result<Val> {
        let access = self.access(inst)?;
        let rank = access.indices.len();
        let all = self.int(self.kernel.args(inst)[1 + rank])?;
        let elem = Elem::Uint(32);
        let Some(bit) = access.place(elem, 0, &vec![0; rank]) else {
            return Ok(Val::Scalar(Number::Int(0)));
        };
        let view = access.view;
        reach(self.memory, &view, bit, elem);
        if let Some(log) = &mut self.memory.log {
            log.write((view.buffer, bit), true);
        }
        let before = self.memory.read(view.buffer, bit, elem)?.as_i64();
        let last = before + 1 >= all;
        let after = if last { 0 } else { before + 1 };
        self.memory.write(view.buffer, bit, elem, Number::Int(after))?;
        Ok(Val::Scalar(Number::Int(last.into())))
    }

    pub(super) fn sub_view(&self, inst: Inst, kept: &[u8]) -> Result<Val> {
        let args = self.args(inst)?;
        let Some(Val::View(view)) = args.first() else {
            return Err(Fault::Invalid("a part of no view".to_owned()));
        };
        let mut part = View { extents: SmallVec::new(), strides: SmallVec::new(), ..(**view).clone() };
        let mut fixed = args[1..].iter().map(|v| v.number(0).as_i64());
        let mut outside = false;
        for (d, (&extent, &stride)) in view.extents.iter().zip(&view.strides).enumerate() {
            if kept.contains(&(d as u8)) {
                part.extents.push(extent);
                part.strides.push(stride);
                continue;
            }
            let index = fixed.next().unwrap_or(0);
            outside |= view.is_outside(d, index.into());
            part.first += i128::from(index) * i128::from(stride);
        }
        if outside {
            part.extents.iter_mut().for_each(|e| *e = 0);
        }
        Ok(Val::View(Rc::new(part)))
    }

    /// The view and indices of an access.
    fn access(&self, inst: Inst) -> Result<Access> {
        let args = self.kernel.args(inst);
        let Val::View(view) = self.get(args[0])? else {
            return Err(Fault::Invalid("an access to no view".to_owned()));
        };
        let indices = args[1..=view.extents.len()].iter().map(|&v| self.get(v)).collect::<Result<_>>()?;
        let masked = self.kernel.insts[inst].op.is_masked();
        let mask = masked.then(|| self.tile(inst, args.len() - 1)).transpose()?;
        Ok(Access { view, indices, mask })
    }

    /// The same of runs: each element has an index of its own along their dimension.
    fn access_of_runs(&self, inst: Inst, dim: usize, extents: &Extents) -> Result<Access> {
        let args = self.kernel.args(inst);
        let Val::View(view) = self.get(args[0])? else {
            return Err(Fault::Invalid("an access to no view".to_owned()));
        };
        let op = &self.kernel.insts[inst].op;
        let starts = op.run_starts(view.extents.len(), args.len()).unwrap_or_default();
        let first = |n: usize| Ok(self.get(args[n])?.number(0).as_i64());
        let firsts = starts.clone().map(first).collect::<Result<Vec<i64>>>()?;
        if firsts.is_empty() || !extents[dim].is_multiple_of(firsts.len()) {
            return Err(Undefined("the parts of a load are not equal").into());
        }
        let part = extents[dim] / firsts.len();
        let mut all = Vec::new();
        each_index(extents, |at| all.push(firsts[at[dim] / part].saturating_add((at[dim] % part) as i64)));
        let own = Tile::from_fn(Elem::Int(64), extents.clone(), |i| Number::Int(all[i]));
        let mut indices: SmallVec<[Val; 5]> = (1..starts.start)
            .chain(starts.end..args.len())
            .map(|n| self.get(args[n]))
            .collect::<Result<_>>()?;
        indices.insert(dim, Val::Tile(Rc::new(own)));
        Ok(Access { view, indices, mask: None })
    }

    /// One element: a tile that has an extent of 1 along every dimension.
    pub(super) fn scalar_load(&mut self, inst: Inst, elem: Elem) -> Result<Val> {
        let rank = self.kernel.args(inst).len() - 1;
        Ok(Val::Scalar(self.load(inst, elem, smallvec![1; rank])?.get(0)))
    }

    pub(super) fn load(&mut self, inst: Inst, elem: Elem, extents: Extents) -> Result<Tile> {
        let access = match self.kernel.insts[inst].op {
            Op::LoadRuns(dim) => self.access_of_runs(inst, dim.into(), &extents)?,
            _ => self.access(inst)?,
        };
        let fill = cast(Elem::F64, elem, Number::Float(access.view.fill));
        let mut numbers = Vec::with_capacity(extents.iter().product());
        let mut failed = None;
        each_index(&extents, |index| {
            let number = match access.place(elem, numbers.len(), index) {
                None => Ok(fill),
                Some(bit) => {
                    reach(self.memory, &access.view, bit, elem);
                    read(self.memory, access.view.buffer, bit, elem)
                }
            };
            numbers.push(number.unwrap_or_else(|e| {
                failed = Some(e);
                fill
            }));
        });
        match failed {
            Some(e) => Err(e),
            None => Ok(Tile::from_fn(elem, extents, |i| numbers[i])),
        }
    }

    /// Writes or updates; what an update found there, 0 where there is none.
    pub(super) fn write(&mut self, inst: Inst) -> Result<Tile> {
        let access = self.access(inst)?;
        let op = &self.kernel.insts[inst].op;
        let written = op.written_operand(self.kernel.args(inst).len());
        let tile = self.tile(inst, written.unwrap_or(0))?;
        let expected = op.expected_operand(self.kernel.args(inst).len());
        let expected = expected.map(|n| self.tile(inst, n)).transpose()?;
        let zero = cast(Elem::I32, tile.elem, Number::Int(0));
        let mut old = Vec::with_capacity(tile.len());
        let mut failed = None;
        each_index(&tile.extents, |index| {
            let at = old.len();
            let place = access.place(tile.elem, at, index).filter(|_| failed.is_none());
            let expected = expected.as_ref().map(|t| t.get(at));
            let value = (tile.get(at), expected);
            let found = place.map(|bit| update(self.memory, op, &access.view, tile.elem, bit, value));
            old.push(found.unwrap_or(Ok(zero)).unwrap_or_else(|e| {
                failed = Some(e);
                zero
            }));
        });
        match failed {
            Some(e) => Err(e),
            None => Ok(Tile::from_fn(tile.elem, tile.extents.clone(), |i| old[i])),
        }
    }
}

/// The view, the indices and the mask of an access.
struct Access {
    view: Rc<View>,
    /// By dimension: the first element's, or one for each element.
    indices: SmallVec<[Val; 5]>,
    mask: Option<Rc<Tile>>,
}

impl Access {
    /// The first bit of element number `at`, which stands at this index in its tile; `None` outside the view and
    /// where the mask is false.
    fn place(&self, elem: Elem, at: usize, index: &[usize]) -> Option<i128> {
        if self.mask.as_ref().is_some_and(|m| !m.get(at).is_true()) {
            return None;
        }
        let along = |(d, own): (usize, &Val)| match own {
            Val::Tile(all) => i128::from(all.get(at).as_i64()),
            first => i128::from(first.number(0).as_i64()) + index[d] as i128,
        };
        let indices: SmallVec<[i128; 5]> = self.indices.iter().enumerate().map(along).collect();
        place(&self.view, elem, &indices)
    }
}

fn update(
    memory: &mut Memory,
    op: &Op,
    view: &View,
    elem: Elem,
    bit: i128,
    (new, expected): (Number, Option<Number>),
) -> Result<Number> {
    reach(memory, view, bit, elem);
    if let Some(log) = &mut memory.log {
        let at = (view.buffer, bit);
        let atomic = op.atomic();
        log.write(at, atomic.is_some());
        if let (Some(AtomicOp::Add), Number::Float(value)) = (atomic, new) {
            log.add(at, value);
        }
    }
    let (old, value) = match op.atomic() {
        Some(op) => {
            let old = read(memory, view.buffer, bit, elem)?;
            let changes = expected.is_none_or(|e| to_bits(elem, e) == to_bits(elem, old));
            (old, if changes { crate::interp::atomic(op, elem, old, new) } else { old })
        }
        None => (new, new),
    };
    memory.write(view.buffer, bit, elem, value)?;
    Ok(old)
}

/// An access of an unbounded view says how far the view reaches.
fn reach(memory: &mut Memory, view: &View, bit: i128, elem: Elem) {
    if view.open {
        memory.reach(view.buffer, bit + i128::from(elem.bits()));
    }
}

/// The element at a bit, if it is defined.
fn read(memory: &Memory, buffer: BufferId, bit: i128, elem: Elem) -> Result<Number> {
    let number = memory.read(buffer, bit, elem)?;
    match memory.is_defined(buffer, bit, elem) {
        true => Ok(number),
        false => Err(Undefined("an element of a shared array is read before it is stored").into()),
    }
}

/// An extent or stride of a view. Wide ones saturate.
fn saturated(ty: Type, number: i64) -> i64 {
    match ty {
        Type::Scalar(Elem::Int(32)) => number,
        _ => number.clamp(i32::MIN.into(), MOST_INDEX),
    }
}

fn row_major(extents: &[i64]) -> Result<SmallVec<[i64; 5]>> {
    let mut step = 1i64;
    let mut strides: SmallVec<[i64; 5]> = extents.into();
    for (stride, &extent) in strides.iter_mut().zip(extents).rev() {
        *stride = step;
        if extent == UNBOUNDED {
            continue;
        }
        step = step.checked_mul(extent.max(0)).ok_or(Undefined("a view is too large"))?;
    }
    Ok(strides)
}

/// The first bit of an element, from the buffer's start; `None` outside the view.
fn place(view: &View, elem: Elem, index: &[i128]) -> Option<i128> {
    let mut at = 0i128;
    for (d, &i) in index.iter().enumerate() {
        if view.is_outside(d, i) {
            return None;
        }
        at += i * i128::from(view.strides[d]);
    }
    Some(i128::from(view.offset) * 8 + (view.first + at) * i128::from(elem.bits()))
}
