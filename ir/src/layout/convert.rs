//! Conversion of one distributed layout into another: a permutation of registers, rounds of warp shuffles, or a pass through
//! shared memory (Linear Layouts, section 5.4).
//!
//! ```text
//!   U = all elements of a warp = lanes(A) + registers(A) = lanes(B) + registers(B)
//!   V   registers that both share: they travel together in one 32-bit shuffle
//!   H   a largest space that meets neither registers(A) nor registers(B): one element for every lane, on both sides
//!   R   the rest of a basis of U:  in round i the space R(i) + H is exchanged, 2^|R| rounds
//! ```

use super::canonical::Run;
use super::linear::labels;
use super::space::{Coordinates, Vectors, avoiding, combine, dimension, extension, independent};
use super::swizzle::{Cost, Method, cost, optimal_swizzle};
use super::{Axis, Basis, Layout, LayoutError, Step};

/// How registers of one layout become registers of another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Conversion {
    /// Every thread already holds what it needs: register `r` of the target is register `source[r]` of the source.
    Registers {
        /// Source register (in elements) of each target register.
        source: Vec<u64>,
    },
    /// Elements change lanes inside their warps.
    Shuffle(Shuffle),
    /// Elements change warps, or no linear form exists.
    Shared(Box<SharedPass>),
}

/// A value that depends on the lane by exclusive or: `base ⊕ columns of the lane's set bits`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneMap {
    /// Value at lane 0.
    pub base: u64,
    /// What each lane bit changes.
    pub columns: [u64; 5],
}

impl LaneMap {
    /// The value at a lane.
    pub fn at(&self, lane: u64) -> u64 {
        self.base ^ combine(&self.columns, lane)
    }
}

/// Rounds of `shfl.sync.idx`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shuffle {
    /// Offsets in elements of the vector's elements behind the register that is sent: `2^|V|` of them.
    pub vector_from: Vec<u64>,
    /// The same behind the register that receives.
    pub vector_to: Vec<u64>,
    /// The rounds.
    pub rounds: Vec<Round>,
    /// Target registers that repeat others: `(register, copy of)`.
    pub copies: Vec<(u64, u64)>,
}

/// One shuffle: lane `l` sends register `send(l)`, reads lane `from(l)` and writes register `receive(l)`. Registers are indices by weight:
/// where the register axis has an outer part the exclusive or never reaches it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Round {
    /// Register sent, in elements of the source.
    pub send: LaneMap,
    /// Lane read.
    pub from: LaneMap,
    /// Register written, in elements of the target.
    pub receive: LaneMap,
    /// Added to `send` and `receive`: the place of an outer repetition.
    pub repeat: (u64, u64),
}

/// A pass through shared memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedPass {
    /// `(dims) -> m`.
    pub memory: Layout,
    /// The write by a warp.
    pub write: Cost,
    /// The read by a warp.
    pub read: Cost,
}

impl SharedPass {
    /// Wavefronts, then instructions of both sides: what is minimized.
    pub fn cost(&self) -> (u64, u64) {
        let (w, r) = (self.write, self.read);
        (w.wavefronts + r.wavefronts, w.instructions + r.instructions)
    }
}

/// Plans the conversion of `from` into `to`, distributed layouts `(reg, lane, warp, ..)` of the same tile with elements of
/// `elem_bits` bits. Prefers register moves, then shuffles, then shared memory.
pub fn convert(from: &Layout, to: &Layout, elem_bits: u64) -> Result<Conversion, LayoutError> {
    let (from, to) = same_axes(from, to)?;
    if let Some(source) = registers(&from, &to) {
        return Ok(Conversion::Registers { source });
    }
    match shuffle(&from, &to, elem_bits) {
        Some(plan) => Ok(Conversion::Shuffle(plan)),
        None => shared(&from, &to, elem_bits).map(|p| Conversion::Shared(Box::new(p))),
    }
}

/// Both with the axes `reg, lane, ...` in one order, and the same outputs.
fn same_axes(from: &Layout, to: &Layout) -> Result<(Layout, Layout), LayoutError> {
    let mut axes = vec![Axis::Reg, Axis::Lane];
    for axis in labels(from.ins()).into_iter().chain(labels(to.ins())) {
        if !axes.contains(&axis) {
            axes.push(axis);
        }
    }
    let from = from.with_ins(&axes)?;
    let to = to.with_ins(&axes)?.reordered(&to.with_ins(&axes)?.ins, from.outs())?;
    let differ = from.outs().iter().zip(to.outs()).find(|(a, b)| a != b);
    match differ {
        Some((&(axis, extent), &(_, needed))) => Err(LayoutError::OutOfRange { axis, extent, needed }),
        None => Ok((from, to)),
    }
}

/// `to` in terms of `from`: for each target coordinate the source's. On every axis where both have the same digits it is the identity,
/// else copies are read from the first holder (Linear Layouts, section 5.4, the two preferences).
pub fn invert_and_compose(to: &Layout, from: &Layout) -> Result<Layout, LayoutError> {
    let (from, to) = same_axes(from, to)?;
    let composed = to.then(&from.right_inverse()?)?;
    let mut runs = composed.open();
    for (index, &(axis, extent)) in to.ins().iter().enumerate() {
        if to.basis(axis) != from.basis(axis) {
            continue;
        }
        runs.retain(|r| r.axis as usize != index);
        let mut column = super::OutVec::from_elem(0, composed.outs().len());
        column[index] = 1;
        runs.push(Run::strided(index as u8, extent, column));
    }
    runs.sort_by_key(|r| r.axis);
    let outs = composed.outs.clone();
    Layout::from_runs(composed.ins.clone(), outs, runs)
}

/// Source register of each target register where no element leaves its thread: all axes but `reg` must hold the same on both sides.
fn registers(from: &Layout, to: &Layout) -> Option<Vec<u64>> {
    let others = |l: &Layout| -> Vec<Vec<Basis>> { l.ins()[1..].iter().map(|a| l.basis(a.0)).collect() };
    if others(from) != others(to) {
        return None;
    }
    linear_registers(from, to).or_else(|| composed_registers(from, to))
}

/// By solving for each register bit of the target over the register bits of the source.
fn linear_registers(from: &Layout, to: &Layout) -> Option<Vec<u64>> {
    let repeats = repetitions(from, to)?;
    let (a, b) = (Side::new(from)?, Side::new(to)?);
    let coordinates = Coordinates::new(&a.regs);
    let of = |column: &u64| Some(combine(&a.weights, coordinates.of(*column)?));
    let sources: Vec<u64> = b.regs.iter().map(of).collect::<Option<_>>()?;
    let mut source = vec![0; to.in_extent(Axis::Reg) as usize];
    for (base, shift) in repeats {
        for set in 0..1u64 << sources.len() {
            let register = (combine(&b.weights, set) + shift) as usize;
            *source.get_mut(register)? = combine(&sources, set) + base;
        }
    }
    Some(source)
}

/// By composition with an inverse, which also has digits that line up only in part.
fn composed_registers(from: &Layout, to: &Layout) -> Option<Vec<u64>> {
    let source = invert_and_compose(to, from).ok()?;
    for (index, &(axis, _)) in source.ins().iter().enumerate() {
        let others = |b: &Basis| b.out[1..].iter().all(|&o| o == 0);
        let stays =
            |b: &Basis| b.out.iter().enumerate().all(|(o, &c)| c == if o == index { b.weight } else { 0 });
        let basis = source.basis(axis);
        let fine = if axis == Axis::Reg { basis.iter().all(others) } else { basis.iter().all(stays) };
        if !fine {
            return None;
        }
    }
    let mut at = vec![0; source.ins().len()];
    let source_of = |r| {
        at[0] = r;
        source.apply(&at)[0]
    };
    Some((0..source.in_extent(Axis::Reg)).map(source_of).collect())
}

/// One side of a shuffle: columns over the bits of the tile with the weights of registers.
struct Side {
    regs: Vectors,
    weights: Vec<u64>,
    lanes: Vectors,
}

impl Side {
    /// The linear part of a layout; none where lanes are not five bits.
    fn new(layout: &Layout) -> Option<Side> {
        let linear = |b: &Basis| b.step == Step::Xor;
        let lanes = layout.basis(Axis::Lane);
        if lanes.len() != 5 || !lanes.iter().all(linear) {
            return None;
        }
        let regs: Vec<Basis> = layout.basis(Axis::Reg).into_iter().filter(linear).collect();
        let pack = |b: &Basis| layout.pack_outs(&b.out);
        Some(Side {
            regs: regs.iter().map(pack).collect(),
            weights: regs.iter().map(|b| b.weight).collect(),
            lanes: lanes.iter().map(pack).collect(),
        })
    }

    /// All columns.
    fn all(&self) -> Vectors {
        self.lanes.iter().chain(&self.regs).copied().collect()
    }

    /// Without the registers that depend on lanes or earlier registers; those that repeat registers alone are returned with what they repeat.
    fn thin(mut self) -> Option<(Side, Vec<(u64, u64)>)> {
        let mut copies = Vec::new();
        let (mut regs, mut weights): (Vectors, Vec<u64>) = (Vec::new(), Vec::new());
        for (&column, &weight) in self.regs.iter().zip(&self.weights) {
            let before: Vectors = self.lanes.iter().chain(&regs).copied().collect();
            if !extension(&before, &[column]).is_empty() {
                regs.push(column);
                weights.push(weight);
                continue;
            }
            let of = Coordinates::new(&regs).of(column)?;
            copies.push((weight, combine(&weights, of)));
        }
        self.regs = regs;
        self.weights = weights;
        Some((self, copies))
    }
}

/// Every register that repeats another, given the repeating bits.
fn expand_copies(bits: &[(u64, u64)], weights: &[u64]) -> Vec<(u64, u64)> {
    let mut copies = Vec::new();
    for repeated in 1..1u64 << bits.len() {
        let (mut extra, mut base) = (0, 0);
        for (_, (weight, of)) in bits.iter().enumerate().filter(|(k, _)| repeated >> k & 1 == 1) {
            extra += weight;
            base ^= of;
        }
        for plain in 0..1u64 << weights.len() {
            let register = combine(weights, plain);
            copies.push((register + extra, register ^ base));
        }
    }
    copies
}

/// Outer digits of both, which must pair up: those of other axes must be equal, those of registers give repetitions `(from, to)`.
fn repetitions(from: &Layout, to: &Layout) -> Option<Vec<(u64, u64)>> {
    let outer = |l: &Layout, axis| -> Vec<Basis> {
        l.basis(axis).into_iter().filter(|b| b.step == Step::Add).collect()
    };
    for &(axis, _) in &from.ins()[1..] {
        if outer(from, axis) != outer(to, axis) {
            return None;
        }
    }
    let (a, mut b) = (outer(from, Axis::Reg), outer(to, Axis::Reg));
    let mut repeats = vec![(0, 0)];
    for x in a {
        let at = b.iter().position(|y| y.extent == x.extent && y.out == x.out)?;
        let y = b.remove(at);
        let steps = |k| repeats.iter().map(move |r: &(u64, u64)| (r.0 + k * x.weight, r.1 + k * y.weight));
        repeats = (0..x.extent).flat_map(steps).collect();
    }
    b.is_empty().then_some(repeats)
}

/// Whether warps and all above them hold the same elements on both sides, and inner and outer parts do not touch.
fn same_warps(from: &Layout, to: &Layout) -> bool {
    let warps = |l: &Layout| -> Vec<Vec<Basis>> { l.ins()[2..].iter().map(|a| l.basis(a.0)).collect() };
    warps(from) == warps(to)
}

/// The rounds of shuffles, where they exist.
fn shuffle(from: &Layout, to: &Layout, elem_bits: u64) -> Option<Shuffle> {
    if !same_warps(from, to) {
        return None;
    }
    let repeats = repetitions(from, to)?;
    let (a, _) = Side::new(from)?.thin()?;
    let (b, copy_bits) = Side::new(to)?.thin()?;
    let whole = independent(&a.all());
    if dimension(&b.all()) != whole.len() || !extension(&whole, &b.all()).is_empty() {
        return None;
    }
    let limit = (32 / elem_bits.clamp(1, 32)).max(1).ilog2() as usize;
    let common = a.regs.iter().copied().filter(|c| b.regs.contains(c));
    let vector: Vectors = common.take(limit).collect();
    let plan = rounds(&a, &b, &whole, &vector).or_else(|| rounds(&a, &b, &whole, &[]))?;
    let copies = expand_copies(&copy_bits, &b.weights);
    Some(repeated(plan, &repeats, copies))
}

/// The plan at every outer repetition.
fn repeated(plan: Shuffle, repeats: &[(u64, u64)], copies: Vec<(u64, u64)>) -> Shuffle {
    let at = |repeat: &(u64, u64)| {
        let repeat = *repeat;
        plan.rounds.iter().map(move |r| Round { repeat, ..*r })
    };
    let shift = |r: &(u64, u64)| {
        let by = r.1;
        copies.iter().map(move |c| (c.0 + by, c.1 + by))
    };
    Shuffle {
        rounds: repeats.iter().flat_map(at).collect(),
        copies: repeats.iter().flat_map(shift).collect(),
        ..plan.clone()
    }
}

/// Plans the rounds with the vector `v`; none where the two sides order its elements differently.
fn rounds(a: &Side, b: &Side, whole: &[u64], v: &[u64]) -> Option<Shuffle> {
    let mut swapped = avoiding(&a.regs, &b.regs, whole);
    let base: Vectors = b.regs.iter().chain(&swapped).copied().collect();
    let paired = swapped.len();
    swapped.extend(extension(&base, whole));
    let taken: Vectors = v.iter().chain(&swapped).copied().collect();
    let rest = extension(&taken, whole);
    let exchange = Exchange::new(a, b, swapped, paired, v)?;
    let round = |i| exchange.round(combine(&rest, i));
    let rounds = (0..1u64 << rest.len()).map(round).collect::<Option<Vec<_>>>()?;
    let offsets = |side: &Side| -> Vec<u64> {
        let at = v.iter().filter_map(|x| side.regs.iter().position(|r| r == x));
        let weights: Vec<u64> = at.map(|k| side.weights[k]).collect();
        (0..1u64 << v.len()).map(|e| combine(&weights, e)).collect()
    };
    Some(Shuffle { vector_from: offsets(a), vector_to: offsets(b), rounds, copies: Vec::new() })
}

/// What is the same in all rounds.
struct Exchange<'a> {
    a: &'a Side,
    b: &'a Side,
    /// Basis of the elements of one round.
    swapped: Vectors,
    /// For each of them the lane of the source that sends it.
    senders: Vectors,
    /// Coordinates over `swapped`, then the target's registers.
    in_b: Coordinates,
    /// Coordinates over the source's lanes, then its registers.
    in_a: Coordinates,
    /// The vector's bits among the registers of `a` and of `b`.
    vector: (u64, u64),
}

impl<'a> Exchange<'a> {
    /// Prepares; the vectors from `paired` on come from lanes that repeat others.
    fn new(a: &'a Side, b: &'a Side, swapped: Vectors, paired: usize, v: &[u64]) -> Option<Exchange<'a>> {
        let in_b: Vectors = swapped.iter().chain(&b.regs).copied().collect();
        let in_a = Coordinates::new(&a.all());
        let spare = spare_lanes(&a.lanes);
        let mut senders = Vectors::new();
        for (k, &x) in swapped.iter().enumerate() {
            let lane = in_a.of(x)? & 31;
            let replica = if k < paired { 0 } else { *spare.get(k - paired)? };
            senders.push(lane ^ replica);
        }
        let place = |side: &Side| {
            v.iter().filter_map(|x| side.regs.iter().position(|r| r == x)).fold(0, |m, k| m | 1 << k)
        };
        let vector = (place(a), place(b));
        Some(Exchange { a, b, senders, in_b: Coordinates::new(&in_b), in_a, vector, swapped })
    }

    /// The round that exchanges `start + span(swapped)`.
    fn round(&self, start: u64) -> Option<Round> {
        let n = self.swapped.len();
        let clear = |regs: u64| (regs & self.vector.1 == 0).then(|| combine(&self.b.weights, regs));
        // What a lane receives: the element of the round that lies in its registers.
        let (mut from, mut receive) =
            (LaneMap { base: 0, columns: [0; 5] }, LaneMap { base: 0, columns: [0; 5] });
        let base = self.in_b.of(start)?;
        let home = self.in_a.of(start)? & 31;
        from.base = home ^ combine(&self.senders, base & mask(n));
        receive.base = clear(base >> n)?;
        for (k, &column) in self.b.lanes.iter().enumerate() {
            let set = self.in_b.of(column)?;
            from.columns[k] = combine(&self.senders, set & mask(n));
            receive.columns[k] = clear(set >> n)?;
        }
        Some(Round { send: self.send(start, home)?, from, receive, repeat: (0, 0) })
    }

    /// What a lane sends: the element of the round whose sender it is.
    fn send(&self, start: u64, home: u64) -> Option<LaneMap> {
        let fill = extension(&self.senders, &super::space::units(5));
        let lanes: Vectors = self.senders.iter().chain(&fill).copied().collect();
        let elements = Coordinates::new(&lanes);
        let register = |element: u64| {
            let set = self.in_a.of(element)? >> 5;
            (set & self.vector.0 == 0).then(|| combine(&self.a.weights, set))
        };
        let element = |lane: u64| -> Option<u64> {
            Some(combine(&self.swapped, elements.of(lane)? & mask(self.swapped.len())))
        };
        let mut send = LaneMap { base: register(start ^ element(home)?)?, columns: [0; 5] };
        for k in 0..5 {
            send.columns[k] = register(element(1 << k)?)?;
        }
        Some(send)
    }
}

/// A mask of the low bits.
fn mask(bits: usize) -> u64 {
    (1 << bits) - 1
}

/// Lanes that hold the same elements as lane 0, as a basis.
fn spare_lanes(lanes: &[u64]) -> Vectors {
    let mut spare = Vectors::new();
    for k in 0..lanes.len() {
        let before = Coordinates::new(&lanes[..k]);
        if let Some(set) = before.of(lanes[k]) {
            spare.push(set | 1 << k);
        }
    }
    spare
}

/// A pass through shared memory: the best swizzle over vector and matrix accesses, or rows padded by 16 bytes where the layouts are not
/// linear.
fn shared(from: &Layout, to: &Layout, elem_bits: u64) -> Result<SharedPass, LayoutError> {
    let methods = [Method::Vector, Method::Matrix];
    let mut best: Option<SharedPass> = None;
    for write in methods {
        for read in methods {
            let Ok(memory) = optimal_swizzle((from, write), (to, read), elem_bits) else {
                continue;
            };
            let pass = pass(from, to, memory, elem_bits)?;
            if best.as_ref().is_none_or(|b| pass.cost() < b.cost()) {
                best = Some(pass);
            }
        }
    }
    match best {
        Some(pass) => Ok(pass),
        None => padded(from, to, elem_bits),
    }
}

/// Row-major memory, each row 16 bytes longer.
fn padded(from: &Layout, to: &Layout, elem_bits: u64) -> Result<SharedPass, LayoutError> {
    let dims = from.outs();
    let last = dims.last().map_or(1, |d| d.1);
    let pitch = last + (128 / elem_bits.max(1)).max(1);
    let rows: u64 = dims[..dims.len().saturating_sub(1)].iter().map(|d| d.1).product();
    let mut memory = super::Builder::new(&[(Axis::Mem, pitch.saturating_mul(rows))]);
    let mut stride = pitch.saturating_mul(rows);
    for (k, &(axis, extent)) in dims.iter().enumerate() {
        stride = if k + 1 == dims.len() { 1 } else { stride / extent };
        memory = memory.add(axis, extent, &[stride]);
    }
    pass(from, to, memory.build()?, elem_bits)
}

/// The pass through a memory layout.
fn pass(from: &Layout, to: &Layout, memory: Layout, elem_bits: u64) -> Result<SharedPass, LayoutError> {
    let write = cost(&from.then(&memory)?, elem_bits)?;
    let read = cost(&to.then(&memory)?, elem_bits)?;
    Ok(SharedPass { memory, write, read })
}

/// Vectors that two register sets share: exported for the bound of section 5.4 in tests.
#[cfg(test)]
pub(crate) fn shared_lanes(from: &Layout, to: &Layout) -> usize {
    let lanes = |l: &Layout| -> Vectors { l.basis(Axis::Lane).iter().map(|b| l.pack_outs(&b.out)).collect() };
    super::space::intersection(&lanes(from), &lanes(to)).len()
}

/// A gather along one dimension by shuffles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gather {
    /// The dimension.
    pub dim: u8,
    /// Index along the dimension to what it changes in `(reg, lane)`: the source of an element is its own register and lane with the digits of the
    /// dimension replaced by those of the index.
    pub source: Layout,
    /// Registers that lie along the dimension, as weights: a round for each of their combinations.
    pub registers: Vec<u64>,
    /// Lane bits that lie along the dimension, as a mask.
    pub lanes: u64,
}

impl Gather {
    /// Shuffles for each gathered register: `2^|registers along the dimension|` (Linear Layouts, section 5.5).
    pub fn rounds(&self) -> u64 {
        1 << self.registers.len()
    }

    /// Register and lane that hold the element at index `index` along the dimension, for a target in `(reg, lane)`.
    pub fn source(&self, reg: u64, lane: u64, index: u64) -> (u64, u64) {
        let at = self.source.apply(&[index]);
        let along: u64 = self.registers.iter().sum();
        ((reg & !along) | at[0], (lane & !self.lanes) | at[1])
    }
}

/// Plans a gather along `dim` of a tile with layout `layout` (Linear Layouts, section 5.5): possible by shuffles when no warp and nothing above
/// moves along the dimension. The layout must be linear, with columns that move one dimension each.
pub fn gather(layout: &Layout, dim: u8) -> Result<Gather, LayoutError> {
    layout.require_linear()?;
    let axis = Axis::Dim(dim);
    let out = layout.outs().iter().position(|a| a.0 == axis).ok_or(LayoutError::MissingAxis(axis))?;
    let mut parts = [Vec::new(), Vec::new()];
    for &(input, _) in layout.ins() {
        for b in layout.basis(input).into_iter().filter(|b| b.out[out] != 0) {
            let alone = b.out.iter().filter(|&&o| o != 0).count() == 1;
            match input {
                Axis::Reg if alone => parts[0].push(b.weight),
                Axis::Lane if alone => parts[1].push(b.weight),
                _ => return Err(LayoutError::Gather { axis: input, dim }),
            }
        }
    }
    let [registers, lanes] = parts;
    let inverse = layout.right_inverse()?.with_outs(&[Axis::Reg, Axis::Lane])?;
    let index = inverse.with_in_only(axis)?;
    Ok(Gather { dim, source: index, registers, lanes: lanes.iter().sum() })
}
