//! Mutants of PTX. Each synchronization is removed, corrupted, or moved past the nearest instruction that it orders.
//!
//! ```text
//!  PTX ─ statements ─► for each synchronisation: Remove, Corrupt, Move ─► mutants ─ simulator ─►
//!        a hazard, a wrong result or a deadlock (caught), or nothing (escaped)
//! ```
//!
//! A mutant is PTX that assembles. The simulator must decide whether it is wrong. A move never passes a branch, or an
//! instruction that computes one of the moved operands. It passes a label only if it initializes barriers: such an
//! instruction stands after a branch and leaves the block under that branch's guard.

mod arithmetic;

use super::hazard::{HazardKind, PtxError, Report, SimError};
use super::launch::{Adversary, Options};
use super::lex::{Tok, Token, tokens};

/// The mutation of a synchronization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::VariantArray)]
pub enum Mutation {
    /// It is removed.
    Remove,
    /// An operand is off: a count, bytes, a depth, a phase, a barrier's number, an atomic's order.
    Corrupt,
    /// It is moved to the other side of an instruction that it orders.
    Move,
    /// A wait's parity is a constant.
    Parity,
    /// A ring's phase stays where the ring wraps.
    Phase,
    /// A ring wraps elsewhere, or leaves a slot out.
    Slot,
    /// Slots lie elsewhere.
    Stride,
    /// A product reads its operand elsewhere.
    Descriptor,
    /// A tensor copy is of another box.
    Coordinate,
    /// A copy is of other bytes.
    Bytes,
    /// One of several statements that meet at a barrier goes to another.
    Barrier,
    /// `setmaxnreg` by some warps, or the wrong way.
    Registers,
}

/// A changed PTX text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// Line of the synchronisation in the original, from 1.
    pub line: u32,
    /// The mutation.
    pub mutation: Mutation,
    /// Line of the instruction that it was moved past, from 1.
    pub past: Option<u32>,
    /// Description of the mutation, with the instruction.
    pub description: String,
    /// The whole text.
    pub ptx: String,
}

/// How a mutant was noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A hazard of this kind.
    Hazard(HazardKind),
    /// A result that is wrong, without a hazard.
    WrongResult,
    /// The run did not end, or trapped.
    Failed(String),
    /// It was not run: text, a launch or an instruction that the simulator refuses.
    Refused(String),
    /// Nothing was noticed under any adversary.
    Escaped,
}

/// Every mutant of a PTX text, in the order of the text.
///
/// # Errors
/// Text that is no PTX.
pub fn mutants(ptx: &str) -> Result<Vec<Mutant>, PtxError> {
    let statements = statements(ptx)?;
    let threads = ptx.split_once(".reqntid").and_then(|(_, rest)| {
        let digits = rest.trim_start().split(|c: char| !c.is_ascii_digit()).next();
        digits?.parse().ok()
    });
    let text = Text { ptx, statements, threads };
    let mut all = Vec::new();
    for i in 0..text.statements.len() {
        text.mutate(i, &mut all);
        text.arithmetic(i, &mut all);
    }
    Ok(all)
}

/// Runs a mutant under several adversaries until one shows it. `run` executes a text under some
/// options and says whether the result was right.
pub fn judge(
    mutant: &Mutant,
    options: &[Options],
    mut run: impl FnMut(&str, &Options) -> Result<(Report, bool), SimError>,
) -> Verdict {
    for o in options {
        match run(&mutant.ptx, o) {
            Ok((report, right)) => {
                if let Some(h) = report.hazards.first() {
                    return Verdict::Hazard(h.kind);
                }
                if !right {
                    return Verdict::WrongResult;
                }
            }
            Err(SimError::Hazard(h)) => return Verdict::Hazard(h.kind),
            Err(e @ (SimError::Launch(_) | SimError::Unsupported { .. })) => {
                return Verdict::Refused(e.to_string());
            }
            Err(e) => return Verdict::Failed(e.to_string()),
        }
    }
    Verdict::Escaped
}

/// Adversaries that together show what mutants do: both extremes, products before loads and the reverse, and
/// `seeds` random ones.
pub fn adversaries(seeds: u64, max_steps: u64) -> Vec<Options> {
    let with = |seed, order| Options { seed, order, max_steps, ..Options::default() };
    let mut all = vec![
        with(0, Adversary::Earliest),
        with(0, Adversary::Latest),
        with(0, Adversary::Classes),
        with(1, Adversary::Classes),
    ];
    all.extend((1..=seeds).map(|s| with(s, Adversary::Random)));
    all
}

/// A statement of an entry's body, as spans of the text.
struct Statement<'a> {
    line: u32,
    /// From the guard or opcode to behind the semicolon.
    span: (usize, usize),
    /// From the opcode on.
    opcode_at: usize,
    opcode: &'a str,
    /// Operands as text.
    operands: Vec<&'a str>,
    /// Whether a label stands right before it.
    labelled: bool,
}

struct Text<'a> {
    ptx: &'a str,
    statements: Vec<Statement<'a>>,
    /// `.reqntid`.
    threads: Option<u32>,
}

fn statements(ptx: &str) -> Result<Vec<Statement<'_>>, PtxError> {
    let tokens = tokens(ptx)?;
    let mut out = Vec::new();
    let mut at = 0;
    let mut labelled = true;
    while at < tokens.len() {
        match tokens[at].tok {
            Tok::Punct('@') => {}
            Tok::Word(w) if !w.starts_with('.') => {
                if tokens.get(at + 1).is_some_and(|t| t.tok == Tok::Punct(':')) {
                    labelled = true;
                    at += 2;
                    continue;
                }
            }
            Tok::Punct('{' | '}') => {
                labelled = true;
                at += 1;
                continue;
            }
            _ => {
                at = skip(&tokens, at);
                continue;
            }
        }
        let end = (at..tokens.len()).find(|i| tokens[*i].tok == Tok::Punct(';'));
        let Some(end) = end else { break };
        if let Some(s) = statement(ptx, &tokens[at..=end], labelled) {
            out.push(s);
        }
        labelled = false;
        at = end + 1;
    }
    Ok(out)
}

/// Past a directive: to its semicolon, the next brace, or the end of its line.
fn skip(tokens: &[Token<'_>], at: usize) -> usize {
    let line = tokens[at].pos.line;
    let loose =
        matches!(tokens[at].tok, Tok::Word(".loc" | ".file" | ".version" | ".target" | ".address_size"));
    for (i, t) in tokens.iter().enumerate().skip(at + 1) {
        match t.tok {
            _ if loose && t.pos.line != line => return i,
            Tok::Punct(';') => return i + 1,
            Tok::Punct('{' | '}') => return i,
            _ => {}
        }
    }
    tokens.len()
}

fn statement<'a>(ptx: &'a str, tokens: &[Token<'a>], labelled: bool) -> Option<Statement<'a>> {
    let guard = match (tokens.first()?.tok, tokens.get(1)?.tok) {
        (Tok::Punct('@'), Tok::Punct('!')) => 3,
        (Tok::Punct('@'), _) => 2,
        _ => 0,
    };
    let head = tokens.get(guard)?;
    let Tok::Word(opcode) = head.tok else {
        return None;
    };
    let body = &tokens[guard + 1..tokens.len() - 1];
    let mut operands = Vec::new();
    let (mut depth, mut start) = (0i32, 0);
    for (i, t) in body.iter().enumerate() {
        match t.tok {
            Tok::Punct('{' | '[') => depth += 1,
            Tok::Punct('}' | ']') => depth -= 1,
            Tok::Punct(',') if depth == 0 => {
                operands.push(piece(ptx, &body[start..i]));
                start = i + 1;
            }
            _ => {}
        }
    }
    if start < body.len() {
        operands.push(piece(ptx, &body[start..]));
    }
    Some(Statement {
        line: head.pos.line,
        span: (tokens[0].span.0, tokens.last()?.span.1),
        opcode_at: head.span.0,
        opcode,
        operands,
        labelled,
    })
}

fn piece<'a>(ptx: &'a str, tokens: &[Token<'a>]) -> &'a str {
    match (tokens.first(), tokens.last()) {
        (Some(a), Some(b)) => &ptx[a.span.0..b.span.1],
        _ => "",
    }
}

/// Synchronisations by the start of their opcode, with what a move up or down must pass to matter.
const ORDERS: [(&str, &[&str], &[&str]); 18] = [
    (
        "fence.proxy.async",
        &WRITES,
        &["bar.", "barrier.", "mbarrier.arrive", "cp.async.bulk.tensor", "wgmma.mma_async"],
    ),
    ("fence.mbarrier_init", &["mbarrier.init"], &["bar.sync", "barrier."]),
    ("griddepcontrol.wait", &[], &GLOBAL),
    ("fence.acq_rel", &[], &[]),
    ("membar", &[], &[]),
    ("wgmma.fence", &[], &["wgmma.mma_async"]),
    ("wgmma.commit_group", &["wgmma.mma_async"], &[]),
    // All lanes of a warp wait, so the order of their synchronization does not matter.
    (
        "wgmma.wait_group",
        &[],
        &["mbarrier.arrive", "cvt.rn", "add.f32", "mul.f32", "fma.rn", "st.", "bar.sync", "barrier.sync"],
    ),
    ("cp.async.bulk.commit_group", &["cp.async.bulk.tensor", "cp.reduce", "cp.async.bulk.global"], &[]),
    ("cp.async.bulk.wait_group", &[], &["bar.", "barrier.", "stmatrix", "st.shared"]),
    ("cp.async.commit_group", &["cp.async.c"], &[]),
    ("cp.async.wait", &[], &["bar.", "ld.shared", "ldmatrix", "fence.proxy"]),
    ("mbarrier.init", &[], &["bar.sync", "barrier."]),
    (
        "mbarrier.arrive",
        &["wgmma.wait_group", "ld.shared", "ldmatrix", "st.shared", "stmatrix", "fence.proxy"],
        &[],
    ),
    ("barrier.cluster.arrive", &["mbarrier.init", "fence.", "st.shared", "ld.shared"], &[]),
    ("barrier.cluster.wait", &[], &["cp.async.bulk", "mbarrier.arrive", "ld.shared", "st.shared"]),
    (
        "bar.warp.sync",
        &WRITES,
        &["ld.shared", "ldmatrix", "cp.async.bulk", "wgmma.mma_async", "mbarrier.arrive"],
    ),
    ("bar.", &TOUCHES, &AFTER),
];

const WRITES: [&str; 3] = ["st.shared", "stmatrix", "cp.async.wait"];
const TOUCHES: [&str; 7] =
    ["st.shared", "stmatrix", "ld.shared", "ldmatrix", "cp.async.bulk.wait", "mbarrier.init", "fence."];
const GLOBAL: [&str; 9] = [
    "ld.global",
    "st.global",
    "red.",
    "atom.",
    "cp.async.c",
    "cp.async.bulk.tensor",
    "cp.async.bulk.shared",
    "cp.async.bulk.global",
    "cp.reduce",
];
const AFTER: [&str; 9] = [
    "ld.shared",
    "ldmatrix",
    "st.shared",
    "stmatrix",
    "cp.async.bulk.tensor",
    "cp.async.bulk.shared",
    "cp.async.bulk.global",
    "cp.reduce",
    "wgmma.mma_async",
];

impl Text<'_> {
    fn mutate(&self, i: usize, out: &mut Vec<Mutant>) {
        let s = &self.statements[i];
        if s.opcode.starts_with("mbarrier.try_wait") || s.opcode.starts_with("mbarrier.test_wait") {
            self.wait(i, out);
            return;
        }
        let op = s.opcode;
        if op.starts_with("atom.") || op.starts_with("red.") {
            self.weaken(i, out);
        }
        let known = ORDERS.iter().find(|(p, ..)| op.starts_with(p));
        let known = known.or_else(|| op.starts_with("barrier.").then(|| &ORDERS[ORDERS.len() - 1]));
        let Some((_, up, down)) = known else { return };
        self.push(out, i, Mutation::Remove, "removed", "");
        self.corrupt(i, out);
        self.moves(i, up, false, out);
        self.moves(i, down, true, out);
    }

    fn push(&self, out: &mut Vec<Mutant>, i: usize, mutation: Mutation, what: &str, new: &str) {
        let s = &self.statements[i];
        let (from, to) = s.span;
        let old = &self.ptx[from..to];
        out.push(Mutant {
            line: s.line,
            mutation,
            past: None,
            description: format!("line {}: {what}: `{old}`", s.line),
            ptx: format!("{}{new}{}", &self.ptx[..from], &self.ptx[to..]),
        });
    }

    /// A wait that always succeeds, one on the other phase, and one without its loop.
    fn wait(&self, i: usize, out: &mut Vec<Mutant>) {
        let s = &self.statements[i];
        let (guard, rest) = (&self.ptx[s.span.0..s.opcode_at], &self.ptx[s.opcode_at..s.span.1]);
        let [p, _, phase, ..] = s.operands[..] else {
            return;
        };
        let ready = format!("{guard}setp.eq.u32 {p}, 0, 0;");
        self.push(out, i, Mutation::Remove, "wait removed", &ready);
        if s.opcode.contains(".parity") {
            let at = rest.rfind(phase).unwrap_or(0);
            let flipped = format!(
                "{{ .reg .b32 %other_phase; xor.b32 %other_phase, {phase}, 1; {guard}{}%other_phase{} }}",
                &rest[..at],
                &rest[at + phase.len()..]
            );
            self.push(out, i, Mutation::Corrupt, "phase flipped", &flipped);
        }
        let next = self.statements.get(i + 1);
        if let Some(b) =
            next.filter(|b| b.opcode.starts_with("bra") && self.ptx[b.span.0..b.opcode_at].contains(p))
        {
            let _ = b;
            self.push(out, i + 1, Mutation::Remove, "wait not repeated", "");
            // The branch is taken only where the wait gives up.
            out.iter_mut().last().into_iter().for_each(|m| m.line = s.line);
        }
    }

    /// An atomic that no longer acquires, no longer releases, or does neither.
    fn weaken(&self, i: usize, out: &mut Vec<Mutant>) {
        let s = &self.statements[i];
        let text = &self.ptx[s.span.0..s.span.1];
        let weaker: [(&str, &[&str]); 3] = [
            ("acq_rel", &["acquire", "release", "relaxed"]),
            ("acquire", &["relaxed"]),
            ("release", &["relaxed"]),
        ];
        for (order, to) in weaker {
            let has = s.opcode.split('.').any(|w| w == order);
            for to in to.iter().filter(|_| has) {
                let what = format!("weakened to {to}");
                self.push(out, i, Mutation::Corrupt, &what, &text.replacen(order, to, 1));
            }
        }
    }

    fn corrupt(&self, i: usize, out: &mut Vec<Mutant>) {
        let s = &self.statements[i];
        let op = s.opcode;
        let last = s.operands.len().wrapping_sub(1);
        if op.starts_with("mbarrier.init") {
            self.shift(i, last, 1, "one arrival more", out);
            self.shift(i, last, -1, "one arrival less", out);
        } else if op.contains("expect_tx") {
            self.shift(i, last, 16, "16 bytes more", out);
            self.shift(i, last, -16, "16 bytes less", out);
        } else if op.starts_with("mbarrier.arrive") {
            let text = &self.ptx[s.span.0..s.span.1];
            self.push(out, i, Mutation::Corrupt, "arrives twice", &format!("{text} {text}"));
        } else if op.contains("wait_group") {
            self.shift(i, last, 1, "one group less", out);
        } else if op.starts_with("bar") && !op.contains("warp") && !op.contains("cluster") {
            self.barrier_count(i, out);
        }
    }

    /// One warp more or less than the barrier has. (Another barrier number would be the same
    /// program as long as all threads use it.)
    fn barrier_count(&self, i: usize, out: &mut Vec<Mutant>) {
        let s = &self.statements[i];
        if s.operands.len() == 2 {
            self.shift(i, 1, 32, "one warp more", out);
            self.shift(i, 1, -32, "one warp less", out);
            return;
        }
        let text = &self.ptx[s.span.0..s.span.1];
        if let Some(less) = self.threads.and_then(|t| t.checked_sub(32)).filter(|t| *t > 0) {
            let new = format!("{}, {less};", text.trim_end_matches(';'));
            self.push(out, i, Mutation::Corrupt, "one warp less", &new);
        }
    }

    /// Adds to an integer operand, in a register of its own where it is one.
    fn shift(&self, i: usize, operand: usize, by: i64, what: &str, out: &mut Vec<Mutant>) {
        let s = &self.statements[i];
        let Some(old) = s.operands.get(operand) else {
            return;
        };
        let text = &self.ptx[s.span.0..s.span.1];
        // The operand's place in the statement: operands are slices of the text.
        let at = old.as_ptr() as usize - text.as_ptr() as usize;
        let (head, tail) = (&text[..at], &text[at + old.len()..]);
        let new = match old.parse::<i64>() {
            Ok(v) if v + by < 0 => return,
            Ok(v) if s.opcode.starts_with("mbarrier.init") && v + by == 0 => return,
            Ok(v) => format!("{head}{}{tail}", v + by),
            Err(_) => format!("{{ .reg .b32 %off_by; add.s32 %off_by, {old}, {by}; {head}%off_by{tail} }}"),
        };
        self.push(out, i, Mutation::Corrupt, what, &new);
    }

    /// Moves past the nearest statement in that direction whose opcode begins so.
    fn moves(&self, i: usize, past: &[&str], down: bool, out: &mut Vec<Mutant>) {
        let Some(j) = self.target(i, past, down) else {
            return;
        };
        let (s, t) = (&self.statements[i], &self.statements[j]);
        let leaves = down && (i + 1..=j).any(|k| self.statements[k].labelled);
        let guard = if leaves { self.guard_of_block(i).unwrap_or_default() } else { "" };
        let own = &format!("{guard}{}", &self.ptx[s.span.0..s.span.1]);
        let ptx = if down {
            let between = &self.ptx[s.span.1..t.span.1];
            format!("{}{between}\n    {own}{}", &self.ptx[..s.span.0], &self.ptx[t.span.1..])
        } else {
            let between = &self.ptx[t.span.0..s.span.0];
            format!("{}{own}\n    {between}{}", &self.ptx[..t.span.0], &self.ptx[s.span.1..])
        };
        let way = if down { "behind" } else { "before" };
        out.push(Mutant {
            line: s.line,
            mutation: Mutation::Move,
            past: Some(t.line),
            description: format!("line {}: moved {way} line {} `{}`: `{own}`", s.line, t.line, t.opcode),
            ptx,
        });
    }

    /// The guard, with its mark, under which alone a statement's block is entered: that of the branch to its label.
    fn guard_of_block(&self, i: usize) -> Option<&str> {
        let first = (0..=i).rev().find(|&k| self.statements[k].labelled)?;
        let before = self.statements[..first].last().filter(|s| s.opcode == "bra.uni")?;
        let label = self.ptx[before.span.1..self.statements[first].span.0]
            .rsplit_once(':')?
            .0
            .split_whitespace()
            .last()?;
        let mut enters = self.statements.iter().filter(|s| s.operands.contains(&label));
        let only = enters.next().filter(|s| s.opcode == "bra" && enters.next().is_none())?;
        Some(&self.ptx[only.span.0..only.opcode_at]).filter(|g| g.starts_with('@'))
    }

    fn target(&self, i: usize, past: &[&str], down: bool) -> Option<usize> {
        let s = &self.statements[i];
        let own = &self.ptx[s.span.0..s.span.1];
        let order: Vec<usize> =
            if down { (i + 1..self.statements.len()).collect() } else { (0..i).rev().collect() };
        // Only the initialisations of barriers that copies use need the fence: it goes before all.
        let all = s.opcode.starts_with("fence.mbarrier_init") && !down;
        let guard = self.guard_of_block(i).filter(|_| down && s.opcode.starts_with("mbarrier.init"));
        let (leaves, guard) = (guard.is_some(), guard.unwrap_or_default());
        let (mut here, mut found) = (i, None);
        for j in order {
            // A label between two statements stands on the later one.
            if self.statements[here.max(j)].labelled && !leaves {
                return found;
            }
            let t = &self.statements[j];
            if past.iter().any(|p| t.opcode.starts_with(p)) {
                if !all {
                    return Some(j);
                }
                found = Some(j);
            }
            let computes =
                t.operands.first().is_some_and(|d| d.starts_with('%') && (uses(own, d) || uses(guard, d)));
            if computes || matches!(t.opcode.split('.').next(), Some("bra" | "ret" | "exit")) {
                return found;
            }
            here = j;
        }
        found
    }
}

/// Whether a statement names a register, as a whole word.
fn uses(statement: &str, register: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$';
    statement.match_indices(register).any(|(at, r)| !statement[at + r.len()..].starts_with(word))
}
