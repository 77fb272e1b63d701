use super::*;
use crate::tile::parse_file;

fn kernel(text: &str) -> Kernel {
    match parse_file(text, "") {
        Ok(mut m) => m.kernels.remove(0),
        Err(e) => panic!("{e:?}"),
    }
}

/// What `r`, a rank-1 tile that the body defines, holds.
fn eval(body: &str, elem: Elem, count: usize) -> Vec<f64> {
    let text =
        format!("kernel k(o: ptr<{elem}>) {{ grid 1 {body} g = view o : {elem}[{count}] store g[0], r }}");
    let mut memory = Memory::new();
    let out = memory.add_values("o", elem, &vec![0.0; count]);
    let result = run(&kernel(&text), &[Arg::Ptr(out, 0)], &mut memory, &Options::default());
    assert_eq!(result, Ok(()), "{body}");
    memory.values(out, elem)[..count].to_vec()
}

fn eval_i32(body: &str, count: usize) -> Vec<f64> {
    eval(body, Elem::I32, count)
}

/// A fault of a kernel without parameters.
fn fault(body: &str) -> Fault {
    let kernel = kernel(&format!("kernel k() {{ grid 1 {body} }}"));
    let options = Options { steps: 10_000, ..Options::default() };
    run(&kernel, &[], &mut Memory::new(), &options).unwrap_err().fault
}

#[test]
fn elements_are_moved() {
    let x = "x = iota 0 : i32[6] y = reshape(x) : i32[2, 3]";
    for (body, expected) in [
        ("r = reshape(trans(y)) : i32[6]", vec![0., 3., 1., 4., 2., 5.]),
        ("r = reshape(slice(y, [1, 1]) : i32[1, 2]) : i32[2]", vec![4., 5.]),
        (
            "a, b = split(reshape(x) : i32[3, 2]) r = reshape(join(b, a)) : i32[6]",
            vec![1., 0., 3., 2., 5., 4.],
        ),
        (
            "r = reshape(broadcast(expand_dims(slice(x, [4]) : i32[2], 1)) : i32[2, 2]) : i32[4]",
            vec![4., 4., 5., 5.],
        ),
        ("r = gather(x * 10, 5 - x, 0)", vec![50., 40., 30., 20., 10., 0.]),
        ("r = reshape(gather(y, full 1 : i32[2, 2], 1)) : i32[4]", vec![1., 1., 4., 4.]),
        ("r = rearrange(x) << 1", vec![0., 2., 4., 6., 8., 10.]),
        ("r = view_as(view_as(cast(x, u8), u4), u8) r2 = 0", vec![]),
    ] {
        if expected.is_empty() {
            let r = eval(&format!("{x} {body}"), Elem::Uint(8), 6);
            assert_eq!(r, [0., 1., 2., 3., 4., 5.], "{body}");
        } else {
            assert_eq!(eval_i32(&format!("{x} {body}"), expected.len()), expected, "{body}");
        }
    }
}

#[test]
fn rows_are_combined() {
    let x = "x = reshape(iota 0 : i32[6]) : i32[2, 3]";
    for (body, expected) in [
        ("r = reduce_sum(x, 1)", vec![3., 12.]),
        ("r = reduce_max(x, 0)", vec![3., 4., 5.]),
        ("r = reduce_prod(x + 1, 0)", vec![4., 10., 18.]),
        ("r = reduce_xor(x, 1)", vec![3., 2.]),
        ("s = reduce_min(reduce_sum(x, 1), 0) r = full s : i32[1]", vec![3.]),
        ("r = reshape(scan_sum(x, 1)) : i32[6]", vec![0., 1., 3., 3., 7., 12.]),
        ("r = reshape(scan_max(5 - x, 0)) : i32[6]", vec![5., 4., 3., 5., 4., 3.]),
        (
            "r = reshape(mma(full 1 : i32[2, 2], view_as(full 2 : i32[2, 3], i32), trans(x))) : i32[4]",
            vec![7., 25., 7., 25.],
        ),
    ] {
        assert_eq!(eval_i32(&format!("{x} {body}"), expected.len()), expected, "{body}");
    }
}

#[test]
fn control_flow_carries_values() {
    assert_eq!(
        eval_i32("s = for t in 2..9 step 3 carry a = 0 { yield a + t } r = full s : i32[1]", 1),
        [15.]
    );
    assert_eq!(eval_i32("s = for t in 2..2 carry a = 7 { yield a + t } r = full s : i32[1]", 1), [7.]);
    let collatz = "n, c = while carry x = 27, i = 0 {
        y = if x % 2 == 0 { yield x / 2 } else { yield 3 * x + 1 }
        yield y != 1, y, i + 1
    } r = full c : i32[1]";
    assert_eq!(eval_i32(collatz, 1), [111.]);
    let select = "x = iota 0 : i32[4] r = select(x > 1, x, -1)";
    assert_eq!(eval_i32(select, 4), [-1., -1., 2., 3.]);
}

#[test]
fn rounding_follows_the_type() {
    let third = |e: &str| format!("x = full 1.0 : {e}[1] r = x / 3.0");
    assert_eq!(eval(&third("f16"), Elem::F16, 1)[0], half::f16::from_f64(1.0 / 3.0).to_f64());
    assert_eq!(eval(&third("f32"), Elem::F32, 1)[0], f64::from(1f32 / 3.0));
    assert_eq!(eval(&third("f64"), Elem::F64, 1)[0], 1.0 / 3.0);
    // A sum of products is rounded once: 2048 + 1 + 1 in f16.
    let sum = "a = full 1.0 : f16[1, 2] b = full 1.0 : f16[2, 1] c = full 2048.0 : f16[1, 1]
        r = reshape(mma c, a, b) : f16[1]";
    assert_eq!(eval(&sum.replace("mma c, a, b", "mma(c, a, b)"), Elem::F16, 1), [2050.0]);
    assert_eq!(eval("r = rsqrt(full 4.0 : f32[1]) + exp2(full 3.0 : f32[1])", Elem::F32, 1), [8.5]);
}

#[test]
fn mistakes_stop_the_kernel() {
    assert_eq!(fault("i = block_index assert i > 2, \"no\""), Fault::Assert("no".to_owned()));
    assert!(matches!(fault("z = 0 x = 1 / z"), Fault::Undefined(_)));
    assert!(matches!(fault("x = gather(iota 0 : i32[2], full 2 : i32[1], 0)"), Fault::Undefined(_)));
    assert_eq!(fault("x = while carry i = 0 { yield true, i }"), Fault::Steps);
    assert!(matches!(fault("x = full 1.0 : f32[0]"), Fault::Invalid(_)));
    assert_eq!(
        fault("s = 0 for t in 0..4 step s { }"),
        Fault::Invalid("`for`: the step must be 1 or more".to_owned())
    );
    let k = kernel(
        "kernel k(p: ptr<f32> align 16, n: i32 % 8) { grid n g = view p : f32[n]
        x = load g[0] : f32[8] store g[0], x }",
    );
    let mut memory = Memory::new();
    let p = memory.add("p", vec![0; 16]);
    let mut go = |args: &[Arg]| run(&k, args, &mut memory, &Options::default()).unwrap_err();
    assert!(matches!(go(&[Arg::Ptr(p, 4), Arg::Int(8)]).fault, Fault::Argument(_)));
    assert!(matches!(go(&[Arg::Ptr(p, 0), Arg::Int(4)]).fault, Fault::Argument(_)));
    assert!(matches!(go(&[Arg::Ptr(p, 0), Arg::Int(-8)]).fault, Fault::Argument(_)));
    assert!(matches!(go(&[Arg::Ptr(p, 0)]).fault, Fault::Argument(_)));
    let beyond = go(&[Arg::Ptr(p, 0), Arg::Int(8)]);
    assert!(matches!(beyond.fault, Fault::OutOfBounds(_)));
    assert_eq!(beyond.loc.line, 2);
}

#[test]
fn views_are_bounded_and_strided() {
    let k = kernel(
        "kernel k(p: ptr<u4>, o: ptr<u4>) { grid 2
        g = view p : u4[2, 3] strides [1, 2] fill 9
        v = view o : u4[3, 4]
        i = block_index
        x = load g[i - 1, 0] : u4[2, 4]
        print \"x\", x
        atomic_add v[i * 2, 0], x }",
    );
    let mut memory = Memory::new();
    let p = memory.add_values("p", Elem::Uint(4), &[1., 2., 3., 4., 5., 6.]);
    let o = memory.add_values("o", Elem::Uint(4), &[1.0; 12]);
    let args = [Arg::Ptr(p, 0), Arg::Ptr(o, 0)];
    let options = Options { order: Order::Reverse, ..Options::default() };
    assert_eq!(run(&k, &args, &mut memory, &options), Ok(()));
    let expected = [10., 10., 10., 10., 2., 4., 6., 10., 2., 4., 6., 10.];
    assert_eq!(memory.values(o, Elem::Uint(4)), expected);
    assert_eq!(memory.printed[8..13], ["x[0, 0] 9", "x[0, 1] 9", "x[0, 2] 9", "x[0, 3] 9", "x[1, 0] 1"]);
}

#[test]
fn persistent_programs_share_the_tiles() {
    let k = kernel(
        "kernel k(p: ptr<i32>, n: i32) { grid n
        g = view p : i32[n]
        for tile in program_id..n step program_count {
            x = load g[tile] : i32[1]
            store g[tile], x + tile * 10 + program_count
        } }",
    );
    for programs in [1, 3, 8] {
        let mut memory = Memory::new();
        let p = memory.add_values("p", Elem::I32, &[0.0; 5]);
        let options = Options { programs, order: Order::Shuffled(7), ..Options::default() };
        assert_eq!(run(&k, &[Arg::Ptr(p, 0), Arg::Int(5)], &mut memory, &options), Ok(()));
        let expected: Vec<f64> = (0..5).map(|i| f64::from(i * 10 + programs as i32)).collect();
        assert_eq!(memory.values(p, Elem::I32), expected);
    }
}

#[test]
fn orders_visit_every_block_once() {
    for order in [Order::Forward, Order::Reverse, Order::Shuffled(3)] {
        let mut all = ordered(100, order);
        all.sort_unstable();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
    }
    assert_eq!(block_of(23, &[2, 3, 4]), [1, 2, 3]);
    assert!(blocks(&[-1, -1, 1]).is_err());
}

#[test]
fn tunables_obey_domains_and_asserts() {
    let text = "kernel k(n: i32) { const C = 1 tunable B in {2, 3, 4} = 2 grid n assert B % 2 == 0 }";
    let kernel = parse_file(text, "").unwrap().kernels.remove(0);
    let ran = |name: &str, value| {
        let options = Options { tunables: vec![(name.to_owned(), value)], ..Options::default() };
        run(&kernel, &[Arg::Int(1)], &mut Memory::new(), &options).map_err(|e| e.fault.to_string())
    };
    assert_eq!(ran("B", 4), Ok(()));
    for (name, value, message) in [
        ("B", 5, "tunable `B` is 5, must be 2, 3 or 4"),
        ("B", 3, "`assert`: `assert B % 2 == 0` does not hold for B = 3"),
        ("C", 2, "`C` is a constant of kernel `k`"),
    ] {
        assert_eq!(ran(name, value), Err(message.to_owned()));
    }
    let text = "kernel k(n: i32) { grid n assert n * 2 < 3 }";
    let kernel = parse_file(text, "").unwrap().kernels.remove(0);
    let failed = run(&kernel, &[Arg::Int(2)], &mut Memory::new(), &Options::default()).unwrap_err();
    assert_eq!(failed.fault, Fault::Assert("n * 2 < 3".to_owned()));
}

/// Numbers that `x`, `y` and `z` of a body have in block `i` of ten, where `n` is 10 and `p` holds 5, 6, 7 and so on.
fn demanded(body: &str, i: i64) -> [Option<i64>; 3] {
    let text = format!(
        "kernel k(p: ptr<i32>, q: ptr<i32>, n: i32) {{ grid n gp = view p : i32[n] gq = view q : i32[n] i = block_index
        {body}
        store gq[x], full 0 : i32[1] store gq[y], full 0 : i32[1] store gq[z], full 0 : i32[1] }}"
    );
    let (kernel, mut memory, mut steps) = (kernel(&text), Memory::new(), 10_000);
    memory.add_values("p", Elem::I32, &(5..15).map(f64::from).collect::<Vec<_>>());
    let mut demand = Demand::new(&kernel, &mut memory, |name| (name == "n").then_some(10), &mut steps);
    let stores =
        kernel.blocks[kernel.entry].insts.iter().filter(|&&s| matches!(kernel.insts[s].op, Op::Store));
    let values: Vec<Value> = stores.map(|&s| kernel.args(s)[1]).collect();
    // Another block comes first: nothing of it may stay.
    let all = [9 - i, i].map(|i| {
        demand.stand(Standing { block: [i, 0, 0], grid: [10, 1, 1], ..Standing::default() });
        [0, 1, 2].map(|k| demand.number(values[k]))
    });
    all[1]
}

#[test]
fn numbers_on_demand_come_from_places_and_given_arrays() {
    let body = "x = (load gp[i] : i32) + n y = reduce_max(load gp[i*2] : i32[4], 0) z = load gq[i] : i32";
    assert_eq!(demanded(body, 2), [Some(17), Some(12), None], "nothing is known of q");
    // Only what is asked for is carried: the product and the sum of `q` are not.
    let body = "zero = full 0.0 : f32[16, 16] one = full 1.0 : f16[16, 16]
        x, s, acc = for t in 0..i carry c = 0, u = 0, a = zero {
            yield c + (load gp[t] : i32), u + (load gq[t] : i32), mma a, one, one
        }
        y = if i > 2 { yield x * 2 } else { yield load gq[0] : i32 }
        z = s";
    assert_eq!(demanded(body, 3), [Some(18), Some(36), None]);
    assert_eq!(demanded(body, 2), [Some(11), None, None]);
    // A search: the greatest place whose element is at most i + 5.
    let body = "x, y = while carry low = 0, high = n {
            middle = (low + high) / 2
            found = (load gp[middle] : i32) <= i + 5
            next = select(found, middle, low)
            end = select(found, high, middle)
            yield end - next > 1, next, end
        }
        z = for t in 0..9 carry c = 0 { yield c + x }";
    assert_eq!(demanded(body, 7), [Some(7), Some(8), Some(63)]);
}

#[test]
fn numbers_on_demand_end() {
    let endless = "x = while carry c = 0 { yield c >= 0, c * 0 } y = i z = x";
    assert_eq!(demanded(endless, 1), [None; 3], "no step is left");
}
