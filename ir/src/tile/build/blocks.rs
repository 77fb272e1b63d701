//! Loops and branches, which are opened and closed.
//!
//! ```text
//!  begin_for(low, high, step, init) ─► counter, carried   ..   end(yields) ─► the loop, its results
//!  begin_if(c)   ..   begin_else(yields)   ..   end(yields) ─► the branch, its results
//! ```

use super::*;
use crate::tile::typing::{self, same_type};

/// Loops and branches.
impl KernelBuilder {
    /// Opens a counted loop. Returns the counter and the carried values.
    pub fn begin_for(
        &mut self,
        lo: Value,
        hi: Value,
        step: Value,
        init: &[Value],
    ) -> Result<(Value, Vec<Value>)> {
        let mut args = vec![lo, hi, step];
        args.extend(init);
        self.all_visible(&args)?;
        let counter = typing::for_counter(&self.kernel.tunables, &self.types(&args))?;
        let mut params = vec![counter];
        params.extend(self.types(init));
        let values = self.begin(Op::For, args, &params, Some(params[1..].to_vec()))?;
        Ok((values[0], values[1..].to_vec()))
    }

    /// Opens a loop whose body runs until its first yielded value is false. Returns the carried values.
    pub fn begin_while(&mut self, init: &[Value]) -> Result<Vec<Value>> {
        self.all_visible(init)?;
        let types = self.types(init);
        let mut yields = vec![Type::Scalar(Elem::Bool)];
        yields.extend_from_slice(&types);
        self.begin(Op::While, init.to_vec(), &types, Some(yields))
    }

    /// Opens the first branch.
    pub fn begin_if(&mut self, condition: Value) -> Result<()> {
        self.all_visible(&[condition])?;
        typing::if_condition(&self.kernel.tunables, &self.types(&[condition]))?;
        self.begin(Op::If, vec![condition], &[], None).map(drop)
    }

    /// Closes the first branch with these yielded values and opens the second one.
    pub fn begin_else(&mut self, yields: &[Value]) -> Result<()> {
        let in_first = |f: &Frame| matches!(f.op, Op::If) && f.blocks.len() == 1 && f.yields.is_none();
        if !self.open.last().is_some_and(in_first) {
            return Err(BuildError::Structure("`begin_else`"));
        }
        self.yields(yields)?;
        let types = self.types(yields).to_vec();
        let block = self.kernel.blocks.push(BlockData::default());
        if let Some(frame) = self.open.last_mut() {
            frame.yields = Some(types);
            frame.blocks.push(block);
        }
        Ok(())
    }

    /// Closes the innermost block with these yielded values. Returns the results of the loop or branch.
    pub fn end(&mut self, yields: &[Value]) -> Result<Inst> {
        let Some(frame) = self.open.last() else {
            return Err(BuildError::Structure("`end`"));
        };
        if matches!(frame.op, Op::If) && frame.blocks.len() == 1 {
            self.begin_else(yields)?;
            return self.end(&[]);
        }
        self.yields(yields)?;
        let Some(frame) = self.open.pop() else {
            return Err(BuildError::Structure("`end`"));
        };
        let carried = usize::from(matches!(frame.op, Op::While));
        let results: Types = frame.yields.iter().flatten().copied().skip(carried).collect();
        Ok(self.append(frame.op, &frame.args, &results, &frame.blocks, frame.loc))
    }

    /// Results of an instruction that `end` returned.
    pub fn results(&self, inst: Inst) -> &[Value] {
        self.kernel.results(inst)
    }

    /// Types that the innermost open block must yield, where they are known.
    pub fn wanted_yields(&self) -> &[Type] {
        let yields = self.open.last().and_then(|f| f.yields.as_deref());
        yields.unwrap_or_default()
    }

    /// Forgets the innermost open loop or branch.
    pub(crate) fn abandon(&mut self) {
        self.open.pop();
    }

    fn begin(
        &mut self,
        op: Op,
        args: Vec<Value>,
        params: &[Type],
        yields: Option<Vec<Type>>,
    ) -> Result<Vec<Value>> {
        if self.open.len() >= MAX_BLOCK_DEPTH as usize {
            return Err(BuildError::Depth(MAX_BLOCK_DEPTH));
        }
        let block = self.kernel.blocks.push(BlockData::default());
        let mut values = Vec::with_capacity(params.len());
        for &ty in params {
            let value = self.kernel.append_param(block, ty);
            self.home[value] = Some(block);
            values.push(value);
        }
        let frame = Frame { op, args, blocks: smallvec![block], yields, loc: self.loc };
        self.open.push(frame);
        Ok(values)
    }

    /// Appends the `yield` of the innermost block.
    fn yields(&mut self, values: &[Value]) -> Result<()> {
        self.all_visible(values)?;
        let found = self.types(values);
        if let Some(frame) = self.open.last() {
            let wanted = frame.yields.as_deref().unwrap_or(&found);
            let same = wanted.iter().zip(&found).all(|(a, b)| same_type(*a, *b));
            if wanted.len() != found.len() || !same {
                return Err(BuildError::Yield {
                    op: frame.op.name(),
                    expected: typing::list_text(&self.kernel.tunables, wanted),
                    found: typing::list_text(&self.kernel.tunables, &found),
                });
            }
        }
        self.inst(Op::Yield, values, None).map(drop)
    }
}
