use super::*;

fn builder() -> KernelBuilder {
    KernelBuilder::new("k").unwrap()
}

#[test]
fn loops_give_what_they_carry() {
    let mut b = builder();
    let (lo, hi) = (b.int(0, Elem::I32).unwrap(), b.int(4, Elem::I32).unwrap());
    let one = b.int(1, Elem::I32).unwrap();
    let (t, carried) = b.begin_for(lo, hi, one, &[lo]).unwrap();
    let sum = b.binary(BinOp::Add, carried[0], t).unwrap();
    let looped = b.end(&[sum]).unwrap();
    assert_eq!(b.results(looped).len(), 1);
    assert!(matches!(b.unary(UnOp::Neg, sum), Err(BuildError::Scope(v)) if v == sum));
    let kernel = b.finish().unwrap();
    assert_eq!(kernel.yields(kernel.insts[looped].blocks[0]), [sum]);
}

#[test]
fn branches_must_agree() {
    let mut b = builder();
    let c = b.int(1, Elem::Bool).unwrap();
    let (x, y) = (b.int(1, Elem::I32).unwrap(), b.float(1.0, Elem::F32).unwrap());
    b.begin_if(c).unwrap();
    b.begin_else(&[x]).unwrap();
    assert!(matches!(b.end(&[y]), Err(BuildError::Yield { op: "if", .. })));
    let branch = b.end(&[x]).unwrap();
    assert_eq!(b.kernel().ty(b.results(branch)[0]), Type::Scalar(Elem::I32));
    assert_eq!(b.kernel().insts[branch].blocks.len(), 2);
}

#[test]
fn misuse_is_named() {
    let mut b = builder();
    assert_eq!(b.end(&[]), Err(BuildError::Structure("`end`")));
    assert!(b.param("load", Type::Scalar(Elem::I32), Facts::default()).is_err());
    let x = b.param("x", Type::Scalar(Elem::F32), Facts::default()).unwrap();
    assert!(b.tunable("x", 3).is_err());
    assert_eq!(b.set_grid(&[x]), Err(BuildError::Grid));
    let n = b.int(3, Elem::I32).unwrap();
    let error = b.binary(BinOp::Add, x, n).unwrap_err();
    assert_eq!(error.to_string(), "`+` of f32 and i32: `cast` one of them");
    assert!(b.begin_if(n).is_err());
    assert_eq!(b.print("", &[Value::from_u32(99)]), Err(BuildError::Scope(Value::from_u32(99))));
}

#[test]
fn shapes_follow_from_operands() {
    let mut b = builder();
    let tile = |b: &mut KernelBuilder, e: &[u32]| {
        let zero = b.float(0.0, Elem::F32).unwrap();
        b.full(zero, Shape::of(e).unwrap()).unwrap()
    };
    let (a, c) = (tile(&mut b, &[16, 8]), tile(&mut b, &[16, 4]));
    let t = b.trans(a, &[1, 0]).unwrap();
    assert_eq!(b.kernel().ty(t).shape(), Shape::of(&[8, 16]));
    assert!(b.mma(c, a, c).is_err());
    let k = tile(&mut b, &[8, 4]);
    assert_eq!(b.mma(c, a, k).map(|v| b.kernel().ty(v)), Ok(b.kernel().ty(c)));
    let bits = b.view_as(a, Elem::Uint(4)).unwrap();
    assert_eq!(b.kernel().ty(bits).shape(), Shape::of(&[16, 64]));
    let row = b.reduce(ReduceOp::Sum, a, 1).unwrap();
    let all = b.reduce(ReduceOp::Sum, row, 0).unwrap();
    assert_eq!(b.kernel().ty(all), Type::Scalar(Elem::F32));
    assert!(b.trans(a, &[0, 0]).is_err() && b.expand_dims(a, 3).is_err());
}

#[test]
fn nesting_has_a_limit_that_text_can_hold() {
    let mut b = builder();
    let c = b.int(1, Elem::Bool).unwrap();
    b.set_grid(&[]).unwrap_err();
    let one = b.int(1, Elem::I32).unwrap();
    b.set_grid(&[one]).unwrap();
    let deep = (0..1000).take_while(|_| b.begin_if(c).is_ok()).count();
    assert_eq!(deep, MAX_BLOCK_DEPTH as usize);
    assert_eq!(b.begin_if(c), Err(BuildError::Depth(MAX_BLOCK_DEPTH)));
    (0..deep).for_each(|_| drop(b.end(&[])));
    let kernel = b.finish().unwrap();
    assert_eq!(verify(&kernel), Ok(()));
    let again = parse_file(&kernel.to_string(), "").unwrap();
    assert!(kernel.same_as(&again.kernels[0]));
}

/// By scalars one element is updated, as in a text: `old = atomic_add v[i, i], x : i32 where c`.
#[test]
fn scalars_update_one_element() {
    let mut b = builder();
    let p = b.param("p", Type::Ptr(Elem::I32), Facts::default()).unwrap();
    let n = b.int(4, Elem::I32).unwrap();
    let (i, x) = (b.int(1, Elem::I32).unwrap(), b.int(7, Elem::I32).unwrap());
    let c = b.int(1, Elem::Bool).unwrap();
    let v = b.view(p, &[n, n], None, 0.0).unwrap();
    b.atomic(AtomicOp::Max, v, &[i, i], x).unwrap();
    b.atomic_scatter(AtomicOp::Max, v, &[i, i], x, Some(c)).unwrap();
    let old = b.atomic_old(AtomicOp::Add, v, &[i, i], x, Some(c)).unwrap();
    let seen = b.atomic_cas(v, &[i, i], [old, x], None).unwrap();
    assert_eq!([old, seen].map(|v| b.kernel().ty(v)), [Type::Scalar(Elem::I32); 2]);
    assert!(b.atomic(AtomicOp::Max, v, &[i], x).is_err(), "an index is missing");
    b.finish().unwrap();
}
