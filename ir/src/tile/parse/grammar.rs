//! The grammar, by recursive descent. One function for each rule:
//!
//! ```text
//! module     = (kernel | mapping | function)*
//! function   = "fn" name "(" name,* ")" body
//! kernel     = "kernel" name "(" param,* ")" body
//! param      = name ":" (elem | "ptr" "<" elem ">") ("align" int | "may_alias" | "%" int | "in" range)*
//! body       = "{" statement* "}"
//! statement  = "const" (name "=" expr),+ | "tunable" (name ("in" domain)? "=" int),+ | "grid" expr,+ | "yield" expr,*
//!            | (name,+ "=")? attrs? (region | expr (":" elem)?)
//! domain     = "{" int,+ "}" | range ("step" int)?
//! region     = "for" name "in" expr ".." expr ("step" expr)? carry? body
//!            | "while" carry? body | branch
//! branch     = "if" expr body ("else" (body | branch))?
//! carry      = "carry" (name "=" expr),+
//! expr       = unary (infix unary)*            # precedence as in Rust
//! unary      = ("-" | "!") unary | primary ("[" expr,* "]")?
//! primary    = literal | name | "?" | "(" expr ")" | "[" expr,* "]" | operation
//! operation  = name "(" expr,* ")" tail | name expr,* tail      # a function's name too, in parentheses
//! assume     = "assume" unary ("%" int | "in" range)+
//!            | "shared" type ("layout" string)?
//! tail       = (":" type)? ("strides" "[" expr,* "]")? ("fill" (float | "true" | "false"))? (("scope" | "order") word)* ("where" expr)?
//! attrs      = "@" "[" attr,* "]"
//! ```
//!
//! A parenthesis right after an operation's name holds all its operands.
//!
//! A wrong statement or parameter is reported and skipped. Its names are marked as wrong, so their uses are not
//! reported too.

use super::ParseError;
use super::ast::*;
use super::cursor::{Cursor, MAX_DEPTH, Result};
use super::facts::{facts, positive, promise, range, sync};
use super::lex::{Span, Tok};
use super::mapping::layout;
use crate::tile::names::{self, ATOMIC, Form, INFIX, Infix, find, form_of};
use crate::tile::suggest::did_you_mean_word;
use crate::tile::{Domain, Type};
use crate::types::Elem;

/// Element types to suggest for a misspelt one.
const ELEMS: [&str; 16] = [
    "f64", "f32", "tf32", "f16", "bf16", "f8e4m3", "f8e5m2", "f4e2m1", "i64", "i32", "i16", "i8", "u32",
    "u16", "u8", "bool",
];

/// `kernel name(..) { .. }`, the first word being stepped over.
pub(super) fn kernel(c: &mut Cursor<'_>) -> Result<KernelText> {
    let name = c.name("a kernel")?;
    c.expect("(")?;
    let (params, wrong) = params(c);
    let body = body(c)?;
    Ok(KernelText { name, params, wrong, body })
}

/// `fn name(..) { .. }`, the first word being stepped over.
pub(super) fn function(c: &mut Cursor<'_>) -> Result<FunctionText> {
    let name = c.name("a function")?;
    c.expect("(")?;
    let params = c.list(")", |c| c.name("a parameter"))?;
    let body = body(c)?;
    Ok(FunctionText { name, params, body })
}

/// Parameters up to the closing parenthesis, and the names of wrong ones.
fn params(c: &mut Cursor<'_>) -> (Vec<ParamText>, Vec<Name>) {
    let (mut params, mut wrong) = (Vec::new(), Vec::new());
    while !c.eat(")") {
        let start = c.peek();
        let span = c.span();
        let read = param(c).and_then(|p| match c.is(")") || c.eat(",") {
            true => Ok(p),
            false => c.expected("`,` or `)`"),
        });
        match read {
            Ok(p) => params.push(p),
            Err(error) => {
                c.report(error);
                if let Tok::Ident(text) = start {
                    wrong.push(Name { text: text.clone(), span });
                }
                c.skip_param();
                if !c.eat(",") && !c.is(")") {
                    break;
                }
            }
        }
    }
    (params, wrong)
}

fn param(c: &mut Cursor<'_>) -> Result<ParamText> {
    let name = c.name("a parameter")?;
    c.expect(":")?;
    let ty = if c.eat_word("ptr") {
        c.expect("<")?;
        let elem = elem(c)?;
        c.expect(">")?;
        Type::Ptr(elem)
    } else {
        Type::Scalar(elem(c)?)
    };
    let facts = facts(c, ty)?;
    Ok(ParamText { name, ty, facts })
}

fn elem(c: &mut Cursor<'_>) -> Result<Elem> {
    match c.peek() {
        Tok::Ident(w) => match Elem::from_name(w) {
            Some(e) => {
                c.skip();
                Ok(e)
            }
            None => c.error(format!("`{w}` is no element type{}", did_you_mean_word(w, ELEMS))),
        },
        _ => c.expected("an element type"),
    }
}

fn body(c: &mut Cursor<'_>) -> Result<Body> {
    let open = c.span();
    c.expect("{")?;
    let mut statements = Vec::new();
    while !c.is("}") && *c.peek() != Tok::End && !c.at_top() {
        let (start, span) = (c.at(), c.span());
        match c.nested(statement) {
            Ok(read) => statements.push(read),
            Err(error) => statements.push(wrong_statement(c, error, start, span)),
        }
    }
    let end = c.span();
    c.close(open);
    Ok(Body { statements, end })
}

/// Reports a wrong statement and steps over it. Blocks that it holds are read for their own mistakes.
fn wrong_statement(c: &mut Cursor<'_>, error: ParseError, start: usize, span: Span) -> Statement {
    let yields = matches!(c.between(start, start + 1), [t] if t.tok == Tok::Ident("yield".to_owned()));
    c.report(error);
    if c.at() == start && !c.is("{") {
        c.skip();
    }
    let mut opens = c.skip_statement();
    let names = c.names_between(start, c.at());
    while opens {
        match c.nested(body) {
            Ok(_) => opens = c.eat_word("else") && c.is("{"),
            // Nested too deep to be read.
            Err(error) => {
                c.report(error);
                c.recover();
                opens = false;
            }
        }
    }
    Statement { span, kind: StatementKind::Wrong { names, yields } }
}

fn statement(c: &mut Cursor<'_>) -> Result<Statement> {
    let start = c.span();
    if c.is(";") {
        return c.error("a statement ends with its line; leave out `;`".to_owned());
    }
    let kind = if c.eat_word("const") {
        StatementKind::Const(c.comma_list(constant)?)
    } else if c.eat_word("tunable") {
        StatementKind::Tunable(c.comma_list(tunable)?)
    } else if c.eat_word("grid") {
        StatementKind::Grid(c.comma_list(expr)?)
    } else if c.eat_word("yield") {
        let none = c.is("}");
        StatementKind::Yield(if none { Vec::new() } else { c.comma_list(expr)? })
    } else {
        binding(c)?
    };
    let span = start.to(c.last_span());
    Ok(Statement { span, kind })
}

fn constant(c: &mut Cursor<'_>) -> Result<(Name, Expr)> {
    let name = c.name("a constant")?;
    c.expect("=")?;
    Ok((name, expr(c)?))
}

fn tunable(c: &mut Cursor<'_>) -> Result<TunableText> {
    let name = c.name("a tunable")?;
    let domain = if c.eat_word("in") { domain(c)? } else { Domain::Any };
    c.expect("=")?;
    Ok(TunableText { name, domain, default: c.integer()? })
}

/// `{64, 128}`, `16..=256 step 16`
fn domain(c: &mut Cursor<'_>) -> Result<Domain> {
    if c.eat("{") {
        return c.list("}", Cursor::integer).map(Domain::OneOf);
    }
    let (min, max) = range(c)?;
    let step = if c.eat_word("step") { positive(c)? } else { 1 };
    Ok(Domain::Range { min, max, step })
}

fn binding(c: &mut Cursor<'_>) -> Result<StatementKind> {
    let bound = matches!(c.peek(), Tok::Ident(_)) && matches!(c.peek_at(1), Tok::Punct("=" | ","));
    let names = if bound {
        let names = c.comma_list(|c| c.name("a value"))?;
        c.expect("=")?;
        names
    } else {
        Vec::new()
    };
    let attrs = match c.eat("@") {
        true => Some(Box::new(super::mapping::attrs(c)?)),
        false => None,
    };
    let expr = match region(c)? {
        Some(region) => region,
        None => expr(c).and_then(|e| unknown_bare(c, e))?,
    };
    if names.is_empty() && c.is("=") {
        return c.error("only a name stands before `=`; `store v[i, j], x` writes to a view".to_owned());
    }
    let ty = c.eat(":").then(|| type_text(c)).transpose()?;
    Ok(StatementKind::Let { names, attrs, expr, ty })
}

fn region(c: &mut Cursor<'_>) -> Result<Option<Expr>> {
    let span = c.span();
    let region = if c.eat_word("for") {
        for_region(c)?
    } else if c.eat_word("while") {
        Region::While { carried: carried(c)?, body: body(c)? }
    } else if c.eat_word("if") {
        if_region(c)?
    } else {
        return Ok(None);
    };
    let kind = Kind::Region(Box::new(region));
    Ok(Some(Expr { kind, span, depth: 1 }))
}

fn for_region(c: &mut Cursor<'_>) -> Result<Region> {
    let counter = c.name("a loop's counter")?;
    c.expect_word("in")?;
    let lo = expr(c)?;
    c.expect("..")?;
    let hi = expr(c)?;
    let step = c.eat_word("step").then(|| expr(c)).transpose()?;
    let carried = carried(c)?;
    let body = body(c)?;
    Ok(Region::For { counter, lo, hi, step, carried, body })
}

fn carried(c: &mut Cursor<'_>) -> Result<Vec<(Name, Expr)>> {
    if !c.eat_word("carry") {
        return Ok(Vec::new());
    }
    c.comma_list(|c| {
        let name = c.name("a carried value")?;
        c.expect("=")?;
        Ok((name, expr(c)?))
    })
}

fn if_region(c: &mut Cursor<'_>) -> Result<Region> {
    let condition = expr(c)?;
    let then = body(c)?;
    let other = match (c.eat_word("else"), c.is_word("if")) {
        (false, _) => None,
        (true, false) => Some(body(c)?),
        (true, true) => Some(c.nested(else_if)?),
    };
    Ok(Region::If { condition, then, other })
}

/// `else if` is an `else` that yields what the `if` gives.
fn else_if(c: &mut Cursor<'_>) -> Result<Body> {
    let span = c.span();
    let inner: Vec<Expr> = region(c)?.into_iter().collect();
    let yielded = Statement { span, kind: StatementKind::Yield(inner) };
    Ok(Body { statements: vec![yielded], end: c.last_span() })
}

/// An expression.
pub(super) fn expr(c: &mut Cursor<'_>) -> Result<Expr> {
    c.nested(|c| infix(c, 1))
}

/// Operators that bind at least so tightly; comparisons do not chain.
fn infix(c: &mut Cursor<'_>, least: u8) -> Result<Expr> {
    let mut left = unary(c)?;
    loop {
        let Tok::Punct(p) = c.peek() else {
            return Ok(left);
        };
        let Some(&(name, level, what)) = INFIX.iter().find(|r| r.0 == *p && r.1 >= least) else {
            return Ok(left);
        };
        c.skip();
        let right = infix(c, level + 1)?;
        left = call(name, vec![left, right])?;
        if let (Infix::Compare(_), Tok::Punct(p)) = (what, c.peek())
            && INFIX.iter().any(|r| r.0 == *p && r.1 == level)
        {
            return c.error("comparisons do not chain; put one in parentheses".to_owned());
        }
    }
}

fn unary(c: &mut Cursor<'_>) -> Result<Expr> {
    let span = c.span();
    for (punct, name) in [("-", "neg"), ("!", "not")] {
        if c.eat(punct) {
            let operand = c.nested(unary)?;
            let kind = match operand.kind {
                Kind::Int(v) if name == "neg" && v >= 0 => Kind::Int(-v),
                Kind::Float(v) if name == "neg" && v.is_sign_positive() => Kind::Float(-v),
                _ => return call(name, vec![operand]),
            };
            return Ok(leaf(kind, span.to(c.last_span())));
        }
    }
    let primary = primary(c)?;
    if !c.eat("[") {
        return Ok(primary);
    }
    let index = c.list("]", expr)?;
    let depth = deeper(index.iter().chain([&primary]), span)?;
    let span = span.to(c.last_span());
    Ok(Expr { kind: Kind::Index(Box::new(primary), index), span, depth })
}

fn leaf(kind: Kind, span: Span) -> Expr {
    Expr { kind, span, depth: 1 }
}

/// The depth of an expression made of these.
fn deeper<'a>(parts: impl IntoIterator<Item = &'a Expr>, span: Span) -> Result<u32> {
    let depth = 1 + parts.into_iter().map(|e| e.depth).max().unwrap_or(0);
    if depth <= MAX_DEPTH {
        return Ok(depth);
    }
    let message = format!("an expression nested deeper than {MAX_DEPTH} levels");
    Err(ParseError::at(span, message))
}

fn call(name: &'static str, args: Vec<Expr>) -> Result<Expr> {
    let first = args.first().map_or(Span::default(), |e| e.span);
    let span = first.to(args.last().map_or(first, |e| e.span));
    let depth = deeper(&args, span)?;
    let (sync, promise) = Default::default();
    let call =
        Call { name, args, ty: None, layout: None, strides: None, fill: 0.0, mask: None, sync, promise };
    let kind = Kind::Call(Box::new(call));
    Ok(Expr { kind, span, depth })
}

fn primary(c: &mut Cursor<'_>) -> Result<Expr> {
    let span = c.span();
    if c.eat("(") {
        let inner = expr(c)?;
        c.expect(")")?;
        return Ok(inner);
    }
    if c.eat("[") {
        let items = c.list("]", expr)?;
        let depth = deeper(&items, span)?;
        let span = span.to(c.last_span());
        return Ok(Expr { kind: Kind::List(items), span, depth });
    }
    if c.eat("?") {
        return call("unbounded", Vec::new()).map(|e| Expr { span, ..e });
    }
    let kind = match c.peek() {
        Tok::Int(v) => Kind::Int((*v).into()),
        Tok::Float(v) => Kind::Float(*v),
        Tok::Str(s) => Kind::Str(s.clone()),
        Tok::Ident(word) => match word_literal(word) {
            Some(literal) => literal,
            None => return word_expr(c, word),
        },
        _ => return c.expected("an expression"),
    };
    c.skip();
    Ok(leaf(kind, span))
}

fn word_literal(word: &str) -> Option<Kind> {
    Some(match word {
        "true" => Kind::Bool(true),
        "false" => Kind::Bool(false),
        "inf" => Kind::Float(f64::INFINITY),
        "nan" => Kind::Float(f64::NAN),
        _ => return None,
    })
}

/// A name, or an operation.
fn word_expr(c: &mut Cursor<'_>, word: &str) -> Result<Expr> {
    let span = c.span();
    match form_of(word) {
        Some(_) if matches!(word, "for" | "while" | "if") => c.expected("an expression"),
        Some(form) => {
            c.skip();
            operation(c, span, names::known(word), form)
        }
        None if names::is_reserved(word) && Elem::from_name(word).is_none() => c.expected("an expression"),
        None => {
            c.skip();
            match unknown_operands(c)? {
                Some(args) => {
                    let depth = deeper(&args, span)?;
                    let span = span.to(c.last_span());
                    Ok(Expr { kind: Kind::Unknown(word.to_owned(), args), span, depth })
                }
                None => Ok(leaf(Kind::Name(word.to_owned()), span)),
            }
        }
    }
}

/// Operands in parentheses right behind a word that is no operation; `None` if none stand there.
fn unknown_operands(c: &mut Cursor<'_>) -> Result<Option<Vec<Expr>>> {
    let (last, next) = (c.last_span(), c.span());
    if last.to(next).len != last.len + next.len || !c.eat("(") {
        return Ok(None);
    }
    let args = c.list(")", expr)?;
    if c.eat(":") {
        type_text(c)?;
    }
    Ok(Some(args))
}

/// The same for operands without parentheses in the line of a word that is all of a statement so far.
fn unknown_bare(c: &mut Cursor<'_>, word: Expr) -> Result<Expr> {
    let Kind::Name(name) = &word.kind else { return Ok(word) };
    let bare = match c.peek() {
        Tok::Ident(w) => !names::is_reserved(w) && !c.is_binding(),
        Tok::Int(_) | Tok::Float(_) | Tok::Str(_) => true,
        _ => false,
    };
    if !bare || c.at_line_end() {
        return Ok(word);
    }
    c.comma_list(expr)?;
    if c.eat(":") {
        type_text(c)?;
    }
    Ok(leaf(Kind::Unknown(name.clone(), Vec::new()), word.span))
}

fn operation(c: &mut Cursor<'_>, span: Span, name: &'static str, form: Form) -> Result<Expr> {
    let parenthesized = c.is("(");
    let args = operands(c, name, form)?;
    if !(form.least..=form.most).contains(&args.len()) {
        let cure =
            if parenthesized && c.is(",") { ": parentheses right behind it hold all of them" } else { "" };
        let message = format!("`{name}` takes {}, found {}{cure}", count_text(form), args.len());
        return Err(ParseError::at(span, message));
    }
    let mut made = call(name, args)?;
    if let Kind::Call(call) = &mut made.kind {
        tail(c, call, form)?;
    }
    made.span = span.to(c.last_span());
    Ok(made)
}

fn count_text(form: Form) -> String {
    match form.most {
        m if m == form.least => format!("{m} operands"),
        usize::MAX => format!("{} or more operands", form.least),
        m => format!("{} to {m} operands", form.least),
    }
}

fn operands(c: &mut Cursor<'_>, name: &str, form: Form) -> Result<Vec<Expr>> {
    if form.most == 0 {
        return Ok(Vec::new());
    }
    if c.eat("(") {
        return c.list(")", expr);
    }
    if !form.bare {
        return c.expected(&format!("`(` after `{name}`"));
    }
    if form.least == 0 {
        return Ok(Vec::new());
    }
    if name == "assume" {
        // What follows a `%` is a promise.
        return Ok(vec![c.nested(unary)?]);
    }
    let mut args = vec![expr(c)?];
    while args.len() < form.most && c.eat(",") {
        args.push(expr(c)?);
    }
    Ok(args)
}

fn tail(c: &mut Cursor<'_>, call: &mut Call, form: Form) -> Result<()> {
    if form.typed {
        c.expect(":")?;
        call.ty = Some(type_text(c)?);
    }
    let atomic = find(&ATOMIC, call.name).is_some();
    if atomic && c.eat(":") {
        call.ty = Some(type_text(c)?);
    }
    let accesses = matches!(call.name, "load" | "store") || atomic;
    if accesses {
        call.sync = sync(c, call.name, atomic)?;
        call.mask = if c.eat_word("where") { Some(expr(c)?) } else { None };
    }
    if call.name == "assume" {
        call.promise = promise(c)?;
    }
    if call.name == "shared" {
        call.ty = Some(type_text(c)?);
        call.layout = if c.eat_word("layout") { Some(Box::new(layout(c)?)) } else { None };
    }
    if call.name != "view" {
        return Ok(());
    }
    if c.eat_word("strides") {
        c.expect("[")?;
        call.strides = Some(c.list("]", expr)?);
    }
    if c.eat_word("fill") {
        call.fill = match (c.eat_word("true"), c.eat_word("false")) {
            (true, _) => 1.0,
            (_, true) => 0.0,
            _ => float(c)?,
        };
    }
    Ok(())
}

fn float(c: &mut Cursor<'_>) -> Result<f64> {
    let sign = if c.eat("-") { -1.0 } else { 1.0 };
    let value = match c.peek() {
        Tok::Float(v) => *v,
        Tok::Int(v) => *v as f64,
        Tok::Ident(w) if w == "inf" => f64::INFINITY,
        Tok::Ident(w) if w == "nan" => f64::NAN,
        _ => return c.expected("a number"),
    };
    c.skip();
    Ok(sign * value)
}

fn type_text(c: &mut Cursor<'_>) -> Result<TypeText> {
    let span = c.span();
    let elem = elem(c)?;
    let dims = c.eat("[").then(|| c.list("]", expr)).transpose()?;
    let span = span.to(c.last_span());
    Ok(TypeText { elem, dims, span })
}
