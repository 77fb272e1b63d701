//! Hands fragments over from one role to another, through a stage of a ring in shared memory.
//!
//! ```text
//!  registers 0 1 2 3 | 4 5 6      thread 0   thread 1   ..   | thread 0 ..
//!  runs of 4, 2 or 1              0 1 2 3    0 1 2 3         | 4 5        ..
//! ```
//!
//! Each thread stores its registers, and the thread of the same number in the other role loads them. If a value is the
//! same in every warp, one warp stores it. If it depends on only some bits of the lane, one lane stores it for each
//! value of these bits.

use crate::analysis::LANE;
use rustc_hash::FxHashMap;
use warplift_ir::machine::{
    Attr, Buffer, BufferData, BufferKind, Cursor, Guard, IndexMap, NewInst, Place, Program, Ty, Value,
};
use warplift_ir::target::Opcode;
use warplift_ir::tile::CmpOp;

/// The most registers that one access moves.
const WIDEST: u16 = 4;
/// Alignment of a thread's part, bytes.
const ALIGN: u32 = 16;

/// The threads that store, and those that load.
#[derive(Clone, Copy)]
pub(crate) enum By {
    /// This many threads store, and each loads its own registers.
    Threads(u32),
    /// Lanes store, and each thread loads from the lane with the same low bits.
    Lanes(u32),
}

impl By {
    /// Number of threads that store.
    fn count(self) -> u32 {
        match self {
            Self::Threads(n) => n,
            Self::Lanes(bits) => bits + 1,
        }
    }
}

/// A ring's buffer for fragments. For epilogue warps it has a part for each thread; for a helper's values it has a part
/// for each lane.
pub(crate) fn handoff_buffer(program: &mut Program<'_>, values: &[Value], by: By) -> Buffer {
    let bytes = handoff_bytes(program, values, by);
    let (name, kind) = match by {
        By::Threads(_) => ("handoff", BufferKind::Handoff),
        By::Lanes(_) => ("helper", BufferKind::Helper),
    };
    program.buffers.push(BufferData { name: name.to_owned(), bytes, align: ALIGN, kind })
}

/// Stores fragments and loads them. Returns the loaded values.
pub(crate) fn through(
    c: Cursor<'_, '_>,
    buffer: Buffer,
    by: By,
    values: &[Value],
) -> FxHashMap<Value, Value> {
    let mut pass = Pass { c, buffer, by, first: 0, offset: 0 };
    let guard = pass.first_lanes();
    values.iter().for_each(|&v| pass.store(v, guard));
    pass.offset = 0;
    let types: Vec<Ty> = values.iter().map(|&v| pass.c.func.ty(v)).collect();
    values.iter().zip(types).map(|(&v, ty)| (v, pass.load(ty))).collect()
}

/// Sums whose product is transposed (`transpose_helper_mma`).
#[derive(Clone, Copy)]
pub(crate) struct TransposedSums {
    /// The transposed sums, in the same value. Four lanes have the same: the upper half's and the lower half's sum of one
    /// column of 16, then those of the column eight behind it.
    pub of: Value,
    /// Type of the sums as they are loaded. For each eight columns, a lane holds its two columns of the upper half,
    /// then those of the lower half.
    pub was: Ty,
}

/// Stores transposed sums, and loads them in their original layout.
pub(crate) fn through_transposed(
    c: Cursor<'_, '_>,
    buffer: Buffer,
    by: By,
    transposed: TransposedSums,
) -> FxHashMap<Value, Value> {
    let mut pass = Pass { c, buffer, by, first: 0, offset: 0 };
    pass.store_transposed(transposed.of);
    FxHashMap::from_iter([(transposed.of, pass.load(transposed.was))])
}

/// Bytes of a stage of the handoff.
pub(crate) fn handoff_bytes(program: &Program<'_>, values: &[Value], by: By) -> u32 {
    let registers: u32 = values.iter().map(|&v| program.func.ty(v).regs()).sum();
    4 * by.count() * registers
}

/// The layout of fragments in a buffer, run by run. The threads' parts of a run lie side by side.
struct Pass<'c, 'f> {
    c: Cursor<'c, 'f>,
    buffer: Buffer,
    by: By,
    /// Index in the entry block at which the next instruction is inserted.
    first: usize,
    /// Bytes used so far.
    offset: u32,
}

impl Pass<'_, '_> {
    /// The condition that a lane is the first of those with the same value. `None` if every lane has its own.
    fn first_lanes(&mut self) -> Option<Guard> {
        let By::Lanes(bits) = self.by else { return None };
        let pred = self.lanes_without(LANE & !bits);
        (bits != LANE).then_some(Guard { pred, negated: false })
    }

    /// Whether a lane has none of these bits.
    fn lanes_without(&mut self, bits: u32) -> Value {
        self.at_entry(|c| {
            let thread = c.op(Opcode::Tid, &[], Ty::B32);
            let set = c.and_imm(thread, bits.into());
            let zero = c.imm(0);
            c.compare(CmpOp::Eq, set, zero)
        })
    }

    /// The place of this thread's registers of the next run: an offset and a place.
    fn next(&mut self, count: u16) -> (Value, Place) {
        let bytes = 4 * i64::from(count);
        let at = match self.by {
            By::Threads(_) => {
                let thread = self.c.op(Opcode::Tid, &[], Ty::B32);
                self.c.mul_imm(thread, bytes)
            }
            By::Lanes(bits) => self.at_entry(|c| {
                let thread = c.op(Opcode::Tid, &[], Ty::B32);
                let lane = c.and_imm(thread, bits.into());
                c.mul_imm(lane, bytes)
            }),
        };
        let place = Place { buffer: self.buffer, offset: self.offset };
        self.offset += 4 * u32::from(count) * self.by.count();
        (at, place)
    }

    /// Computes a value at the start of the kernel, which a loop around it would compute again.
    fn at_entry(&mut self, make: impl FnOnce(&mut Cursor<'_, '_>) -> Value) -> Value {
        let (entry, loc) = (self.c.func.entry, self.c.loc);
        let (v, end) = self.c.func.insert_at(entry, self.first, |func| {
            let v = make(&mut Cursor::new(func, entry, loc));
            (v, func.blocks[entry].insts.len())
        });
        self.first = end;
        v
    }

    fn store(&mut self, v: Value, guard: Option<Guard>) {
        for (first, count) in runs(self.c.func.ty(v)) {
            let (at, place) = self.next(count);
            let slice = NewInst::new(Opcode::Slice, &[v], &[Ty::frag(count)]).attr(Attr::Imm(first.into()));
            let part = self.c.value(slice);
            let attr = Attr::PlaceMem { place, count: count as u8 };
            self.c.push(NewInst::new(Opcode::StShared, &[at, part], &[]).attr(attr).guard(guard));
        }
    }

    /// Lane `l` stores column `l / 4`. If `l` is odd, it stores the column eight behind it, of the second run. Lanes with
    /// bit 2 set store nothing. A loading lane holds two neighbouring columns.
    fn store_transposed(&mut self, v: Value) {
        let at = self.transposed_offset();
        let pred = self.lanes_without(2);
        let guard = Some(Guard { pred, negated: false });
        let [first, second] = [0, 2].map(|offset| IndexMap::Affine { scale: 1, offset });
        let even = self.lanes_without(1);
        let select = NewInst::new(Opcode::Selp, &[v, v, even], &[Ty::frag(2)]);
        let sums = self.c.value(select.maps([first, second, IndexMap::Whole].into_iter().collect()));
        for half in 0..2 {
            let slice = NewInst::new(Opcode::Slice, &[sums], &[Ty::frag(1)]).attr(Attr::Imm(half));
            let part = self.c.value(slice);
            let place = Place { buffer: self.buffer, offset: 8 * half as u32 };
            let attr = Attr::PlaceMem { place, count: 1 };
            self.c.push(NewInst::new(Opcode::StShared, &[at, part], &[]).attr(attr).guard(guard));
        }
    }

    /// The offset of a lane's column. Odd lanes store to the second run. The parity of the column selects the place in
    /// a loading lane's part, and the other bits select that lane.
    fn transposed_offset(&mut self) -> Value {
        let run = 4 * i64::from(WIDEST);
        let places = [(0, run * i64::from(self.by.count())), (2, 4), (3, run), (4, 2 * run)];
        self.at_entry(|c| {
            let thread = c.op(Opcode::Tid, &[], Ty::B32);
            let mut at = c.imm(0);
            for (bit, bytes) in places {
                let set = c.and_imm(thread, 1 << bit);
                let down = c.imm(bit);
                let set = c.int(Opcode::ShrU32, set, down);
                let moved = c.mul_imm(set, bytes);
                at = c.add(at, moved);
            }
            at
        })
    }

    fn load(&mut self, ty: Ty) -> Value {
        let parts: Vec<Value> = runs(ty)
            .into_iter()
            .map(|(_, count)| {
                let (at, place) = self.next(count);
                let attr = Attr::PlaceMem { place, count: count as u8 };
                self.c.value(NewInst::new(Opcode::LdShared, &[at], &[Ty::frag(count)]).attr(attr))
            })
            .collect();
        match parts[..] {
            [one] => one,
            _ => self.c.value(NewInst::new(Opcode::Join, &parts, &[ty])),
        }
    }
}

/// First register and length of each run in which a fragment is moved.
fn runs(ty: Ty) -> Vec<(u16, u16)> {
    let (mut runs, mut first, all) = (Vec::new(), 0, ty.regs() as u16);
    for count in [WIDEST, 2, 1] {
        while all - first >= count {
            runs.push((first, count));
            first += count;
        }
    }
    runs
}
