//! Scalars in memory: values, conditions, ends of loops, and offsets of indices.
//!
//! ```text
//!  s = load x0[i] : i64      t = load x1[cast(j*BN, i64) + s, k*BK] : f16[BN, BK]      for u in 0..max(s, 0)
//! ```

use super::super::range::{DATA, Range};
use super::{Generator, Result};
use warplift_ir::tile::{Assumption, BinOp, Type, Value};
use warplift_ir::types::Elem;

impl Generator<'_> {
    /// Loads a scalar or two, some of them from outside their view.
    pub(super) fn loaded_scalars(&mut self) -> Result<()> {
        if !self.loads_scalars {
            return Ok(());
        }
        for _ in 0..=self.choices.below(2) {
            let elem =
                self.choices.of(&[Elem::I32, Elem::I32, Elem::I64, Elem::Uint(32), Elem::F32, Elem::Bool]);
            let ptr = self.pointer(elem)?;
            let extent = self.choices.of(&[1, 2, 7]);
            let extent = self.int(extent)?;
            let fill = if self.choices.chance(1, 4) { 1.0 } else { 0.0 };
            let view = self.b.view(ptr, &[extent], None, fill)?;
            let at = match self.axes[0].index.filter(|_| self.choices.chance(3, 4)) {
                Some(index) => index,
                None => {
                    let at = self.choices.of(&[0, 1, -1]);
                    self.int(at)?
                }
            };
            let loaded = self.b.load_scalar(view, &[at])?;
            self.put_to_use(loaded, elem)?;
        }
        Ok(())
    }

    /// Puts a loaded scalar in sight. Integers become ends of loops and offsets too.
    fn put_to_use(&mut self, loaded: Value, elem: Elem) -> Result<()> {
        if elem == Elem::Bool {
            self.keep(loaded, Range::whole(0.0, 1.0));
            return Ok(());
        }
        // Inputs are negative too: an unsigned type makes large numbers of that.
        if elem == Elem::Uint(32) {
            self.keep(loaded, Range::whole(0.0, 2f64.powi(32)));
            return Ok(());
        }
        self.keep(loaded, Range::whole(-DATA, DATA));
        if elem.is_float() {
            return Ok(());
        }
        if elem == Elem::I64 && self.choices.chance(1, 2) {
            self.long_scalar(loaded)?;
        }
        if elem == Elem::I32 && self.choices.chance(1, 4) {
            self.update_by_scalar(loaded)?;
        }
        let loaded = self.assumed(loaded, elem)?;
        self.offset = Some(loaded).filter(|_| self.choices.chance(2, 3)).or(self.offset);
        if elem == Elem::I32 {
            let zero = self.int(0)?;
            let count = self.index(BinOp::Max, loaded, zero)?;
            self.keep(count, Range::whole(0.0, DATA));
        }
        Ok(())
    }

    /// Arithmetic of 64 bits, and 32 bits of what it gives.
    fn long_scalar(&mut self, loaded: Value) -> Result<()> {
        let v = self.long_steps(loaded)?;
        let by = self.choices.of(&[0, 7, 31, 32, 40]);
        let by = self.b.int(by, Elem::I64)?;
        let v = self.index(BinOp::Shr, v, by)?;
        let bits = self.b.cast(v, Elem::I32)?;
        self.keep(bits, Range::whole(f64::from(i32::MIN), f64::from(i32::MAX)));
        Ok(())
    }

    /// A scalar with a promise that it keeps: how far it lies from zero, and that a multiple of it is one.
    fn assumed(&mut self, loaded: Value, elem: Elem) -> Result<Value> {
        if !self.choices.chance(1, 2) {
            return Ok(loaded);
        }
        let most = DATA as i64;
        if self.choices.chance(1, 2) {
            let promise = Assumption { multiple: 1, min: -most, max: most };
            return self.b.assume(loaded, promise);
        }
        let multiple = self.choices.of(&[2, 4, 8, 16]);
        let by = self.b.int(multiple, elem)?;
        let product = self.index(BinOp::Mul, loaded, by)?;
        let promise = match self.choices.chance(1, 2) {
            true => Assumption { multiple, ..Assumption::default() },
            false => Assumption { multiple, min: -most * multiple, max: most * multiple },
        };
        let product = self.b.assume(product, promise)?;
        self.keep(product, Range::whole(-DATA * multiple as f64, DATA * multiple as f64));
        Ok(product)
    }

    /// An index, perhaps plus the offset. Where tensor copies are to fit, the `last` index stays.
    pub(super) fn moved_by_memory(&mut self, index: Value, last: bool) -> Result<Value> {
        let Some(by) = self.offset.filter(|_| !(self.regular && last)) else { return Ok(index) };
        if self.choices.chance(1, 3) {
            return Ok(index);
        }
        let index = match self.ty(by) {
            Type::Scalar(Elem::Int(64)) => self.b.cast(index, Elem::I64)?,
            _ => index,
        };
        self.index(BinOp::Add, index, by)
    }
}
