//! Rules for equivalent mutants. Each rule has its proof beside it and checks the proof's assumptions on the text. If
//! it cannot check them, the mutant has escaped.

use super::first_fill::wraps_after_the_last;
use super::groups::{Kind, same_groups};
use super::text::{Text, guard, opcodes};
use warplift_sim::mutate::{Mutant, Mutation};

/// A rule: when a mutant is equivalent, and why.
type Rule = (&'static str, fn(&Text<'_>, &Mutant) -> bool);

const RULES: [Rule; 6] = [
    (
        // The commit and wait of products decide when accumulators, A registers and operands in shared memory are free.
        // A product without its commit joins the next group. A removed wait leaves its groups to the next wait. Nothing
        // changes if, until the same products are in flight again, no line names a register of the additional products
        // in flight, signals another thread, or writes memory.
        "the products are waited for in time, in another group or by another wait",
        |text, m| {
            let changed = line_of(text, m);
            let groups = starts(changed, "wgmma.commit_group") || starts(changed, "wgmma.wait_group");
            groups && m.mutation != Mutation::Move && same_groups(text, m, Kind::Products)
        },
    ),
    (
        // A commit moved before its bulk store: the store joins the next group, and no other store's group changes.
        // Nothing changes if the first wait that covers the store's own group covers the next group too.
        "the store joins the next group, which is waited for in time",
        |text, m| {
            let commit = starts(line_of(text, m), "cp.async.bulk.commit_group");
            commit && m.mutation == Mutation::Move && same_groups(text, m, Kind::Stores)
        },
    ),
    (
        // `cp.async` writes through the generic proxy, and the fence orders what the executing thread has seen
        // complete, its own copies or others' (PTX ISA, "Causality order": a proxy fence stands on the path). All
        // threads execute wait, fence and barrier in a row, so before the barrier each speaks for its own copies,
        // behind it for all. What ordinary stores write needs the writer's fence: none may wait for this one.
        "each reader's own fence covers the copies of threads that the barrier told it of",
        copies_are_fenced_behind,
    ),
    (
        // A block's shared memory lives until its last warp ends. At the end all roles wait for the cluster, behind
        // their arrivals; with the wait of one role gone the others' still hold the block until every peer has
        // arrived. A block of one role has one such wait, and the simulator reports its removal.
        "another role of the block waits for the cluster",
        |text, m| {
            let at = m.line as usize - 1;
            let wait = starts(text.line(at), "barrier.cluster.wait");
            let others = || ends(text).any(|end| text.role(end) != text.role(at));
            wait && m.mutation == Mutation::Remove && is_last(text, at) && all_end_together(text) && others()
        },
    ),
    (
        // The fence before the store of a block's own memory, and the wait for its reads, must come before the block's
        // end, which is after the wait for the cluster. The last arrival tells peers that this block no longer touches
        // their memory. After it, they only end.
        "the block does not end before its wait for the cluster",
        arrival_passes_own_stores,
    ),
    (
        // `first_fill` has the proof.
        "the loop ends where its ring does, and its slot with it",
        |text, m| {
            let later = m.description.contains("wraps a slot later");
            m.mutation == Mutation::Slot && later && wraps_after_the_last(text, m.line as usize - 1)
        },
    ),
];

/// The rule by which a mutant of a text is equivalent, if there is one.
pub fn equivalent(ptx: &str, mutant: &Mutant) -> Option<&'static str> {
    let text = Text::new(ptx);
    RULES.iter().find(|(_, rule)| rule(&text, mutant)).map(|(why, _)| *why)
}

fn line_of<'a>(text: &Text<'a>, m: &Mutant) -> &'a str {
    text.line(m.line as usize - 1)
}

fn starts(line: &str, opcode: &str) -> bool {
    opcodes(line).next().is_some_and(|o| o.starts_with(opcode))
}

fn copies_are_fenced_behind(text: &Text<'_>, m: &Mutant) -> bool {
    let Some(past) = m.past else { return false };
    let (line, past) = (m.line as usize - 1, past as usize - 1);
    let (fence, barrier) = (line.min(past), line.max(past));
    let Some(wait) = text.before(fence) else { return false };
    let row = [(wait, "cp.async.wait"), (fence, "fence.proxy.async"), (barrier, "bar.sync")];
    text.behind(fence) == barrier
        && row.iter().all(|(l, opcode)| starts(text.line(*l), opcode) && guard(text.line(*l)).is_none())
        && of_all_threads(text, barrier)
        && !stores_before(text, fence)
}

/// Whether a barrier is for the whole block.
fn of_all_threads(text: &Text<'_>, barrier: usize) -> bool {
    let digits = |l: &str| l.chars().filter(char::is_ascii_digit).collect::<String>();
    let block =
        text.all(".reqntid").next().map(|l| digits(text.line(l).split(',').next().unwrap_or_default()));
    match text.line(barrier).trim_end_matches(';').split_once(',') {
        Some((_, threads)) => Some(digits(threads)) == block,
        None => true,
    }
}

/// Whether some ordinary write to shared memory may come before a fence between the proxies without one behind it.
fn stores_before(text: &Text<'_>, fence: usize) -> bool {
    let writes = |o: &str| ["st.", "stmatrix", "atom.", "red."].iter().any(|w| o.starts_with(w));
    let opens = |l: usize| opcodes(text.line(l)).any(|o| writes(o) && !o.contains(".global"));
    let closes = |l: usize| starts(text.line(l), "fence.proxy.async") && guard(text.line(l)).is_none();
    let mut work: Vec<usize> = (0..text.len()).filter(|l| opens(*l)).collect();
    let mut seen = vec![false; text.len()];
    while let Some(at) = work.pop() {
        for next in text.next(at) {
            if *next == fence {
                return true;
            }
            if !closes(*next) && !std::mem::replace(&mut seen[*next], true) {
                work.push(*next);
            }
        }
    }
    false
}

/// The lines that end a program.
fn ends<'a>(text: &'a Text<'_>) -> impl Iterator<Item = usize> + 'a {
    text.all("ret").chain(text.all("exit"))
}

/// Whether nothing but the program's end follows.
fn is_last(text: &Text<'_>, at: usize) -> bool {
    guard(text.line(at)).is_none() && ends(text).any(|end| end == text.behind(at))
}

/// Whether every program ends with an arrival at the cluster's barrier and the wait for it.
fn all_end_together(text: &Text<'_>) -> bool {
    let expected = |at: Option<usize>, opcode| {
        at.is_some_and(|at| starts(text.line(at), opcode) && guard(text.line(at)).is_none())
    };
    ends(text).all(|end| {
        let wait = text.before(end);
        let arrive = wait.and_then(|w| text.before(w));
        expected(wait, "barrier.cluster.wait") && expected(arrive, "barrier.cluster.arrive")
    })
}

/// Statements that concern a block's own memory, or only registers.
fn is_own(line: &str) -> bool {
    const OWN: [&str; 5] = [
        "fence.proxy.async",
        "bar.warp.sync",
        "cp.async.bulk.commit_group",
        "cp.async.bulk.wait_group",
        "cp.async.bulk.tensor",
    ];
    const ARITHMETIC: [&str; 9] = ["add.", "sub.", "mul.", "mad.", "and.", "or.", "xor.", "shl.", "shr."];
    let stores = |o: &str| !o.starts_with("cp.async.bulk.tensor") || o.contains(".global.shared::cta.");
    opcodes(line)
        .all(|o| o.starts_with('.') || OWN.iter().chain(&ARITHMETIC).any(|p| o.starts_with(p)) && stores(o))
}

fn arrival_passes_own_stores(text: &Text<'_>, m: &Mutant) -> bool {
    let Some(past) = m.past else { return false };
    let (line, past) = (m.line as usize - 1, past as usize - 1);
    let arrive = line.max(past);
    // The arrival moves up to the fence, or the wait for the stores moves down behind the arrival.
    let moved = if line == arrive { "barrier.cluster.arrive" } else { "cp.async.bulk.wait_group" };
    let wait = text.behind(arrive);
    m.mutation == Mutation::Move
        && starts(line_of(text, m), moved)
        && starts(text.line(arrive), "barrier.cluster.arrive")
        && (line.min(past)..arrive).all(|l| is_own(text.line(l)))
        && starts(text.line(wait), "barrier.cluster.wait")
        && is_last(text, wait)
        && all_end_together(text)
}
