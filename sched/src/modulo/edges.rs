//! What the nodes of an iteration wait for, and how long fragments live.

use super::body::{Build, LARGE_REGISTERS, Life, Wait};
use crate::analysis::{touched, yields};
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::machine::{Block, Inst, Value};
use warplift_ir::target::Opcode;

impl Build<'_, '_> {
    /// A product that goes on with another's accumulator needs no wait between them.
    fn source(&self, v: Value, to: usize) -> Option<(usize, Wait)> {
        let product = self.func.def(v).filter(|&d| self.func.insts[d].op == Opcode::Wgmma);
        let last = *self.body.nodes[to].insts.last()?;
        let reader = &self.func.insts[last];
        if let Some(def) = product.filter(|_| reader.op == Opcode::Wgmma && reader.args.first() == Some(&v)) {
            let from = *self.node_of.get(&self.func.insts[def].results[1])?;
            return Some((from, Wait::End));
        }
        Some((*self.node_of.get(&v)?, Wait::Result))
    }

    pub(super) fn value_edges(&mut self) {
        for to in 0..self.body.nodes.len() {
            for v in self.reads_of(to) {
                if let Some((from, wait)) = self.source(v, to).filter(|s| s.0 != to) {
                    self.body.edge(from, to, wait, 0);
                }
            }
        }
    }

    pub(super) fn carried_edges(&mut self) {
        let params = self.func.blocks[self.block].params.clone();
        for to in 0..self.body.nodes.len() {
            for v in self.reads_of(to) {
                let mut at = v;
                // A parameter that another parameter is passed to is one iteration older each time.
                for distance in 1..=params.len() as u32 {
                    let Some(n) = params.iter().skip(1).position(|&p| p == at) else { break };
                    at = yields(self.func, self.block)[n];
                    if let Some((from, wait)) = self.source(at, to) {
                        self.body.edge(from, to, wait, distance);
                    }
                }
            }
        }
    }

    /// A product's large result has one place: the next iteration's overwrites it only after its last use.
    /// Other fragments may be there twice, where registers suffice.
    pub(super) fn lifetime_edges(&mut self) {
        let mut edges = Vec::new();
        for user in 0..self.body.nodes.len() {
            for v in self.reads_of(user).into_iter().filter(|&v| self.is_single(v)) {
                let Some(def) = self.func.def(v).and_then(|d| self.begin(d)) else { continue };
                let (end, wait) = self.end_of_use(user);
                edges.push((end, def, wait));
            }
        }
        for (from, to, wait) in edges {
            self.body.edge(from, to, wait, 1);
        }
    }

    fn is_single(&self, v: Value) -> bool {
        let ty = self.func.ty(v);
        let product = |d: Inst| self.func.insts[d].op == Opcode::Wgmma;
        ty.is_frag() && ty.regs() >= LARGE_REGISTERS && self.func.def(v).is_some_and(product)
    }

    /// A stage of a ring is filled again only when what it held has been read: by then the copy must have
    /// been issued, or it comes late.
    pub(super) fn ring_edges(&mut self) {
        for copy in self.body.copies.clone() {
            let Some(depth) = copy.depth else { continue };
            let same = self.body.together.iter().filter(|t| t.0 == copy.reader).map(|t| t.1);
            let readers: Vec<usize> = std::iter::once(copy.reader).chain(same).collect();
            for reader in readers {
                let (end, _) = self.end_of_use(reader);
                self.body.edge(end, copy.reader, Wait::Copy(copy.span.busy + copy.latency), depth);
            }
        }
    }

    /// A product reads what threads stored once all have met; they store again when it is complete.
    pub(super) fn store_edges(&mut self) {
        let mut edges = Vec::new();
        for reader in 0..self.body.nodes.len() {
            let read = self.body.nodes[reader].insts.iter().flat_map(|&i| {
                let d = &self.func.insts[i];
                touched(&d.attr, d.op)
            });
            for &store in read.filter(|r| !r.1).filter_map(|(b, _)| self.stores.get(&b)).flatten() {
                let (end, wait) = self.end_of_use(reader);
                edges.extend([(store, reader, Wait::Result, 0), (end, store, wait, 1)]);
            }
        }
        for (from, to, wait, distance) in edges {
            self.body.edge(from, to, wait, distance);
        }
    }

    /// Fragments and their uses, those through carried parameters included.
    pub(super) fn lives(&mut self) {
        let mut lives: FxHashMap<Value, Life> = FxHashMap::default();
        for user in 0..self.body.nodes.len() {
            for v in self.reads_of(user) {
                let (at, distance) = self.origin(v);
                let ty = self.func.ty(at);
                let Some(from) = self.func.def(at).and_then(|d| self.begin(d)).filter(|_| ty.is_frag())
                else {
                    continue;
                };
                let end = self.end_of_read(user, v);
                let life = Life { registers: ty.regs(), from, uses: Vec::new() };
                lives.entry(at).or_insert(life).uses.push((end, distance));
            }
        }
        let mut all: Vec<(Value, Life)> = lives.into_iter().collect();
        all.sort_by_key(|l| l.0);
        self.body.lives = all.into_iter().map(|l| l.1).collect();
    }

    /// The value behind a carried parameter, and how many iterations before it was made.
    fn origin(&self, mut v: Value) -> (Value, u32) {
        let params = &self.func.blocks[self.block].params;
        for distance in 0..params.len() as u32 {
            let Some(n) = params.iter().skip(1).position(|&p| p == v) else { return (v, distance) };
            v = yields(self.func, self.block)[n];
        }
        (v, 0)
    }

    /// The node at whose start an operand's registers are free: elementwise work overwrites them as it goes, a
    /// product its accumulator, and holds its other operand until it is complete.
    fn end_of_read(&self, user: usize, v: Value) -> usize {
        let own = self.body.nodes[user].insts.last().map(|&i| &self.func.insts[i]);
        if own.is_some_and(|d| d.op == Opcode::Wgmma && d.args.first() == Some(&v)) {
            return user;
        }
        self.body.closed.iter().find(|c| c.0 == user).map_or(user, |c| c.1)
    }

    /// Registers of fragments that the body reads and does not make.
    pub(super) fn invariant_registers(&self) -> u32 {
        let mut seen = FxHashSet::default();
        for n in 0..self.body.nodes.len() {
            seen.extend(self.reads_of(n));
        }
        let params = &self.func.blocks[self.block].params;
        let outside = |v: &&Value| {
            let inside = self.func.def(**v).is_some_and(|d| self.stands_inside(d, self.block));
            self.func.ty(**v).is_frag() && !params.contains(v) && !inside
        };
        seen.iter().filter(outside).map(|&v| self.func.ty(v).regs()).sum()
    }

    fn stands_inside(&self, inst: Inst, block: Block) -> bool {
        let insts = &self.func.blocks[block].insts;
        insts.contains(&inst)
            || insts.iter().flat_map(|&i| &self.func.insts[i].blocks).any(|&b| self.stands_inside(inst, b))
    }

    /// The node in which an instruction stands.
    fn begin(&self, inst: Inst) -> Option<usize> {
        self.body.nodes.iter().position(|n| n.insts.contains(&inst))
    }

    /// When a node has read its operands: a product when it is complete.
    fn end_of_use(&self, user: usize) -> (usize, Wait) {
        match self.body.closed.iter().find(|c| c.0 == user) {
            Some(&(_, wait)) => (wait, Wait::Start),
            None => (user, Wait::End),
        }
    }
}
