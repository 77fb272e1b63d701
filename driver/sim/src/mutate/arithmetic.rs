//! Mutants of the arithmetic that synchronisation and copies stand on: phases, slots, strides, descriptors, coordinates.
//!
//! ```text
//!  xor phase, 1 ┐                ┌─ slot * 8 + barriers ─► try_wait [..], phase     parity, phase, stride
//!  slot + 1     ├─ selp at depth ┤
//!  setp == depth┘                └─ slot * bytes + base ─► copy, descriptor        slot, stride
//! ```
//!
//! Each is read from the text: a ring's counter is what a comparison with its depth resets to 0, and the rest is what
//! ends in an operand of a wait, a copy or a product.

use super::{Mutant, Mutation, Statement, Text};

/// Statements behind a counter's step in which its reset stands, and behind a product by a slot in which it is used.
const NEAR: usize = 8;
/// What the stride field of a descriptor counts, and the bits of its swizzle, in its upper word.
const STRIDE: i64 = 1;
const SWIZZLE: i64 = 3 << 30;

impl<'a> Text<'a> {
    pub(super) fn arithmetic(&self, i: usize, out: &mut Vec<Mutant>) {
        let s = &self.statements[i];
        match s.opcode {
            "xor.b32" => self.toggle(i, out),
            "setp.eq.s32" => self.wrap(i, out),
            "mul.lo.s32" => self.stride(i, out),
            "mov.b64" => self.descriptor(i, out),
            op if op.starts_with("mbarrier.try_wait.parity") => self.parity(i, out),
            op if op.starts_with("cp.async.bulk.tensor") => self.coordinates(i, out),
            op if op.starts_with("cp.async.bulk.shared") => {
                self.behind_a_sum(i, s.operands.get(2), -16, (Mutation::Bytes, "16 bytes less copied"), out);
            }
            op if op.starts_with("setmaxnreg") => self.registers(i, out),
            "bar.sync" | "bar.arrive" => self.barrier_number(i, out),
            _ => {}
        }
    }

    fn statement(&self, i: usize) -> &'a str {
        let s = &self.statements[i];
        &self.ptx[s.span.0..s.span.1]
    }

    fn behind(&self, i: usize) -> impl Iterator<Item = &Statement<'a>> {
        self.statements[i + 1..].iter().take(NEAR)
    }

    /// The statement with another text in the place of a part of it.
    fn with(&self, i: usize, part: &str, new: &str) -> String {
        let text = self.statement(i);
        let at = part.as_ptr() as usize - text.as_ptr() as usize;
        format!("{}{new}{}", &text[..at], &text[at + part.len()..])
    }

    /// A part of the statement, a register or a number, becomes a sum.
    fn behind_a_sum(
        &self,
        i: usize,
        part: Option<&&'a str>,
        by: i64,
        (mutation, what): (Mutation, &str),
        out: &mut Vec<Mutant>,
    ) {
        let Some(part) = part else { return };
        let new = self.with(i, part, "%other");
        let new =
            format!("{{ .reg .b32 %other; mov.b32 %other, {part}; add.s32 %other, %other, {by}; {new} }}");
        self.push(out, i, mutation, what, &new);
    }

    /// A wait whose parity is a constant.
    fn parity(&self, i: usize, out: &mut Vec<Mutant>) {
        let phase = self.statements[i].operands.get(2).filter(|p| p.starts_with('%'));
        for value in ["0", "1"] {
            if let Some(phase) = phase {
                let what = format!("parity is {value}");
                self.push(out, i, Mutation::Parity, &what, &self.with(i, phase, value));
            }
        }
    }

    /// A phase that stays as it is where its ring wraps.
    fn toggle(&self, i: usize, out: &mut Vec<Mutant>) {
        let [d, a, "1"] = self.statements[i].operands[..] else { return };
        let chosen = |s: &Statement<'_>| s.opcode == "selp.b32" && s.operands.contains(&d);
        let waited =
            |s: &Statement<'_>| s.opcode.starts_with("mbarrier.try_wait") && s.operands.get(2) == Some(&d);
        if self.behind(i).any(chosen) || self.statements.iter().any(waited) {
            self.push(out, i, Mutation::Phase, "phase not toggled", &format!("mov.b32 {d}, {a};"));
        }
    }

    /// The slot that a comparison with the ring's depth resets.
    fn slot_of(&self, i: usize) -> Option<&'a str> {
        let [p, next, depth] = self.statements[i].operands[..] else { return None };
        depth.parse::<u32>().ok()?;
        let reset =
            self.behind(i).take(3).find(|s| s.opcode == "selp.b32" && s.operands[1..] == ["0", next, p]);
        reset.map(|s| s.operands[0])
    }

    /// A ring that wraps a slot late or early, or goes on by two.
    fn wrap(&self, i: usize, out: &mut Vec<Mutant>) {
        let (Some(_), [_, next, depth]) = (self.slot_of(i), &self.statements[i].operands[..]) else { return };
        for (by, what) in [(1, "wraps a slot later"), (-1, "wraps a slot earlier")] {
            let new = depth.parse::<i64>().unwrap_or(0) + by;
            self.push(out, i, Mutation::Slot, what, &self.with(i, depth, &new.to_string()));
        }
        let steps = |j: &usize| {
            let s = &self.statements[*j];
            s.opcode == "add.s32" && s.operands[0] == *next && s.operands[2] == "1"
        };
        if let Some(j) = (i.saturating_sub(NEAR)..i).rev().find(steps) {
            let one = self.statements[j].operands[2];
            self.push(out, j, Mutation::Slot, "two slots on", &self.with(j, one, "2"));
        }
    }

    /// Twice the distance between two slots, of barriers, of what is copied, of what is multiplied.
    fn stride(&self, i: usize, out: &mut Vec<Mutant>) {
        let [d, slot, each] = self.statements[i].operands[..] else { return };
        let Ok(stride) = each.parse::<u32>() else { return };
        let is_slot = (0..self.statements.len())
            .any(|j| self.statements[j].opcode == "setp.eq.s32" && self.slot_of(j) == Some(slot));
        let added = |s: &Statement<'_>| s.opcode == "add.s32" && s.operands[1..].contains(&d);
        let sum = self.behind(i).take(4).find(|s| added(s)).map(|s| s.operands[0]);
        let used = |s: &Statement<'_>| {
            let opcodes = ["mbarrier.", "cp.async.bulk", "mov.b64"];
            let names = |o: &&str| sum.is_some_and(|sum| super::uses(o, sum));
            opcodes.iter().any(|o| s.opcode.starts_with(o)) && s.operands.iter().any(names)
        };
        if is_slot && self.behind(i).any(used) {
            self.push(
                out,
                i,
                Mutation::Stride,
                "stride doubled",
                &self.with(i, each, &(2 * stride).to_string()),
            );
        }
    }

    /// A descriptor of a product with another address, stride or swizzle, in turn.
    fn descriptor(&self, i: usize, out: &mut Vec<Mutant>) {
        let s = &self.statements[i];
        let [d, pair] = s.operands[..] else { return };
        let Some((low, high)) = pair.trim_matches(['{', '}']).split_once(", ") else { return };
        let (Ok(fields), true) = (high.parse::<i64>(), low.starts_with('%')) else { return };
        let product = |s: &Statement<'_>| s.opcode.starts_with("wgmma.mma_async") && s.operands.contains(&d);
        let Some(product) = self.statements[i + 1..].iter().find(|s| product(s)) else { return };
        // Eight columns are one pattern of the swizzle: there is no next one.
        let one_pattern = product.opcode.contains("n8k");
        let (mutation, shifted) = (Mutation::Descriptor, |v: i64| self.with(i, high, &v.to_string()));
        match (s.line % 3, one_pattern) {
            (0, false) => self.push(out, i, mutation, "16 bytes more of stride", &shifted(fields + STRIDE)),
            (1, _) => self.push(out, i, mutation, "another swizzle", &shifted(fields ^ SWIZZLE)),
            _ => self.behind_a_sum(i, Some(&low), 1, (mutation, "16 bytes further"), out),
        }
    }

    /// A tensor copy of another box: 64 elements on in a row, or one on in any other dimension.
    fn coordinates(&self, i: usize, out: &mut Vec<Mutant>) {
        let all = self.statements[i].operands.iter().find_map(|o| o.strip_suffix("}]")?.split_once(", {"));
        let Some((_, coordinates)) = all else { return };
        for (n, part) in coordinates.split(", ").enumerate() {
            let (by, what) = if n == 0 { (64, "64 elements on") } else { (1, "one on") };
            self.behind_a_sum(i, Some(&part), by, (Mutation::Coordinate, what), out);
        }
    }

    /// `setmaxnreg` by one warp of its warpgroup, and to a count in the wrong direction.
    fn registers(&self, i: usize, out: &mut Vec<Mutant>) {
        let s = &self.statements[i];
        let text = self.statement(i);
        let one = format!(
            "{{ .reg .pred %one; .reg .b32 %in; mov.u32 %in, %tid.x; and.b32 %in, %in, 127; \
             setp.lt.u32 %one, %in, 32; @%one {text} }}"
        );
        self.push(out, i, Mutation::Registers, "by one warp", &one);
        let Some(count) = s.operands.first() else { return };
        let wrong = if s.opcode.contains(".inc") { "24" } else { "256" };
        self.push(out, i, Mutation::Registers, "the wrong way", &self.with(i, count, wrong));
    }

    /// Another number for one of several statements that meet at a barrier. Where all threads execute each of them
    /// the program would be the same.
    fn barrier_number(&self, i: usize, out: &mut Vec<Mutant>) {
        let s = &self.statements[i];
        let Some(number) = s.operands.first().filter(|n| n.parse::<u32>().is_ok()) else { return };
        let same = |j: &usize| {
            let t = &self.statements[*j];
            *j != i && matches!(t.opcode, "bar.sync" | "bar.arrive") && t.operands.first() == Some(number)
        };
        let arrives = |j: usize| self.statements[j].opcode == "bar.arrive";
        let meets = |j: usize| arrives(i) || arrives(j) || self.role(i) != self.role(j);
        if (0..self.statements.len()).filter(same).any(meets) {
            let other = if *number == "15" { "14" } else { "15" };
            self.push(out, i, Mutation::Barrier, "another barrier", &self.with(i, number, other));
        }
    }

    /// The label of the role that a statement belongs to.
    fn role(&self, i: usize) -> Option<&'a str> {
        let before = &self.ptx[..self.statements[i].span.0];
        before.lines().rev().find(|l| l.starts_with('$') && l.ends_with(':') && !l.contains('_'))
    }
}
