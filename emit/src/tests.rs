//! Texts of small programs. Registers are given by hand, one name per value; that the texts assemble is
//! tested where the assembler is.

use crate::{Allocations, EmitError, emit};
use warplift_ir::Bump;
use warplift_ir::entity::EntityRef;
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::*;
use warplift_ir::manifest::{Argument, Expr, Param, TensorMap};
use warplift_ir::target::{Arch, Class, Lacks, Opcode, Rows, SM90A, Target};
use warplift_ir::tile::{Assumption, CmpOp, Loc};
use warplift_ir::types::Elem;

/// One name per value; constants are literals, an accumulator's result lies on its operand.
fn names(func: &Func<'_>) -> Allocation {
    let mut alloc = Allocation::default();
    let [mut r, mut d, mut p] = [0u16; 3];
    let mut places: SecondaryMap<Value, Option<Operand>> = SecondaryMap::new();
    let take = |n: &mut u16, by: u16| {
        *n += by;
        *n - by
    };
    for (v, data) in func.values.iter() {
        places[v] = Some(match (func.constant(v), data.ty) {
            (Some(c), _) => Operand::Literal(c),
            (_, Ty::Pred) => Operand::Scalar(Reg::Pred(take(&mut p, 1))),
            (_, Ty::B64) => Operand::Scalar(Reg::D(take(&mut d, 1))),
            (_, Ty::Frag { regs, .. }) => Operand::Fragment(take(&mut r, regs), regs),
            (_, Ty::Event) => Operand::None,
            _ => Operand::Scalar(Reg::R(take(&mut r, 1))),
        });
    }
    for (inst, data) in func.insts.iter() {
        if data.op == Opcode::Wgmma {
            places[data.results[0]] = places[data.args[0]].clone();
        }
        let values = data.args.iter().chain(data.results).copied().chain(data.guard.map(|g| g.pred));
        alloc.insts[inst] = values.filter_map(|v| places[v].clone()).collect();
    }
    alloc.names = [r, d, p].map(u32::from);
    alloc
}

fn launch() -> LaunchInfo {
    let argument = |name: &str, ty: &str| Argument {
        name: name.into(),
        ty: ty.into(),
        written: false,
        before_wait: false,
        packing: None,
    };
    let map = TensorMap {
        base: "a".into(),
        offset: Expr::zero(),
        element: "f16".into(),
        dims: vec![Expr::Const(64), Expr::Const(64)],
        strides: vec![Expr::Const(128)],
        box_dims: vec![64, 64],
        swizzle: 128,
        l2_promotion: 256,
    };
    LaunchInfo {
        kernel: "k".into(),
        file: "k.tile".into(),
        arguments: vec![argument("a", "ptr<f16>"), argument("n", "i32"), argument("x", "f32")],
        params: vec![
            Param::TensorMap(map),
            Param::Argument { name: "a".into() },
            Param::Argument { name: "n".into() },
            Param::Argument { name: "x".into() },
            Param::Workspace { offset: Expr::zero() },
        ],
        grid: [Expr::Const(1), Expr::Const(1), Expr::Const(1)],
        cluster: 1,
        resident: 1,
        pdl: false,
        facts: vec![],
        workspace: Expr::zero(),
    }
}

fn empty(bump: &Bump) -> Func<'_> {
    let mut func = Func::new(bump);
    let entry = func.entry;
    func.push(entry, NewInst::new(Opcode::Ret, &[], &[]));
    func
}

fn program<'a>(setup: Func<'a>, funcs: Vec<Func<'a>>) -> (Scheduled<'a>, Allocations) {
    let allocs = Allocations { setup: names(&setup), roles: funcs.iter().map(names).collect() };
    let role = |(i, func)| Role {
        name: ["producer", "consumer", "third"][i],
        first_warp: 4 * i as u32,
        warps: 4,
        copiers: 0,
        registers: 168,
        func,
    };
    let roles: Vec<Role<'_>> = funcs.into_iter().enumerate().map(role).collect();
    let threads = 128 * roles.len() as u32;
    (Scheduled { launch: launch(), threads, shared: SharedMap::default(), setup, roles }, allocs)
}

fn text(func: Func<'_>) -> String {
    let (program, allocs) = program(empty(func.bump), vec![func]);
    emit(&program, &allocs, &SM90A).map_or_else(|e| e.to_string(), |o| o.ptx)
}

fn has(text: &str, lines: &[&str]) {
    let mut rest = text;
    for line in lines {
        let at = rest.find(line);
        assert!(at.is_some(), "`{line}` is missing, or out of order, in\n{text}");
        rest = &rest[at.unwrap_or(0) + line.len()..];
    }
}

/// A value of each class to feed rows with.
struct Feed {
    pred: Value,
    half: Value,
    word: Value,
    long: Value,
    quad: Value,
}

fn feed(c: &mut Cursor<'_, '_>) -> Feed {
    let word = c.op(Opcode::Tid, &[], Ty::B32);
    let long = c.value(NewInst::new(Opcode::ParamAddr, &[], &[Ty::B64]).attr(Attr::Param(0)));
    Feed {
        pred: c.compare(CmpOp::Lt, word, word),
        half: c.op(Opcode::Undef, &[], Ty::B16),
        quad: c.op(Opcode::Undef, &[], Ty::frag(4)),
        word,
        long,
    }
}

fn attr_of(op: Opcode) -> Attr {
    match op {
        op if SM90A.row(op).syntax.contains("$c") => Attr::Cmp(CmpOp::Ne),
        Opcode::ParamAddr => Attr::Param(0),
        Opcode::LdParam64 => Attr::Param(1),
        Opcode::LdParam32 | Opcode::LdParam16 => Attr::Param(2),
        Opcode::ShflBfly | Opcode::MbarInit | Opcode::MbarExpectTx | Opcode::Lop3 => Attr::Imm(16),
        Opcode::WgmmaWait
        | Opcode::BulkWait
        | Opcode::BulkWaitRead
        | Opcode::CpAsyncWait
        | Opcode::Pmevent => Attr::Imm(1),
        Opcode::BarSync | Opcode::BarArrive => Attr::Imm2(1, 128),
        Opcode::SetmaxnregInc => Attr::Imm(168),
        Opcode::SetmaxnregDec => Attr::Imm(40),
        Opcode::LdGlobal
        | Opcode::LdShared
        | Opcode::StGlobal
        | Opcode::StShared
        | Opcode::RedGlobalAddF32
        | Opcode::RedGlobalAddF16x2
        | Opcode::RedGlobalAddBf16x2 => Attr::Mem { offset: 16, count: 4 },
        Opcode::LdGlobal16
        | Opcode::StGlobal16
        | Opcode::StGlobal8
        | Opcode::StShared8
        | Opcode::RedGlobalAddS32
        | Opcode::RedSharedAddF32
        | Opcode::RedSharedAddS32
        | Opcode::RedSharedMinS32
        | Opcode::RedSharedMaxS32
        | Opcode::RedSharedMinU32
        | Opcode::RedSharedMaxU32
        | Opcode::AtomIncU32
        | Opcode::AtomIncRelaxedU32
        | Opcode::RedGlobalMinS32
        | Opcode::RedGlobalMaxS32
        | Opcode::RedGlobalMinU32
        | Opcode::RedGlobalMaxU32
        | Opcode::MbarWait => Attr::Mem { offset: 8, count: 1 },
        Opcode::Stmatrix | Opcode::Ldmatrix => {
            Attr::Matrix { count: 4, trans: true, offset: 64, buffer: None }
        }
        Opcode::MmaSync => Attr::Mma(MmaAttr { elem: Elem::F16, acc: Elem::F32, m_atoms: 1, n_atoms: 1 }),
        Opcode::CpAsync => Attr::Copy(CopyAttr { bytes: 16, source: 32, place: None, offset: 64 }),
        Opcode::Assume | Opcode::Assume64 => {
            Attr::Assume { promise: Assumption { multiple: 8, min: 0, max: 64 }, signed: true }
        }
        Opcode::Printf => Attr::Print("x %d\n".to_owned()),
        _ => Attr::None,
    }
}

fn classes(list: &[Class], f: &Feed) -> Vec<Value> {
    let of = |c: &Class| match c {
        Class::Pred => f.pred,
        Class::B16 => f.half,
        Class::B32 => f.word,
        Class::B64 => f.long,
        Class::Any => f.quad,
    };
    list.iter().map(of).collect()
}

fn types(list: &[Class]) -> Vec<Ty> {
    let of = |c: &Class| match c {
        Class::Pred => Ty::Pred,
        Class::B16 => Ty::B16,
        Class::B32 => Ty::B32,
        Class::B64 => Ty::B64,
        Class::Any => Ty::frag(4),
    };
    list.iter().map(of).collect()
}

/// Rows whose text needs more than operands by class.
fn plain(op: Opcode) -> bool {
    use Opcode::*;
    let special = [
        Const, Undef, Join, Slice, Pick, TeamIndex, Await, For, If, Yield, Br, BrIf, Ret, Trap, Wgmma,
        MmaSync, CpAsync, TmaLoad, BulkLoad, TmaStore, ArrayBase,
    ];
    !special.contains(&op)
}

/// A function with every plain row once, guarded where `guarded`.
fn all_rows(bump: &Bump, guarded: bool) -> Func<'_> {
    let mut func = Func::new(bump);
    let entry = func.entry;
    let mut c = Cursor::new(&mut func, entry, Loc::default());
    let f = feed(&mut c);
    let pred = f.pred;
    for row in SM90A.rows().filter(|r| plain(r.opcode)) {
        let (args, results) = (classes(row.opcode.args(), &f), types(row.opcode.results()));
        let guard = guarded.then_some(Guard { pred, negated: true });
        c.push(NewInst::new(row.opcode, &args, &results).attr(attr_of(row.opcode)).guard(guard));
    }
    c.push(NewInst::new(Opcode::Ret, &[], &[]));
    func
}

#[test]
fn every_row_is_written() {
    let bump = Bump::new();
    for guarded in [false, true] {
        let text = text(all_rows(&bump, guarded));
        let names = ["producer", "setup", "consumer"];
        for (at, _) in text.match_indices('$') {
            assert!(names.iter().any(|n| text[at + 1..].starts_with(n)), "a place is left: {}", &text[at..]);
        }
        for row in SM90A.rows().filter(|r| plain(r.opcode) && !r.syntax.is_empty()) {
            let last = row.syntax.trim_end_matches([' ', ';', '}']).rsplit(';').next().unwrap_or("").trim();
            let name = last.split(['$', ' ']).next().unwrap_or("");
            assert!(text.contains(name), "`{name}` of {} is missing in\n{text}", row.opcode.name());
        }
    }
}

#[test]
fn a_step_of_a_product_of_warps_is_an_instruction_for_each_atom() {
    let bump = Bump::new();
    let mut func = Func::new(&bump);
    let entry = func.entry;
    let mut c = Cursor::new(&mut func, entry, Loc::default());
    let [acc, a, b] = [16, 8, 4].map(|n| c.op(Opcode::Undef, &[], Ty::frag(n)));
    let attr = MmaAttr { elem: Elem::Bf16, acc: Elem::F32, m_atoms: 2, n_atoms: 2 };
    let new = NewInst::new(Opcode::MmaSync, &[acc, a, b], &[Ty::frag(16)]).attr(Attr::Mma(attr));
    let sum = c.value(new);
    let base = c.op(Opcode::SharedBase, &[], Ty::B32);
    let attr = Attr::Mem { offset: 0, count: 4 };
    let part = c.value(NewInst::new(Opcode::Slice, &[sum], &[Ty::frag(4)]).attr(Attr::Imm(0)));
    c.push(NewInst::new(Opcode::StShared, &[base, part], &[]).attr(attr));
    c.push(NewInst::new(Opcode::Ret, &[], &[]));
    let text = text(func);
    assert_eq!(text.matches("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 ").count(), 4, "{text}");
}

#[test]
fn literals_are_read_by_type() {
    let bump = Bump::new();
    let mut func = Func::new(&bump);
    let entry = func.entry;
    let mut c = Cursor::new(&mut func, entry, Loc { line: 3, column: 7 });
    let (bits, x) = (c.imm(i64::from(1.5f32.to_bits())), c.op(Opcode::Tid, &[], Ty::B32));
    let sum = c.op(Opcode::AddF32, &[x, bits], Ty::B32);
    c.op(Opcode::AddS32, &[sum, bits], Ty::B32);
    c.push(NewInst::new(Opcode::Ret, &[], &[]));
    let f = ".file 1 \"k.tile\"";
    let lines =
        [f, ".loc 1 3 7\n", "add.f32 %r1, %r0, 0f3FC00000;\n", "add.s32 %r2, %r1, 1069547520;\nret;\n"];
    has(&text(func), &lines);
}

#[test]
fn guarded_loads_leave_zeros() {
    let bump = Bump::new();
    let mut func = Func::new(&bump);
    let entry = func.entry;
    let mut c = Cursor::new(&mut func, entry, Loc::default());
    let base = c.op(Opcode::SharedBase, &[], Ty::B32);
    let pred = c.compare(CmpOp::Lt, base, base);
    let load =
        NewInst::new(Opcode::LdShared, &[base], &[Ty::frag(2)]).attr(Attr::Mem { offset: -4, count: 2 });
    let pair = c.value(load.guard(Some(Guard { pred, negated: false })));
    let maps = [IndexMap::Table([1, 0].into())].into_iter().collect();
    let swapped = c.push(NewInst::new(Opcode::Mov, &[pair], &[Ty::frag(2)]).maps(maps));
    c.push(NewInst::new(Opcode::Ret, &[], &[]));
    let (program, mut allocs) = program(empty(&bump), vec![func]);
    allocs.roles[0].insts[swapped][1] = Operand::Scattered([2, 3].into());
    let text = emit(&program, &allocs, &SM90A).map_or_else(|e| e.to_string(), |o| o.ptx);
    let zeros = "mov.b32 %r1, 0;\nmov.b32 %r2, 0;\n@%p0 ld.shared.v2.b32 {%r1, %r2}, [%r0+-4];\n";
    has(&text, &[zeros, "mov.b32 %r3, %r1;\nret;\n"]);
}

/// A second chip: the first one's table less the rows that an older one lacks.
fn older() -> Target {
    let arch = Arch { number: 80, specific: false };
    let mut rows: Rows = *SM90A.rows;
    Opcode::ALL.iter().filter(|op| !arch.runs(op.least())).for_each(|&op| rows[op as usize] = None);
    Target { arch, least_ptx: 70, rows: Box::leak(Box::new(rows)), ..SM90A.clone() }
}

#[test]
fn the_text_names_its_target_and_what_that_lacks_is_refused() {
    let bump = Bump::new();
    let older = older();
    let (fits, allocs) = program(empty(&bump), vec![empty(&bump)]);
    let text = emit(&fits, &allocs, &older).map_or_else(|e| e.to_string(), |o| o.ptx + &o.manifest.target);
    assert!(text.starts_with(".version 7.0\n.target sm_80\n") && text.ends_with("sm_80"), "{text}");
    for opcode in [Opcode::WgmmaFence, Opcode::BulkCommit] {
        let mut func = Func::new(&bump);
        let entry = func.entry;
        func.push(entry, NewInst::new(opcode, &[], &[]));
        func.push(entry, NewInst::new(Opcode::Ret, &[], &[]));
        let (program, allocs) = program(empty(&bump), vec![func]);
        assert!(emit(&program, &allocs, &SM90A).is_ok());
        let Err(EmitError::Lacks { lacks, .. }) = emit(&program, &allocs, &older) else {
            panic!("{} is written for {}", opcode.name(), older.arch);
        };
        assert_eq!(lacks, Lacks { opcode, target: older.arch });
    }
}

#[test]
fn structured_rows_are_refused() {
    let bump = Bump::new();
    let mut func = Func::new(&bump);
    let entry = func.entry;
    func.push(entry, NewInst::new(Opcode::Yield, &[], &[]));
    let (program, allocs) = program(empty(&bump), vec![func]);
    let error = emit(&program, &allocs, &SM90A).map(|o| o.ptx);
    assert!(matches!(error, Err(EmitError::Unscheduled { row: "yield", .. })), "{error:?}");
}

fn shared(mn_major: bool) -> SharedOperand {
    SharedOperand {
        place: Place { buffer: Buffer::new(0), offset: 0 },
        warpgroup_stride: 0,
        atom_stride: 0,
        steps: [0, 32].into_iter().collect(),
        leading: 16,
        stride: 1024,
        swizzle: 128,
        mn_major,
    }
}

fn product(a: Option<SharedOperand>, m_atoms: u8, elem: Elem) -> Attr {
    let negated = elem == Elem::F16;
    let b = shared(true);
    Attr::Wgmma(Box::new(WgmmaAttr {
        n: 16,
        elem,
        right: elem,
        acc: Elem::F32,
        m_atoms,
        n_atoms: 1,
        k_steps: 2,
        negated,
        a,
        b,
    }))
}

#[test]
fn products_go_step_by_step_and_atom_by_atom() {
    let bump = Bump::new();
    let mut func = Func::new(&bump);
    let entry = func.entry;
    let mut c = Cursor::new(&mut func, entry, Loc::default());
    let f = feed(&mut c);
    let (on, off) = (c.imm_of(Ty::Pred, 1), c.imm_of(Ty::Pred, 0));
    let acc = c.op(Opcode::Undef, &[], Ty::Frag { regs: 16, atom: 8 });
    let a = c.op(Opcode::Undef, &[], Ty::Frag { regs: 16, atom: 4 });
    let frag = [Ty::Frag { regs: 16, atom: 8 }];
    let (long, other) = (f.long, c.op(Opcode::Mov64, &[f.long], Ty::B64));
    c.push(NewInst::new(Opcode::WgmmaFence, &[], &[]));
    let memory = [acc, off, a, long, other];
    let acc = c.value(NewInst::new(Opcode::Wgmma, &memory, &frag).attr(product(None, 2, Elem::Bf16)));
    let memory = [acc, f.pred, long, long, other, other, long, other];
    let acc =
        c.value(NewInst::new(Opcode::Wgmma, &memory, &frag).attr(product(Some(shared(false)), 2, Elem::F16)));
    let bytes = Elem::E4M3;
    let memory = [acc, on, long, long, other, other, long, other];
    c.push(NewInst::new(Opcode::Wgmma, &memory, &frag).attr(product(Some(shared(false)), 2, bytes)));
    c.push(NewInst::new(Opcode::WgmmaCommit, &[], &[]));
    c.push(NewInst::new(Opcode::WgmmaWait, &[], &[]).attr(Attr::Imm(0)));
    c.push(NewInst::new(Opcode::Ret, &[], &[]));
    let text = text(func);
    let acc =
        ["{%r6, %r7, %r8, %r9, %r10, %r11, %r12, %r13}", "{%r14, %r15, %r16, %r17, %r18, %r19, %r20, %r21}"];
    let regs = "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 ";
    let bytes = "wgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3 ";
    has(
        &text,
        &[
            &format!("{regs}{}, {{%r22, %r23, %r24, %r25}}, %d0, %off, 1, 1, 1;", acc[0]),
            &format!("{regs}{}, {{%r30, %r31, %r32, %r33}}, %d0, %off, 1, 1, 1;", acc[1]),
            &format!("{regs}{}, {{%r26, %r27, %r28, %r29}}, %d1, %on, 1, 1, 1;", acc[0]),
            &format!("{}, %d0, %d0, %p0, -1, 1, 0, 1;", acc[0]),
            &format!("{}, %d1, %d0, %p0, -1, 1, 0, 1;", acc[1]),
            &format!("{}, %d0, %d1, %on, -1, 1, 0, 1;", acc[0]),
            &format!("{bytes}{}, %d0, %d0, %on, 1, 1;", acc[0]),
        ],
    );
}

/// Spins on barriers in a loop and copies a box on every turn.
fn copies<'a>(bump: &'a Bump, multicast: u16, hint: CacheHint) -> Func<'a> {
    let mut func = Func::new(bump);
    let (entry, body, exit) = (func.entry, func.new_block(), func.new_block());
    func.order.extend([body, exit]);
    let mut c = Cursor::new(&mut func, entry, Loc::default());
    let base = c.op(Opcode::SharedBase, &[], Ty::B32);
    let (zero, last) = (c.imm(0), c.op(Opcode::CtaidX, &[], Ty::B32));
    let done = c.compare(CmpOp::Ge, base, last);
    let enter = c.push(NewInst::new(Opcode::Br, &[], &[]));
    c.block = body;
    let tma = TmaAttr { map: 0, rank: 2, bytes: 8192, place: None, multicast, hint, before_wait: false };
    let mem = Attr::Mem { offset: 64, count: 1 };
    c.push(NewInst::new(Opcode::MbarWait, &[base, zero], &[]).attr(mem));
    let place = [base, base, zero, last];
    let load = NewInst::new(Opcode::TmaLoad, &place, &[]);
    c.push(load.attr(Attr::Tma(tma)).guard(Some(Guard { pred: done, negated: false })));
    c.push(NewInst::new(Opcode::TmaStore, &[base, last, zero], &[]).attr(Attr::Tma(tma)));
    let again = c.push(NewInst::new(Opcode::BrIf, &[done], &[]));
    c.block = exit;
    c.push(NewInst::new(Opcode::Ret, &[], &[]));
    func.add_target(enter, body, &[]);
    func.add_target(again, body, &[]);
    func.add_target(again, exit, &[]);
    func
}

#[test]
fn copies_loops_and_roles() {
    let bump = Bump::new();
    let roles = vec![copies(&bump, 3, CacheHint::Last), copies(&bump, 0, CacheHint::Normal)];
    let (mut program, allocs) = program(empty(&bump), roles);
    program.launch.cluster = 2;
    program.shared.bytes = 8256;
    let output = emit(&program, &allocs, &SM90A);
    let text = output.as_ref().map_or_else(EmitError::to_string, |o| o.ptx.clone());
    has(
        &text,
        &[
            ".reqntid 256,1,1\n.minnctapersm 1\n.explicitcluster\n.reqnctapercluster 2,1,1\n{\n",
            "setp.ge.u32 %is, %warp, 4;\n@%is bra.uni $consumer;\n}\n$producer:\n{\n",
            "mov.b64 %map0, param0;\ncvta.param.u64 %map0, %map0;\n",
            "$producer_b1:\n.pragma \"nounroll\";\n{ .reg .pred done;\n$producer_wait0:\n",
            "mbarrier.try_wait.parity.shared::cta.b64 done, [%r0+64], 0;\n@!done bra $producer_wait0;\n}\n",
            "@%p0 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes",
            ".multicast::cluster.L2::cache_hint [%r0], [%map0, {0, %r1}], [%r0], 3, 0x14f0000000000000;\n",
            "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group.L2::cache_hint [%map0, {%r1, 0}], [%r0]",
            "@%p0 bra.uni $producer_b1;\n$producer_b2:\nret;\n}\n$consumer:\n",
        ],
    );
    let manifest = output.map(|o| o.manifest);
    let launch = manifest.map(|m| (m.block, m.dynamic_shared, m.cluster, m.roles[1].warps, m.entry));
    assert_eq!(launch, Ok((256, 8256, [2, 1, 1], [4, 4], "k".to_owned())));
}

#[test]
fn free_views_move_only_what_lies_elsewhere() {
    let bump = Bump::new();
    let mut func = Func::new(&bump);
    let entry = func.entry;
    let mut c = Cursor::new(&mut func, entry, Loc::default());
    let quad = c.op(Opcode::Undef, &[], Ty::frag(4));
    let even = c.push(NewInst::new(Opcode::Slice, &[quad], &[Ty::frag(2)]).attr(Attr::Imm2(0, 2)));
    let one = c.imm(1);
    let even_value = c.func.result(even);
    let join = c.push(NewInst::new(Opcode::Join, &[even_value, one], &[Ty::frag(3)]));
    c.push(NewInst::new(Opcode::Ret, &[], &[]));
    let (program, mut allocs) = program(empty(&bump), vec![func]);
    let view = Operand::Scattered([0, 2].into());
    allocs.roles[0].insts[even][1] = view.clone();
    allocs.roles[0].insts[join] = vec![view, Operand::Literal(1), Operand::Fragment(0, 3)];
    let text = emit(&program, &allocs, &SM90A).map_or_else(|e| e.to_string(), |o| o.ptx);
    has(&text, &[";\nmov.b32 %r1, %r2;\nmov.b32 %r2, 1;\nret;\n"]);
    allocs.roles[0].insts[join].pop();
    let error = emit(&program, &allocs, &SM90A).map(|o| o.ptx);
    assert!(matches!(error, Err(EmitError::Register { row: "join", operand: 2, .. })), "{error:?}");
}
