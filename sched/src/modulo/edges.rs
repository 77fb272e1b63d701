//! The dependences between the nodes of an iteration, and the lives of fragments. They are edges of the dependence
//! graph, with latencies.

use super::body::{Build, Computed, LARGE_REGISTERS, Life, Stored, Wait};
use super::under_products::computed;
use rustc_hash::{FxHashMap, FxHashSet};
use warplift_ir::machine::{Buffer, Inst, Value, ValueDef};
use warplift_ir::target::Opcode;

impl Build<'_, '_> {
    /// A product that continues with another product's accumulator needs no wait between them.
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

    /// Edges to the values that a node reads, of this iteration or an earlier one.
    pub(super) fn value_edges(&mut self) {
        for to in 0..self.body.nodes.len() {
            for n in 0..self.reads_of(to).len() {
                let v = self.reads_of(to)[n];
                let (at, distance) = self.origin(v);
                if let Some((from, wait)) = self.source(at, to).filter(|s| distance > 0 || s.0 != to) {
                    self.body.edge(from, to, wait, distance);
                }
            }
        }
    }

    /// A product's large result has one place, so the next iteration's result overwrites it only after its last use.
    /// Other fragments may exist twice, if there are enough registers.
    pub(super) fn lifetime_edges(&mut self) {
        let mut edges = Vec::new();
        for user in 0..self.body.nodes.len() {
            for &v in self.reads_of(user).iter().filter(|&&v| self.is_single(v)) {
                let Some(def) = self.func.def(v).and_then(|d| self.begin(d)) else { continue };
                let (end, wait) = self.end_of_use(user);
                edges.push((end, def, wait));
            }
        }
        for (from, to, wait) in edges {
            self.body.edge(from, to, wait, 1);
        }
    }

    /// A product adds to its accumulator in place, so whatever else reads that stands before it, as it does in the text.
    pub(super) fn in_place_edges(&mut self) {
        let mut edges = Vec::new();
        for product in 0..self.body.nodes.len() {
            let Some(acc) = self.accumulator(product) else { continue };
            for user in (0..product).filter(|&user| self.reads_of(user).contains(&acc)) {
                edges.push((self.end_of_use(user), product));
            }
        }
        for ((from, wait), to) in edges {
            self.body.edge(from, to, wait, 0);
        }
    }

    /// The accumulator that a node's product overwrites.
    fn accumulator(&self, node: usize) -> Option<Value> {
        let d = &self.func.insts[*self.body.nodes[node].insts.last()?];
        d.args.first().copied().filter(|_| d.op == Opcode::Wgmma)
    }

    fn is_single(&self, v: Value) -> bool {
        let ty = self.func.ty(v);
        let product = |d: Inst| self.func.insts[d].op == Opcode::Wgmma;
        ty.is_frag() && ty.regs() >= LARGE_REGISTERS && self.func.def(v).is_some_and(product)
    }

    /// A stage of a ring is filled again only after it has been read. By then the next copy must be issued, or it comes
    /// late.
    pub(super) fn ring_edges(&mut self) {
        for copy in self.body.copies.clone() {
            let Some(depth) = copy.depth else { continue };
            let same = self.body.same_stage.iter().filter(|t| t.0 == copy.reader).map(|t| t.1);
            let readers: Vec<usize> = std::iter::once(copy.reader).chain(same).collect();
            for reader in readers {
                let (end, _) = self.end_of_use(reader);
                self.body.edge(end, copy.reader, Wait::Copy(copy.span.busy + copy.latency), depth);
            }
        }
    }

    /// Products and threads read the stores of threads after all threads have met. The threads store again when that is
    /// read, or as many iterations later as a ring has stages for it.
    pub(super) fn store_edges(&mut self) {
        let mut edges = Vec::new();
        let scratch = self.stores.iter().filter(|s| matches!(s.0, Stored::Scratch(_)));
        let stores: FxHashSet<usize> = scratch.flat_map(|s| s.1).copied().collect();
        for n in 0..self.body.nodes.len() {
            for &inst in &self.body.nodes[n].insts {
                for (before, distance) in self.graph.follows(self.func, inst) {
                    let Some(&first) = self.home.get(&before).filter(|&&b| b != n) else { continue };
                    match (stores.contains(&first), stores.contains(&n)) {
                        (true, false) => edges.push((first, n, Wait::Result, distance)),
                        (false, true) => {
                            let (end, wait) = self.end_of_use(first);
                            edges.push((end, n, wait, distance * self.stages_of(inst)));
                        }
                        _ => {}
                    }
                }
            }
        }
        edges.sort_unstable();
        edges.dedup();
        for (from, to, wait, distance) in edges {
            self.body.edge(from, to, wait, distance);
        }
        for nodes in self.operands().map(|(_, nodes)| nodes.clone()).collect::<Vec<_>>() {
            // One stage of a ring is filled in one iteration.
            self.body.same_stage.extend(nodes.iter().skip(1).map(|&n| (nodes[0], n)));
        }
    }

    /// The operands that threads store into a ring, with the nodes of their stores.
    fn operands(&self) -> impl Iterator<Item = (Buffer, &Vec<usize>)> + '_ {
        let mut all: Vec<_> = self.stores.iter().collect();
        all.sort_by_key(|s| s.1.first().copied());
        all.into_iter().filter_map(|(place, nodes)| match place {
            Stored::Scratch(b) if self.limits.depths.contains_key(b) => Some((*b, nodes)),
            _ => None,
        })
    }

    /// The operands whose work may move over iterations.
    pub(super) fn computed(&self) -> Vec<Computed> {
        let reads = |n: usize, b: Buffer| {
            let accesses = self.body.nodes[n].insts.iter().flat_map(|&i| self.accesses(i));
            accesses.into_iter().any(|a| !a.writes && a.buffer == b)
        };
        let of = |(buffer, stores): (Buffer, &Vec<usize>)| {
            let readers = (0..self.body.nodes.len()).filter(|&n| reads(n, buffer)).collect();
            let depth = self.limits.depths.get(&buffer).copied().unwrap_or(1);
            computed(&self.body, stores, readers, depth)
        };
        self.operands().filter_map(of).collect()
    }

    /// Stages of the buffer to which an instruction stores.
    fn stages_of(&self, store: Inst) -> u32 {
        let buffer = self.accesses(store).first().map(|a| a.buffer);
        buffer.and_then(|b| self.limits.depths.get(&b)).copied().unwrap_or(1)
    }

    /// Stores to global memory keep their order, in an iteration and from one to the next.
    pub(super) fn global_edges(&mut self) {
        let all = self.stores.get(&Stored::Global).cloned().unwrap_or_default();
        for pair in all.windows(2) {
            self.body.edge(pair[0], pair[1], Wait::End, 0);
        }
        if let [first, .., last] = all[..] {
            self.body.edge(last, first, Wait::End, 1);
        }
    }

    /// Fragments and their uses, including uses through carried parameters.
    pub(super) fn lives(&mut self) {
        let mut lives: FxHashMap<Value, Life> = FxHashMap::default();
        for user in 0..self.body.nodes.len() {
            for &v in self.reads_of(user) {
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

    /// The value behind a carried parameter, and how many iterations before it was computed. Each further parameter
    /// that passes the value on adds one iteration.
    fn origin(&self, mut v: Value) -> (Value, u32) {
        let params = &self.func.blocks[self.block].params;
        for distance in 0..params.len() as u32 {
            let own = matches!(self.func.values[v].def, ValueDef::Param(b, _) if b == self.block);
            let Some(before) = self.graph.carried(v).filter(|_| own) else { return (v, distance) };
            v = before;
        }
        (v, 0)
    }

    /// The node at whose start an operand's registers are free. Elementwise work overwrites them on the way. A product
    /// overwrites its accumulator, and holds its other operand until it is complete.
    fn end_of_read(&self, user: usize, v: Value) -> usize {
        if self.accumulator(user) == Some(v) {
            return user;
        }
        self.body.closed.iter().find(|c| c.0 == user).map_or(user, |c| c.1)
    }

    /// Registers of fragments that the body reads but does not compute.
    pub(super) fn invariant_registers(&self) -> u32 {
        let all = (0..self.body.nodes.len()).flat_map(|n| self.reads_of(n));
        let seen: FxHashSet<Value> = all.copied().collect();
        let outside = |v: &&Value| self.func.ty(**v).is_frag() && !self.func.is_defined_in(**v, self.block);
        seen.iter().filter(outside).map(|&v| self.func.ty(v).regs()).sum()
    }

    /// The node in which an instruction stands.
    fn begin(&self, inst: Inst) -> Option<usize> {
        self.home.get(&inst).copied()
    }

    /// The time at which a node has read its operands. For a product it is the time at which it is complete.
    fn end_of_use(&self, user: usize) -> (usize, Wait) {
        match self.body.closed.iter().find(|c| c.0 == user) {
            Some(&(_, wait)) => (wait, Wait::Start),
            None => (user, Wait::End),
        }
    }
}
