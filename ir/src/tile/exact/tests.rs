//! Kernels read back exactly, whatever passes have done to them; no text makes the parser panic.

use super::{parse_exact, print_exact};
use crate::layout::{Layout, shared};
use crate::tile::*;
use crate::types::Elem;
use cranelift_entity::EntityRef;
use proptest::prelude::*;
use smallvec::smallvec;

const TEXT: &str =
    "kernel sums(x: ptr<f16> align 16 may_alias, y: ptr<f32> may_alias, n: i32 % 8 in 1..=4096) {
    const GROUP = 128, EPS = 1.0e-5
    tunable B in {32, 64} = 64, W in 1..=8 step 1 = 4
    assert GROUP % B == 0
    grid cdiv(n, B)
    gx = view x : f16[n, n] fill -inf
    gy = view y : f32[n]
    i = block_index
    zero = full 0.0 : f32[B]
    sum = for t in 0..cdiv(n, B) carry s = zero {
        tile = load gx[i*B, t*B] : f16[B, B]
        yield s + reduce_sum(cast(tile, f32), 1)
    }
    if n > 8 {
        print \"a\\\"b\", n
    } else {
        assert(n > 0, \"positive\")
    }
    store gy[i*B], sum
}";

fn kernel() -> Kernel {
    parse_file(TEXT, "sums.tile").expect("a kernel").kernels.remove(0)
}

/// Attributes of every kind, results that moved, what stands nowhere.
fn rewritten() -> Kernel {
    let mut k = kernel();
    let insts: Vec<Inst> = k.insts.keys().collect();
    let looped = LoopMapping { pipeline: Depth::Stages(4), wait: Some(0), ..LoopMapping::default() };
    let layout: Layout =
        "(reg: 2:1@d1 2:8@d0, lane: 4:2@d1 8:1@d0) -> (d0: 16, d1: 8)".parse().expect("a layout");
    let array = ArrayMapping { way: Way::Packed, stream: true, before_wait: true };
    k.attrs[insts[0]] = Attrs {
        team: Team::Warpgroups(2),
        looped: Some(looped),
        persistent: true,
        index: true,
        below: Some(0),
        deferred: true,
        by_threads: true,
        in_parts: true,
        operand: true,
        ahead: true,
        trips: true,
        array,
        layout: Some(Box::new(layout)),
        warp_grid: Some(WarpGrid { rows: 4, columns: 2, contiguous: true }),
    };
    let half = Dim::of_parts(&[Tunable::new(0)], (2, 4, 0)).unwrap();
    let ops = [
        Op::Float(f64::NAN),
        Op::Float(-0.0),
        Op::Float(1e300),
        Op::Int(i64::MIN),
        Op::Dim(half),
        Op::Trans(smallvec![1, 0]),
        Op::Slice(smallvec![half, Dim::new(3)]),
        Op::SubView(smallvec![]),
        Op::Scan(ReduceOp::Xor, 1),
        Op::Atomic(AtomicOp::Exchange),
        Op::Workspace,
        Op::Shared { layout: None },
        Op::Shared { layout: Some(Box::new(shared::row_major(4, 8).expect("a layout"))) },
        Op::Arrive,
        Op::Unary(UnOp::Tanh),
        Op::ViewAs(Elem::E4M3),
        Op::Assume(Assumption { multiple: 8, min: i64::MIN, max: -4 }),
        Op::AsyncWait(2),
        Op::Print("line\nbreak".to_owned()),
    ];
    let shape = Shape::new(&[half, Dim::new(7)]).expect("rank 2");
    let entry = k.entry;
    for op in ops {
        k.append_inst(entry, op, &[], &[Type::Tile(Elem::Bool, shape)], &[], Loc { line: 7, column: 1 });
    }
    let lone = k.make_inst(Op::Yield, &[], &[Type::View(Elem::F64, 5)], &[], Loc::default());
    let moved = k.result(lone);
    k.values[moved].def = ValueDef::Result(insts[1], 9);
    k.names[moved] = "a name".to_owned();
    k.blocks.push(BlockData::default());
    k
}

#[test]
fn kernels_read_back_exactly() {
    for k in [Kernel::new("empty"), kernel(), rewritten()] {
        let text = print_exact(&k).to_string();
        let read = parse_exact(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert!(read == k, "another kernel:\n{text}");
        assert_eq!(print_exact(&read).to_string(), text);
    }
}

#[test]
fn equality_is_exact() {
    let k = kernel();
    let mut other = kernel();
    other.insts[Inst::new(3)].loc.column += 1;
    assert!(k != other && k.same_as(&other));
    let mut other = kernel();
    other.attrs[Inst::new(3)].deferred = true;
    assert!(k != other);
}

#[test]
fn mistakes_have_their_place() {
    let text = print_exact(&kernel()).to_string();
    for (from, to, error) in [
        ("kernel(", "kernel[", "1:7: expected `(`, found `[`"),
        ("grid [", "grid [v999, ", "there is no v999"),
        ("default 64, domain one_of [32, 64]", "default 64, domain some", "expected one of `any`"),
        ("reduce(sum, 1)", "reduce(mean, 1)", "expected one of `sum`"),
        ("ptr<f16>", "ptr<f17>", "expected an element type, found `f17`"),
    ] {
        assert!(text.contains(from), "{from} in\n{text}");
        let got = parse_exact(&text.replacen(from, to, 1)).map(|_| ()).unwrap_err().to_string();
        assert!(got.contains(error), "{got}, not {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_text_makes_the_parser_panic(cuts in prop::collection::vec((any::<usize>(), any::<usize>()), 1..5)) {
        let text = print_exact(&rewritten()).to_string();
        let mut words: Vec<&str> = text.split_inclusive(|c: char| !c.is_alphanumeric()).collect();
        for (at, from) in cuts {
            let (at, from) = (at % words.len(), from % (words.len() + 1));
            words[at] = words.get(from).copied().unwrap_or("");
        }
        if let Ok(read) = parse_exact(&words.concat()) {
            let again = parse_exact(&print_exact(&read).to_string());
            prop_assert!(again.is_ok_and(|a| a == read));
        }
    }
}
