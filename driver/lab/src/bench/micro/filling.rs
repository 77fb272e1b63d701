//! Products while tensor copies fill shared memory beside them: do the copies take cycles from the products' operands?
//!
//! ```text
//!  all warps       wait s0  ■■■■  wait s1  ■■■■  wait s2  ■■■■       groups of products; operands that never change
//!  warp 0, too     load s0        load s1        load s2             boxes from the L2, into a ring of their own
//!                  cycles from product to product, by columns of the product and bytes that arrive for each
//! ```

use super::tma::{self, Copies, LENGTH, State};
use super::wgmma::{self, BYTES};
use super::{Blocks, Case, Frame, Reading, builder};
use warplift_ir::machine::{NewInst, Ty, Value};
use warplift_ir::target::Opcode;
use warplift_ir::tile::CmpOp;
use warplift_ir::types::Elem;

/// Stages of the ring.
const STAGES: u32 = 4;
/// Stages that are loaded before they are waited for: the others keep warps that lag by less than two groups from missing a
/// phase. Nothing else keeps the warpgroups together than the tensor cores, at which they take turns.
const AHEAD: u32 = 2;
/// Warpgroups that take turns.
const WARPGROUPS: u32 = 2;
/// Columns, and products of a group: narrow products take less time, and so have less bytes each.
const SHAPES: [(u16, u8); 8] = [(64, 4), (80, 4), (96, 4), (112, 4), (128, 4), (144, 4), (192, 2), (256, 2)];
/// Rows of a stage, 128 bytes each; 0: no copies.
const ROWS: [u32; 5] = [0, 64, 128, 192, 256];

/// Bytes of the products' operands, before the ring.
const OPERANDS: u32 = BYTES.next_multiple_of(1024);

fn frame(box_of: tma::Shape) -> Frame {
    Frame {
        warps: 4 * WARPGROUPS,
        blocks: Blocks::Count(1),
        shared: OPERANDS + STAGES * box_of.stage(),
        maps: vec![box_of.map()],
        barriers: vec![1; STAGES as usize],
        ..Frame::default()
    }
}

/// Groups of `steps` products of `n` columns, and for each a box of so many rows.
fn case(n: u16, steps: u8, rows: u32, shared_a: bool) -> Case {
    let product = wgmma::Shape { name: "f16", elem: Elem::F16, acc: Elem::F32, n, shared_a };
    let box_of = tma::shape(rows.max(8), 128, 128);
    let frame = frame(box_of);
    let build = builder(move |bump, name| {
        let held = std::cell::OnceCell::new();
        let ring = |env: &super::frame::Env, shared: Value| super::frame::Env { shared, ..*env };
        frame.build_to_end(
            bump,
            name,
            |c, env| {
                let operands = wgmma::operands(c, env.shared, env.thread, steps);
                let first = c.compare(CmpOp::Eq, env.warp, env.zero);
                let copies = Copies::new(c, box_of, 4 << 10, Some(first));
                let behind = ring(env, c.add_imm(env.shared, OPERANDS.into()));
                let mut state = copies.begin(c, &behind, STAGES);
                if rows > 0 {
                    (0..AHEAD).for_each(|s| copies.load(c, &behind, &mut state, s));
                }
                let words: Vec<Value> = (0..product.regs()).map(|_| c.imm(0)).collect();
                let acc = c.value(NewInst::new(Opcode::Join, &words, &[Ty::frag(product.regs())]));
                let _ = held.set((operands, copies, behind));
                [vec![acc], state.carried()].concat()
            },
            |c, _, carried| {
                let Some((operands, copies, behind)) = held.get() else { return carried.to_vec() };
                let (mut acc, mut state) = (carried[0], State::of(&carried[1..]));
                for i in 0..LENGTH {
                    let stage = i % STAGES;
                    if rows > 0 {
                        copies.load(c, behind, &mut state, (i + AHEAD) % STAGES);
                        copies.wait(c, behind, &state, stage);
                    }
                    acc = wgmma::group(c, product, operands, acc, steps);
                    wgmma::wait(c, 1);
                    if stage + 1 == STAGES {
                        Copies::flip(c, &mut state);
                    }
                }
                [vec![acc], state.carried()].concat()
            },
            |c, _, carried| {
                let Some((_, copies, behind)) = held.get() else { return };
                wgmma::wait(c, 0);
                let state = State::of(&carried[1..]);
                if rows > 0 {
                    (0..AHEAD).for_each(|s| copies.wait(c, behind, &state, s));
                }
            },
        )
    });
    let products = LENGTH * u32::from(steps);
    let from = if shared_a { "ss" } else { "rs" };
    let bytes = rows * 128 / (u32::from(steps) * WARPGROUPS);
    let per = f64::from(products * WARPGROUPS);
    Case::new(format!("filling.{from}.n{n}.bytes{bytes}"), "filling", Reading::Cycles { per }, build)
        .axes(&[("n", n.into()), ("bytes", bytes.into()), ("steps", steps.into())])
        .sass("HGMMA", products)
}

/// All of it.
pub fn cases() -> Vec<Case> {
    let shared = SHAPES.iter().flat_map(|&(n, steps)| ROWS.map(|rows| case(n, steps, rows, true)));
    let registers = [(64, 4), (128, 4), (256, 2)];
    let registers = registers.into_iter().flat_map(|(n, steps)| ROWS.map(|rows| case(n, steps, rows, false)));
    shared.chain(registers).collect()
}
