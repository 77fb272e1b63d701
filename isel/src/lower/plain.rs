//! Plain loads and stores: each thread accesses its own elements, in vectors if facts and layout allow, predicated by
//! the view's bounds.
//!
//! ```text
//!  thread: base ─► ld.global.v4 [base + 0] ─ ld.global.v4 [base + 512] ─ ..      guard: row < m
//! ```
//!
//! The address of an element is `base + sum of (index + thread + register) * stride`. The register's part along the
//! contiguous dimension is the constant offset of the access.

use super::coords::register_coord;
use super::indexed::Each;
use super::{Low, Lower, View};
use crate::Result;
use crate::facts::lies_inside;
use crate::plan::Fill;
use crate::takes::is_long;
use crate::tiles::{accessed, extents};
use crate::vector::{is_equal_along, vector_elements};
use crate::window::{Window, is_zero};
use rustc_hash::FxHashMap;
use warplift_ir::layout::{Axis, Layout};
use warplift_ir::machine::{self, Attr, GlobalAccess, Guard, NewInst, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{CmpOp, Inst, Type, Value};
use warplift_ir::types::Elem;

/// The accesses of one tile through a view.
#[derive(Clone)]
pub(super) struct Access {
    view: View,
    /// Index of this thread's first element, by dimension.
    start: Vec<machine::Value>,
    /// Indices and masks of single elements.
    each: Each,
    /// Contiguous dimension, along which constants are part of the access.
    unit: Option<usize>,
    /// The dimensions along which all of the tile lies inside the view.
    within: Vec<bool>,
    /// Dimension along which elements lie side by side, and how many at most.
    pub(super) run: Option<(usize, u64)>,
    /// Bits of an element.
    pub(super) bits: u32,
    rows: FxHashMap<Vec<u64>, machine::Value>,
    bounds: FxHashMap<(usize, u64), machine::Value>,
    inside: FxHashMap<Vec<(usize, u64)>, machine::Value>,
    owner: Option<machine::Value>,
}

impl Access {
    /// Lets only the owner of an element touch it.
    pub(super) fn owned_by(&mut self, owner: Option<machine::Value>) {
        self.owner = owner;
    }

    /// Whether it accesses shared memory.
    pub(super) fn is_shared(&self, func: &machine::Func<'_>) -> bool {
        func.ty(self.view.base) == Ty::B32
    }

    /// Constant byte offset of a register's coordinates.
    pub(super) fn offset(&self, at: &[u64]) -> i32 {
        self.unit.map_or(0, |u| (at[u] * u64::from(self.bits) / 8) as i32)
    }
}

/// The number of loads whose outside elements are filled together: enough loads in flight, and few live predicates.
const BATCH: usize = 16;

impl Lower<'_, '_> {
    /// A load: to shared memory, registers, or both, as its uses need.
    pub(super) fn lower_load(&mut self, inst: Inst) -> Result<()> {
        let k = self.k;
        let result = k.result(inst);
        if matches!(k.ty(result), Type::Scalar(_)) {
            return self.lower_scalar_load(inst);
        }
        self.env.insert(result, Low::Elsewhere);
        if let Some(tile) = self.plan.shared.get(&inst) {
            match tile.fill {
                Fill::Tma => self.lower_tma_load(inst, tile)?,
                Fill::CpAsync(_) => self.lower_cp_async(inst, tile)?,
                Fill::Threads => self.lower_thread_fill(inst, tile)?,
                Fill::Computed => return self.error("a load is no copy of a computed tile"),
            }
        }
        if let Some(staged) = self.plan.staged.get(&inst) {
            return self.lower_staged_load(inst, staged);
        }
        if self.plan.filled_tile(k, inst).is_some() {
            // Threads read the stage where it is used.
            return Ok(());
        }
        if let Some(layout) = self.plan.layouts[result].clone() {
            let r = self.load_registers(inst, &layout)?;
            self.set(result, r);
        }
        Ok(())
    }

    pub(super) fn access(&mut self, inst: Inst, layout: &Layout, elem: Elem) -> Result<Access> {
        if elem == Elem::Bool || (elem.bits() > 32 && !is_long(elem)) {
            return self.refuse_tiles(elem);
        }
        let k = self.k;
        let args = k.args(inst).to_vec();
        let view = self.view(args[0])?;
        self.limit_steps(args[0])?;
        let (mut start, each) = (Vec::new(), self.each(inst, layout)?);
        for d in 0..view.extents.len() {
            let own = self.thread_coord(layout, d)?;
            start.push(match each.gathers(d) {
                true => own,
                false => {
                    let index = self.scalar(args[1 + d])?;
                    self.at().add(index, own)
                }
            });
        }
        let within = self.within(inst, &each);
        let unit = view.strides.iter().position(Option::is_none);
        let unit = unit.filter(|&u| is_equal_along(k, inst, u));
        let run = match &view.placed {
            Some(placed) => placed.run().filter(|r| is_equal_along(k, inst, r.0)),
            None => unit.map(|u| (u, u64::MAX)),
        };
        let unit = unit.filter(|_| view.placed.is_none());
        Ok(Access {
            view,
            start,
            each,
            unit,
            within,
            run,
            bits: elem.bits(),
            rows: FxHashMap::default(),
            bounds: FxHashMap::default(),
            inside: FxHashMap::default(),
            owner: None,
        })
    }

    /// The dimensions along which the facts say that all of an accessed tile lies inside.
    pub(super) fn within(&self, inst: Inst, each: &Each) -> Vec<bool> {
        let k = self.k;
        let args = k.args(inst);
        // One element has no shape.
        let shape = extents(k, accessed(k, inst));
        let Some(window) = Window::of(k, args[0]) else { return vec![false; args.len()] };
        if !shape.is_empty() && shape.len() != window.kept.len() {
            return vec![false; args.len()];
        }
        let whole = |(d, &of): (usize, &usize)| {
            let tile = shape.get(d).copied().unwrap_or(1);
            let extent = window.extent(k, of);
            k.is_unbounded(extent) || !each.gathers(d) && lies_inside(k, args[1 + d], tile, extent)
        };
        // Where a fixed index is outside, everything is.
        let fixed = window.fixed.iter().all(|&(d, at)| lies_inside(k, at, 1, window.extent(k, d)));
        window.kept.iter().enumerate().map(|at| fixed && whole(at)).collect()
    }

    /// Address of the element at a register's coordinates, less the constant part.
    pub(super) fn address(&mut self, a: &mut Access, at: &[u64]) -> machine::Value {
        let mut key = at.to_vec();
        if let Some(u) = a.unit {
            key[u] = 0;
        }
        if let Some(&v) = a.rows.get(&key) {
            return v;
        }
        let indices: Vec<_> = key.iter().enumerate().map(|(d, &moved)| self.index(a, d, moved, at)).collect();
        let pointer = self.element_address(&a.view, &indices, a.bits);
        a.rows.insert(key, pointer);
        pointer
    }

    /// Address of the element of a view with these indices.
    pub(super) fn element_address(
        &mut self,
        view: &View,
        at: &[machine::Value],
        bits: u32,
    ) -> machine::Value {
        if let Some(placed) = &view.placed {
            return self.placed_address(view, placed, at, bits);
        }
        let steps = at.iter().zip(&view.strides);
        steps.fold(view.base, |pointer, (&index, &stride)| self.step(pointer, index, stride, bits))
    }

    /// The index along a dimension of the element at a register's coordinates. `moved` is its coordinate there.
    fn index(&mut self, a: &Access, d: usize, moved: u64, at: &[u64]) -> machine::Value {
        match a.each.index(d, at) {
            Some(of) => self.element_of(of),
            None => self.at().add_imm(a.start[d], moved as i64),
        }
    }

    /// Bytes of `n` elements. The facts behind the access say that they fill whole bytes.
    pub(super) fn bytes_of(&mut self, elements: machine::Value, bits: u32) -> machine::Value {
        if bits.is_multiple_of(8) {
            return self.at().mul_imm(elements, i64::from(bits / 8));
        }
        let common = bits.trailing_zeros();
        let whole = self.at().mul_imm(elements, i64::from(bits >> common));
        let by = self.at().imm(i64::from(3 - common));
        self.at().int(Opcode::ShrU32, whole, by)
    }

    /// Whether the element at a register's coordinates lies inside the view (and is this thread's to store).
    pub(super) fn inside(&mut self, a: &mut Access, at: &[u64]) -> machine::Value {
        let key: Vec<(usize, u64)> = at.iter().copied().enumerate().collect();
        if let Some(&p) = a.inside.get(&key) {
            return p;
        }
        let mut all = a.owner;
        let bounded: Vec<(usize, u64)> = key.iter().copied().filter(|k| !a.within[k.0]).collect();
        for (d, moved) in bounded {
            let p = self.bound(a, d, moved, at);
            all = Some(self.both(all, p));
        }
        if let Some(mask) = a.each.mask(at) {
            let p = self.holds(mask);
            all = Some(self.both(all, p));
        }
        let p = all.unwrap_or_else(|| self.at().imm_of(Ty::Pred, 1));
        a.inside.insert(key, p);
        p
    }

    /// The guard of an access; `None` where the condition is always true.
    pub(super) fn guard(&self, inside: machine::Value) -> Option<Guard> {
        let def = self.func.def(inside).map(|d| &self.func.insts[d]);
        let always = def.is_some_and(|d| d.op == Opcode::Const && d.attr == Attr::Imm(1));
        (!always).then_some(Guard { pred: inside, negated: false })
    }

    /// Whether an index lies inside the view along a dimension.
    fn bound(&mut self, a: &mut Access, d: usize, moved: u64, at: &[u64]) -> machine::Value {
        // Elements with one index have one comparison.
        let key = (d, a.each.index(d, at).map_or(moved, |of| of.key()));
        if let Some(&p) = a.bounds.get(&key) {
            return p;
        }
        let index = self.index(a, d, moved, at);
        // Unsigned: a negative index is outside too.
        let new = NewInst::new(Opcode::SetpU32, &[index, a.view.extents[d]], &[Ty::Pred]);
        let p = self.at().value(new.attr(Attr::Cmp(CmpOp::Lt)));
        a.bounds.insert(key, p);
        p
    }

    /// Two conditions as one, where there is a first.
    pub(super) fn both(&mut self, all: Option<machine::Value>, p: machine::Value) -> machine::Value {
        match all {
            None => p,
            Some(q) => self.at().op(Opcode::AndPred, &[q, p], Ty::Pred),
        }
    }

    /// Elements that one access of this layout moves.
    pub(super) fn vector(&self, inst: Inst, tile: Value, layout: &Layout, run: Option<(usize, u64)>) -> u64 {
        let Some((u, most)) = run else { return 1 };
        let facts = u64::from(vector_elements(self.k, inst, tile));
        layout.contiguous(Axis::Reg, Axis::Dim(u as u8)).min(facts).min(most).max(1)
    }

    /// The tile in registers.
    pub(super) fn load_registers(&mut self, inst: Inst, layout: &Layout) -> Result<machine::Value> {
        let result = self.k.result(inst);
        let elem = self.k.ty(result).elem();
        let regs = self.registers(elem, layout)?;
        let mut a = self.access(inst, layout, elem)?;
        let vector = self.vector(inst, result, layout, a.run);
        let access = self.global_access(inst, layout);
        if vector == 1 && elem.bits() < 8 && vector_elements(self.k, inst, result) * elem.bits() >= 8 {
            return self.load_single_bits(&mut a, layout, access, regs);
        }
        let (mut parts, bytes) = (Vec::new(), self.whole_bytes(elem, vector)?);
        let starts: Vec<u64> = (0..layout.in_extent(Axis::Reg)).step_by(vector as usize).collect();
        // All loads of a group are issued before the first is used.
        for batch in starts.chunks(BATCH) {
            self.check_memory()?;
            let mut loaded = Vec::new();
            for &e in batch {
                let at = register_coord(layout, e);
                let address = self.address(&mut a, &at);
                let inside = self.inside(&mut a, &at);
                loaded.push((self.load_vector(address, (a.offset(&at), access), bytes, inside)?, inside));
            }
            let single = vector == 1 && elem.bits() == 16;
            for (x, inside) in loaded {
                parts.push(self.fill_outside(elem, a.view.fill, x, inside, single)?);
            }
        }
        if vector == 1 && elem.bits() == 16 {
            parts = self.pair_halves(&parts);
        } else if elem.bits() < 16 {
            parts = self.pack_parts(parts, vector as u32 * elem.bits() / 8);
        }
        let joined = NewInst::new(Opcode::Join, &parts, &[Ty::frag(regs as u16)]);
        Ok(self.at().value(joined))
    }

    /// Elements of fewer than 8 bits that are accessed one by one: load the byte and shift. Facts say that rows begin
    /// with whole bytes.
    fn load_single_bits(
        &mut self,
        a: &mut Access,
        layout: &Layout,
        access: GlobalAccess,
        regs: u64,
    ) -> Result<machine::Value> {
        if a.each.is_some() {
            let message = "by tiles of indices or under a mask, do not compile: facts must make whole bytes of their vectors";
            return self.error(format!("elements of {} bits one by one, {message}", a.bits));
        }
        if !is_zero(a.view.fill) || !a.bits.is_power_of_two() {
            return self.error(format!(
                "elements of {} bits one by one, outside filled with {}: only 1, 2 and 4 bits filled with 0 compile; say \
                 `packed` of the array in the mapping",
                a.bits, a.view.fill
            ));
        }
        let mut parts = Vec::new();
        for e in 0..layout.in_extent(Axis::Reg) {
            let at = register_coord(layout, e);
            let inside = self.inside(a, &at);
            let mut own = Access { rows: FxHashMap::default(), ..a.clone() };
            for (start, &moved) in own.start.iter_mut().zip(&at) {
                *start = self.at().add_imm(*start, moved as i64);
            }
            let address = self.address(&mut own, &vec![0; at.len()]);
            let byte = self.load_vector(address, (0, access), 1, inside)?;
            let index = own.unit.map(|u| own.start[u]);
            parts.push(self.bits_of_byte(byte, index, a.bits));
        }
        let bytes = parts.chunks(8 / a.bits as usize).map(|p| self.pack_bits(p, a.bits)).collect();
        let parts = self.pack_parts(bytes, 1);
        let joined = NewInst::new(Opcode::Join, &parts, &[Ty::frag(regs as u16)]);
        Ok(self.at().value(joined))
    }

    /// The element of a byte that has this index along the contiguous dimension.
    fn bits_of_byte(
        &mut self,
        byte: machine::Value,
        index: Option<machine::Value>,
        bits: u32,
    ) -> machine::Value {
        let mask = self.at().imm((1 << bits) - 1);
        let Some(index) = index else { return self.at().int(Opcode::And, byte, mask) };
        let place = self.at().mul_imm(index, bits.into());
        let seven = self.at().imm(7);
        let by = self.at().int(Opcode::And, place, seven);
        let shifted = self.at().int(Opcode::ShrU32, byte, by);
        self.at().int(Opcode::And, shifted, mask)
    }

    /// Combines elements of `bits` bits, one above the other.
    fn pack_bits(&mut self, parts: &[machine::Value], bits: u32) -> machine::Value {
        let mut all = parts[0];
        for (n, &part) in parts.iter().enumerate().skip(1) {
            let by = self.at().imm(i64::from(bits) * n as i64);
            let part = self.at().int(Opcode::Shl, part, by);
            all = self.at().int(Opcode::Or, all, part);
        }
        all
    }

    fn load_vector(
        &mut self,
        address: machine::Value,
        (offset, access): (i32, GlobalAccess),
        bytes: u32,
        inside: machine::Value,
    ) -> Result<machine::Value> {
        let (op, count) = match bytes {
            1 => (Opcode::LdGlobal8, 1),
            2 | 3 => (Opcode::LdGlobal16, 1),
            _ => (Opcode::LdGlobal, (bytes / 4) as u8),
        };
        let op = self.in_space(op, address)?;
        let guard = self.guard(inside);
        let new =
            NewInst::new(op, &[address], &[]).attr(Attr::GlobalMem { offset, count, access }).guard(guard);
        let ty = if count == 1 { Ty::B32 } else { Ty::frag(count.into()) };
        Ok(self.at().value(NewInst { results: [ty].into_iter().collect(), ..new }))
    }

    /// A view's fill, unless it is zero, which a guarded load gives anyway.
    pub(super) fn fill_outside(
        &mut self,
        elem: Elem,
        fill: f64,
        x: machine::Value,
        inside: machine::Value,
        single: bool,
    ) -> Result<machine::Value> {
        if is_zero(fill) || self.guard(inside).is_none() {
            return Ok(x);
        }
        let Some(bits) = crate::rows::float_bits(elem, fill).or_else(|| word_bits(elem, fill)) else {
            return self.error(format!(
                "`fill {fill}` of {elem} does not compile: only 0 does, -1 of i64, or integers of 8 and 32 bits, and floats of 16 and 32 bits"
            ));
        };
        let regs = self.func.ty(x).regs() as u16;
        // One 16-bit element occupies the low half; it is paired later.
        let c = self.at().imm(if single { bits & 0xffff } else { bits });
        if regs == 1 {
            return Ok(self.at().op(Opcode::Selp, &[x, c, inside], Ty::B32));
        }
        use warplift_ir::machine::IndexMap;
        let (each, whole) = (IndexMap::EACH, IndexMap::Whole);
        Ok(self.repeat(Opcode::Selp, Attr::None, &[(x, each), (c, whole.clone()), (inside, whole)], regs))
    }

    /// Bytes of one access of `vector` elements.
    pub(super) fn whole_bytes(&self, elem: Elem, vector: u64) -> Result<u32> {
        let bits = vector as u32 * elem.bits();
        match bits {
            8 | 16 | 32 | 64 | 128 => Ok(bits / 8),
            _ => self.error(format!(
                "{vector} of {elem} side by side are {bits} bits, an access moves 8, 16, 32, 64 or 128: {}",
                self.other_access(elem)
            )),
        }
    }

    /// What to do where threads cannot reach so few bits of an array.
    fn other_access(&self, elem: Elem) -> String {
        let (array, bits) = (self.array(), elem.bits());
        let tile = self.k.results(self.inst).first().and_then(|&r| self.plan.layout(self.k, r).ok());
        let held = tile.map_or(0, |l| l.in_extent(Axis::Reg) * u64::from(bits));
        match held {
            n if n.is_multiple_of(32) => format!("say `array {array}: packed` in the mapping"),
            n if bits.is_power_of_two() => format!(
                "`packed` needs whole registers, a thread holds {n} bits; tensor copies bring `{array}` if facts make its rows \
                 multiples of {} elements",
                128 / bits
            ),
            n => format!(
                "`packed` needs whole registers, a thread holds {n} bits: store `{array}` as elements of 4, 8 or 16 bits"
            ),
        }
    }

    /// The argument behind the view that the current instruction accesses.
    fn array(&self) -> &str {
        let k = self.k;
        let view = k.args(self.inst).first().and_then(|&v| k.def(k.whole_view(v)));
        let pointer = view.and_then(|view| k.args(view).first());
        pointer.map_or("..", |&p| k.names[p].as_str())
    }

    /// Combines parts of one or two bytes to registers; the last register may be partly full. Wider parts stay.
    pub(super) fn pack_parts(&mut self, parts: Vec<machine::Value>, bytes: u32) -> Vec<machine::Value> {
        let selector = match bytes {
            1 => 0x0040,
            2 => 0x5410,
            _ => return parts,
        };
        let pair = |p: &[machine::Value]| match *p {
            [low, high] => self.permute(low, high, selector),
            _ => p[0],
        };
        let pairs = parts.chunks(2).map(pair).collect();
        self.pack_parts(pairs, 2 * bytes)
    }

    fn pair_halves(&mut self, parts: &[machine::Value]) -> Vec<machine::Value> {
        let pair = |l: &mut Self, low, high| {
            let by = l.at().imm(16);
            let high = l.at().int(Opcode::Shl, high, by);
            l.at().op(Opcode::Or, &[low, high], Ty::B32)
        };
        parts
            .chunks(2)
            .filter_map(|p| Some((p.first()?, p.get(1)?)))
            .map(|(&l, &h)| pair(self, l, h))
            .collect()
    }

    /// A name for dumps and maps.
    pub(super) fn name_of(&self, v: Value) -> String {
        let name = &self.k.names[v];
        if name.is_empty() { v.to_string() } else { name.clone() }
    }
}

/// The bits of a view's fill as an integer of a register: rounded toward zero, and the nearest that there is. Bytes fill it.
fn word_bits(elem: Elem, fill: f64) -> Option<i64> {
    const BYTES: i64 = 0x0101_0101;
    match elem {
        Elem::Int(8) => Some(i64::from(fill as i8 as u8) * BYTES),
        Elem::Uint(8) => Some(i64::from(fill as u8) * BYTES),
        Elem::Int(32) => Some(i64::from(fill as i32)),
        Elem::Uint(32) => Some(i64::from(fill as u32)),
        // Both words are filled with the same bits.
        Elem::Int(64) if matches!(fill as i64, 0 | -1) => Some(i64::from(fill as i32)),
        Elem::Uint(64) if fill as u64 == 0 => Some(0),
        _ => None,
    }
}
