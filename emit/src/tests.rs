//! Texts of small programs. Registers are given by hand, one name per value; that the texts assemble is
//! tested where the assembler is.

use crate::{Allocations, EmitError, emit};
use warplift_ir::Bump;
use warplift_ir::entity::SecondaryMap;
use warplift_ir::machine::*;
use warplift_ir::manifest::{Argument, Expr, Param, TensorMap};
use warplift_ir::target::{Class, Opcode, ROWS};
use warplift_ir::tile::{CmpOp, Loc};

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
    let argument = |name: &str, ty: &str| Argument { name: name.into(), ty: ty.into(), written: false };
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
            Param::Workspace,
        ],
        grid: [Expr::Const(1), Expr::Const(1), Expr::Const(1)],
        cluster: 1,
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
        registers: 168,
        func,
    };
    let roles: Vec<Role<'_>> = funcs.into_iter().enumerate().map(role).collect();
    let threads = 128 * roles.len() as u32;
    (Scheduled { launch: launch(), threads, shared: SharedMap::default(), setup, roles }, allocs)
}

fn text(func: Func<'_>) -> String {
    let (program, allocs) = program(empty(func.bump), vec![func]);
    emit(&program, &allocs).map_or_else(|e| e.to_string(), |o| o.ptx)
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
        Opcode::SetpS32 | Opcode::SetpU32 | Opcode::SetpF32 | Opcode::SetpS64 => Attr::Cmp(CmpOp::Ne),
        Opcode::ParamAddr => Attr::Param(0),
        Opcode::LdParam64 => Attr::Param(1),
        Opcode::LdParam32 => Attr::Param(2),
        Opcode::ShflBfly | Opcode::MbarInit | Opcode::MbarExpectTx => Attr::Imm(16),
        Opcode::WgmmaWait | Opcode::BulkWait | Opcode::BulkWaitRead => Attr::Imm(1),
        Opcode::BarSync => Attr::Imm2(1, 128),
        Opcode::SetmaxnregInc => Attr::Imm(168),
        Opcode::SetmaxnregDec => Attr::Imm(40),
        Opcode::LdGlobal | Opcode::LdShared | Opcode::StGlobal | Opcode::StShared => {
            Attr::Mem { offset: 16, count: 4 }
        }
        Opcode::LdGlobal16 | Opcode::StGlobal16 | Opcode::RedGlobalAddF32 | Opcode::MbarWait => {
            Attr::Mem { offset: 8, count: 1 }
        }
        Opcode::Stmatrix | Opcode::Ldmatrix => {
            Attr::Matrix { count: 4, trans: true, offset: 64, buffer: None }
        }
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
    let special =
        [Const, Undef, Join, Slice, Await, For, If, Yield, Br, BrIf, Ret, Trap, Wgmma, TmaLoad, TmaStore];
    !special.contains(&op)
}

/// A function with every plain row once, guarded where `guarded`.
fn all_rows(bump: &Bump, guarded: bool) -> Func<'_> {
    let mut func = Func::new(bump);
    let entry = func.entry;
    let mut c = Cursor::new(&mut func, entry, Loc::default());
    let f = feed(&mut c);
    let pred = f.pred;
    for row in ROWS.iter().filter(|r| plain(r.opcode)) {
        let (args, results) = (classes(row.args, &f), types(row.results));
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
        for row in ROWS.iter().filter(|r| plain(r.opcode) && !r.syntax.is_empty()) {
            let last = row.syntax.trim_end_matches([' ', ';', '}']).rsplit(';').next().unwrap_or("").trim();
            let name = last.split(['$', ' ']).next().unwrap_or("");
            assert!(text.contains(name), "`{name}` of {} is missing in\n{text}", row.name);
        }
    }
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
fn structured_rows_are_refused() {
    let bump = Bump::new();
    let mut func = Func::new(&bump);
    let entry = func.entry;
    func.push(entry, NewInst::new(Opcode::Yield, &[], &[]));
    let (program, allocs) = program(empty(&bump), vec![func]);
    let error = emit(&program, &allocs).map(|o| o.ptx);
    assert!(matches!(error, Err(EmitError::Unscheduled { row: "yield", .. })), "{error:?}");
}
