//! A tile's work is cut in two halves. Consumers run the first half, and epilogue warps run the second while the
//! consumers are at the next tile.
//!
//! ```text
//!  for tile ..                          consumers                       epilogue warps
//!    s = for t { load x; .. }           for t { load x; .. }
//!    c = f(s)                      ─►   c = f(s)
//!    for u { load x; store g(x, c) }    store c, in a stage ··········► c = load of that stage
//!                                       next tile                       for u { read x again; store g(x, c) }
//! ```
//!
//! The cut stands before the last loop of the loop over tiles. The second half recomputes from scalars whatever it can.
//! Any other fragment goes through shared memory: each thread stores its registers, and the thread of the same number
//! in the other half loads them. Both halves may load the same tiles in the same order. Then the second half reads the
//! stages of the first, which are released after it. The ring needs as many stages as a tile fills, so the number of
//! iterations must be bounded. Stages that products read are not shared: each half loads its own.
//!
//! A tile that is loaded once, before the cut, belongs to the half that reads it. If both do, each loads its own.
//!
//! The program stays sequential: if one team runs it, the team loads a tile twice, and loads the fragments that it has
//! just stored. The schedule gives the halves to different warps (Task-Based Tensor Computations on Modern GPUs,
//! section 4.2.6).

use super::buffers::{redirect, set_buffer};
use super::handoff::{By, handoff_buffer, handoff_bytes, through};
use crate::analysis::{
    BARRIER, Graph, Remaking, WARPGROUP, buffer_of, global_access, inside, last_loop, renamed, tiles,
    touched, touched_inside, yields,
};
use crate::error::{Result, word};
use crate::feature::Feature;
use rustc_hash::FxHashSet;
use warplift_ir::machine::{
    Attr, Block, Buffer, BufferData, BufferKind, Cursor, Func, Inst, NewInst, Program, Ty, Value,
};
use warplift_ir::manifest::{Fact, Param};
use warplift_ir::target::{Opcode, Target};

/// Cuts the work of a tile in two if the mapping asks for it.
///
/// # Errors
/// The kernel has no such halves, or the halves share more than this pass can hand over.
pub fn do_epilogue_roles<'a>(
    mut program: Program<'a>,
    graph: &mut Graph,
    target: &Target,
    disabled: &[Feature],
) -> Result<(Program<'a>, Vec<String>)> {
    let mut remarks = Vec::new();
    if !program.epilogue_warps || disabled.contains(&Feature::WarpSpecialization) {
        return Ok((program, remarks));
    }
    let body = tiles(&program.func)?;
    let at = last_loop(&program.func, body)?;
    let last = program.func.blocks[body].insts[at];
    let first = load_behind_cut(&mut program, graph, body, last)?;
    let at = position(&program.func, body, first);
    let epilogue_insts = inside(&program.func, second_half(&program.func, body, at));
    check(&program, graph, body, &epilogue_insts)?;
    let values = crossing(&program.func, graph, body, &epilogue_insts)?;
    let spare = spare(&program, &values, target);
    share_stages(&mut program, graph, (body, at), last, spare, &mut remarks);
    hand_off(&mut program, (body, at), &values, &epilogue_insts);
    graph.update(&mut program.func);
    Ok((program, remarks))
}

/// All instructions from index `at` on, without the yield of the loop over tiles.
fn second_half<'f>(func: &'f Func<'_>, body: Block, at: usize) -> &'f [Inst] {
    let insts = &func.blocks[body].insts[at..];
    let ends = insts.last().is_some_and(|&i| func.insts[i].op == Opcode::Yield);
    &insts[..insts.len() - usize::from(ends)]
}

/// Lets the second half, which begins at an instruction, load the tiles that it reads and that are loaded once before it.
/// Returns the instruction at which it begins then.
///
/// # Errors
/// The first half may write what would be loaded behind it.
fn load_behind_cut(program: &mut Program<'_>, graph: &mut Graph, body: Block, cut: Inst) -> Result<Inst> {
    let at = position(&program.func, body, cut);
    let second = inside(&program.func, second_half(&program.func, body, at));
    let loaded = |b: &Buffer| {
        let accesses = graph.accesses(&program.func, *b);
        let before = |i: Inst| program.func.block_of(i) == Some(body) && !second.contains(&i);
        let mut fills = accesses.iter().filter(|a| a.writes).peekable();
        program.buffers[*b].kind == BufferKind::Ring
            && fills.peek().is_some()
            && fills.all(|a| before(a.inst))
            && accesses.iter().any(|a| !a.writes && second.contains(&a.inst))
    };
    let buffers: Vec<Buffer> = program.buffers.keys().filter(loaded).collect();
    let written = written(program, &program.func.blocks[body].insts[..at]);
    buffers.into_iter().try_fold(cut, |cut, buffer| {
        if let Some(array) = overwritten(program, graph, buffer, &written) {
            let what = format!(
                "`epilogue warps` loads `{array}` for its second part behind the first, which may write it: load it in the last \
                 loop"
            );
            return Err(word("epilogue", what));
        }
        let first = load_again(program, graph, (body, cut), buffer, &second);
        graph.update(&mut program.func);
        Ok(first)
    })
}

/// The arrays that instructions write.
fn written(program: &Program<'_>, insts: &[Inst]) -> Vec<String> {
    let func = &program.func;
    let array = |i: Inst| match (global_access(&func.insts[i]), &func.insts[i].attr) {
        (Some((access, true)), _) => {
            program.launch.arguments.get(access.pointer as usize).map(|a| a.name.clone())
        }
        (_, Attr::Tma(t)) if !func.insts[i].op.is_async_load() => array_of(program, t.map).map(str::to_owned),
        _ => None,
    };
    inside(func, insts).into_iter().filter_map(array).collect()
}

/// The array behind a buffer's loads, if it may overlap one of these.
fn overwritten(program: &Program<'_>, graph: &Graph, buffer: Buffer, written: &[String]) -> Option<String> {
    let accesses = graph.accesses(&program.func, buffer).iter();
    let map = accesses.filter(|a| a.writes).find_map(|a| match &program.func.insts[a.inst].attr {
        Attr::Tma(t) => Some(t.map),
        _ => None,
    });
    let array = array_of(program, map?)?;
    let disjoint = |w: &String| {
        program.launch.facts.iter().any(|fact| match fact {
            Fact::Disjoint { written, other } => {
                [(written, other), (other, written)].iter().any(|(a, b)| *a == w && b.as_str() == array)
            }
            _ => false,
        })
    };
    written.iter().any(|w| w == array || !disjoint(w)).then(|| array.to_owned())
}

/// The array that a parameter points to, or describes as a tensor map.
pub(crate) fn array_of<'p>(program: &'p Program<'_>, map: u32) -> Option<&'p str> {
    match program.launch.params.get(map as usize) {
        Some(Param::TensorMap(t)) => Some(t.base.as_str()),
        Some(Param::Argument { name }) => Some(name.as_str()),
        _ => None,
    }
}

fn position(func: &Func<'_>, block: Block, inst: Inst) -> usize {
    func.blocks[block].insts.iter().position(|&i| i == inst).unwrap_or_default()
}

/// Loads a tile for the second half into a buffer of its own, and returns the first of the new instructions. If the first
/// half does not read the tile, its load goes.
fn load_again(
    program: &mut Program<'_>,
    graph: &Graph,
    (body, cut): (Block, Inst),
    buffer: Buffer,
    second: &FxHashSet<Inst>,
) -> Inst {
    let accesses = graph.accesses(&program.func, buffer).iter().map(|a| (a.inst, a.writes));
    let (fills, reads): (Vec<_>, Vec<_>) = accesses.partition(|a| a.1);
    let own = program.buffers.push(program.buffers[buffer].clone());
    let func = &mut program.func;
    let (late, early): (Vec<Inst>, Vec<Inst>) =
        reads.into_iter().map(|a| a.0).partition(|i| second.contains(i));
    late.into_iter().for_each(|i| set_buffer(func, i, buffer, own));
    let (at, loc) = (position(func, body, cut), func.insts[fills[0].0].loc);
    let made = func.insert_at(body, at, |f| {
        let mut c = Cursor::new(f, body, loc);
        let loads = fills.iter().map(|&(fill, _)| {
            let d = &c.func.insts[fill];
            let (op, args, attr) = (d.op, d.args, renamed(&d.attr, buffer, own));
            c.push(NewInst::new(op, args, &[Ty::Event]).attr(attr))
        });
        let loads: Vec<Inst> = loads.collect();
        let events: Vec<Value> = loads.iter().map(|&load| c.func.insts[load].results[0]).collect();
        c.push(NewInst::new(Opcode::Await, &events, &[]));
        loads[0]
    });
    if early.is_empty() {
        fills.into_iter().for_each(|(fill, _)| drop_load(func, fill));
        program.buffers[buffer].bytes = 0;
    }
    made
}

/// Removes a load, and its event from the waits.
fn drop_load(func: &mut Func<'_>, load: Inst) {
    let event = func.insts[load].results[0];
    for wait in func.users(event).collect::<Vec<_>>() {
        let left: Vec<Value> = func.insts[wait].args.iter().copied().filter(|&v| v != event).collect();
        func.set_args(wait, &left);
    }
    func.remove(load);
}

/// Refuses halves that share something that cannot be handed over.
fn check(program: &Program<'_>, graph: &Graph, body: Block, epilogue_insts: &FxHashSet<Inst>) -> Result<()> {
    let func = &program.func;
    let buffers = |of_late: bool| -> FxHashSet<Buffer> {
        let insts = func.blocks[body].insts.iter().filter(|i| epilogue_insts.contains(i) == of_late);
        let own = insts.clone().flat_map(|&i| touched(&func.insts[i].attr, func.insts[i].op)).map(|t| t.0);
        let nested = insts.flat_map(|&i| touched_inside(func, i)).map(|t| t.1);
        own.chain(nested).filter(|&b| !program.buffers[b].kind.is_ring()).collect()
    };
    let carried =
        yields(func, body).iter().any(|&v| func.def(v).is_some_and(|d| epilogue_insts.contains(&d)));
    let read = |of_late: bool| -> FxHashSet<Buffer> {
        let insts = func.blocks[body].insts.iter().filter(|i| epilogue_insts.contains(i) == of_late);
        let own = insts.flat_map(|&i| touched(&func.insts[i].attr, func.insts[i].op));
        own.filter(|t| !t.1).map(|t| t.0).collect()
    };
    let refusals = [
        (program.teams > 1, "does not go with `pingpong`: remove one of the two"),
        (program.blocks > 1 || program.launch.cluster > 1, "does not go with clusters of blocks"),
        (
            !program.warps.is_multiple_of(WARPGROUP),
            "needs a multiple of 4 warps: others make no whole warpgroups",
        ),
        (
            graph.conflicts_in_global(func),
            "does not go with a kernel that reads what it stores: no barrier orders the roles",
        ),
        (
            !buffers(true).is_disjoint(&buffers(false)),
            "needs two parts of a tile's work that share no scratch buffer",
        ),
        (!read(true).is_disjoint(&read(false)), "needs two parts that read no common tile outside of loops"),
        (carried, "needs an end of a tile's work that the next tile does not read"),
    ];
    match refusals.iter().find(|r| r.0) {
        Some((_, what)) => Err(word("epilogue", format!("`epilogue warps` {what}"))),
        None => Ok(()),
    }
}

/// Fragments of the first half that the second half needs.
fn crossing(
    func: &Func<'_>,
    graph: &Graph,
    body: Block,
    epilogue_insts: &FxHashSet<Inst>,
) -> Result<Vec<Value>> {
    let insts = &func.blocks[body].insts;
    let first_half =
        insts.iter().filter(|i| !epilogue_insts.contains(i)).flat_map(|&i| func.insts[i].results);
    let first_half: FxHashSet<Value> = first_half.chain(&func.blocks[body].params).copied().collect();
    let mut found = Vec::new();
    let counter = func.blocks[body].params[0];
    let mut made = Remaking::outside(func, body, Some(counter)).loading_again(graph);
    for &inst in insts.iter().filter(|i| epilogue_insts.contains(i)) {
        let mut read = Vec::new();
        graph.reads(func, inst, &mut read);
        for v in read.into_iter().filter(|v| first_half.contains(v)) {
            if found.contains(&v) || made.value(v) {
                continue;
            }
            if !func.ty(v).is_frag() {
                let line = func.insts[inst].loc.line;
                let what = format!(
                    "`epilogue warps` hands on tiles, no scalars: line {line}: a scalar of a tile that its first part computes"
                );
                return Err(word("epilogue", what));
            }
            found.push(v);
        }
    }
    match found.is_empty() {
        true => Err(word(
            "epilogue",
            "`epilogue warps` is of no use: the last loop of a tile needs nothing of the first part",
        )),
        false => Ok(found),
    }
}

/// Stores the fragments before the second half, and loads them there.
fn hand_off(
    program: &mut Program<'_>,
    (body, at): (Block, usize),
    values: &[Value],
    epilogue_insts: &FxHashSet<Inst>,
) {
    let by = By::Threads(32 * program.warps);
    let buffer = handoff_buffer(program, values, by);
    let func = &mut program.func;
    let loc = func.insts[func.blocks[body].insts[at]].loc;
    let new = func.insert_at(body, at, |f| through(Cursor::new(f, body, loc), buffer, by, values));
    epilogue_insts.iter().for_each(|&inst| func.rename(inst, |v| new.get(&v).copied().unwrap_or(v)));
}

/// Bytes of shared memory that remain beside one stage of every ring and the handoff.
fn spare(program: &Program<'_>, values: &[Value], target: &Target) -> u32 {
    let handoff = handoff_bytes(program, values, By::Threads(32 * program.warps)) + 2 * BARRIER;
    let placed = |b: &BufferData| b.stride() + b.align + 2 * BARRIER;
    let taken: u32 = program.buffers.values().map(placed).sum();
    target.shared_of_resident(program.launch.resident).saturating_sub(handoff + taken)
}

/// Lets loops of the second half read the stages that are filled for the first half, as long as there is room.
fn share_stages(
    program: &mut Program<'_>,
    graph: &Graph,
    (body, at): (Block, usize),
    second: Inst,
    mut spare: u32,
    remarks: &mut Vec<String>,
) {
    let insts = program.func.blocks[body].insts.clone();
    let first_half: Vec<Inst> =
        insts[..at].iter().copied().filter(|&i| program.func.insts[i].op == Opcode::For).collect();
    let mut found: Vec<(Vec<Buffer>, Vec<Buffer>)> = Vec::new();
    for group in groups(&program.func, second) {
        let free = |others: &Vec<Buffer>| found.iter().all(|f| f.0 != *others);
        let brought =
            first_half.iter().find_map(|&first| same_loads(program, graph, [first, second], &group, free));
        // Then the second half needs no stage of its own.
        let with_own = spare + stage_bytes(program, &group);
        match brought.map(|(first, others)| (room(program, first, &others, with_own), others)) {
            Some((_, others))
                if graph.is_read_by_products(&program.func, &[&others[..], &group].concat()) =>
            {
                remarks.push(format!(
                    "epilogue warps load {} by themselves: products read these stages, and one role frees such a stage",
                    names(program, &group)
                ));
            }
            Some((Ok(bytes), others)) => {
                spare = with_own - bytes;
                found.push((others, group));
            }
            Some((Err(why), _)) => remarks.push(format!("epilogue warps load once more: {why}")),
            None if first_half.iter().any(|&first| loads_same_array(program, graph, first, &group)) => {
                remarks.push(format!(
                    "epilogue warps load {} by themselves: no loop before theirs loads the same for them",
                    names(program, &group)
                ))
            }
            None => {}
        }
    }
    for (others, group) in found {
        others.iter().zip(&group).for_each(|(&to, &from)| redirect(program, graph, from, to));
    }
}

fn names(program: &Program<'_>, buffers: &[Buffer]) -> String {
    let names: Vec<String> = buffers.iter().map(|&b| format!("`{}`", program.buffers[b].name)).collect();
    names.join(", ")
}

/// Whether a loop loads from the arrays whose tiles are in these buffers.
fn loads_same_array(program: &Program<'_>, graph: &Graph, looped: Inst, buffers: &[Buffer]) -> bool {
    let func = &program.func;
    let loads = |into: &dyn Fn(Inst, Buffer) -> bool| -> FxHashSet<&str> {
        let writes = graph.shared_accesses(func).iter().filter(|a| a.writes && into(a.inst, a.buffer));
        let all = writes.filter_map(|a| match &func.insts[a.inst].attr {
            Attr::Tma(t) => array_of(program, t.map),
            _ => None,
        });
        all.collect()
    };
    let body = func.insts[looped].blocks[0];
    let here = loads(&|i, _| func.block_of(i) == Some(body));
    !here.is_disjoint(&loads(&|_, b| buffers.contains(&b)))
}

/// Buffers that are awaited together in a loop's body.
fn groups(func: &Func<'_>, looped: Inst) -> Vec<Vec<Buffer>> {
    let awaits = func.blocks[func.insts[looped].blocks[0]].insts.iter().map(|&i| &func.insts[i]);
    let awaits = awaits.filter(|d| d.op == Opcode::Await);
    let groups = awaits.map(|d| {
        let mut group: Vec<Buffer> = d.args.iter().filter_map(|&e| buffer_of(func, e)).collect();
        group.dedup();
        group
    });
    groups.filter(|g| !g.is_empty()).collect()
}

/// The loop that loads the same tiles as another loop into buffers of its own, with these buffers. They must not be
/// shared yet.
fn same_loads(
    program: &Program<'_>,
    graph: &Graph,
    [first, second]: [Inst; 2],
    group: &[Buffer],
    free: impl Fn(&Vec<Buffer>) -> bool,
) -> Option<(Inst, Vec<Buffer>)> {
    let func = &program.func;
    let bounds = func.insts[first].loop_bounds()?.into_iter().zip(func.insts[second].loop_bounds()?);
    let [a, b] = [first, second].map(|i| func.insts[i].blocks[0]);
    let counters = (func.blocks[a].params[0], func.blocks[b].params[0]);
    let mut seen = FxHashSet::default();
    let same_bounds = bounds.into_iter().all(|(x, y)| is_same(func, (x, y), counters, &mut seen));
    let same = |others: &Vec<Buffer>| {
        others.len() == group.len()
            && others
                .iter()
                .zip(group)
                .all(|(&x, &y)| is_same_tile(program, graph, [(a, x), (b, y)], counters))
    };
    groups(func, first)
        .into_iter()
        .find(|others| same_bounds && free(others) && same(others))
        .map(|others| (first, others))
}

/// Whether two blocks load the same tiles into two buffers, and nothing else fills these buffers.
fn is_same_tile(
    program: &Program<'_>,
    graph: &Graph,
    [x, y]: [(Block, Buffer); 2],
    counters: (Value, Value),
) -> bool {
    let func = &program.func;
    let loads = |(block, buffer): (Block, Buffer)| -> Option<Vec<Inst>> {
        let fills = graph.accesses(func, buffer).iter().filter(|a| a.writes).map(|a| a.inst);
        let fills: Vec<Inst> = fills.collect();
        fills.iter().all(|&i| func.block_of(i) == Some(block)).then_some(fills)
    };
    let [p, q] = [x, y].map(|(_, b)| &program.buffers[b]);
    let (Some(a), Some(b)) = (loads(x), loads(y)) else { return false };
    let same_loads = |(&i, &j): (&Inst, &Inst)| {
        let [d, e] = [i, j].map(|i| &func.insts[i]);
        let args = d.args.len() == e.args.len() && d.guard.is_none() && e.guard.is_none();
        let mut seen = FxHashSet::default();
        let same = d.args.iter().zip(e.args).all(|(&v, &w)| is_same(func, (v, w), counters, &mut seen));
        args && same && d.op == e.op && renamed(&e.attr, y.1, x.1) == d.attr
    };
    (p.bytes, p.align) == (q.bytes, q.align) && a.len() == b.len() && a.iter().zip(&b).all(same_loads)
}

/// Whether two values are equal if the counters of the two loops are equal. A pair is compared only once, because a
/// pair that differs ends the search.
fn is_same(
    func: &Func<'_>,
    (x, y): (Value, Value),
    counters: (Value, Value),
    seen: &mut FxHashSet<(Value, Value)>,
) -> bool {
    if x == y || (x, y) == counters || !seen.insert((x, y)) {
        return true;
    }
    let (Some(i), Some(j)) = (func.def(x), func.def(y)) else { return false };
    let (d, e) = (&func.insts[i], &func.insts[j]);
    let pure = d.op.is_pure() && d.blocks.is_empty() && d.guard.is_none() && e.guard.is_none();
    let same_loads = (d.op, &d.attr, &d.maps, d.args.len()) == (e.op, &e.attr, &e.maps, e.args.len());
    pure && same_loads && d.args.iter().zip(e.args).all(|(&v, &w)| is_same(func, (v, w), counters, seen))
}

/// Bytes of a stage of a ring, with its barriers.
fn stage_bytes(program: &Program<'_>, ring: &[Buffer]) -> u32 {
    let placed = |&b: &Buffer| program.buffers[b].stride();
    ring.iter().map(placed).sum::<u32>() + 2 * BARRIER
}

/// Bytes of the stages that a tile fills, beyond the first stage. `None` if they do not fit all at once.
fn room(program: &Program<'_>, first: Inst, ring: &[Buffer], spare: u32) -> std::result::Result<u32, String> {
    let most = match &program.func.insts[first].attr {
        Attr::Loop(l) => {
            l.most.ok_or_else(|| format!("nothing bounds the iterations of loop `{}`", l.name))?
        }
        _ => 1,
    };
    let more = most.saturating_sub(1).saturating_mul(stage_bytes(program, ring));
    match more <= spare {
        true => Ok(more),
        false => {
            let names = names(program, ring);
            Err(format!("{most} stages of {names} are {more} bytes beyond the first, {spare} are left"))
        }
    }
}
