//! A loop that fills each slot of a ring at most once.
//!
//! ```text
//!  min.s32 n, 6, trips           at most as many iterations as the ring has slots
//!  mov.b32 i, 0                  from slot 0
//!  mov.b32 slot, i
//!  head: ..
//!  add.s32 next, slot, 1
//!  setp.eq.s32 p, next, 6        the mutant: 7
//!  selp.b32 slot, 0, next, p
//!  add.s32 i, i, 1
//!  setp.lt.s32 q, i, n
//!  @!q bra.uni out               behind it nothing reads slot or p
//! ```
//!
//! In iteration i the slot is i, so `next` reaches 6 in the sixth iteration alone. That is the last one, since n is at most 6.
//! The slot that the comparison decides is used by no iteration, and behind the loop by nobody.

use super::text::{Text, guard, statements, writes};

/// Words of a line's only statement, without its predicate.
fn words<'a>(text: &Text<'a>, at: usize) -> Vec<&'a str> {
    let mut all = statements(text.line(at));
    let (Some(only), None) = (all.next(), all.next()) else { return Vec::new() };
    let split = |c: char| c == ' ' || c == ',';
    only.split(split).filter(|w| !w.is_empty() && !w.starts_with('@')).collect()
}

/// Whether a line names a register.
fn names(line: &str, register: &str) -> bool {
    line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '%' || c == '_')).any(|w| w == register)
}

/// The registers of the loop, and where its parts stand.
struct FirstFill<'a> {
    slot: &'a str,
    wraps: &'a str,
    counter: &'a str,
    trips: &'a str,
    /// Lines: the least of depth and trips, the loop's first and last.
    least: usize,
    head: usize,
    last: usize,
}

/// Whether a ring that wraps a slot later at this comparison is the same.
pub(super) fn wraps_after_the_last(text: &Text<'_>, compare: usize) -> bool {
    found(text, compare).is_some_and(|f| f.is_closed(text) && f.starts_at_zero(text) && f.is_forgotten(text))
}

fn found<'a>(text: &Text<'a>, compare: usize) -> Option<FirstFill<'a>> {
    let ["setp.eq.s32", wraps, next, depth] = words(text, compare)[..] else { return None };
    let ["add.s32", sum, slot, "1"] = words(text, text.before(compare)?)[..] else { return None };
    let select = text.behind(compare);
    let resets = words(text, select) == ["selp.b32", slot, "0", next, wraps];
    let step = text.behind(select);
    let ["add.s32", counter, same, "1"] = words(text, step)[..] else { return None };
    let test = text.behind(step);
    let ["setp.lt.s32", more, left, trips] = words(text, test)[..] else { return None };
    let leave = text.behind(test);
    let leaves = guard(text.line(leave)).is_some_and(|g| g.strip_prefix("@!") == Some(more));
    let back = text.behind(leave);
    let [head] = text.next(back)[..] else { return None };
    let bounds = |l: &usize| {
        words(text, *l) == ["min.s32", trips, depth, words(text, *l).last().copied().unwrap_or("")]
    };
    let least = (0..head).rev().find(|l| writes(text.line(*l), trips)).filter(bounds)?;
    let fits = sum == next && resets && same == counter && left == counter && leaves && head < compare;
    fits.then_some(FirstFill { slot, wraps, counter, trips, least, head, last: back })
}

impl FirstFill<'_> {
    /// Whether all between the least and the loop's end is reached through the least alone, and nothing there changes the
    /// loop's registers but its own steps.
    fn is_closed(&self, text: &Text<'_>) -> bool {
        let within = self.least + 1..=self.last;
        let enters = |l: usize| text.next(l).iter().any(|n| within.contains(n));
        let outside = (0..text.len()).filter(|l| !within.contains(l) && *l != self.least);
        let written = |r: &str| (self.head..=self.last).filter(|l| writes(text.line(*l), r)).count();
        let read_by_select = |l: &usize| names(text.line(*l), self.wraps);
        !outside.into_iter().any(enters)
            && [self.slot, self.wraps, self.counter].iter().all(|r| written(r) == 1)
            && written(self.trips) == 0
            && (self.head..=self.last).filter(read_by_select).count() == 2
    }

    /// Whether counter and slot are 0 before the loop, and nothing else is written to them on the way.
    fn starts_at_zero(&self, text: &Text<'_>) -> bool {
        let before = |r: &str| -> Vec<usize> {
            (self.least + 1..self.head).filter(|l| writes(text.line(*l), r)).collect()
        };
        let (counter, slot) = (before(self.counter), before(self.slot));
        let ([counter], [slot]) = (&counter[..], &slot[..]) else { return false };
        let zero =
            |at: usize, r: &str| words(text, at) == ["mov.b32", r, "0"] && guard(text.line(at)).is_none();
        let copied = words(text, *slot) == ["mov.b32", self.slot, self.counter]
            && counter < slot
            && guard(text.line(*slot)).is_none();
        let reaches = (*counter.min(slot)..self.head).all(|l| text.next(l).len() == 1);
        zero(*counter, self.counter) && (zero(*slot, self.slot) || copied) && reaches
    }

    /// Whether nothing behind the loop reads the slot or the predicate before it is written again.
    fn is_forgotten(&self, text: &Text<'_>) -> bool {
        [self.slot, self.wraps].iter().all(|r| !self.is_read_behind(text, r))
    }

    fn is_read_behind(&self, text: &Text<'_>, register: &str) -> bool {
        let within = self.head..=self.last;
        let out = within.clone().flat_map(|l| text.next(l).to_vec()).filter(|n| !within.contains(n));
        let mut work: Vec<usize> = out.collect();
        let mut seen = vec![false; text.len()];
        while let Some(at) = work.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            let line = text.line(at);
            let anew = writes(line, register) && guard(line).is_none();
            let times = line.matches(register).count();
            if names(line, register) && !(anew && times == 1) {
                return true;
            }
            if !anew {
                work.extend(text.next(at));
            }
        }
        false
    }
}
