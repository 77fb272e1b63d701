//! Kernels and mappings from text. The grammar stands in `grammar` and `mapping`; names and
//! literals get their meaning in `lower`, which writes the kernel with the
//! [`super::KernelBuilder`], so that text and frontends obey the same rules.
//!
//! ```text
//!  text ─ lex ─► tokens ─ grammar ─► tree ─ constants, lower ─► Kernel
//! ```
//!
//! Text adds only sugar to the IR: nested expressions, literals that take the other operand's type (else i32 and f32),
//! and implicit broadcasts between tiles of different shape. One run reports all mistakes, because parsing continues
//! after a wrong statement, parameter, or word of a mapping.

mod assume;
mod ast;
mod constants;
pub(crate) mod cursor;
mod facts;
mod functions;
mod grammar;
mod inline;
pub(crate) mod lex;
mod lower;
mod mapping;
mod operation;
mod recover;

use super::suggest::did_you_mean;
use super::{Kernel, Loc, Mapping};
use cursor::Cursor;
use functions::Functions;
use lex::{Span, Tok};

/// The kernels and mappings of a text.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// Kernels in order.
    pub kernels: Vec<Kernel>,
    /// Mappings in order.
    pub mappings: Vec<Mapping>,
}

impl Module {
    /// The kernel of this name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|k| k.name == name)
    }

    /// The first mapping for the kernel of this name.
    pub fn mapping(&self, kernel: &str) -> Option<&Mapping> {
        self.mappings.iter().find(|m| m.kernel == kernel)
    }
}

/// A mistake in a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{}: {message}", loc.line, loc.column)]
pub struct ParseError {
    /// Where it starts.
    pub loc: Loc,
    /// Characters that it spans, 0 at the end of the text.
    pub len: u32,
    /// The mistake.
    pub message: String,
}

impl ParseError {
    pub(crate) fn at(span: Span, message: String) -> Self {
        Self { loc: span.loc, len: span.len, message }
    }
}

/// All mistakes in a text, in their order there: one or more. Shown with the name of the file, a line each:
///
/// ```text
/// gemm.tile:12:19: unknown name `acd`
/// gemm.tile:14:9: expected `}`, found the end
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .errors.iter().map(|e| format!("{file}:{e}")).collect::<Vec<_>>().join("\n"))]
pub struct ParseErrors {
    /// The text's name.
    pub file: String,
    /// The mistakes.
    pub errors: Vec<ParseError>,
}

impl std::ops::Deref for ParseErrors {
    type Target = [ParseError];

    fn deref(&self) -> &[ParseError] {
        &self.errors
    }
}

/// Reads a text; `file` is its name, kept in the kernels.
///
/// # Errors
/// All mistakes that can be found.
pub fn parse_file(text: &str, file: &str) -> Result<Module, ParseErrors> {
    let (tokens, errors) = lex::lex(text);
    let mut cursor = Cursor::new(&tokens);
    cursor.errors = errors;
    let (mut module, mut functions) = (Module::default(), Functions::default());
    while *cursor.peek() != Tok::End {
        if let Err(error) = item(&mut cursor, file, &mut module, &mut functions) {
            cursor.report(error);
            cursor.depth = 0;
            cursor.recover();
        }
    }
    let mut errors = cursor.errors;
    if errors.is_empty() {
        return Ok(module);
    }
    errors.sort_by_key(|e| e.loc);
    // A function with a mistake is inlined more than once.
    errors.dedup();
    Err(ParseErrors { file: file.to_owned(), errors })
}

fn item(
    c: &mut Cursor<'_>,
    file: &str,
    module: &mut Module,
    functions: &mut Functions,
) -> cursor::Result<()> {
    c.misplaced = None;
    c.is_unclosed = false;
    if c.eat_word("mapping") {
        module.mappings.push(mapping::mapping(c)?);
        return Ok(());
    }
    if c.eat_word("fn") {
        let mut text = grammar::function(c)?;
        constants::resolve(&mut text.body, &mut c.errors);
        if let Some(wrong) = functions.add(text) {
            c.report(wrong);
        }
        return Ok(());
    }
    if !c.eat_word("kernel") {
        return neither(c);
    }
    let mut text = grammar::kernel(c)?;
    constants::resolve(&mut text.body, &mut c.errors);
    if module.kernel(&text.name.text).is_some() {
        let message = format!("there is a kernel `{}` already", text.name.text);
        c.report(ParseError::at(text.name.span, message));
    }
    if !c.is_unclosed {
        module.kernels.extend(lower::kernel(&text, file, functions, &mut c.errors));
    }
    Ok(())
}

/// Reports text that is neither a kernel nor a mapping nor a function.
fn neither<T>(c: &Cursor<'_>) -> cursor::Result<T> {
    let (close, found) = (c.last_span(), c.peek());
    let Tok::Ident(word) = found else { return c.expected("`kernel`, `mapping` or `fn`") };
    let meant = did_you_mean(word, ["kernel", "mapping"]);
    if close.len > 0 && meant.is_empty() {
        return c
            .expected(&format!("`kernel`, `mapping` or `fn` behind the `}}` of line {}", close.loc.line));
    }
    c.error(format!("expected `kernel`, `mapping` or `fn`, found `{word}`{meant}"))
}

#[cfg(test)]
mod tests;
