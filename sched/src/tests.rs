//! Tests of schedules as data, without their expansion: rings, depths, staging slots, deferral.

use crate::{Graph, SchedError, declines_deferral, do_modulo, do_schedule, do_smem};
use smallvec::smallvec;
use warplift_ir::Bump;
use warplift_ir::Deadline;
use warplift_ir::entity::PrimaryMap;
use warplift_ir::machine::*;
use warplift_ir::manifest::Expr;
use warplift_ir::target::{Opcode, Rows, SM90A, Target};
use warplift_ir::tile::Loc;
use warplift_ir::types::Elem;

/// The parameters of a test's GEMM.
#[derive(Clone, Copy)]
struct Shape {
    /// Bytes of a stage of each operand.
    operands: [u32; 2],
    /// Depth that the mapping asks for.
    wish: Option<u32>,
    /// Groups in flight that the mapping asks for.
    wait: Option<u32>,
    /// Whether the kernel has a loop over tiles, so that its results may be deferred.
    tiles: bool,
    /// Number of stores of a tile.
    chunks: u32,
    /// Registers of the accumulator.
    regs: u16,
    /// Whether the trip count depends on the tile.
    varying: bool,
    /// Number of computing warps.
    warps: u32,
}

const GEMM: Shape = Shape {
    operands: [16 << 10, 32 << 10],
    wish: None,
    wait: None,
    tiles: true,
    chunks: 4,
    regs: 128,
    varying: false,
    warps: 8,
};

struct Build<'a> {
    func: Func<'a>,
    buffers: PrimaryMap<Buffer, BufferData>,
}

impl<'a> Build<'a> {
    fn at(&mut self, block: Block) -> Cursor<'_, 'a> {
        Cursor::new(&mut self.func, block, Loc::default())
    }

    fn buffer(&mut self, bytes: u32, kind: BufferKind) -> Buffer {
        self.buffers.push(BufferData { name: "x".to_owned(), bytes, align: 1024, kind })
    }

    fn looped(&mut self, block: Block, args: &[Value], body: Block, attr: LoopAttr) -> Inst {
        let types: Vec<Ty> = args[3..].iter().map(|&v| self.func.ty(v)).collect();
        let new = NewInst::new(Opcode::For, args, &types).blocks(&[body]);
        self.at(block).push(new.attr(Attr::Loop(Box::new(attr))))
    }

    fn load(&mut self, block: Block, buffer: Buffer, bytes: u32) -> Value {
        let zero = self.at(block).imm(0);
        let place = Some(Place { buffer, offset: 0 });
        let attr = TmaAttr {
            map: 0,
            rank: 2,
            bytes,
            place,
            multicast: 0,
            hint: CacheHint::Normal,
            before_wait: false,
        };
        let new = NewInst::new(Opcode::TmaLoad, &[zero, zero], &[Ty::Event]);
        self.at(block).value(new.attr(Attr::Tma(attr)))
    }

    fn product(&mut self, block: Block, acc: Value, [a, b]: [Buffer; 2]) -> Value {
        let operand = |buffer| SharedOperand {
            place: Place { buffer, offset: 0 },
            warpgroup_stride: 0,
            atom_stride: 0,
            steps: smallvec![0],
            leading: 16,
            stride: 1024,
            swizzle: 128,
            mn_major: false,
        };
        let attr = WgmmaAttr {
            n: 256,
            elem: Elem::F16,
            right: Elem::F16,
            acc: Elem::F32,
            m_atoms: 1,
            n_atoms: 1,
            k_steps: 1,
            negated: false,
            a: Some(operand(a)),
            b: operand(b),
        };
        let keep = self.at(block).imm_of(Ty::Pred, 1);
        let ty = self.func.ty(acc);
        let new = NewInst::new(Opcode::Wgmma, &[acc, keep], &[ty, Ty::Event]);
        let made = self.at(block).push(new.attr(Attr::Wgmma(Box::new(attr))));
        let [sum, event] = [self.func.insts[made].results[0], self.func.insts[made].results[1]];
        self.at(block).push(NewInst::new(Opcode::Await, &[event], &[]));
        sum
    }

    fn store(&mut self, block: Block, x: Value, chunk: u32, staging: Buffer) {
        let start = Attr::Imm(i64::from(4 * chunk));
        let part = self.at(block).value(NewInst::new(Opcode::Slice, &[x], &[Ty::frag(4)]).attr(start));
        let zero = self.at(block).imm(0);
        let attr = Attr::Matrix { count: 4, trans: false, offset: 0, buffer: Some(staging) };
        self.at(block).push(NewInst::new(Opcode::Stmatrix, &[zero, part], &[]).attr(attr));
        let place = Some(Place { buffer: staging, offset: 0 });
        let attr = TmaAttr {
            map: 0,
            rank: 2,
            bytes: 512,
            place,
            multicast: 0,
            hint: CacheHint::Normal,
            before_wait: false,
        };
        self.at(block).push(NewInst::new(Opcode::TmaStore, &[zero, zero, zero], &[]).attr(Attr::Tma(attr)));
    }

    /// The main loop of a tile: loads, a product and its wait. Returns the sums.
    fn sums(
        &mut self,
        shape: &Shape,
        tile: Block,
        buffers: [Buffer; 2],
        [low, high, step]: [Value; 3],
    ) -> Value {
        let nothing = self.at(tile).imm(0);
        let frag = Ty::frag(shape.regs);
        let map = [IndexMap::Whole].into_iter().collect();
        let start = self.at(tile).value(NewInst::new(Opcode::Mov, &[nothing], &[frag]).maps(map));
        let body = self.func.new_block();
        self.func.append_param(body, Ty::B32, true);
        let acc = self.func.append_param(body, frag, false);
        let events = [0, 1].map(|i| self.load(body, buffers[i], shape.operands[i]));
        self.at(body).push(NewInst::new(Opcode::Await, &events, &[]));
        let sum = self.product(body, acc, buffers);
        self.end(body, &[sum]);
        let made = self.looped(tile, &[low, high, step, start], body, attr(shape, false));
        self.func.result(made)
    }

    fn end(&mut self, block: Block, args: &[Value]) {
        self.at(block).push(NewInst::new(Opcode::Yield, args, &[]));
    }
}

fn attr(shape: &Shape, persistent: bool) -> LoopAttr {
    let name = if persistent { "tile" } else { "t" }.to_owned();
    let (depth, wait) = if persistent { (None, None) } else { (shape.wish, shape.wait) };
    LoopAttr {
        name,
        depth,
        producers: 1,
        wait,
        mma_order: None,
        persistent,
        counter: None,
        most: None,
        overlapped: false,
        conditional: false,
    }
}

fn launch() -> LaunchInfo {
    LaunchInfo {
        kernel: "g".to_owned(),
        file: String::new(),
        arguments: Vec::new(),
        params: Vec::new(),
        grid: [1, 1, 1].map(Expr::Const),
        cluster: 1,
        resident: 1,
        pdl: false,
        facts: Vec::new(),
        workspace: Expr::zero(),
    }
}

fn gemm<'a>(shape: &Shape, bump: &'a Bump) -> Program<'a> {
    let mut b = Build { func: Func::new(bump), buffers: PrimaryMap::new() };
    let entry = b.func.entry;
    let buffers = shape.operands.map(|n| b.buffer(n, BufferKind::Ring));
    let staging = b.buffer(16 << 10, BufferKind::Staging);
    let param = |n| NewInst::new(Opcode::LdParam32, &[], &[Ty::B32]).attr(Attr::Param(n));
    let [zero, one] = [0, 1].map(|v| b.at(entry).imm(v));
    let [trips, tiles] = [0, 1].map(|n| b.at(entry).value(param(n)));
    let tile = if shape.tiles { b.func.new_block() } else { entry };
    let high = match shape.tiles {
        true => {
            let number = b.func.append_param(tile, Ty::B32, true);
            if shape.varying { b.at(tile).add(trips, number) } else { trips }
        }
        false => trips,
    };
    let sum = b.sums(shape, tile, buffers, [zero, high, one]);
    let maps = (0..2).map(|offset| IndexMap::Affine { scale: 2, offset }).collect();
    let half = Ty::frag(shape.regs / 2);
    let packed = b.at(tile).value(NewInst::new(Opcode::PackF16, &[sum, sum], &[half]).maps(maps));
    (0..shape.chunks).for_each(|c| b.store(tile, packed, c, staging));
    b.end(tile, &[]);
    if shape.tiles {
        b.looped(entry, &[zero, tiles, one], tile, attr(shape, true));
        b.end(entry, &[]);
    }
    let deferred = shape.tiles;
    let (buffers, func) = (b.buffers, b.func);
    Program {
        launch: launch(),
        buffers,
        warps: shape.warps,
        teams: 1,
        blocks: 1,
        deferred,
        epilogue_warps: false,
        func,
    }
}

fn scheduled(shape: &Shape) -> (Schedule, SharedMap) {
    let bump = Bump::new();
    let program = gemm(shape, &bump);
    verify_structured(&program.func).unwrap_or_else(|e| panic!("{e:?}\n{program}"));
    let mut s = do_schedule(&program, &SM90A).unwrap_or_else(|e| panic!("{e}"));
    let map = do_smem(&program, &mut s, &SM90A).unwrap_or_else(|e| panic!("{e}"));
    (s, map)
}

#[test]
fn what_one_await_names_is_one_ring() {
    let (s, _) = scheduled(&GEMM);
    assert!(s.producer);
    let rings: Vec<&RingData> = s.rings.values().collect();
    assert_eq!(rings.len(), 1);
    assert_eq!((rings[0].buffers.len(), rings[0].bytes), (2, 48 << 10));
}

#[test]
fn rings_are_as_deep_as_memory_allows() {
    let depth = |operands, wish| {
        let (s, map) = scheduled(&Shape { operands, wish, ..GEMM });
        assert!(map.bytes <= SM90A.shared_bytes, "{map:?}");
        s.rings.values().map(|r| r.depth).next().unwrap_or(0)
    };
    assert_eq!(depth([16 << 10, 32 << 10], None), 4);
    assert_eq!(depth([16 << 10, 16 << 10], None), 6);
    assert_eq!(depth([4 << 10, 4 << 10], None), 8, "more hides nothing");
    assert_eq!(depth([16 << 10, 32 << 10], Some(2)), 2, "the mapping's word");
}

#[test]
fn what_cannot_fit_names_limit_and_number() {
    let bump = Bump::new();
    let program = gemm(&Shape { wish: Some(9), ..GEMM }, &bump);
    let mut s = do_schedule(&program, &SM90A).unwrap_or_else(|e| panic!("{e}"));
    match do_smem(&program, &mut s, &SM90A) {
        Err(SchedError::SharedMemory { needed, limit, .. }) => assert!(needed > limit && limit == 232_448),
        other => panic!("{other:?}"),
    }
}

#[test]
fn staging_has_two_slots_where_they_fit() {
    let slots = |operands| {
        let (s, _) = scheduled(&Shape { operands, ..GEMM });
        s.slots[Buffer::from_u32(2)]
    };
    assert_eq!(slots([16 << 10, 32 << 10]), 2);
    // Three stages of 68 KB leave room for one slot of 16 KB, but not for two.
    assert_eq!(slots([34 << 10, 34 << 10]), 1);
}

#[test]
fn stores_are_spread_over_the_first_iterations() {
    let parts = |chunks| scheduled(&Shape { chunks, ..GEMM }).0.deferral.map(|d| d.parts.len());
    assert_eq!(parts(4), Some(4));
    assert_eq!(parts(2), Some(2));
    assert_eq!(parts(8), Some(4), "no more than four iterations are peeled");
}

#[test]
fn a_trip_count_of_each_tile_keeps_deferral() {
    let parts = scheduled(&Shape { varying: true, ..GEMM }).0.deferral.map(|d| d.parts.len());
    assert_eq!(parts, Some(4));
}

#[test]
fn deferral_is_declined_with_its_reason() {
    let reason = |shape: Shape| {
        assert!(scheduled(&shape).0.deferral.is_none());
        let bump = Bump::new();
        let program = gemm(&shape, &bump);
        let graph = Graph::built(&program.func);
        declines_deferral(&program, &graph, &SM90A, &[]).expect("a reason")
    };
    assert!(reason(Shape { chunks: 0, ..GEMM }).contains("nothing is stored"));
    let large = reason(Shape { regs: 192, ..GEMM });
    assert!(large.contains("192") && large.contains("exceed"), "{large}");
}

#[test]
fn one_warpgroup_alone_leaves_products_in_flight() {
    let flying = |shape: Shape| {
        let (s, _) = scheduled(&shape);
        s.in_flight.values().sum::<u32>()
    };
    assert_eq!(flying(GEMM), 0, "two warpgroups");
    assert_eq!(flying(Shape { warps: 4, ..GEMM }), 1);
    assert_eq!(flying(Shape { warps: 4, wait: Some(0), ..GEMM }), 0, "the mapping's word");
    assert_eq!(flying(Shape { wait: Some(1), ..GEMM }), 1, "the mapping's word");
    assert_eq!(flying(Shape { warps: 4, wish: Some(1), ..GEMM }), 0, "one stage cannot be held");
}

#[test]
fn a_program_whose_rows_the_target_lacks_is_refused_by_name() {
    let bump = Bump::new();
    for lacking in [Opcode::PackF16, Opcode::MbarWait, Opcode::BarSync] {
        let mut rows: Rows = *SM90A.rows;
        rows[lacking as usize] = None;
        let target = Target { rows: Box::leak(Box::new(rows)), ..SM90A.clone() };
        let mut program = gemm(&GEMM, &bump);
        let mut graph = Graph::of(&mut program.func);
        match do_modulo(program, &mut graph, &target, &[], Deadline::default()) {
            Err(SchedError::Lacks { lacks, .. }) => assert_eq!(lacks.opcode, lacking),
            other => panic!("{lacking:?}: {:?}", other.map(|o| o.remarks)),
        }
    }
}
