//! The decisions of a plan as lines for `explain`.
//!
//! ```text
//!  14:10 load: shared, 128 x 64 swizzle 128 by tensor copies
//!  16:9  mma: m64n256k16, 2 x 1, 4 steps, A in shared memory
//! ```

use super::tensor::atom_k;
use super::types::{Plan, StorePlan};
use crate::tiles::{extents, program_order, reads_tile};
use crate::vector::vector_elements;
use warplift_ir::plural;
use warplift_ir::tile::{Inst, Kernel};

impl Plan {
    /// One line for each decision.
    pub fn describe(&self, k: &Kernel) -> Vec<String> {
        let mut lines = Vec::new();
        for inst in program_order(k) {
            let at = k.insts[inst].loc;
            lines.extend(self.describe_conversions(k, inst));
            if let Some(t) = self.shared.get(&inst) {
                let why = t.declined.as_ref().map_or(String::new(), |d| format!(" (no tensor copy: {d})"));
                let what = if k.insts[inst].op.is_read() { "load" } else { "operand" };
                let inner = t.inner_extent(&extents(k, k.result(inst)));
                lines.push(format!(
                    "{}:{} {what}: shared, {} x {inner} swizzle {} by {}{why}",
                    at.line, at.column, t.extents[0], t.swizzle, t.fill
                ));
            }
            if self.filled_tile(k, inst).is_some() {
                lines.push(format!("{}:{} load: threads read it in shared memory", at.line, at.column));
            }
            if k.results(inst).iter().any(|r| self.partial.contains_key(r)) {
                lines.push(format!("{}:{} loop: sums of lanes and warps behind it", at.line, at.column));
            }
            match self.staged.get(&inst) {
                Some(s) => lines.push(format!("{}:{} load: {}", at.line, at.column, s.describe())),
                None if reads_tile(k, inst) && !self.shared.contains_key(&inst) => {
                    let vector = plural(vector_elements(k, inst, k.result(inst)), "element");
                    lines.push(format!("{}:{} load: plain, {vector}", at.line, at.column));
                }
                None => {}
            }
            lines.extend(self.describe_product(k, inst));
            lines.extend(self.stores.get(&inst).map(|s| match s {
                StorePlan::Bulk(s) => {
                    format!("{}:{} store: staged, tensor copy, swizzle {}", at.line, at.column, s.swizzle)
                }
                StorePlan::Plain { vector, declined } => {
                    let why = declined.as_ref().map_or(String::new(), |d| format!(" (no tensor copy: {d})"));
                    format!("{}:{} store: plain, {}{why}", at.line, at.column, plural(*vector, "element"))
                }
            }));
        }
        together(lines)
    }

    /// The line of an MMA.
    fn describe_product(&self, k: &Kernel, inst: Inst) -> Option<String> {
        let at = k.insts[inst].loc;
        if let Some(p) = self.products.get(&inst) {
            return Some(format!(
                "{}:{} mma: m64n{}k{}, {} x {}, {}, A in {}",
                at.line,
                at.column,
                p.n,
                atom_k(k.ty(k.args(inst)[1]).elem()),
                p.m_atoms,
                plural(p.n_atoms, "atom"),
                plural(p.k_steps, "step"),
                if p.a.is_some() { "shared memory" } else { "registers" }
            ));
        }
        if let Some(p) = self.warp_products.get(&inst) {
            let source = if p.a.is_some() { "shared memory" } else { "registers" };
            let together = if p.warp_grid.contiguous { ", rows together," } else { "" };
            let (rows, cols) = (p.warp_grid.rows, p.warp_grid.columns);
            return Some(format!(
                "{}:{} mma: m16n8k16, {rows} x {} warps{together} of {} x {}, {}, A in {source}",
                at.line,
                at.column,
                cols,
                p.m_atoms,
                plural(p.n_atoms, "atom"),
                plural(p.k_steps, "step"),
            ));
        }
        None
    }

    /// One line for each step of the search; empty without a search.
    pub fn describe_search(&self, k: &Kernel) -> Vec<String> {
        self.search.iter().flat_map(|f| f.describe(k)).collect()
    }
}

/// Equal lines that follow each other become one, with their number.
fn together(lines: Vec<String>) -> Vec<String> {
    let runs = lines.chunk_by(|a, b| a == b);
    runs.map(|run| if run.len() > 1 { format!("{} ({} times)", run[0], run.len()) } else { run[0].clone() })
        .collect()
}
