//! Operations by name, from the tree to instructions.

use super::ast::*;
use super::lex::Span;
use super::lower::{Failed, Lower, Result, is_literal};
use crate::plural;
use crate::tile::names::{ARG_REDUCE, ATOMIC, BINARY, INFIX, Infix, REDUCE, SCAN, UNARY, find};
use crate::tile::{Inst, MAX_RANK, MemorySync, Op, Shape, Type, UnOp, Value};
use crate::types::Elem;
use smallvec::{SmallVec, smallvec};

impl Lower<'_> {
    /// An operation. `hint` is the type that it should have if its operands are literals only.
    pub fn call(&mut self, span: Span, call: &Call, hint: Option<Elem>) -> Result<Inst> {
        if let Some(op) = two_operands(call.name) {
            let (x, y) = match op {
                Op::Compare(_) => self.pair(&call.args[0], &call.args[1], None)?,
                _ => self.pair(&call.args[0], &call.args[1], hint)?,
            };
            return self.elementwise(span, op, &[x, y]);
        }
        if let Some(op) = find(&UNARY, call.name) {
            let x = self.value(&call.args[0], hint)?;
            return self.inst(span, Op::Unary(op), &[x], None);
        }
        if let Some(op) = find(&ATOMIC, call.name) {
            return self.store(span, Op::Atomic(op), call);
        }
        match call.name {
            "workspace" => return self.workspace(span, call),
            "arrive" => return self.arrive(span, call),
            _ => {}
        }
        match &call.args[..] {
            [] => self.nullary(span, call),
            [x] => self.one(span, call, x),
            args => self.several(span, call, args),
        }
    }

    /// Two operands, of which a literal takes the type of the other.
    pub fn pair(&mut self, x: &Expr, y: &Expr, hint: Option<Elem>) -> Result<(Value, Value)> {
        match (is_literal(x), is_literal(y)) {
            (true, false) => {
                let right = self.value(y, hint)?;
                let elem = self.b.kernel().ty(right).elem();
                Ok((self.value(x, Some(elem))?, right))
            }
            (false, _) => {
                let left = self.value(x, hint)?;
                let elem = self.b.kernel().ty(left).elem();
                let hint = if is_literal(y) { Some(elem) } else { hint };
                Ok((left, self.value(y, hint)?))
            }
            (true, true) => {
                let float = |e: &Expr| matches!(e.kind, Kind::Float(_));
                let own = (float(x) || float(y)).then_some(Elem::F32);
                let hint = hint.filter(|h| own.is_none() || h.is_float()).or(own);
                Ok((self.value(x, hint)?, self.value(y, hint)?))
            }
        }
    }

    /// An elementwise operation; tiles of different shape are broadcast to their common one.
    fn elementwise(&mut self, span: Span, op: Op, args: &[Value]) -> Result<Inst> {
        let shapes: SmallVec<[Option<Shape>; 4]> =
            args.iter().map(|&v| self.b.kernel().ty(v).shape()).collect();
        let common = shapes.iter().flatten().copied().map(Some);
        let common = common.reduce(|a, b| a?.common(&b?)).flatten();
        let mut grown: SmallVec<[Value; 4]> = args.into();
        for (i, shape) in shapes.iter().enumerate() {
            if let (Some(own), Some(all)) = (shape, common)
                && !own.same(&all)
            {
                self.b.set_loc(span.loc);
                let made = self.b.broadcast(args[i], all);
                grown[i] = self.checked(span, made)?;
            }
        }
        self.inst(span, op, &grown, None)
    }

    fn nullary(&mut self, span: Span, call: &Call) -> Result<Inst> {
        let op = match call.name {
            "program_id" => Op::ProgramId,
            "program_count" => Op::ProgramCount,
            "unbounded" => Op::Unbounded,
            "async_commit" => Op::AsyncCommit,
            "shared" => return self.shared(span, call),
            _ => Op::BlockIndex(0),
        };
        self.inst(span, op, &[], None)
    }

    fn one(&mut self, span: Span, call: &Call, x: &Expr) -> Result<Inst> {
        let op = match call.name {
            "block_index" => Op::BlockIndex(self.small(x)?),
            "grid_dim" => Op::GridDim(self.small(x)?),
            "dim" => Op::Dim(self.dim(x)?),
            "async_wait" => Op::AsyncWait(self.small(x)?),
            "print" => Op::Print(self.text(x)?),
            _ => return self.one_value(span, call, x),
        };
        self.inst(span, op, &[], None)
    }

    fn one_value(&mut self, span: Span, call: &Call, x: &Expr) -> Result<Inst> {
        match call.name {
            "load" => return self.load(span, Op::Load, call),
            "async_copy" => return self.load(span, Op::AsyncCopy, call),
            "view" => return self.view(span, call, x),
            "assert" => {
                let condition = self.value(x, None)?;
                return self.inst(span, Op::Assert(String::new()), &[condition], None);
            }
            "subview" => return self.sub_view(span, x),
            "assume" => {
                let value = self.value(x, None)?;
                return self.inst(span, Op::Assume(call.promise), &[value], None);
            }
            "iota" => {
                let op = Op::Iota(self.small(x)?);
                let want = self.want(span, call)?;
                return self.inst(span, op, &[], Some(want));
            }
            _ => {}
        }
        let hint = call.ty.as_ref().map(|t| t.elem);
        let value = self.value(x, hint)?;
        let op = match call.name {
            "full" => Op::Full,
            "broadcast" => Op::Broadcast,
            "reshape" => Op::Reshape,
            "split" => Op::Split,
            "rearrange" => Op::Rearrange,
            "to_index" => Op::ToIndex,
            _ => Op::Trans(smallvec![1, 0]),
        };
        let want = match call.ty {
            Some(_) => Some(self.want(span, call)?),
            None => None,
        };
        self.inst(span, op, &[value], want)
    }

    /// A product. A `-` before its left operand subtracts it, if that is a float.
    fn mma(&mut self, span: Span, args: &[Expr]) -> Result<Inst> {
        let inner = match &args[1].kind {
            Kind::Call(call) if call.name == "neg" => Some(&call.args[0]),
            _ => None,
        };
        let mut values = vec![self.value(&args[0], None)?, self.value(inner.unwrap_or(&args[1]), None)?];
        let negated = inner.is_some() && self.b.kernel().ty(values[1]).elem().is_float();
        if inner.is_some() && !negated {
            let neg = self.inst(args[1].span, Op::Unary(UnOp::Neg), &values[1..], None)?;
            values[1] = self.b.kernel().result(neg);
        }
        values.push(self.value(&args[2], None)?);
        self.inst(span, Op::Mma { negated }, &values, None)
    }

    fn several(&mut self, span: Span, call: &Call, args: &[Expr]) -> Result<Inst> {
        let last = &args[args.len() - 1];
        match call.name {
            "select" => {
                let c = self.value(&args[0], None)?;
                let (x, y) = self.pair(&args[1], &args[2], None)?;
                return self.elementwise(span, Op::Select, &[c, x, y]);
            }
            "fma" => {
                let [x, y, z] = [&args[0], &args[1], &args[2]].map(|a| self.value(a, None));
                return self.elementwise(span, Op::Fma, &[x?, y?, z?]);
            }
            "store" => return self.store(span, Op::Store, call),
            "mma" => return self.mma(span, args),
            "join" => {
                let values = self.values(args, None)?;
                return self.inst(span, Op::Join, &values, None);
            }
            "print" => {
                let op = Op::Print(self.text(&args[0])?);
                let values = self.values(&args[1..], None)?;
                return self.inst(span, op, &values, None);
            }
            "gather" => {
                let values = self.values(&args[..2], None)?;
                let op = Op::Gather(self.small(last)?);
                return self.inst(span, op, &values, None);
            }
            _ => {}
        }
        let x = self.value(&args[0], None)?;
        if let Some(op) = find(&ARG_REDUCE, call.name) {
            let dim = self.small(last)?;
            self.b.set_loc(span.loc);
            let made = self.b.arg_reduce_inst(op, x, dim);
            return self.checked(span, made);
        }
        let (op, want) = self.attribute(span, call, last)?;
        self.inst(span, op, &[x], want)
    }

    /// Operations of one value whose second operand in the text is an attribute.
    fn attribute(&mut self, span: Span, call: &Call, last: &Expr) -> Result<(Op, Option<Type>)> {
        if let Some(op) = find(&REDUCE, call.name) {
            return Ok((Op::Reduce(op, self.small(last)?), None));
        }
        if let Some(op) = find(&SCAN, call.name) {
            return Ok((Op::Scan(op, self.small(last)?), None));
        }
        Ok(match call.name {
            "cast" => (Op::Cast, Some(Type::Scalar(self.elem(last)?))),
            "view_as" => (Op::ViewAs(self.elem(last)?), None),
            "expand_dims" => (Op::ExpandDims(self.small(last)?), None),
            "assert" => (Op::Assert(self.text(last)?), None),
            "slice" => {
                let offsets = self.list(last)?;
                let offsets = self.dims(offsets)?;
                (Op::Slice(offsets.into()), Some(self.want(span, call)?))
            }
            _ => {
                let perm: Result<SmallVec<[u8; MAX_RANK]>> =
                    self.list(last)?.iter().map(|e| self.small(e)).collect();
                (Op::Trans(perm?), None)
            }
        })
    }

    /// The view and indices of `view[i, j]`.
    fn access(&mut self, expr: &Expr) -> Result<Vec<Value>> {
        let Kind::Index(view, index) = &expr.kind else {
            return Err(self.report(expr.span, "expected `view[index, ..]`".to_owned()));
        };
        let mut args = vec![self.value(view, None)?];
        args.extend(self.values(index, Some(Elem::I32))?);
        Ok(args)
    }

    /// `view[index, _, ..]`: `_` keeps a dimension.
    fn sub_view(&mut self, span: Span, expr: &Expr) -> Result<Inst> {
        let Kind::Index(view, index) = &expr.kind else {
            return Err(self.report(expr.span, "expected `view[index, _, ..]`".to_owned()));
        };
        let keeps = |e: &&Expr| matches!(&e.kind, Kind::Name(n) if n == "_");
        let mut args = vec![self.value(view, None)?];
        for e in index.iter().filter(|e| !keeps(e)) {
            args.push(self.value(e, Some(Elem::I32))?);
        }
        let kept = (0u8..).zip(index).filter(|(_, e)| keeps(e)).map(|(d, _)| d).collect();
        self.inst(span, Op::SubView(kept), &args, None)
    }

    /// `load view[[a, b], j]`: each part of the tile along that dimension has a start of its own.
    fn load_runs(&mut self, span: Span, call: &Call, dim: usize) -> Result<Inst> {
        let Kind::Index(view, index) = &call.args[0].kind else {
            return Err(self.report(span, "expected `view[index, ..]`".to_owned()));
        };
        if let Some(mask) = &call.mask {
            return Err(self.report(mask.span, "a load of parts has no mask".to_owned()));
        }
        let mut args = vec![self.value(view, None)?];
        for (d, e) in index.iter().enumerate() {
            match &e.kind {
                Kind::List(starts) if d == dim => args.extend(self.values(starts, Some(Elem::I32))?),
                _ => args.push(self.value(e, Some(Elem::I32))?),
            }
        }
        let want = self.want(span, call)?;
        self.inst(span, Op::LoadRuns(dim as u8), &args, Some(want))
    }

    fn load(&mut self, span: Span, op: Op, call: &Call) -> Result<Inst> {
        let list = |index: &Vec<Expr>| index.iter().position(|e| matches!(e.kind, Kind::List(_)));
        if let (Op::Load, Kind::Index(_, index)) = (&op, &call.args[0].kind)
            && let Some(dim) = list(index)
        {
            return self.load_runs(span, call, dim);
        }
        let args = self.access(&call.args[0])?;
        let want = match &call.ty {
            Some(ty) if ty.dims.is_none() => Type::Scalar(ty.elem),
            _ => self.want(span, call)?,
        };
        let mask = self.mask(call)?;
        match (op, want) {
            (Op::Load, Type::Tile(_, shape)) if self.gathers(&args, mask) => {
                self.b.set_loc(span.loc);
                let made = self.b.gather_inst(args[0], &args[1..], mask, shape);
                self.checked(span, made)
            }
            (op, want) => self.inst(span, op, &args, Some(want)),
        }
    }

    fn store(&mut self, span: Span, op: Op, call: &Call) -> Result<Inst> {
        let args = self.access(&call.args[0])?;
        let hint = match self.b.kernel().ty(args[0]) {
            Type::View(elem, _) => Some(elem),
            _ => None,
        };
        let given = call.args[1..].iter().map(|e| self.value(e, hint)).collect::<Result<Vec<_>>>()?;
        let mask = self.mask(call)?;
        let old = call.ty.is_some();
        let op = match old || self.gathers(&args, mask) || call.sync != MemorySync::default() {
            true => op.scattered(old, mask.is_some(), call.sync),
            false => op,
        };
        self.b.set_loc(span.loc);
        let made = self.b.scatter(op, args[0], &args[1..], &given, mask);
        let made = self.checked(span, made)?;
        self.given_old(span, call, made)
    }

    /// `workspace a, b : f32`
    fn workspace(&mut self, span: Span, call: &Call) -> Result<Inst> {
        let args = self.values(&call.args, Some(Elem::I32))?;
        let elem = call.ty.as_ref().filter(|ty| ty.dims.is_none()).map(|ty| ty.elem);
        let Some(elem) = elem else {
            return Err(
                self.report(span, "`workspace` needs the type of an element: `workspace n : f32`".to_owned())
            );
        };
        self.inst(span, Op::Workspace, &args, Some(Type::Ptr(elem)))
    }

    /// `shared f16[BM, 64] layout ".."`
    fn shared(&mut self, span: Span, call: &Call) -> Result<Inst> {
        let ty = call.ty.as_ref();
        let extents = ty.and_then(|t| t.dims.as_deref()).unwrap_or_default();
        let args = self.values(extents, Some(Elem::I32))?;
        let rank = u8::try_from(extents.len()).unwrap_or(u8::MAX);
        let want = ty.map(|t| Type::View(t.elem, rank));
        self.inst(span, Op::Shared { layout: call.layout.clone() }, &args, want)
    }

    /// `arrive view[i, j], n`
    fn arrive(&mut self, span: Span, call: &Call) -> Result<Inst> {
        let mut args = self.access(&call.args[0])?;
        args.push(self.value(&call.args[1], Some(Elem::I32))?);
        self.inst(span, Op::Arrive, &args, None)
    }

    /// An atomic operation whose result has the type that the text says, if it says one.
    fn given_old(&mut self, span: Span, call: &Call, made: Inst) -> Result<Inst> {
        let Some(ty) = &call.ty else { return Ok(made) };
        let shape = if ty.dims.is_some() { Some(self.tile_type(ty)?.1) } else { None };
        let old = self.b.kernel().ty(self.b.kernel().result(made));
        let same = match (old.shape(), shape) {
            (Some(old), Some(shape)) => old.same(&shape),
            (old, shape) => old.is_none() && shape.is_none(),
        };
        match same && old.elem() == ty.elem {
            true => Ok(made),
            false => Err(self.gives_what_was_there(span, call)),
        }
    }

    fn gives_what_was_there(&mut self, span: Span, call: &Call) -> Failed {
        self.report(span, format!("`{}` gives what is there: the type of its operand", call.name))
    }

    /// The condition behind `where`.
    fn mask(&mut self, call: &Call) -> Result<Option<Value>> {
        call.mask.as_ref().map(|e| self.value(e, None)).transpose()
    }

    /// Whether an access with these operands has an index for each element, or a mask.
    fn gathers(&self, access: &[Value], mask: Option<Value>) -> bool {
        let tile = |v: &Value| matches!(self.b.kernel().ty(*v), Type::Tile(..));
        mask.is_some() || access[1..].iter().any(tile)
    }

    fn view(&mut self, span: Span, call: &Call, ptr: &Expr) -> Result<Inst> {
        let mut args = vec![self.value(ptr, None)?];
        let ty = call.ty.as_ref();
        let extents = ty.and_then(|t| t.dims.as_deref()).unwrap_or_default();
        args.extend(self.values(extents, Some(Elem::I32))?);
        if let Some(strides) = &call.strides {
            if strides.len() != extents.len() {
                let (e, s) = (plural(extents.len() as u64, "extent"), plural(strides.len() as u64, "stride"));
                return Err(self.report(span, format!("a view with {e} and {s}: each extent has one stride")));
            }
            args.extend(self.values(strides, Some(Elem::I32))?);
        }
        let rank = u8::try_from(extents.len()).unwrap_or(u8::MAX);
        let want = ty.map(|t| Type::View(t.elem, rank));
        let op = Op::View { strided: call.strides.is_some(), fill: call.fill };
        self.inst(span, op, &args, want)
    }

    /// The tile type that follows an operation.
    fn want(&mut self, span: Span, call: &Call) -> Result<Type> {
        match &call.ty {
            Some(ty) => self.tile_type(ty).map(|(e, s)| Type::Tile(e, s)),
            None => Err(self.report(span, format!("`{}` needs `: type`", call.name))),
        }
    }

    /// A small number: a dimension or count.
    fn small<T: TryFrom<i128>>(&mut self, expr: &Expr) -> Result<T> {
        let value = match expr.kind {
            Kind::Int(v) => T::try_from(v).ok(),
            _ => None,
        };
        value.ok_or_else(|| self.report(expr.span, "expected a small number".to_owned()))
    }

    fn text(&mut self, expr: &Expr) -> Result<String> {
        match &expr.kind {
            Kind::Str(s) => Ok(s.clone()),
            _ => Err(self.report(expr.span, "expected a string".to_owned())),
        }
    }

    fn elem(&mut self, expr: &Expr) -> Result<Elem> {
        let elem = match &expr.kind {
            Kind::Name(name) => Elem::from_name(name),
            _ => None,
        };
        elem.ok_or_else(|| self.report(expr.span, "expected an element type".to_owned()))
    }

    fn list<'t>(&mut self, expr: &'t Expr) -> Result<&'t [Expr]> {
        match &expr.kind {
            Kind::List(items) => Ok(items),
            _ => Err(self.report(expr.span, "expected a list in brackets".to_owned())),
        }
    }
}

fn two_operands(name: &str) -> Option<Op> {
    let infix = INFIX.iter().find(|r| r.0 == name).map(|r| r.2);
    match infix {
        Some(Infix::Binary(op)) => Some(Op::Binary(op)),
        Some(Infix::Compare(op)) => Some(Op::Compare(op)),
        None => find(&BINARY, name).map(Op::Binary),
    }
}
