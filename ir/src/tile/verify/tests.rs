use super::*;
use crate::target::SM90A;
use crate::tile::parse_file;

fn kernel(body: &str) -> Kernel {
    let text = format!("kernel k(p: ptr<f32>, n: i32) {{ tunable T = 16 {body} }}");
    match parse_file(&text, "") {
        Ok(mut m) => m.kernels.remove(0),
        Err(e) => panic!("{e:?}"),
    }
}

fn messages(kernel: &Kernel) -> Vec<String> {
    let errors = verify(kernel).err().unwrap_or_default();
    errors.iter().map(ToString::to_string).collect()
}

fn finds(kernel: &Kernel, message: &str) {
    let found = messages(kernel);
    assert!(found.iter().any(|m| m.contains(message)), "{found:?}");
}

const SOUND: &str = "grid n, cdiv(n, T)
    x = full 1.0 : f32[T, 4]
    y = for t in 0..n carry s = x { yield s + x }
    z = if n == 1 { yield y } else { yield x }";

#[test]
fn sound_kernels_pass() {
    assert_eq!(messages(&kernel(SOUND)), [""; 0]);
}

#[test]
fn a_value_must_be_in_sight() {
    let mut k = kernel(SOUND);
    let entry = k.entry;
    k.blocks[entry].insts.reverse();
    finds(&k, "is not defined here");
    finds(&k, "a block ends in its only `yield`");
    let mut k = kernel(SOUND);
    let last = k.blocks[entry].insts[0];
    k.blocks[entry].insts.push(last);
    finds(&k, "stands twice");
}

#[test]
fn types_are_checked_again() {
    let mut k = kernel(SOUND);
    for v in k.values.values_mut() {
        if let Type::Tile(e, _) = v.ty {
            v.ty = Type::Tile(e, Shape::of(&[8]).unwrap_or_else(|| unreachable!()));
            break;
        }
    }
    finds(&k, "do not match");
    let mut k = kernel(SOUND);
    let last = *k.blocks[k.entry].insts.iter().rev().nth(1).unwrap();
    k.insts[last].blocks.pop();
    finds(&k, "has 1 blocks, not 2");
    assert_eq!(verify(&k).unwrap_err()[0].inst, Some(last));
}

#[test]
fn sizes_are_bounded() {
    for body in ["x = full 1.0 : f32[T / 3]", "x = full 1.0 : f32[0]", "x = iota 0 : i32[1048576, 2]"] {
        finds(&kernel(&format!("grid 1 {body}")), "positive whole extents");
    }
}

#[test]
fn grids_are_launch_time_values() {
    finds(&kernel("x = 1"), "1:8: kernel `k` has no grid; write `grid cdiv(n, B)`, 1 to 3 extents");
    finds(&kernel("grid block_index(0)"), "depends on more than parameters");
    finds(&kernel("grid 1 x = grid_dim(1)"), "the grid has 1 dimensions");
    finds(&kernel("grid 1 for t in 0..4 step 0 { }"), "the step must be");
}

#[test]
fn asynchronous_copies_are_waited_for() {
    let copy = "grid 1 g = view p : f32[n] a = async_copy g[0] : f32[T]";
    for (rest, sound) in [
        ("async_commit async_wait 0 b = a + a", true),
        ("async_wait 0 b = a + a", false),
        ("async_commit async_wait 1 b = a + a", false),
        ("async_commit async_commit async_wait 1 b = a + a", true),
        (
            "async_commit
             c = for t in 0..n carry x = a {
                 y = async_copy g[t] : f32[T]
                 async_commit
                 async_wait 1
                 store g[t], x
                 yield y
             }
             async_wait 0
             store g[0], c",
            true,
        ),
        (
            "async_commit
             c = for t in 0..n carry x = a {
                 y = async_copy g[t] : f32[T]
                 async_commit
                 store g[t], x
                 yield y
             }",
            false,
        ),
        ("async_commit if n == 0 { async_wait 0 } b = abs(a)", false),
        ("async_commit if n == 0 { async_wait 0 } else { async_wait 0 } b = abs(a)", true),
    ] {
        let found = messages(&kernel(&format!("{copy} {rest}")));
        assert_eq!(found.is_empty(), sound, "{rest}: {found:?}");
    }
}

#[test]
fn mappings_name_what_is_there() {
    let k = kernel(SOUND);
    let read = |t: &str| parse_file(t, "").unwrap().mappings.remove(0);
    let sound = read("mapping k { T = 32 for t: pipeline 2 }");
    assert_eq!(verify_mapping(&k, &sound, &SM90A), Ok(()));
    let wrong = read("mapping k {\n T = 0\n U = 3\n for u: pipeline 0 }");
    let errors = verify_mapping(&k, &wrong, &SM90A).unwrap_err();
    assert_eq!(errors.len(), 4);
    assert_eq!(errors[1].to_string(), "3:2: kernel `k` has no tunable `U`; it has `T`");
}

const RULED: &str = "kernel ruled(p: ptr<f32>, n: i32) {
    const GROUP = 128
    tunable BN in {64, 96, 128} = 128, BM in 16..=256 step 16 = 16
    grid n
    assert GROUP % BN == 0, \"whole groups\"
    assert BM <= BN
    g = view p : f32[n]
    store g[0], full 0.0 : f32[BM]
}";

#[test]
fn mappings_obey_domains_and_asserts() {
    let kernel = parse_file(RULED, "").unwrap().kernels.remove(0);
    assert_eq!(messages(&kernel), [""; 0]);
    let refused = |items: &str| {
        let mapping = parse_file(&format!("mapping ruled {{ {items} }}"), "").unwrap().mappings.remove(0);
        let errors = verify_mapping(&kernel, &mapping, &SM90A).err().unwrap_or_default();
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(refused("BN = 64, BM = 64"), [""; 0]);
    for (items, message) in [
        ("BN = 176", "1:17: tunable `BN` is 176, must be 64, 96 or 128"),
        ("BM = 24", "1:17: tunable `BM` is 24, must be 16 to 256 by steps of 16"),
        ("BN = 96", "1:17: `assert 128 % BN == 0` does not hold for BN = 96: whole groups"),
        ("BM = 256", "1:17: `assert BM <= BN` does not hold for BN = 128, BM = 256"),
        ("GROUP = 64", "1:17: `GROUP` is a constant of kernel `ruled`: it says what is computed"),
    ] {
        assert_eq!(refused(items), [message], "{items}");
    }
}

#[test]
fn defaults_obey_domains_and_asserts() {
    let changed = |from: &str, to: &str| parse_file(&RULED.replace(from, to), "").unwrap().kernels.remove(0);
    finds(&changed("= 128, BM", "= 96, BM"), "`assert 128 % BN == 0` does not hold for BN = 96");
    let mut k = changed("", "");
    k.tunables.values_mut().for_each(|t| t.default = 7);
    finds(&k, "tunable `BN` is 7, must be 64, 96 or 128");
}
