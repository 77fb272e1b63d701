//! Products that stay in flight over an iteration of their loop.

use crate::analysis::{
    Graph, Node, WARPGROUP, copy_place, led_by, needed_beside_copies, reads_fixed, yields,
};
use rustc_hash::FxHashSet;
use warplift_ir::machine::{Attr, Block, Buffer, Func, Inst, Place, Program, RingFill, Schedule, Value};
use warplift_ir::target::Opcode;

/// Whether the products of a loop stay in flight over an iteration. The mapping decides; if it says nothing, they do if
/// one warpgroup computes alone. Measured: it reaches 88% of the tensor cores' rate if every iteration waits for its own
/// products, and 99.8% if it waits for those of the iteration before. Two warpgroups fill each other's gaps, also where they copy
/// and meet in each iteration (`moe_gemm` takes 1.5% longer with products in flight).
pub(super) fn in_flight(program: &Program<'_>, graph: &Graph, inst: Inst, s: &mut Schedule) {
    let data = &program.func.insts[inst];
    let (Opcode::For, Attr::Loop(attr)) = (data.op, &data.attr) else { return };
    let products = program.func.blocks[data.blocks[0]].insts.iter();
    let products = products.filter(|&&i| program.func.insts[i].op == Opcode::Wgmma).count();
    let wished = attr.wait.unwrap_or(u32::from(program.warps == WARPGROUP));
    if products == 0 || wished == 0 {
        return;
    }
    if attr.conditional {
        s.remarks.push(
            "products of a `while` are not left in flight: an iteration decides if another follows".into(),
        );
        return;
    }
    match only_products(program, graph, (data.blocks[0], s)) {
        Ok(()) => s.in_flight[inst] = 1,
        Err(why) => s.remarks.push(format!("products of loop `{}` are not left in flight: {why}", attr.name)),
    }
}

/// Whether a loop's body contains only products on rings, with accumulators that nothing else uses, and scalars that only
/// copies need.
fn only_products(program: &Program<'_>, graph: &Graph, (body, s): (Block, &Schedule)) -> Result<(), String> {
    let func = &program.func;
    let yielded = yields(func, body);
    let needed = s.producer.then(|| needed_beside_copies(func, graph, &s.roles));
    let by_producer = |i: Inst| needed.as_ref().is_some_and(|n| !n.contains(&Node::Inst(i)));
    let copied = s.rings.values().filter(|r| r.fill == RingFill::CpAsync && r.blocks.contains(&body));
    let led: FxHashSet<Inst> = copied.flat_map(|r| led_by(func, body, &r.buffers)).collect();
    let sums = sums(func, body);
    for &inst in &func.blocks[body].insts {
        let d = &func.insts[inst];
        match (d.op, &d.attr) {
            (Opcode::TmaLoad | Opcode::BulkLoad | Opcode::Await | Opcode::Yield, _) => {}
            (Opcode::Wgmma, Attr::Wgmma(w)) => {
                let ring = |b: Buffer| program.buffers[b].kind.is_ring();
                if !w.a.as_ref().is_some_and(|a| ring(a.place.buffer)) || !ring(w.b.place.buffer) {
                    return Err("an operand is computed by threads".to_owned());
                }
                let at = yielded.iter().position(|v| *v == d.results[0]);
                if at.is_none_or(|n| func.blocks[body].params.get(n + 1) != Some(&d.args[0])) {
                    return Err("an accumulator is not carried as it is".to_owned());
                }
            }
            (Opcode::CpAsync, _) if !is_read_by_threads(s, copy_place(d)) => {}
            _ if (reads_fixed(d) && by_producer(inst)) || led.contains(&inst) => {}
            // Coordinates, and the rows that threads copy.
            (op, _) if op.is_pure() && d.args.iter().all(|v| !sums.contains(v)) => {}
            (op, _) => return Err(format!("`{}` stands among them", op.name())),
        }
    }
    Ok(())
}

/// The fragments that the products of a block add to, and their results.
fn sums(func: &Func<'_>, body: Block) -> Vec<Value> {
    let products = func.blocks[body].insts.iter().map(|&i| &func.insts[i]);
    products.filter(|d| d.op == Opcode::Wgmma).flat_map(|d| [d.args[0], d.results[0]]).collect()
}

/// Whether threads read the stages of the ring that a copy fills, not only products.
fn is_read_by_threads(s: &Schedule, place: Option<Place>) -> bool {
    let ring = |place: Place| s.rings.values().find(|r| r.buffers.contains(&place.buffer));
    place.and_then(ring).is_none_or(|r| r.threads_read)
}
