//! Every state of a function reads back; no text makes the parser panic.

use super::super::*;
use super::{parse_func, parse_program, parse_scheduled};
use crate::Bump;
use crate::manifest::{Argument, Expr, Fact, Packing, PackingDigit, Param, TensorMap};
use crate::target::Opcode;
use crate::tile::{Assumption, CmpOp, MemorySync};
use crate::types::Elem;
use cranelift_entity::EntityRef;
use proptest::prelude::*;
use smallvec::smallvec;

fn place(buffer: usize, offset: u32) -> Place {
    Place { buffer: Buffer::new(buffer), offset }
}

fn operand(mn_major: bool) -> SharedOperand {
    SharedOperand {
        place: place(0, 64),
        warpgroup_stride: 8192,
        atom_stride: 0,
        steps: smallvec![0, 32, 64, 96],
        leading: 16,
        stride: 1024,
        swizzle: 128,
        mn_major,
    }
}

/// A loop with all attributes that a mapping may set, and one without any.
fn loop_attrs() -> [LoopAttr; 2] {
    let looped = LoopAttr {
        name: "k\"\\ \n".to_owned(),
        depth: Some(0),
        producers: 1,
        wait: None,
        mma_order: Some(false),
        persistent: true,
        counter: Some(3),
        most: Some(16),
        overlapped: true,
        conditional: true,
    };
    let plain = LoopAttr {
        name: String::new(),
        depth: None,
        mma_order: None,
        counter: None,
        most: None,
        persistent: false,
        ..looped.clone()
    };
    [looped, plain]
}

/// One attribute of each kind, and a second one if fields may be absent.
fn attrs() -> Vec<Attr> {
    let elem = Elem::E4M3;
    let product = |a| WgmmaAttr {
        n: 96,
        elem,
        right: elem,
        acc: Elem::F32,
        m_atoms: 2,
        n_atoms: 3,
        k_steps: 4,
        negated: false,
        a,
        b: operand(false),
    };
    let tma = TmaAttr {
        map: 4,
        rank: 2,
        bytes: 8192,
        place: Some(place(1, 0)),
        multicast: 3,
        hint: CacheHint::Last,
        before_wait: true,
    };
    let bare = TmaAttr { place: None, multicast: 0, hint: CacheHint::Normal, before_wait: false, ..tma };
    let copy = CopyAttr { bytes: 16, source: -32, place: None, offset: 8 };
    let [looped, plain] = loop_attrs();
    vec![
        Attr::None,
        Attr::Imm(i64::MIN),
        Attr::Imm2(-1, i64::MAX),
        Attr::Cmp(CmpOp::Ge),
        Attr::Param(7),
        Attr::Mem { offset: i32::MIN, count: 4 },
        Attr::Sync { offset: -8, count: 1, access: None, sync: MemorySync::default() },
        Attr::Assume { promise: Assumption { multiple: 8, min: i64::MIN, max: 5 }, signed: true },
        Attr::Print("x[%d] %g\n\"".to_owned()),
        Attr::GlobalMem { offset: 16, count: 2, access: GlobalAccess { pointer: 1, footprint: 3 } },
        Attr::Place(place(0, 12)),
        Attr::PlaceMem { place: place(1, 0), count: 1 },
        Attr::Wgmma(Box::new(product(None))),
        Attr::Wgmma(Box::new(product(Some(operand(true))))),
        Attr::Mma(MmaAttr { elem, acc: Elem::F32, m_atoms: 1, n_atoms: 8 }),
        Attr::Tma(tma),
        Attr::Tma(bare),
        Attr::Copy(copy),
        Attr::Copy(CopyAttr { place: Some(place(0, 4)), ..copy }),
        Attr::Matrix { count: 4, trans: true, offset: -16, buffer: Some(Buffer::new(1)) },
        Attr::Matrix { count: 1, trans: false, offset: 0, buffer: None },
        Attr::Loop(Box::new(looped)),
        Attr::Loop(Box::new(plain)),
    ]
}

/// A function without meaning that has a loop, guards, maps, every attribute and every row.
fn func(bump: &Bump) -> Func<'_> {
    let mut f = Func::new(bump);
    let entry = f.entry;
    let x = f.append_param(entry, Ty::B32, true);
    let p = f.append_param(entry, Ty::Pred, false);
    f.names[x] = Some("x \"y\"");
    let loc = Loc { line: 3, column: 14 };
    for attr in attrs() {
        let guard = Some(Guard { pred: p, negated: attr == Attr::None });
        f.push(entry, NewInst::new(Opcode::Wgmma, &[x], &[Ty::B16]).attr(attr).guard(guard).loc(loc));
    }
    for &op in Opcode::ALL {
        f.push(entry, NewInst::new(op, &[x, p], &[Ty::B64, Ty::Event]));
        f.push(entry, NewInst::new(op, &[], &[]));
    }
    let maps = smallvec![
        IndexMap::Whole,
        IndexMap::EACH,
        IndexMap::Affine { scale: 2, offset: 1 },
        IndexMap::Affine { scale: 0, offset: 0 },
        IndexMap::Table(Box::new([0, 3, 65535])),
        IndexMap::Table(Box::new([])),
    ];
    let fragment = Ty::Frag { regs: 64, atom: 4 };
    f.push(entry, NewInst::new(Opcode::AddS32, &[x, x], &[Ty::frag(8), fragment]).maps(maps));
    let body = f.new_block();
    f.append_param(body, Ty::B32, true);
    f.push(body, NewInst::new(Opcode::Yield, &[], &[]));
    f.push(entry, NewInst::new(Opcode::For, &[x, x, x], &[]).blocks(&[body]));
    let last = f.new_block();
    let branch = f.push(entry, NewInst::new(Opcode::BrIf, &[p], &[]));
    let args = f.list(&[x, x]);
    f.insts[branch].targets =
        smallvec![BlockCall { block: last, args }, BlockCall { block: entry, args: &[] }];
    f.push(last, NewInst::new(Opcode::Ret, &[], &[]));
    f.order.push(last);
    f
}

/// A function as passes leave it: with detached instructions and blocks, moved results, and an instruction that stands
/// twice.
fn rewritten(bump: &Bump) -> Func<'_> {
    let mut f = func(bump);
    let entry = f.entry;
    let (first, second) = (f.blocks[entry].insts[0], f.blocks[entry].insts[1]);
    let moved = f.result(first);
    f.values[moved].def = ValueDef::Result(second, 5);
    f.insts[second].results = f.list(&[moved, moved]);
    let lone = f.blocks[entry].insts.0.remove(7);
    f.blocks[entry].insts.0.push(first);
    let (outer, inner) = (f.new_block(), f.new_block());
    let dead = f.append_param(outer, Ty::B16, false);
    f.blocks[outer].params.clear();
    f.names[dead] = Some("dead");
    f.insts[lone].blocks = smallvec![inner, outer, inner];
    f.push(inner, NewInst::new(Opcode::Yield, &[dead], &[]));
    f.order.swap(0, 1);
    f.order.push(entry);
    f
}

fn launch() -> LaunchInfo {
    let packing = Packing {
        outer: vec![Expr::var("e")],
        extents: [Expr::var("n"), Expr::Const(-1)],
        tile: [64, 8],
        bits: 4,
        digits: vec![PackingDigit { extent: 2, step: [1, 0] }],
        zeros: true,
    };
    let argument = |packing| Argument {
        name: "a".into(),
        ty: "ptr<f16>".into(),
        written: true,
        before_wait: false,
        packing,
    };
    let map = TensorMap {
        base: "a".into(),
        offset: Expr::zero(),
        element: "f16".into(),
        dims: vec!["m * 2".parse().unwrap()],
        strides: vec![],
        box_dims: vec![64, 128],
        swizzle: 128,
        l2_promotion: 256,
    };
    let name = || "n".to_owned();
    LaunchInfo {
        kernel: "gemm".into(),
        file: "a b.tile".into(),
        arguments: vec![argument(None), argument(Some(packing))],
        params: vec![
            Param::Argument { name: name() },
            Param::TensorMap(map),
            Param::Workspace { offset: Expr::var("n") },
        ],
        grid: ["cdiv(n, 128)".parse().unwrap(), Expr::Const(1), Expr::Const(1)],
        cluster: 2,
        resident: 1,
        pdl: true,
        facts: vec![
            Fact::Aligned { name: name(), align: 16 },
            Fact::Multiple { name: name(), of: 8 },
            Fact::Range { name: name(), min: i64::MIN, max: i64::MAX },
            Fact::Disjoint { written: name(), other: name() },
            Fact::Limit { what: "bytes".into(), value: Expr::var("n"), min: 0, max: 7 },
        ],
        workspace: Expr::zero(),
    }
}

fn program(bump: &Bump) -> Program<'_> {
    let buffer = |name: &str, kind| BufferData { name: name.into(), bytes: 16384, align: 1024, kind };
    let mut buffers = cranelift_entity::PrimaryMap::new();
    buffers.push(buffer("a", BufferKind::Handoff));
    buffers.push(buffer("b c", BufferKind::Helper));
    Program {
        launch: launch(),
        buffers,
        blocks: 2,
        warps: 8,
        teams: 1,
        deferred: true,
        epilogue_warps: false,
        func: rewritten(bump),
    }
}

fn scheduled(bump: &Bump) -> Scheduled<'_> {
    let mut shared = SharedMap { bytes: 65536, team: 0, ..SharedMap::default() };
    shared.buffers[Buffer::new(2)] = 1024;
    shared.barriers[Ring::new(0)] = 8;
    let role =
        |name, registers| Role { name, first_warp: 4, warps: 4, copiers: 1, registers, func: func(bump) };
    Scheduled {
        launch: launch(),
        threads: 384,
        shared,
        setup: Func::new(bump),
        roles: vec![role("producer", 24), role("consumer", 240)],
    }
}

#[test]
fn every_state_of_a_function_reads_back() {
    let bump = Bump::new();
    for f in [Func::new(&bump), func(&bump), rewritten(&bump)] {
        let text = f.to_string();
        let read = parse_func(&text, &bump).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert!(read == f, "another function:\n{text}\n{read}");
        assert_eq!(read.to_string(), text);
    }
}

#[test]
fn what_is_read_knows_where_things_stand() {
    let bump = Bump::new();
    let func = func(&bump);
    let read = parse_func(&func.to_string(), &bump).unwrap();
    assert_eq!(read.wrong_tables(), []);
    assert!(func.insts.keys().all(|i| read.block_of(i) == func.block_of(i)));
    assert!(func.blocks.keys().all(|b| read.holder(b) == func.holder(b)));
    assert!(func.values.keys().all(|v| read.users(v).eq(func.users(v))));
}

#[test]
fn programs_read_back_before_and_after_scheduling() {
    let bump = Bump::new();
    let (before, after) = (program(&bump), scheduled(&bump));
    assert!(parse_program(&before.to_string(), &bump).unwrap() == before);
    assert!(parse_scheduled(&after.to_string(), &bump).unwrap() == after);
}

#[test]
fn equality_sees_what_the_text_must_carry() {
    let bump = Bump::new();
    let base = func(&bump);
    let with = |change: fn(&mut Func<'_>)| {
        let mut f = func(&bump);
        change(&mut f);
        f
    };
    let value = Value::new(0);
    for changed in [
        with(|f| f.values[Value::new(0)].uniform = false),
        with(|f| f.insts[Inst::new(0)].loc.column += 1),
        with(|f| f.order.swap(0, 1)),
        with(|f| _ = f.new_block()),
    ] {
        assert!(changed != base && changed.to_string() != base.to_string());
    }
    let mut named = func(&bump);
    named.names[value] = None;
    assert!(named != base && named.to_string() != base.to_string());
}

#[test]
fn the_example_of_the_page_reads_verifies_and_prints_alike() {
    let page = include_str!("../../../../docs/machine-ir.md");
    let examples: Vec<&str> =
        page.split("```mir\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let bump = Bump::new();
    let (mut programs, mut functions) = (0, 0);
    for text in examples {
        if text.starts_with("launch") {
            let program = parse_program(text, &bump).unwrap_or_else(|e| panic!("{e}"));
            verify_structured(&program.func).unwrap_or_else(|e| panic!("{e:?}"));
            assert_eq!(program.to_string(), text);
            programs += 1;
        } else {
            let func = parse_func(text, &bump).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(func.to_string(), text);
            functions += 1;
        }
    }
    assert!(programs >= 1 && functions >= 1, "{programs} programs, {functions} functions");
}

#[test]
fn mistakes_have_their_place() {
    let bump = Bump::new();
    let deep = format!("func b0 {{\nb0():\n{}", "if r0 {\nb1():\n".repeat(100_000));
    for (text, error) in [
        ("", "1:1: expected `func`, found the end"),
        ("func b0 {\nb0():\n  frob r1\n}", "3:3: there is no instruction `frob` in the opcode table"),
        ("func b0 {\nb0():\n  ret r1\n}", "3:7: r1 is named but defined nowhere"),
        ("func b1 {\nb0():\n}", "1:6: b1 is named but defined nowhere"),
        ("func b0 {\nb0():\n  ret to b4()\n}", "3:10: b4 is named but defined nowhere"),
        ("func b0 {\nb0(r1: b32):\n}", "2:4: numbers have a gap: of r0 .. there are 1, but no r0"),
        ("func b0 {\nb0(r0: b32, r0: b32):\n}", "2:13: there is a r0 already"),
        ("func b0 {\nb0():\n  ret\n  i0: ret\n}", "4:3: there is a i0 already"),
        ("func b0 {\nb0():\n  ret ret\n}", "3:7: expected one of"),
        ("func b0 {\nb0(r0: b33):\n}", "2:8: expected a type, found `b33`"),
        ("func b0 {\nb0(r0: frag<65536>):\n}", "2:13: 65536 does not fit u16"),
        ("func b0 {\nb0():\n  tma.load tma(rank 2)\n}", "3:16: expected the field `map`, found `rank`"),
        (
            "func b0 {\nb0():\n  i4294967295: ret\n}",
            "3:3: there is no instruction `i4294967295` in the opcode table",
        ),
        (&deep, "nested deeper than 64 levels"),
    ] {
        let got = parse_func(text, &bump).map(|_| ()).unwrap_err().to_string();
        assert!(got.contains(error), "{got}, not {error}");
    }
    let text = program(&bump).to_string().replace("buffer buf1", "buffer buf7");
    let wrong = parse_program(&text, &bump).map(|_| ()).unwrap_err();
    assert!(wrong.message.contains("expected buf1, found buf7"), "{wrong}");
    let text = program(&bump).to_string().replace("buffer buf1(", "# (");
    let wrong = parse_program(&text, &bump).map(|_| ()).unwrap_err();
    assert_eq!(wrong.message, "there is no buf1");
}

/// A text with pieces cut out, doubled, or replaced by others of the grammar.
fn mutated(text: &str, cuts: &[(usize, usize, usize)]) -> String {
    const PIECES: [&str; 16] = [
        "",
        "r0",
        "b0",
        "i0:",
        "{",
        "}",
        "(",
        ")",
        "detached",
        "value",
        "= i1.0",
        "4294967295",
        "-",
        "@!",
        "[",
        "\n",
    ];
    let mut words: Vec<&str> = text.split_inclusive(|c: char| !c.is_alphanumeric()).collect();
    for &(at, from, piece) in cuts {
        let (at, other) = (at % words.len(), words[from % words.len()]);
        words[at] = *PIECES.get(piece).unwrap_or(&other);
    }
    words.concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_text_makes_the_parser_panic(
        cuts in prop::collection::vec((any::<usize>(), any::<usize>(), 0usize..24), 1..6)
    ) {
        let bump = Bump::new();
        let text = mutated(&rewritten(&bump).to_string(), &cuts);
        if let Ok(read) = parse_func(&text, &bump) {
            // A parsed function prints as a text that reads back.
            let again = parse_func(&read.to_string(), &bump);
            prop_assert!(again.is_ok_and(|a| a == read), "{}", read);
        }
        for text in [program(&bump).to_string(), scheduled(&bump).to_string()] {
            let text = mutated(&text, &cuts);
            let kept = parse_program(&text, &bump).map(|p| p.to_string());
            let roles = parse_scheduled(&text, &bump).map(|s| s.to_string());
            prop_assert!(kept.is_err() || roles.is_err());
        }
    }

    #[test]
    fn no_bytes_make_the_parser_panic(text in "[ -~\n]{0,200}") {
        let bump = Bump::new();
        let framed = format!("func b0 {{\nb0():\n{text}\n}}");
        if let Ok(read) = parse_func(&framed, &bump) {
            prop_assert!(parse_func(&read.to_string(), &bump).is_ok_and(|a| a == read));
        }
    }
}
