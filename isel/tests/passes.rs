//! Passes of `map` where they must hold back.

use warplift_ir::target::SM90A;
use warplift_ir::tile::{Block, Inst, Kernel, Op, parse_file};
use warplift_isel::map::{MapContext, do_map};

/// A kernel under its mapping, and its instructions with their blocks.
fn mapped(text: &str) -> (Kernel, Vec<(Block, Inst)>) {
    let module = parse_file(text, "text").unwrap_or_else(|e| panic!("{e:?}"));
    let context = MapContext::new(&module.mappings[0], &SM90A, &[]);
    let variants = do_map(&module.kernels[0], &context).unwrap_or_else(|e| panic!("{e}"));
    let kernel = variants[0].kernel.clone();
    let mut all = Vec::new();
    kernel.walk(|block, inst| all.push((block, inst)));
    (kernel, all)
}

#[test]
fn a_product_does_not_wait_for_what_is_added_to_it_outside_a_loop() {
    let (k, all) = mapped(
        "kernel e(a: ptr<f16> align 16, b: ptr<f16> align 16, r: ptr<f32>, c: ptr<f32>, m: i32, n: i32 % 8) {
            grid cdiv(m, 64)
            ga = view a : f16[m, 64]
            gb = view b : f16[64, n]
            gr = view r : f32[m, n]
            gc = view c : f32[m, n]
            i = block_index
            zero = full 0.0 : f32[64, 64]
            res = load gr[i*64, 0] : f32[64, 64]
            d = mma zero, load ga[i*64, 0] : f16[64, 64], load gb[0, 0] : f16[64, 64]
            store gc[i*64, 0], res + d
        }
        mapping e { kernel: warps 4 }",
    );
    let product = all.iter().find(|(_, i)| matches!(k.insts[*i].op, Op::Mma { .. })).expect("a product").1;
    let onto = k.def(k.args(product)[0]).map(|d| &k.insts[d].op);
    assert!(matches!(onto, Some(Op::Full)), "{k}");
}

#[test]
fn what_stands_before_a_loop_is_loaded_once() {
    let (k, all) = mapped(
        "kernel c(x: ptr<f16> align 16, w: ptr<f16> align 16, y: ptr<f16> align 16, m: i32, n: i32 % 8) {
            gx = view x : f16[m, n]
            gw = view w : f16[n]
            gy = view y : f16[m, n]
            grid 1
            w0 = load gw[0] : f16[32768]
            for t in 0..m {
                h = cast(load gx[t, 0] : f16[1, 32768], f32)
                store gy[t, 0], cast(h * expand_dims(reduce_sum(h, 1), 1) * cast(w0, f32), f16)
            }
        }
        mapping c { kernel: warps 8 }",
    );
    let stores = all.iter().filter(|(_, i)| matches!(k.insts[*i].op, Op::Store)).count();
    assert!(stores > 1, "in strips\n{k}");
    let loads: Vec<Block> =
        all.iter().filter(|(_, i)| matches!(k.insts[*i].op, Op::Load)).map(|x| x.0).collect();
    assert_eq!(loads.iter().filter(|b| **b == k.entry).count(), 1, "{k}");
    assert_eq!(loads.len(), 2, "{k}");
}

#[test]
fn a_mask_of_the_columns_inside_takes_nothing_from_what_is_stored() {
    let text = |bound: &str| {
        format!(
            "kernel c(x: ptr<f16> align 16, y: ptr<f16> align 16, m: i32, n: i32 % 8) {{
                grid m
                gx = view x : f16[m, n]
                gy = view y : f16[m, n]
                i = block_index
                t = cast(load gx[i, 0] : f16[1, 32768], f32)
                inside = broadcast(expand_dims(iota(0) : i32[32768] < {bound}, 0)) : bool[1, 32768]
                off = select(inside, t + 1.0, 0.0)
                store gy[i, 0], cast(off * expand_dims(reduce_sum(off, 1), 1), f16)
            }}
            mapping c {{ kernel: warps 8, resident 2 }}"
        )
    };
    let count = |bound: &str| {
        let (k, all) = mapped(&text(bound));
        let of = |op: fn(&Op) -> bool| all.iter().filter(|(_, i)| op(&k.insts[*i].op)).count();
        (of(|op| matches!(op, Op::Select)), of(|op| matches!(op, Op::Store)))
    };
    let (inside, strips) = count("n");
    assert!(strips > 1);
    assert_eq!(inside, strips, "of the sum alone");
    assert_eq!(count("n - 8").0, 2 * strips, "of the sum, and of what is stored");
}
