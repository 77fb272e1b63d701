//! From the tree to the kernel: names become values, literals get types. A wrong statement is reported, its names are
//! marked, and the next statement is read. Uses of a marked name are not reported again.

use super::ParseError;
use super::ast::*;
use super::functions::{FUNCTION_SCOPES, Functions};
use super::lex::Span;
use crate::plural;
use crate::tile::names::{ATOMIC, find, is_free_name, is_ident, words};
use crate::tile::suggest::did_you_mean_word;
use crate::tile::{BuildError, Dim, Domain, Inst, Kernel, KernelBuilder, Op, Shape, Tunable, Type, Value};
use crate::types::Elem;
use rustc_hash::FxHashMap;

/// Whether the mistake has been reported already.
pub(super) struct Failed;

pub(super) type Result<T> = std::result::Result<T, Failed>;

#[derive(Clone, Copy)]
pub(super) enum Binding {
    Value(Value),
    Tunable(Tunable),
    /// Its definition was wrong.
    Wrong,
}

/// An instruction and its results; no instruction if the expression is but a name.
pub(super) struct Lowered {
    pub inst: Option<Inst>,
    pub values: Vec<Value>,
}

pub(super) struct Lower<'e> {
    pub b: KernelBuilder,
    errors: &'e mut Vec<ParseError>,
    pub(super) names: FxHashMap<String, Binding>,
    /// Names of each open scope with what they meant before, which they mean again when it closes.
    pub(super) scopes: Vec<Vec<(String, Option<Binding>)>>,
    pub(super) functions: &'e Functions,
    /// Functions that are being inlined, with the places of their calls.
    pub(super) calls: Vec<(String, Span)>,
    /// Calls that were inlined so far.
    pub(super) inlined: usize,
}

/// Writes the kernel; `None` if anything was wrong.
pub(super) fn kernel(
    text: &KernelText,
    file: &str,
    functions: &Functions,
    errors: &mut Vec<ParseError>,
) -> Option<Kernel> {
    let before = errors.len();
    let b = match KernelBuilder::new(&text.name.text) {
        Ok(b) => b,
        Err(e) => {
            errors.push(ParseError::at(text.name.span, e.to_string()));
            return None;
        }
    };
    let (names, scopes) = (FxHashMap::default(), vec![Vec::new()]);
    let mut lower = Lower { b, errors, names, scopes, functions, calls: Vec::new(), inlined: 0 };
    lower.b.set_file(file, text.name.span.loc);
    lower.whole(text);
    let (b, found) = (lower.b, lower.errors.len() > before);
    if found {
        return None;
    }
    match b.finish() {
        Ok(kernel) => Some(kernel),
        Err(e) => {
            errors.push(ParseError::at(text.body.end, e.to_string()));
            None
        }
    }
}

impl Lower<'_> {
    fn whole(&mut self, text: &KernelText) {
        for p in &text.params {
            let made = self.b.param(&p.name.text, p.ty, p.facts);
            let binding = self.checked(p.name.span, made).map(Binding::Value);
            self.bind(&p.name, binding.unwrap_or(Binding::Wrong));
        }
        self.bind_wrong(&text.wrong);
        if let Some(last) = self.statements(&text.body)
            && matches!(&last.kind, StatementKind::Yield(v) if !v.is_empty())
        {
            self.report(last.span, "a kernel yields nothing".to_owned());
        }
    }

    /// Notes a mistake.
    pub fn report(&mut self, span: Span, message: String) -> Failed {
        let message = match self.calls.first() {
            None => message,
            Some((function, at)) => {
                format!("{message} (`{function}` is called at {}:{})", at.loc.line, at.loc.column)
            }
        };
        self.errors.push(ParseError::at(span, message));
        Failed
    }

    /// Records an error of the builder.
    pub fn checked<T>(&mut self, span: Span, result: std::result::Result<T, BuildError>) -> Result<T> {
        result.map_err(|e| self.report(span, e.to_string()))
    }

    /// Gives a name a meaning; it must have none yet.
    pub(super) fn bind(&mut self, name: &Name, binding: Binding) {
        if self.names.contains_key(&name.text) {
            self.report(name.span, format!("`{}` is defined already", name.text));
            return;
        }
        if let Binding::Value(v) = binding
            && is_free_name(&name.text)
            && self.b.kernel().names[v].is_empty()
        {
            self.b.set_name(v, &name.text);
        }
        self.mean(&name.text, binding);
    }

    /// Gives a name a meaning until its scope closes.
    pub(super) fn mean(&mut self, name: &str, binding: Binding) {
        let before = self.names.insert(name.to_owned(), binding);
        if let Some(scope) = self.scopes.last_mut() {
            scope.push((name.to_owned(), before));
        }
    }

    /// Marks names whose definition could not be read. Their uses are not reported again.
    fn bind_wrong(&mut self, names: &[Name]) {
        for name in names.iter().filter(|n| !self.names.contains_key(&n.text)).collect::<Vec<_>>() {
            self.bind(name, Binding::Wrong);
        }
    }

    fn close_scope(&mut self) {
        for (name, before) in self.scopes.pop().into_iter().flatten().rev() {
            match before {
                Some(before) => self.names.insert(name, before),
                None => self.names.remove(&name),
            };
        }
    }

    pub(super) fn lookup(&mut self, name: &str, span: Span) -> Result<Binding> {
        match self.names.get(name) {
            Some(Binding::Wrong) => Err(Failed),
            Some(&b) => Ok(b),
            None if is_ident(name) => {
                let meant = did_you_mean_word(name, self.names.keys().map(String::as_str));
                Err(self.report(span, format!("unknown name `{name}`{meant}")))
            }
            None => Err(Failed),
        }
    }

    /// Writes statements up to the `yield` that ends them, which is returned.
    fn statements<'t>(&mut self, body: &'t Body) -> Option<&'t Statement> {
        for (i, s) in body.statements.iter().enumerate() {
            if matches!(s.kind, StatementKind::Yield(_) | StatementKind::Wrong { yields: true, .. }) {
                if i + 1 < body.statements.len() {
                    self.report(s.span, "`yield` must end its block".to_owned());
                }
                return Some(s);
            }
            self.statement(s);
        }
        None
    }

    fn statement(&mut self, s: &Statement) {
        match &s.kind {
            StatementKind::Let { names, expr, .. } if names.is_empty() && Self::assumed(expr).is_some() => {
                drop(self.assume(s.span, expr));
            }
            StatementKind::Let { names, attrs, expr, ty } => {
                let made = self.bound(s.span, names.len(), expr, ty.as_ref()).inspect(|l| {
                    if let (Some(inst), Some(attrs)) = (l.inst, attrs) {
                        self.b.set_attrs(inst, (**attrs).clone());
                    }
                });
                for (i, name) in names.iter().enumerate() {
                    let value = made.as_ref().ok().and_then(|l| l.values.get(i));
                    self.bind(name, value.map_or(Binding::Wrong, |v| Binding::Value(*v)));
                }
            }
            StatementKind::Const(all) => all.iter().for_each(|(n, e)| self.constant(s, n, e)),
            StatementKind::Tunable(all) => all.iter().for_each(|t| self.tunable(s, t)),
            StatementKind::Grid(extents) => drop(self.grid(s.span, extents)),
            StatementKind::Wrong { names, .. } => self.bind_wrong(names),
            StatementKind::Yield(_) => {}
        }
    }

    /// A name of the whole kernel that is neither a value nor taken.
    fn is_new(&mut self, s: &Statement, name: &Name, what: &str) -> bool {
        if self.scopes.len() > 1 {
            self.report(s.span, format!("{what} belong outside loops"));
            return false;
        }
        let taken = self.names.contains_key(&name.text);
        if taken {
            self.bind(name, Binding::Wrong);
        }
        !taken
    }

    /// Its uses are the number already.
    fn constant(&mut self, s: &Statement, name: &Name, value: &Expr) {
        if !self.is_new(s, name, "constants") {
            return;
        }
        if let Some(value) = super::constants::number(value) {
            let made = self.b.constant(&name.text, value);
            let _reported = self.checked(name.span, made);
        }
        self.bind(name, Binding::Wrong);
    }

    fn tunable(&mut self, s: &Statement, text: &TunableText) {
        let name = &text.name;
        if !self.is_new(s, name, "tunables") {
            return;
        }
        let made = match &text.domain {
            Domain::Any => self.b.tunable(&name.text, text.default),
            domain => self.b.tunable_in(&name.text, text.default, domain.clone()),
        };
        let binding = self.checked(name.span, made).map(Binding::Tunable);
        self.bind(name, binding.unwrap_or(Binding::Wrong));
    }

    fn grid(&mut self, span: Span, extents: &[Expr]) -> Result<()> {
        if !self.b.kernel().grid.is_empty() {
            return Err(self.report(span, "a kernel has one grid".to_owned()));
        }
        let values = self.values(extents, Some(Elem::I32))?;
        let set = self.b.set_grid(&values);
        self.checked(span, set)
    }

    /// The right side of a binding, which must give as many values as there are names.
    fn bound(&mut self, span: Span, names: usize, expr: &Expr, ty: Option<&TypeText>) -> Result<Lowered> {
        if let Some(ty) = ty {
            return self.typed_literal(expr, ty);
        }
        if let Kind::Call(call) = &expr.kind
            && call.name == "block_index"
            && call.args.is_empty()
        {
            return self.block_indices(expr.span, names);
        }
        let made = self.root(expr)?;
        let unnamed = names == 0 && matches!(expr.kind, Kind::Region(_));
        match made.values.len() {
            n if n == names || unnamed => Ok(made),
            0 if is_update(expr) => {
                let message = "an update gives what was there if a type behind its operands says so: `old = atomic_add v[i], \
                               x : i32[B] where c`";
                Err(self.report(span, message.to_owned()))
            }
            n => Err(self.report(span, miscounted(names, n))),
        }
    }

    fn typed_literal(&mut self, expr: &Expr, ty: &TypeText) -> Result<Lowered> {
        if ty.dims.is_some() || !is_literal(expr) && !matches!(expr.kind, Kind::Bool(_)) {
            let message = "only a literal may have a scalar type here".to_owned();
            return Err(self.report(ty.span, message));
        }
        let value = self.value(expr, Some(ty.elem))?;
        if self.b.kernel().ty(value) != Type::Scalar(ty.elem) {
            return Err(self.report(expr.span, format!("this is no {}", ty.elem)));
        }
        Ok(self.single(value))
    }

    fn block_indices(&mut self, span: Span, names: usize) -> Result<Lowered> {
        let mut all = Lowered { inst: None, values: Vec::new() };
        self.b.set_loc(span.loc);
        for d in 0..names.max(1) {
            let made = self.b.block_index(u8::try_from(d).unwrap_or(u8::MAX));
            all.values.push(self.checked(span, made)?);
        }
        all.inst = self.b.kernel().def(all.values[0]);
        Ok(all)
    }

    fn single(&self, value: Value) -> Lowered {
        Lowered { inst: self.b.kernel().def(value), values: vec![value] }
    }

    /// Any expression, with all its results.
    fn root(&mut self, expr: &Expr) -> Result<Lowered> {
        match &expr.kind {
            Kind::Region(region) => {
                let inst = self.region(expr.span, region)?;
                Ok(self.lowered(inst))
            }
            Kind::Call(call) => {
                let inst = self.call(expr.span, call, None)?;
                Ok(self.lowered(inst))
            }
            Kind::Name(_) => {
                let value = self.value(expr, None)?;
                Ok(Lowered { inst: None, values: vec![value] })
            }
            Kind::Unknown(word, args) if self.functions.has(word) => {
                self.inlined(expr.span, word, args).map(|values| Lowered { inst: None, values })
            }
            _ => self.value(expr, None).map(|v| self.single(v)),
        }
    }

    fn lowered(&self, inst: Inst) -> Lowered {
        Lowered { inst: Some(inst), values: self.b.results(inst).to_vec() }
    }

    /// An expression with one result. `hint` is the type that a literal takes.
    pub fn value(&mut self, expr: &Expr, hint: Option<Elem>) -> Result<Value> {
        self.b.set_loc(expr.span.loc);
        match &expr.kind {
            Kind::Int(v) => self.int(expr.span, *v, hint.unwrap_or(Elem::I32)),
            Kind::Float(v) => {
                let elem = hint.filter(|e| e.is_float()).unwrap_or(Elem::F32);
                let made = self.b.float(*v, elem);
                self.checked(expr.span, made)
            }
            Kind::Bool(v) => {
                let made = self.b.int(i64::from(*v), Elem::Bool);
                self.checked(expr.span, made)
            }
            Kind::Name(name) => self.named(name, expr.span),
            Kind::Call(call) => {
                let inst = self.call(expr.span, call, hint)?;
                match *self.b.results(inst) {
                    [value] => Ok(value),
                    ref all => {
                        let message = format!("`{}` gives {} values, not one", call.name, all.len());
                        Err(self.report(expr.span, message))
                    }
                }
            }
            Kind::Unknown(word, args) if self.functions.has(word) => {
                match self.inlined(expr.span, word, args)?[..] {
                    [value] => Ok(value),
                    ref all => {
                        let message = format!("`{word}` gives {} values, not one", all.len());
                        Err(self.report(expr.span, message))
                    }
                }
            }
            Kind::Unknown(word, _) => Err(self.unknown(word, expr.span)),
            Kind::Index(..) => {
                let message = "`view[..]` is a place; `load view[..] : type` reads it".to_owned();
                Err(self.report(expr.span, message))
            }
            Kind::List(_) => {
                let message =
                    "a list stands for one index of a `load`: `load v[[a, b], j] : type`".to_owned();
                Err(self.report(expr.span, message))
            }
            Kind::Str(_) | Kind::Region(_) => Err(self.report(expr.span, "this is no value".to_owned())),
        }
    }

    pub fn values(&mut self, exprs: &[Expr], hint: Option<Elem>) -> Result<Vec<Value>> {
        exprs.iter().map(|e| self.value(e, hint)).collect()
    }

    fn int(&mut self, span: Span, value: i128, elem: Elem) -> Result<Value> {
        if elem.is_float() {
            let made = self.b.float(value as f64, elem);
            return self.checked(span, made);
        }
        let Some(stored) = int_in(value, elem) else {
            return Err(self.report(span, format!("{value} does not fit {elem}")));
        };
        let made = self.b.int(stored, elem);
        self.checked(span, made)
    }

    /// A word with operands that is no operation.
    fn unknown(&mut self, word: &str, span: Span) -> Failed {
        let message = match self.names.contains_key(word) {
            true => format!("`{word}` is a name and takes no operands"),
            false => {
                let mut known: Vec<&str> = words().collect();
                known.extend(self.functions.names());
                let meant = did_you_mean_word(word, known);
                format!("there is no operation `{word}`{meant}")
            }
        };
        self.report(span, message)
    }

    fn named(&mut self, name: &str, span: Span) -> Result<Value> {
        match self.lookup(name, span)? {
            Binding::Value(v) => Ok(v),
            Binding::Tunable(t) => {
                let made = self.b.dim(Dim::tunable(t));
                self.checked(span, made)
            }
            Binding::Wrong => Err(Failed),
        }
    }

    /// An extent: a number or one or two tunables, times and divided by numbers, plus or less a number.
    pub fn dim(&mut self, expr: &Expr) -> Result<Dim> {
        let dim = match &expr.kind {
            Kind::Int(v) => u32::try_from(*v).ok().map(Dim::new),
            Kind::Name(name) => match self.lookup(name, expr.span)? {
                Binding::Tunable(t) => Some(Dim::tunable(t)),
                _ => None,
            },
            Kind::Call(call) => match (call.name, &call.args[..]) {
                ("*", [x, y]) => self.dim(x)?.times(self.dim(y)?),
                ("+", [x, y]) => self.dim(x)?.plus(self.dim(y)?),
                ("-", [x, y]) => self.dim(x)?.minus(self.dim(y)?),
                ("/", [d, n]) if small(n).is_some() => self.dim(d)?.scaled(1, small(n).unwrap_or(1)),
                _ => None,
            },
            _ => None,
        };
        dim.ok_or_else(|| {
            let message =
                "an extent is a number or one or two tunables, times or over numbers, plus or less a number"
                    .to_owned();
            self.report(expr.span, message)
        })
    }

    pub fn dims(&mut self, exprs: &[Expr]) -> Result<Vec<Dim>> {
        exprs.iter().map(|e| self.dim(e)).collect()
    }

    /// `elem[dims]`
    pub fn tile_type(&mut self, ty: &TypeText) -> Result<(Elem, Shape)> {
        let Some(dims) = &ty.dims else {
            return Err(self.report(ty.span, "a tile needs extents in brackets".to_owned()));
        };
        match Shape::new(&self.dims(dims)?) {
            Some(shape) => Ok((ty.elem, shape)),
            None => Err(self.report(ty.span, "a tile has at most 5 dimensions".to_owned())),
        }
    }
}

/// Loops and branches.
impl Lower<'_> {
    fn region(&mut self, span: Span, region: &Region) -> Result<Inst> {
        match region {
            Region::For { counter, lo, hi, step, carried, body } => {
                let args = self.range(lo, hi, step.as_ref())?;
                let init = self.inits(carried)?;
                self.b.set_loc(span.loc);
                let begun = self.b.begin_for(args[0], args[1], args[2], &init);
                let (at, values) = self.checked(span, begun)?;
                self.scopes.push(Vec::new());
                self.bind(counter, Binding::Value(at));
                self.loop_body(carried, &values, body)
            }
            Region::While { carried, body } => {
                let init = self.inits(carried)?;
                self.b.set_loc(span.loc);
                let begun = self.b.begin_while(&init);
                let values = self.checked(span, begun)?;
                self.scopes.push(Vec::new());
                self.loop_body(carried, &values, body)
            }
            Region::If { condition, then, other } => self.branch(span, condition, then, other.as_ref()),
        }
    }

    /// `lo, hi, step` of one type; a missing step is 1.
    fn range(&mut self, lo: &Expr, hi: &Expr, step: Option<&Expr>) -> Result<[Value; 3]> {
        let (lo, hi) = self.pair(lo, hi, Some(Elem::I32))?;
        let elem = self.b.kernel().ty(lo).elem();
        let step = match step {
            Some(step) => self.value(step, Some(elem))?,
            None => {
                let made = self.b.int(1, elem);
                self.checked(Span::default(), made)?
            }
        };
        Ok([lo, hi, step])
    }

    fn inits(&mut self, carried: &[(Name, Expr)]) -> Result<Vec<Value>> {
        carried.iter().map(|(_, e)| self.value(e, None)).collect()
    }

    /// The body of a loop that is open, and its end.
    fn loop_body(&mut self, carried: &[(Name, Expr)], values: &[Value], body: &Body) -> Result<Inst> {
        for ((name, _), &value) in carried.iter().zip(values) {
            self.bind(name, Binding::Value(value));
        }
        let yields = self.block(body);
        self.close_scope();
        self.end(body.end, yields)
    }

    /// Statements of a block in an open scope. Returns its yielded values.
    pub(super) fn block(&mut self, body: &Body) -> Result<Vec<Value>> {
        let Some(last) = self.statements(body) else {
            return Ok(Vec::new());
        };
        let StatementKind::Yield(exprs) = &last.kind else {
            return Err(Failed);
        };
        // What a function yields at its end is no loop's.
        let own = self.calls.is_empty() || self.scopes.len() > FUNCTION_SCOPES;
        let wanted = if own { self.b.wanted_yields() } else { &[] };
        let wanted: Vec<Elem> = wanted.iter().map(|t| t.elem()).collect();
        let mut values = Vec::with_capacity(exprs.len());
        for (i, e) in exprs.iter().enumerate() {
            match &e.kind {
                // The `if` of an `else if`.
                Kind::Region(_) => values.extend(self.root(e)?.values),
                _ => values.push(self.value(e, wanted.get(i).copied())?),
            }
        }
        self.b.set_loc(last.span.loc);
        Ok(values)
    }

    fn end(&mut self, span: Span, yields: Result<Vec<Value>>) -> Result<Inst> {
        let ended = match yields {
            Ok(values) => self.b.end(&values),
            Err(failed) => {
                self.b.abandon();
                return Err(failed);
            }
        };
        if ended.is_err() {
            self.b.abandon();
        }
        self.checked(span, ended)
    }

    fn branch(&mut self, span: Span, condition: &Expr, then: &Body, other: Option<&Body>) -> Result<Inst> {
        let condition = self.value(condition, None)?;
        self.b.set_loc(span.loc);
        let begun = self.b.begin_if(condition);
        self.checked(span, begun)?;
        let yields = self.branch_block(then);
        let begun = match yields {
            Ok(values) => self.b.begin_else(&values),
            Err(failed) => {
                self.b.abandon();
                return Err(failed);
            }
        };
        self.checked(then.end, begun)?;
        let yields = other.map_or(Ok(Vec::new()), |body| self.branch_block(body));
        self.end(other.map_or(then.end, |b| b.end), yields)
    }

    fn branch_block(&mut self, body: &Body) -> Result<Vec<Value>> {
        self.scopes.push(Vec::new());
        let yields = self.block(body);
        self.close_scope();
        yields
    }

    /// Appends an instruction at a place.
    pub fn inst(&mut self, span: Span, op: Op, args: &[Value], want: Option<Type>) -> Result<Inst> {
        self.b.set_loc(span.loc);
        let made = self.b.inst(op, args, want);
        self.checked(span, made)
    }
}

/// Whether it is an atomic update.
fn is_update(expr: &Expr) -> bool {
    matches!(&expr.kind, Kind::Call(call) if find(&ATOMIC, call.name).is_some())
}

/// The message about a statement with different numbers of names and values.
fn miscounted(names: usize, values: usize) -> String {
    match (names, values) {
        (0, n) => format!("nothing takes the {} of this: write `name = ..`", plural(n as u64, "value")),
        (_, 0) => "this gives no value: leave out the names and `=`".to_owned(),
        (m, n) => {
            format!("{} for {}: write one name for each", plural(m as u64, "name"), plural(n as u64, "value"))
        }
    }
}

/// Whether an expression is a number without a type of its own.
pub(super) fn is_literal(expr: &Expr) -> bool {
    matches!(expr.kind, Kind::Int(_) | Kind::Float(_))
}

/// A number literal that fits u32.
fn small(expr: &Expr) -> Option<u32> {
    match expr.kind {
        Kind::Int(v) => u32::try_from(v).ok(),
        _ => None,
    }
}

/// The integer as the IR keeps it (64 bits, two's complement), if it is in the type's range. What
/// the printer writes for a u64 above `i64::MAX` is negative, and reads back.
fn int_in(value: i128, elem: Elem) -> Option<i64> {
    let bits = elem.bits();
    let (least, most) = match elem {
        Elem::Uint(64) => (i128::from(i64::MIN), i128::from(u64::MAX)),
        Elem::Uint(_) => (0, (1 << bits) - 1),
        Elem::Int(_) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        _ => return None,
    };
    (least..=most).contains(&value).then_some(value as i64)
}
