//! What a plan decided, for `explain`.

use super::types::{Plan, StorePlan};
use crate::tiles::program_order;
use warplift_ir::tile::Kernel;

impl Plan {
    /// What was decided, a line each, for `explain`.
    pub fn describe(&self, k: &Kernel) -> Vec<String> {
        let mut lines = Vec::new();
        for inst in program_order(k) {
            let at = k.insts[inst].loc;
            lines.extend(self.describe_conversions(k, inst));
            if let Some(t) = self.shared.get(&inst) {
                let why = t.declined.as_ref().map_or(String::new(), |d| format!(" (no tensor copy: {d})"));
                lines.push(format!(
                    "{}:{} load: shared, {} x {} swizzle {} by {}{why}",
                    at.line, at.column, t.extents[0], t.extents[1], t.swizzle, t.fill
                ));
            }
            if let Some(s) = self.staged.get(&inst) {
                lines.push(format!("{}:{} load: {}", at.line, at.column, s.describe()));
            }
            if let Some(p) = self.products.get(&inst) {
                lines.push(format!(
                    "{}:{} mma: m64n{}k16, {} x {} atoms, {} steps, A in {}",
                    at.line,
                    at.column,
                    p.n,
                    p.m_atoms,
                    p.n_atoms,
                    p.k_steps,
                    if p.a.is_some() { "shared memory" } else { "registers" }
                ));
            }
            if let Some(p) = self.warp_products.get(&inst) {
                let source = if p.a.is_some() { "shared memory" } else { "registers" };
                let together = if p.share.together { ", rows together," } else { "" };
                let (rows, cols) = (p.share.rows, p.share.columns);
                lines.push(format!(
                    "{}:{} mma: m16n8k16, {rows} x {cols} warps{together} of {} x {} atoms, {} steps, A in {source}",
                    at.line, at.column, p.m_atoms, p.n_atoms, p.k_steps,
                ));
            }
            lines.extend(self.stores.get(&inst).map(|s| match s {
                StorePlan::Bulk(s) => {
                    format!("{}:{} store: staged, tensor copy, swizzle {}", at.line, at.column, s.swizzle)
                }
                StorePlan::Plain { vector, declined } => {
                    let why = declined.as_ref().map_or(String::new(), |d| format!(" (no tensor copy: {d})"));
                    format!("{}:{} store: plain, {vector} elements{why}", at.line, at.column)
                }
            }));
        }
        lines.extend(self.found.iter().flat_map(|f| f.describe(k)));
        lines
    }
}
