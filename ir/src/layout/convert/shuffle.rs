//! Warp shuffles between two layouts of the same tile.

use crate::layout::space::{
    Coordinates, Vectors, avoiding, combine, dimension, extension, independent, sum, units,
};
use crate::layout::{Axis, Basis, Layout, Step};

/// A value that depends on the lane by exclusive or: `base ⊕ columns of the lane's set bits`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneMap {
    /// Value at lane 0.
    pub base: u64,
    /// The change that each lane bit causes.
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

/// One side of a shuffle: columns over the bits of the tile with the weights of registers.
pub(super) struct Side {
    pub regs: Vectors,
    pub weights: Vec<u64>,
    lanes: Vectors,
}

impl Side {
    /// The linear part of a layout; none where lanes are not five bits.
    pub fn new(layout: &Layout) -> Option<Side> {
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

    /// Whether the weights share no bits: then exclusive or of registers is their sum.
    fn apart(&self) -> bool {
        let add = |seen: u64, w: &u64| (seen & w == 0).then_some(seen | w);
        self.weights.iter().try_fold(0, add).is_some()
    }

    /// Without the registers of these columns.
    fn without(&self, columns: &[u64]) -> Side {
        let kept = |k: &usize| !columns.contains(&self.regs[*k]);
        let kept: Vec<usize> = (0..self.regs.len()).filter(kept).collect();
        Side {
            regs: kept.iter().map(|&k| self.regs[k]).collect(),
            weights: kept.iter().map(|&k| self.weights[k]).collect(),
            lanes: self.lanes.clone(),
        }
    }

    /// All columns.
    fn all(&self) -> Vectors {
        self.lanes.iter().chain(&self.regs).copied().collect()
    }

    /// Without the registers that depend on lanes or earlier registers; of those that repeat registers the weight and the set of kept registers
    /// that they repeat.
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
            copies.push((weight, Coordinates::new(&regs).of(column)?));
        }
        self.regs = regs;
        self.weights = weights;
        Some((self, copies))
    }
}

/// Every register that repeats another, at every outer repetition: `bits` are the weights of repeating bits and which of `weights` they repeat.
fn expand_copies(bits: &[(u64, u64)], weights: &[u64], repeats: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let (extras, sets): (Vec<u64>, Vec<u64>) = bits.iter().copied().unzip();
    let mut copies = Vec::new();
    for repeated in 1..1u64 << bits.len() {
        for plain in 0..1u64 << weights.len() {
            let register = sum(weights, plain) + sum(&extras, repeated);
            let of = sum(weights, plain ^ combine(&sets, repeated));
            copies.extend(repeats.iter().map(|r| (register + r.1, of + r.1)));
        }
    }
    copies
}

/// Outer digits of both, which must pair up: those of other axes must be equal, those of registers give repetitions `(from, to)`.
pub(super) fn repetitions(from: &Layout, to: &Layout) -> Option<Vec<(u64, u64)>> {
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
pub(super) fn shuffle(from: &Layout, to: &Layout, elem_bits: u64) -> Option<Shuffle> {
    if !same_warps(from, to) {
        return None;
    }
    let repeats = repetitions(from, to)?;
    let (a, _) = Side::new(from)?.thin()?;
    let (b, copy_bits) = Side::new(to)?.thin()?;
    let limit = (32 / elem_bits.clamp(1, 32)).max(1).ilog2() as usize;
    let common: Vectors = a.regs.iter().copied().filter(|c| b.regs.contains(c)).collect();
    let (vector, rest) = common.split_at(limit.min(common.len()));
    let copies = expand_copies(&copy_bits, &b.weights, &repeats);
    // Registers that both sides have repeat a smaller plan, where the rest is a plan of its own.
    let small = || {
        let (smaller, more) = (a.without(rest), repeats_of(&a, &b, rest, &repeats));
        Some((rounds_of(&smaller, &b.without(rest), vector)?, more))
    };
    let whole = || Some((rounds_of(&a, &b, vector)?, repeats.clone()));
    let (plan, repeats) = small().or_else(whole)?;
    Some(repeated(plan, &repeats, copies))
}

/// The repetitions at every combination of the common registers.
fn repeats_of(a: &Side, b: &Side, common: &[u64], repeats: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let weights = |side: &Side| -> Vec<u64> {
        let at = common.iter().filter_map(|c| side.regs.iter().position(|r| r == c));
        at.map(|k| side.weights[k]).collect()
    };
    let (from, to) = (weights(a), weights(b));
    let shifted = |set: u64| {
        let by = (sum(&from, set), sum(&to, set));
        repeats.iter().map(move |r| (r.0 + by.0, r.1 + by.1))
    };
    (0..1u64 << common.len()).flat_map(shifted).collect()
}

/// Rounds between sides that reach the same elements, with the vector or without one.
fn rounds_of(a: &Side, b: &Side, vector: &[u64]) -> Option<Shuffle> {
    let whole = independent(&a.all());
    let same = dimension(&b.all()) == whole.len() && extension(&whole, &b.all()).is_empty();
    if !same || !a.apart() || !b.apart() {
        return None;
    }
    rounds(a, b, &whole, vector).or_else(|| rounds(a, b, &whole, &[]))
}

/// The plan at every repetition.
fn repeated(plan: Shuffle, repeats: &[(u64, u64)], copies: Vec<(u64, u64)>) -> Shuffle {
    let at = |repeat: &(u64, u64)| {
        let repeat = *repeat;
        plan.rounds.iter().map(move |r| Round { repeat, ..*r })
    };
    let rounds = repeats.iter().flat_map(at).collect();
    Shuffle { rounds, copies, ..plan }
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

/// The part that is the same in all rounds.
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
        // A lane receives the element of the round that lies in its registers.
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

    /// A lane sends the element of the round whose sender it is.
    fn send(&self, start: u64, home: u64) -> Option<LaneMap> {
        let fill = extension(&self.senders, &units(5));
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

/// Vectors that two register sets share: exported for the bound of section 5.4 in tests.
#[cfg(test)]
pub(crate) fn shared_lanes(from: &Layout, to: &Layout) -> usize {
    let lanes = |l: &Layout| -> Vectors { l.basis(Axis::Lane).iter().map(|b| l.pack_outs(&b.out)).collect() };
    crate::layout::space::intersection(&lanes(from), &lanes(to)).len()
}
