//! Prints. One thread prints scalars; of a tile, the thread that holds an element prints it.
//!
//! ```text
//!  print "n", n                         thread 0:   printf "n %d\n", n
//!  print "t", t, iota 0, iota 1         each:       printf "t[%d, %d] %g\n", index, index, element
//! ```

use super::Lower;
use crate::Result;
use warplift_ir::layout::Axis;
use warplift_ir::machine::{self, Attr, Guard, NewInst, Ty};
use warplift_ir::target::Opcode;
use warplift_ir::tile::{CmpOp, Inst, Type, Value};
use warplift_ir::types::Elem;

/// Numbers that one call of `printf` takes on a device (CUDA C++ Programming Guide, "Formatted Output").
const MOST_NUMBERS: usize = 32;

impl Lower<'_, '_> {
    /// A print of scalars, or of a tile with the tiles of its indices.
    pub(super) fn lower_print(&mut self, inst: Inst, text: &str) -> Result<()> {
        let args = self.k.args(inst).to_vec();
        let text = text.replace('%', "%%");
        match args.first().map(|&v| self.k.ty(v)) {
            Some(Type::Tile(elem, _)) => self.print_tile(text, elem, &args),
            _ => self.print_scalars(text, &args),
        }
    }

    fn print_scalars(&mut self, mut text: String, args: &[Value]) -> Result<()> {
        let (thread, zero) = (self.thread(), self.at_entry().imm(0));
        let first = self.at_entry().compare(CmpOp::Eq, thread, zero);
        let mut given = Vec::new();
        for &v in args {
            if given.len() == MOST_NUMBERS {
                self.printf(std::mem::take(&mut text), &given, Some(first));
                given.clear();
            }
            let (conversion, x) = self.printed(v)?;
            text += &format!(" {conversion}");
            given.push(x);
        }
        self.printf(format!("{text}\n"), &given, Some(first));
        Ok(())
    }

    /// A scalar as `printf` takes it, and its conversion.
    fn printed(&mut self, v: Value) -> Result<(&'static str, machine::Value)> {
        let x = self.scalar(v)?;
        let elem = self.k.ty(v).elem();
        Ok(match elem {
            Elem::F32 => ("%g", x),
            Elem::F16 => ("%g", self.at().op(Opcode::LowF16, &[x], Ty::B32)),
            Elem::Bf16 => ("%g", self.at().op(Opcode::LowBf16, &[x], Ty::B32)),
            Elem::Bool => {
                let [one, zero] = [1, 0].map(|n| self.at().imm(n));
                ("%d", self.at().op(Opcode::Selp, &[one, zero, x], Ty::B32))
            }
            Elem::Int(64) => ("%lld", x),
            Elem::Uint(64) => ("%llu", x),
            Elem::Uint(_) => ("%u", x),
            Elem::Int(_) => ("%d", x),
            _ => return self.refuse_scalars(elem),
        })
    }

    /// Each element by the thread that holds it.
    fn print_tile(&mut self, text: String, elem: Elem, args: &[Value]) -> Result<()> {
        let conversion = match elem {
            Elem::F32 => "%g",
            Elem::Uint(32) => "%u",
            Elem::Int(32) => "%d",
            _ => return self.refuse_tiles(elem),
        };
        let tile = args[0];
        let layout = self.plan.layout(self.k, tile)?.clone();
        let owner = self.owner(&layout);
        let indices = vec!["%d"; args.len() - 1].join(", ");
        let text = format!("{text}[{indices}] {conversion}\n");
        // The indices stand before the element.
        let order = args[1..].iter().chain(&args[..1]);
        let all = order.map(|&v| self.materialize(v, tile)).collect::<Result<Vec<_>>>()?;
        let replicated = layout.replicated(Axis::Reg);
        for e in 0..layout.in_extent(Axis::Reg) {
            if replicated.iter().any(|b| e / b.weight % b.extent != 0) {
                continue;
            }
            let given: Vec<machine::Value> = all.iter().map(|&x| self.pick(x, vec![e as u16])).collect();
            self.printf(text.clone(), &given, owner);
        }
        Ok(())
    }

    fn printf(&mut self, text: String, given: &[machine::Value], by: Option<machine::Value>) {
        let guard = by.map(|pred| Guard { pred, negated: false });
        self.at().push(NewInst::new(Opcode::Printf, given, &[]).attr(Attr::Print(text)).guard(guard));
    }
}
