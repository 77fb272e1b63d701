//! Functions of the text. A call is replaced by the function's statements; instructions keep their places in it.
//!
//! ```text
//!  fn softmax_step(s, m0, l0) {                m1, l1, p = softmax_step(s, m0, l0)
//!      m1 = max(m0, reduce_max(s, 1))             ─►   the statements with s, m0, l0 bound to the operands
//!      ..
//!      yield m1, l1, p
//!  }
//! ```
//!
//! A function sees its parameters, and nothing of the kernel. A parameter stands for a value, or for a number or a
//! tunable, which may stand in shapes. The `yield` at its end gives the results. It may call functions above it.

use super::ast::{Expr, FunctionText, Kind};
use super::constants::substitute;
use super::functions::FUNCTION_SCOPES;
use super::lex::Span;
use super::lower::{Binding, Failed, Lower, Result};
use crate::plural;
use crate::tile::Value;

/// Calls inside each other.
const MAX_CALL_DEPTH: usize = 64;
/// Calls that a kernel may have, those inside its functions included.
const MAX_CALLS: usize = 4096;

/// What a parameter stands for.
enum Given {
    Bound(Binding),
    Number(Kind),
}

impl Lower<'_> {
    /// The values of a call, whose function is written here.
    pub(super) fn inlined(&mut self, span: Span, name: &str, args: &[Expr]) -> Result<Vec<Value>> {
        let Some(function) = self.functions.find(name) else { return Err(Failed) };
        if self.calls.iter().any(|(open, _)| open == name) {
            return Err(self.report(span, format!("`{name}` calls itself: a function is inlined")));
        }
        self.inlined += 1;
        if self.calls.len() >= MAX_CALL_DEPTH || self.inlined > MAX_CALLS {
            let message = format!(
                "functions are inlined: a kernel has at most {MAX_CALLS} calls, at most {MAX_CALL_DEPTH} inside each other"
            );
            return Err(self.report(span, message));
        }
        let (wanted, found) = (function.params.len(), args.len());
        if wanted != found {
            let message = format!("`{name}` takes {}, found {found}", plural(wanted as u64, "operand"));
            return Err(self.report(span, message));
        }
        let given: Vec<Given> = args.iter().map(|a| self.given(a)).collect::<Result<_>>()?;
        let names = std::mem::take(&mut self.names);
        let scopes = std::mem::replace(&mut self.scopes, vec![Vec::new(); FUNCTION_SCOPES]);
        self.calls.push((name.to_owned(), span));
        let yields = self.function_body(function, given);
        self.calls.pop();
        (self.names, self.scopes) = (names, scopes);
        self.b.set_loc(span.loc);
        yields
    }

    fn given(&mut self, arg: &Expr) -> Result<Given> {
        Ok(match &arg.kind {
            Kind::Int(_) | Kind::Float(_) => Given::Number(arg.kind.clone()),
            Kind::Name(name) => Given::Bound(self.lookup(name, arg.span)?),
            _ => Given::Bound(Binding::Value(self.value(arg, None)?)),
        })
    }

    fn function_body(&mut self, function: &FunctionText, given: Vec<Given>) -> Result<Vec<Value>> {
        let (mut body, mut numbers) = (function.body.clone(), Vec::new());
        for (param, given) in function.params.iter().zip(given) {
            match given {
                Given::Bound(binding) => self.bind(param, binding),
                Given::Number(kind) => {
                    numbers.push((param.text.clone(), kind));
                    // The number stands wherever the name is used, so nothing else may have the name.
                    self.bind(param, Binding::Wrong);
                }
            }
        }
        substitute(&mut body, &numbers);
        self.block(&body)
    }
}
