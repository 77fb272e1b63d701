//! Proposals: complete mappings of a kernel, derived from its products and loads.
//!
//! ```text
//!  products of loaded tiles            tiles x raster x epilogue; small tiles that threads load; mma.sync
//!  products with work between them     taller tiles, waits left to the scheduler; raster paired if trip counts differ
//!  left operand of narrow elements     tall tiles of few columns, large tiles; arrays packed, staged or as they are
//!  no product                          extents around the defaults x warps
//! ```
//!
//! Two kinds of tunables are set: those that have a domain, and those that provably tile (`tiling`). Tunables that say
//! what is computed (an extent of a view, a promise about an argument) keep their defaults. Where the sizes break a promise, and a
//! domain is given, the nearest value that keeps it is taken (`promises`).

use super::grants::Grants;
use super::tiling::tiles;
use crate::problem::{behind, depends_on_place};
use rustc_hash::FxHashSet;
use warplift_ir::target::Target;
use warplift_ir::tile::{
    ArrayMapping, BinOp, Depth, Dim, Domain, Epilogue, Inst, InstData, Kernel, KernelMapping, LoopMapping,
    Mapping, Op, ParamData, Places, Products, Raster, Tunable, TunableData, UnOp, Value, ValueDef, Way,
    verify_mapping,
};

/// A tile of a product: rows, columns, depth, and warpgroups that compute.
type Tile = (i64, i64, i64, u32);

/// Tiles worth trying, each with the rasters tried for it. Each pair is tried with a deferred and with a direct
/// epilogue.
const TILES: [(Tile, &[Raster]); 5] = [
    ((128, 256, 64, 2), &[Raster::BandM(16), Raster::BandM(8), Raster::BandN(8), Raster::Linear]),
    ((256, 128, 64, 2), &[Raster::BandM(8), Raster::BandM(16)]),
    ((128, 128, 64, 2), &[Raster::BandM(16), Raster::Linear]),
    ((128, 192, 64, 2), &[Raster::BandM(16)]),
    ((256, 192, 64, 2), &[Raster::BandM(8)]),
];

/// Tiles of loops in which threads compute operands of products or work beside them. Fragments take registers beside
/// the accumulators, so these tiles are narrower. A wide result may be swapped, and takes more warpgroups.
const MIXED_TILES: [Tile; 14] = [
    (128, 128, 64, 2),
    (128, 96, 64, 2),
    (128, 64, 64, 2),
    (128, 176, 64, 2),
    (192, 96, 64, 3),
    (192, 112, 64, 3),
    (192, 128, 64, 3),
    (192, 64, 64, 3),
    (64, 64, 64, 1),
    (128, 256, 64, 2),
    (256, 64, 64, 4),
    (256, 80, 64, 4),
    (256, 96, 64, 4),
    (64, 256, 64, 4),
];

/// Tiles of products whose left operand is computed from narrow elements: rows of the left operand, columns of the
/// right one.
const NARROW_TILES: [Tile; 5] =
    [(448, 16, 64, 7), (448, 32, 64, 7), (256, 16, 64, 4), (128, 64, 64, 2), (128, 256, 64, 2)];

/// Tiles for operands that no tensor copy loads. Threads load them, so the tiles are small.
const PLAIN_TILES: [Tile; 3] = [(128, 128, 32, 2), (128, 64, 32, 2), (64, 64, 32, 1)];

/// Elements of the greatest tile in a thread at most, where that takes no more than 16 warps. ptxas spills where a thread holds twice as many beside
/// what is made of them.
const ELEMENTS_OF_A_THREAD: u64 = 64;

/// Tiles for `mma.sync`, with their warps.
const WARP_TILES: [(Tile, u32); 2] = [((128, 256, 64, 0), 8), ((64, 64, 64, 0), 4)];

/// Depth of the chunks in which an operand is computed.
pub(super) const PART: u32 = 32;

/// Registers of a thread that accumulators may take, including those of deferred results. With 208 ptxas spills, which
/// was measured to take 7.8 times as long.
pub(super) const ACCUMULATORS: i64 = 200;

/// The product that decides the tiles, and the loop around it.
pub(super) struct Anchor<'a> {
    /// The loop.
    pub holder: Option<Inst>,
    /// The loop, if its sums begin with it and not in a loop around it.
    pub begins: Option<Inst>,
    /// The loop's counter.
    pub counter: Option<&'a str>,
    /// Tunables of rows, columns and depth that may be set.
    pub free: [Option<&'a TunableData>; 3],
    /// Extents that no tunable decides.
    pub fixed: [Option<i64>; 3],
    /// Number of products that accumulate side by side.
    pub count: i64,
    /// Whether the loop's only tile instructions are products and the loads of their operands.
    alone: bool,
    /// What copies bring for left and for right operands.
    pub loaded: [Loaded; 2],
    /// Tiles of sums.
    pub sums: usize,
    /// Whether an operand of a product in the loop is made of another one there.
    pub chained: bool,
    /// Whether memory decides the loop's trips.
    pub ragged: bool,
    /// Whether what a block does depends on its place in the grid.
    pub unequal: bool,
    /// Ways of arrays that make narrow operands cheaper; empty if there are none.
    pub arrays: Vec<(String, ArrayMapping)>,
    /// Whether narrow operands are packed before the launch.
    pub packed: bool,
    /// Bits of the narrowest elements that threads convert to an operand of the loop; `None` where they convert none.
    pub narrow_bits: Option<u32>,
    /// Whether the right operand is computed, so that the product will be swapped (`swap_ab`).
    pub turned: bool,
}

/// Complete mappings of a kernel: about 20 if it has products. All obey the domains and asserts of its tunables.
pub fn mappings(kernel: &Kernel, target: &Target, grants: &Grants) -> Vec<Mapping> {
    let obeys = |m: &Mapping| verify_mapping(kernel, m, target).is_ok();
    let Some(anchor) = anchor(kernel, grants) else {
        return elementwise(kernel).into_iter().filter(obeys).collect();
    };
    let found: Vec<Mapping> = products(kernel, &anchor, target).into_iter().filter(obeys).collect();
    if !found.is_empty() {
        return found;
    }
    products(kernel, &anchor.at_defaults(), target).into_iter().filter(obeys).collect()
}

impl Anchor<'_> {
    /// The same anchor with every tunable at its default.
    fn at_defaults(self) -> Self {
        let extent = |i: usize| self.fixed[i].or(self.free[i].map(|t| t.default));
        Self { fixed: [0, 1, 2].map(extent), free: [None; 3], ..self }
    }

    /// The extents nearest to `wish` that the tunables allow. A tunable that names two extents gives both the same
    /// value.
    fn near(&self, wish: [i64; 3]) -> [i64; 3] {
        let same = |t: &TunableData| self.free.iter().position(|f| f.is_some_and(|f| f.name == t.name));
        [0, 1, 2].map(|i| match (self.free[i], self.fixed[i]) {
            (Some(t), _) => t.domain.nearest(wish[same(t).unwrap_or(i)]),
            (None, fixed) => fixed.unwrap_or(wish[i]),
        })
    }
}

/// The product that decides the tiles, if there is one.
pub(super) fn anchor<'k>(kernel: &'k Kernel, grants: &Grants) -> Option<Anchor<'k>> {
    let all: Vec<Inst> =
        kernel.insts.iter().filter(|(_, d)| matches!(d.op, Op::Mma { .. })).map(|(i, _)| i).collect();
    let looped = |mma: Inst| loop_around(kernel, mma);
    let mma = all.iter().copied().find(|&m| looped(m).is_some()).or(all.first().copied())?;
    let shape = |v| kernel.ty(v).shape();
    let (sum, left) = (shape(kernel.args(mma)[0])?, shape(kernel.args(mma)[1])?);
    let dims = [*sum.dims().first()?, *sum.dims().get(1)?, *left.dims().get(1)?];
    let holder = looped(mma);
    let counter = holder.and_then(|h| warplift_isel::loop_name(kernel, h));
    let beside = all.iter().copied().filter(|&m| holder.is_some() && looped(m) == holder);
    let products: Vec<Inst> = if holder.is_some() { beside.collect() } else { vec![mma] };
    let may = settable(kernel);
    let free = |d: Dim| d.alone().filter(|t| may.contains(t));
    let default = |t: Tunable| kernel.tunables[t].default;
    Some(Anchor {
        holder,
        begins: holder.filter(|&h| kernel.args(h)[3..].iter().all(|&v| kernel.def(v).is_some())),
        counter,
        free: dims.map(|d| Some(&kernel.tunables[free(d)?])),
        fixed: dims.map(|d| if free(d).is_some() { None } else { d.resolve(default).map(i64::from) }),
        count: products.len() as i64,
        alone: kernel.args(mma)[1..].iter().all(|&v| is_loaded(kernel, v))
            && beside_products(kernel, holder, mma),
        loaded: [1, 2].map(|side| Loaded::of(kernel, &products, side)),
        sums: products.iter().filter(|&&i| begins(kernel, &products, i)).count().max(1),
        // Without a loop all products are one chain or none.
        chained: is_chain(kernel, if holder.is_some() { &products } else { &all }),
        ragged: holder.is_some_and(|h| {
            let bounds = behind(kernel, kernel.args(h)[..3].to_vec());
            bounds.into_iter().any(|i| kernel.insts[i].op.is_read())
        }),
        unequal: depends_on_place(kernel),
        arrays: arrays(kernel, grants),
        packed: packable_arrays(kernel).iter().any(|name| grants.packs(name)),
        narrow_bits: narrow_bits(kernel).filter(|_| counter.is_some()),
        turned: is_loaded(kernel, kernel.args(mma)[1]) && !is_loaded(kernel, kernel.args(mma)[2]),
    })
}

/// The innermost loop that an instruction stands in, in branches of its body too.
fn loop_around(kernel: &Kernel, inst: Inst) -> Option<Inst> {
    let holds = |d: &InstData| d.blocks.iter().any(|&b| kernel.blocks[b].insts.contains(&inst));
    let (holder, data) = kernel.insts.iter().find(|(_, d)| holds(d))?;
    match data.op {
        Op::For => Some(holder),
        Op::If => loop_around(kernel, holder),
        _ => None,
    }
}

/// Whether a product adds to other sums than the results of these products.
pub(super) fn begins(kernel: &Kernel, products: &[Inst], inst: Inst) -> bool {
    products.iter().all(|&other| kernel.result(other) != kernel.args(inst)[0])
}

/// What copies bring for the operands on one side of all products.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loaded {
    /// Bytes for each element of one operand.
    pub bytes: f64,
    /// Tiles as large as an operand.
    pub tiles: usize,
    /// The load of one of these.
    pub load: Option<Inst>,
}

impl Loaded {
    fn of(kernel: &Kernel, products: &[Inst], side: usize) -> Self {
        let elements = |v: Value| {
            let (shape, default) = (kernel.ty(v).shape()?, |t: Tunable| kernel.tunables[t].default);
            shape.dims().iter().map(|d| d.resolve(default).map(f64::from)).product::<Option<f64>>()
        };
        let operands: Vec<Value> = products.iter().map(|&i| kernel.args(i)[side]).collect();
        let one = operands.first().and_then(|&v| elements(v)).unwrap_or(1.0);
        let behind = behind(kernel, operands).into_iter();
        let loads: Vec<Value> =
            behind.filter(|&i| matches!(kernel.insts[i].op, Op::Load)).map(|i| kernel.result(i)).collect();
        let bytes = |&v: &Value| elements(v).unwrap_or(0.0) * f64::from(kernel.ty(v).elem().bits()) / 8.0;
        let whole: Vec<Value> = loads.iter().copied().filter(|&v| elements(v) >= Some(one)).collect();
        let load = whole.first().and_then(|&v| kernel.def(v));
        Self { bytes: loads.iter().map(bytes).sum::<f64>() / one, tiles: whole.len(), load }
    }
}

/// Whether an operand of one of these products depends on another one, of the same iteration or of the one before.
fn is_chain(kernel: &Kernel, products: &[Inst]) -> bool {
    let mut operands: Vec<Value> = products.iter().flat_map(|&i| kernel.args(i)[1..].to_vec()).collect();
    let mut known = FxHashSet::default();
    while !operands.is_empty() {
        let found = behind(kernel, operands.clone());
        if found.iter().any(|i| products.contains(i)) {
            return true;
        }
        let named = found.iter().flat_map(|&i| kernel.args(i)).copied().chain(operands);
        operands = named.filter_map(|v| carried(kernel, v)).filter(|&v| known.insert(v)).collect();
    }
    false
}

/// What an iteration passes on for a parameter of a loop's body.
fn carried(kernel: &Kernel, v: Value) -> Option<Value> {
    let ValueDef::Param(body, n) = kernel.values[v].def else { return None };
    let looped = |d: &InstData| matches!(d.op, Op::For) && d.blocks.contains(&body);
    let next = (n as usize).checked_sub(1).filter(|_| kernel.insts.values().any(looped))?;
    kernel.yields(body).get(next).copied()
}

/// Tunables that a proposal may set.
pub(super) fn settable(kernel: &Kernel) -> Vec<Tunable> {
    let kept = meant(kernel);
    let may = |t: &Tunable| kernel.tunables[*t].domain != Domain::Any || tiles(kernel, *t);
    kernel.tunables.keys().filter(|t| !kept.contains(t) && may(t)).collect()
}

/// Tunables that say what is computed: those in extents of views and in promises about arguments, and those with which numbers from
/// memory are multiplied.
fn meant(kernel: &Kernel) -> FxHashSet<Tunable> {
    let decided = kernel.settled(|t| kernel.tunables[t].default).asserts;
    let promised = |inst, op: &Op| matches!(op, Op::Assert(_)) && !decided.contains(&inst);
    let mut all = named_by(kernel, |inst, op| matches!(op, Op::View { .. }) || promised(inst, op));
    let factors = kernel.insts.keys().filter_map(|i| factor_of_data(kernel, i));
    all.extend(tunables_behind(kernel, factors.collect()));
    all
}

/// What a number from memory is multiplied with: the unit in which the data counts, as blocks of a sparse matrix.
fn factor_of_data(kernel: &Kernel, inst: Inst) -> Option<Value> {
    let (Op::Binary(BinOp::Mul), &[x, y]) = (&kernel.insts[inst].op, kernel.args(inst)) else { return None };
    let scalar = |v: Value| kernel.ty(v).shape().is_none() && !kernel.ty(v).elem().is_float();
    let is_data = |v: Value| behind(kernel, vec![v]).into_iter().any(|i| kernel.insts[i].op.is_read());
    match [x, y].map(|v| scalar(v) && is_data(v)) {
        [true, false] => Some(y),
        [false, true] => Some(x),
        _ => None,
    }
}

/// Tunables in extents of views.
pub(super) fn in_views(kernel: &Kernel) -> FxHashSet<Tunable> {
    named_by(kernel, |_, op| matches!(op, Op::View { .. }))
}

/// Tunables on which operands of some instructions depend.
fn named_by(kernel: &Kernel, of: impl Fn(Inst, &Op) -> bool) -> FxHashSet<Tunable> {
    let roots = kernel.insts.iter().filter(|(i, d)| of(*i, &d.op));
    tunables_behind(kernel, roots.flat_map(|(i, _)| kernel.args(i).iter().copied()).collect())
}

/// Tunables on which values depend.
fn tunables_behind(kernel: &Kernel, values: Vec<Value>) -> FxHashSet<Tunable> {
    let dims = behind(kernel, values).into_iter().filter_map(|inst| match kernel.insts[inst].op {
        Op::Dim(d) => Some(d),
        _ => None,
    });
    dims.flat_map(Dim::tunables).collect()
}

/// Whether a tile is loaded, or is a view of a loaded tile.
pub(super) fn is_loaded(kernel: &Kernel, v: Value) -> bool {
    kernel.def(v).is_some_and(|d| {
        matches!(kernel.insts[d].op, Op::Load) || (is_view(kernel, d) && is_loaded(kernel, kernel.args(d)[0]))
    })
}

/// Whether products read the tile in the place of the one made of it: transposed, sliced, reshaped, or with another sign.
pub(super) fn is_view(kernel: &Kernel, inst: Inst) -> bool {
    match kernel.insts[inst].op {
        Op::Trans(_) | Op::Slice(_) | Op::Reshape => true,
        Op::Unary(UnOp::Neg) => kernel.ty(kernel.result(inst)).elem().is_float(),
        _ => false,
    }
}

/// Whether a loop's only tile instructions are loads, products and views.
fn beside_products(kernel: &Kernel, holder: Option<Inst>, mma: Inst) -> bool {
    let Some(holder) = holder else { return !kernel.args(mma).is_empty() };
    let tiles = |i: Inst| kernel.results(i).iter().any(|&r| kernel.ty(r).shape().is_some());
    let plain = |i: Inst| matches!(kernel.insts[i].op, Op::Load | Op::Mma { .. }) || is_view(kernel, i);
    let inside = kernel.insts[holder].blocks.iter().flat_map(|&b| &kernel.blocks[b].insts);
    inside.copied().all(|i| !tiles(i) || plain(i))
}

/// Ways of arrays for a kernel that multiplies narrow elements: narrow arrays are packed where that is granted. How the others
/// come is left to the planner: one that no copy brings says nothing about the rest.
fn arrays(kernel: &Kernel, grants: &Grants) -> Vec<(String, ArrayMapping)> {
    let way = |name: &str, v: Value| match grants.packs(name) && !is_column(kernel, v) {
        true => Way::Packed,
        false => Way::Fit,
    };
    let narrow = converted(kernel).into_iter();
    narrow
        .map(|(name, v)| {
            (name.clone(), ArrayMapping { way: way(&name, v), stream: true, before_wait: false })
        })
        .collect()
}

impl Grants {
    /// All narrow arrays that threads convert to operands may be packed.
    pub fn packing(kernel: &Kernel) -> Self {
        let mut grants = Self::default();
        packable_arrays(kernel).iter().for_each(|name| grants.add(name, true, false));
        grants
    }
}

/// Arrays of elements of less than 16 bits whose tiles threads convert to operands, and hold whole registers of.
pub(super) fn packable_arrays(kernel: &Kernel) -> Vec<String> {
    let tiles = converted(kernel).into_iter().filter(|(_, v)| !is_column(kernel, *v));
    tiles.map(|(name, _)| name).collect()
}

/// Whether a tile is one element of each row, or of each column: several threads hold each.
fn is_column(kernel: &Kernel, v: Value) -> bool {
    kernel.ty(v).shape().is_some_and(|s| s.dims().iter().any(|d| d.constant() == Some(1)))
}

/// Bits of the narrowest elements that threads convert to operands.
fn narrow_bits(kernel: &Kernel) -> Option<u32> {
    converted(kernel).into_iter().map(|(_, v)| kernel.ty(v).elem().bits()).min()
}

/// Arrays of elements of less than 16 bits that threads convert to operands, each with one of its tiles. A mask of scores is not one:
/// its operand is made of a product.
fn converted(kernel: &Kernel) -> Vec<(String, Value)> {
    let products = kernel.insts.iter().filter(|(_, d)| matches!(d.op, Op::Mma { .. }));
    let operands = products.flat_map(|(i, _)| kernel.args(i).iter().skip(1).copied());
    let sources = operands.map(|v| behind(kernel, vec![v]));
    let loaded = sources.filter(|all| !all.iter().any(|&i| matches!(kernel.insts[i].op, Op::Mma { .. })));
    let names: FxHashSet<&str> = loaded
        .flatten()
        .filter(|&i| matches!(kernel.insts[i].op, Op::Load))
        .filter_map(|i| Some(kernel.argument_of(kernel.args(i)[0])?.name.as_str()))
        .collect();
    let narrow = |v: Value| kernel.ty(v).elem().bits() < 16;
    beside(kernel).into_iter().filter(|(name, v)| narrow(*v) && names.contains(name.as_str())).collect()
}

/// Arrays whose tiles threads read beside products, staged by copies. Arrays with elements of less than a byte are left out.
pub(super) fn staged(kernel: &Kernel) -> Vec<(String, ArrayMapping)> {
    let whole = |&(_, v): &(String, Value)| kernel.ty(v).shape().is_some() && kernel.ty(v).elem().bits() >= 8;
    let staged = ArrayMapping { way: Way::Staged, ..Default::default() };
    beside(kernel).into_iter().filter(whole).map(|(name, _)| (name, staged)).collect()
}

/// Arrays none of whose loaded tiles is itself an operand of a product, each with one of its tiles.
fn beside(kernel: &Kernel) -> Vec<(String, Value)> {
    let loads = kernel.insts.iter().filter(|(_, d)| matches!(d.op, Op::Load));
    let tiles: Vec<(Value, Value)> = loads
        .filter_map(|(i, _)| Some((kernel.argument_of(kernel.args(i)[0])?.value, kernel.result(i))))
        .collect();
    let direct = |p: Value| tiles.iter().any(|t| t.0 == p && is_operand(kernel, t.1));
    let of = |p: &ParamData| tiles.iter().find(|t| t.0 == p.value).map(|t| (p.name.clone(), t.1));
    kernel.params.iter().filter(|p| !direct(p.value)).filter_map(of).collect()
}

/// Whether a tile is an operand of a product, directly or by a view of it.
pub(super) fn is_operand(kernel: &Kernel, v: Value) -> bool {
    kernel.insts.iter().filter(|(i, _)| kernel.args(*i).contains(&v)).any(|(i, d)| match d.op {
        Op::Mma { .. } => kernel.args(i)[1..].contains(&v),
        _ => is_view(kernel, i) && is_operand(kernel, kernel.result(i)),
    })
}

fn products(kernel: &Kernel, anchor: &Anchor<'_>, target: &Target) -> Vec<Mapping> {
    let mut found: Vec<Mapping> = Vec::new();
    let mut push = |m: Option<Mapping>| {
        if let Some(m) = m.filter(|m| !found.contains(m)) {
            found.push(m);
        }
    };
    let persistent =
        |raster, epilogue| KernelMapping { persistent: true, raster, epilogue, ..Default::default() };
    let propose = |tile, whole, producers| product(kernel, anchor, tile, whole, producers, target);
    match (anchor.alone, anchor.arrays.is_empty()) {
        (true, true) => {
            for (tile, rasters) in TILES {
                for &raster in rasters {
                    for epilogue in [Epilogue::Deferred, Epilogue::Direct] {
                        push(propose(tile, persistent(raster, epilogue), Some(1)));
                    }
                }
            }
            // For few tiles, or for several blocks on one multiprocessor: each block takes one tile.
            push(propose((128, 128, 64, 2), KernelMapping::default(), Some(1)));
            for (tile, warps) in WARP_TILES {
                let whole = KernelMapping {
                    warps: Some(warps),
                    products: Products::MmaSync,
                    ..persistent(Raster::BandM(16), Epilogue::Direct)
                };
                push(propose(tile, whole, Some(1)));
            }
            for tile in PLAIN_TILES {
                push(propose(tile, KernelMapping::default(), Some(0)));
            }
        }
        (_, plain) => {
            // Where one product follows another, what a tile holds beside its sums decides, as where nothing is converted.
            let (mixed_too, narrow) =
                (plain || anchor.chained, if plain { &[][..] } else { &NARROW_TILES[..] });
            let tiles = MIXED_TILES.iter().filter(|_| mixed_too).chain(narrow);
            for &tile in tiles {
                for m in mixed(kernel, anchor, tile, target) {
                    push(Some(m));
                }
            }
        }
    }
    found
}

/// Mappings of one tile size for loops in which threads work beside products. They combine three choices:
///
/// - blocks: one for each tile, or persistent blocks if there are enough columns;
/// - arrays: as they are, staged by copies, or packed;
/// - computed operands: whole, or in chunks.
fn mixed(kernel: &Kernel, anchor: &Anchor<'_>, (m, n, k, groups): Tile, target: &Target) -> Vec<Mapping> {
    let raster = if anchor.unequal { Raster::Paired } else { Raster::Linear };
    // With few columns, narrow data is read once and blocks follow each other, so blocks are persistent only from 64
    // columns on.
    let wide = KernelMapping { persistent: true, raster, ..Default::default() };
    let turned = anchor.turned && !anchor.chained;
    let tile = if turned { (n, m, k, groups) } else { (m, n, k, groups) };
    let drawn = anchor.ragged.then(from_a_counter);
    let many = std::iter::once(wide).chain(drawn).filter(|_| n >= 64);
    let wholes = std::iter::once(KernelMapping::default()).chain(many);
    let plain = wholes.filter_map(|whole| product(kernel, anchor, tile, whole, Some(1), target));
    let ways = [Vec::new(), staged(kernel), anchor.arrays.clone()];
    let mut found = Vec::new();
    for plain in plain {
        for arrays in ways.iter().enumerate().filter(|(n, w)| *n == 0 || !w.is_empty()).map(|w| w.1) {
            let mut m = Mapping { arrays: arrays.clone(), ..plain.clone() };
            found.push(m.clone());
            m.loops.iter_mut().for_each(|(_, l)| l.chunk = Some(PART));
            found.extend((converts(kernel) && !m.arrays.is_empty()).then_some(m));
        }
    }
    found
}

/// Programs that draw their tiles: where memory decides the work on a tile, nothing else shares it out.
pub(super) fn from_a_counter() -> KernelMapping {
    KernelMapping { persistent: true, counter: true, ..KernelMapping::default() }
}

/// Whether threads compute an operand of some product.
pub(super) fn made(kernel: &Kernel) -> bool {
    let products = kernel.insts.iter().filter(|(_, d)| matches!(d.op, Op::Mma { .. })).map(|(i, _)| i);
    products.into_iter().any(|i| kernel.args(i)[1..].iter().any(|&v| !is_loaded(kernel, v)))
}

/// Whether threads compute an operand of some product, and no product is behind it: the result of one is in registers as a whole
/// before a part of it becomes an operand.
fn converts(kernel: &Kernel) -> bool {
    let is_product = |i: &Inst| matches!(kernel.insts[*i].op, Op::Mma { .. });
    let operands = kernel.insts.keys().filter(is_product).flat_map(|i| kernel.args(i)[1..].to_vec());
    let computed = operands.filter(|&v| !is_loaded(kernel, v));
    computed.into_iter().any(|v| !behind(kernel, vec![v]).iter().any(is_product))
}

/// One mapping; `None` if its accumulators need more registers than there are.
fn product(
    kernel: &Kernel,
    anchor: &Anchor<'_>,
    (m, n, k, consumers): Tile,
    whole: KernelMapping,
    producers: Option<u32>,
    target: &Target,
) -> Option<Mapping> {
    let extents = anchor.near([m, n, k]);
    let extent = |i: usize| extents[i];
    let warps = whole.warps.unwrap_or(4 * consumers);
    let sums = extent(0) * extent(1) * anchor.count / (32 * i64::from(warps));
    let held = if whole.epilogue == Epilogue::Deferred { sums / 2 } else { 0 };
    let rows = if whole.warps.is_some() { 16 } else { 16 * i64::from(warps) };
    // A product that may be swapped is divided among warps by its columns.
    let shared = extent(0) % rows == 0 || (!anchor.alone && extent(1) % rows == 0);
    if sums + held > ACCUMULATORS.min(i64::from(target.thread_registers)) || !shared {
        return None;
    }
    let pipeline = if producers == Some(0) { Depth::Stages(3) } else { Depth::Fit };
    let groups = whole.warps.is_none();
    let looped = LoopMapping {
        pipeline,
        producers,
        consumers: groups.then_some(consumers),
        wait: (groups && anchor.alone).then_some(0),
        ..Default::default()
    };
    Some(mapping(kernel, anchor, extents, looped, whole))
}

/// A mapping of these extents.
pub(super) fn mapping(
    kernel: &Kernel,
    anchor: &Anchor<'_>,
    extents: [i64; 3],
    looped: LoopMapping,
    whole: KernelMapping,
) -> Mapping {
    let mut tunables: Vec<(String, i64)> = Vec::new();
    for (free, extent) in anchor.free.iter().zip(extents) {
        let named = free.filter(|t| tunables.iter().all(|(name, _)| *name != t.name));
        tunables.extend(named.map(|t| (t.name.clone(), extent)));
    }
    Mapping {
        kernel: kernel.name.clone(),
        tunables,
        loops: anchor.counter.map(|c| (c.to_owned(), looped)).into_iter().collect(),
        arrays: Vec::new(),
        tiles: Vec::new(),
        promises: Vec::new(),
        whole,
        places: Places::default(),
    }
}

/// Combinations of extents around the defaults, where they may be set, with numbers of warps.
fn elementwise(kernel: &Kernel) -> Vec<Mapping> {
    let mut choices: Vec<Vec<(String, i64)>> = vec![Vec::new()];
    for t in settable(kernel).into_iter().take(2).map(|t| &kernel.tunables[t]) {
        let wishes = [t.default, t.default / 2, t.default.saturating_mul(2)];
        let mut extents: Vec<i64> = Vec::new();
        for extent in wishes.into_iter().filter(|&e| e > 0).map(|e| t.domain.nearest(e)) {
            extents.extend((!extents.contains(&extent)).then_some(extent));
        }
        let extended = extents.into_iter().flat_map(|e| {
            choices.iter().map(move |c| c.iter().cloned().chain([(t.name.clone(), e)]).collect())
        });
        choices = extended.collect();
    }
    let each = choices.into_iter().flat_map(|tunables| {
        let least = least_warps(kernel, &tunables);
        [least, 2 * least].map(|warps| Mapping {
            kernel: kernel.name.clone(),
            tunables: tunables.clone(),
            whole: KernelMapping { warps: Some(warps), ..Default::default() },
            ..Default::default()
        })
    });
    each.collect()
}

/// Four warps, or as many as hold the greatest loaded tile in few registers.
fn least_warps(kernel: &Kernel, tunables: &[(String, i64)]) -> u32 {
    let of = |t: Tunable| {
        let data = &kernel.tunables[t];
        super::given(tunables, &data.name).unwrap_or(data.default)
    };
    let loads = kernel.insts.iter().filter(|(_, d)| matches!(d.op, Op::Load)).map(|(i, _)| i);
    let elements = loads.filter_map(|i| {
        let shape = kernel.ty(kernel.result(i)).shape()?;
        shape.dims().iter().map(|d| d.resolve(of).map(u64::from)).product::<Option<u64>>()
    });
    let threads = elements.max().unwrap_or(1).div_ceil(ELEMENTS_OF_A_THREAD);
    (threads as u32 / 32).clamp(4, 16).next_power_of_two()
}

/// Puts values of tunables over a mapping's.
pub(super) fn set(mapping: &mut Mapping, defines: &[(String, i64)]) {
    for (name, value) in defines {
        match mapping.tunables.iter_mut().find(|t| t.0 == *name) {
            Some(tunable) => tunable.1 = *value,
            None => mapping.tunables.push((name.clone(), *value)),
        }
    }
}
