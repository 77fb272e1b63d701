//! Promises of numbers as statements: from there on the name stands for the number with the promise.
//!
//! ```text
//!  n = load v[i] : i32                v1 = load v0[..]
//!  assume n % 8                ─►     v2 = assume v1 % 8
//!  t = load x[n] : f32[8]             v3 = load x[v2]          to the end of the block
//! ```

use super::ast::{Expr, Kind};
use super::lex::Span;
use super::lower::{Binding, Failed, Lower, Result};

impl Lower<'_> {
    /// `assume n % 8`: the name stands for the number of which this is promised.
    pub(super) fn assume(&mut self, span: Span, expr: &Expr) -> Result<()> {
        let Some(name) = Self::assumed(expr) else { return Err(Failed) };
        if let Binding::Tunable(_) = self.lookup(name, span)? {
            return Err(self.report(span, format!("`{name}` is a tunable: `assert` decides about it")));
        }
        let value = self.value(expr, None)?;
        self.b.set_name(value, name);
        self.mean(name, Binding::Value(value));
        Ok(())
    }

    /// The name of which an `assume` speaks.
    pub(super) fn assumed(expr: &Expr) -> Option<&str> {
        match &expr.kind {
            Kind::Call(call) if call.name == "assume" => match &call.args[0].kind {
                Kind::Name(name) => Some(name),
                _ => None,
            },
            _ => None,
        }
    }
}
