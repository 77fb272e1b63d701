//! Kernels and mappings as text: one instruction on each line, with a name for every value. The text reads back to the
//! same kernel. A value has its own name if that is legal and not in scope already, else its number, `v12`.

use super::dims::{DimText, TypeText};
use super::mapping::FLAGS;
use super::names::{BINARY, ORDERS, SCOPES, find, is_free_name, name_of};
use super::*;
use rustc_hash::FxHashSet;
use std::borrow::Cow;
use std::fmt::{Display, Formatter, Result, Write};
use std::ops::Range;

impl Display for Kernel {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let mut printer = Printer {
            kernel: self,
            names: SecondaryMap::new(),
            used: FxHashSet::default(),
            indent: 1,
            grid_printed: false,
        };
        printer.kernel(f)
    }
}

struct Printer<'a> {
    kernel: &'a Kernel,
    /// Names of the values printed so far; empty where the number serves.
    names: SecondaryMap<Value, &'a str>,
    /// Names in sight.
    used: FxHashSet<&'a str>,
    indent: usize,
    grid_printed: bool,
}

impl<'a> Printer<'a> {
    fn kernel(&mut self, f: &mut Formatter<'_>) -> Result {
        let kernel = self.kernel;
        write!(f, "kernel {}(", kernel.name)?;
        for (i, p) in kernel.params.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            let ty = TypeText(&kernel.tunables, kernel.ty(p.value));
            write!(f, "{comma}{}: {ty}{}", p.name, FactsText(p.facts))?;
            self.used.insert(&p.name);
            self.names[p.value] = &p.name;
        }
        f.write_str(") {\n")?;
        for c in &kernel.constants {
            writeln!(f, "    const {} = {}", c.name, ConstantText(c.value))?;
            self.used.insert(&c.name);
        }
        for t in kernel.tunables.values() {
            writeln!(f, "    tunable {}{} = {}", t.name, DomainText(&t.domain), t.default)?;
            self.used.insert(&t.name);
        }
        self.block(f, kernel.entry)?;
        f.write_str("}\n")
    }

    /// The instructions of a block, one level in.
    fn block(&mut self, f: &mut Formatter<'_>, block: Block) -> Result {
        let kernel = self.kernel;
        self.grid(f)?;
        for &inst in &kernel.blocks[block].insts {
            let op = &kernel.insts[inst].op;
            if matches!(op, Op::Yield) && (kernel.args(inst).is_empty()) {
                continue;
            }
            self.inst(f, inst)?;
            self.grid(f)?;
        }
        Ok(())
    }

    /// The grid, as soon as all its extents are printed.
    fn grid(&mut self, f: &mut Formatter<'_>) -> Result {
        let grid = &self.kernel.grid;
        let known = |v: &Value| !self.names[*v].is_empty();
        if self.grid_printed || grid.is_empty() || !grid.iter().all(known) {
            return Ok(());
        }
        self.grid_printed = true;
        self.margin(f)?;
        f.write_str("grid ")?;
        self.list(f, grid)?;
        f.write_char('\n')
    }

    fn margin(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{:1$}", "", 4 * self.indent)
    }

    fn inst(&mut self, f: &mut Formatter<'_>, inst: Inst) -> Result {
        let kernel = self.kernel;
        self.margin(f)?;
        let results = kernel.results(inst);
        results.iter().for_each(|&v| self.show(v));
        let names: Vec<Cow<'a, str>> = results.iter().map(|&v| self.name(v)).collect();
        // Within nested blocks the results are not in sight yet.
        results.iter().for_each(|&v| self.hide(v));
        if !names.is_empty() {
            write!(f, "{} = ", names.join(", "))?;
        }
        // Attributes on a yield have no meaning.
        let is_yield = matches!(kernel.insts[inst].op, Op::Yield);
        if !is_yield && kernel.attrs[inst] != Attrs::default() {
            write!(f, "{} ", AttrsText(&kernel.attrs[inst]))?;
        }
        match kernel.insts[inst].op {
            Op::For | Op::While | Op::If => self.region(f, inst)?,
            _ => self.operation(f, inst)?,
        }
        results.iter().for_each(|&v| {
            self.used.insert(self.names[v]);
        });
        f.write_char('\n')
    }

    /// The name that a value will have.
    fn choose(&self, value: Value) -> Cow<'a, str> {
        let name = self.kernel.names[value].as_str();
        if is_free_name(name) && !self.used.contains(name) {
            return Cow::Borrowed(name);
        }
        Cow::Owned(value.to_string())
    }

    /// Brings a value's name into sight.
    fn show(&mut self, value: Value) {
        self.names[value] = NUMBERED;
        if let Cow::Borrowed(name) = self.choose(value) {
            self.used.insert(name);
            self.names[value] = name;
        }
    }

    /// Takes a value's name out of sight.
    fn hide(&mut self, value: Value) {
        self.used.remove(self.names[value]);
    }

    fn name(&self, value: Value) -> Cow<'a, str> {
        match self.names[value] {
            "" | NUMBERED => Cow::Owned(value.to_string()),
            name => Cow::Borrowed(name),
        }
    }

    fn list(&self, f: &mut Formatter<'_>, values: &[Value]) -> Result {
        for (i, &v) in values.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{}", self.name(v))?;
        }
        Ok(())
    }

    fn region(&mut self, f: &mut Formatter<'_>, inst: Inst) -> Result {
        let kernel = self.kernel;
        let data = &kernel.insts[inst];
        let args = kernel.args(inst);
        let mut inits = args;
        match (&data.op, args) {
            (Op::For, [lo, hi, step, init @ ..]) => {
                let params = &kernel.blocks[data.blocks[0]].params;
                let counter = params.first().map_or("?".into(), |&v| self.choose(v));
                let [lo, hi, step] = [lo, hi, step].map(|&v| self.name(v));
                write!(f, "for {counter} in {lo}..{hi} step {step}")?;
                inits = init;
            }
            (Op::If, [condition, ..]) => write!(f, "if {}", self.name(*condition))?,
            _ => f.write_str(data.op.name())?,
        }
        for (i, &block) in data.blocks.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { " else" })?;
            let carried = if matches!(data.op, Op::If) { &[] } else { inits };
            self.nested(f, block, carried)?;
        }
        Ok(())
    }

    /// `carry x = init {` and a block in a scope of its own, with its closing brace.
    fn nested(&mut self, f: &mut Formatter<'_>, block: Block, inits: &[Value]) -> Result {
        let params = &self.kernel.blocks[block].params;
        let outer = self.used.clone();
        params.iter().for_each(|&v| self.show(v));
        let carried = &params[params.len().saturating_sub(inits.len())..];
        for (i, (&v, &init)) in carried.iter().zip(inits).enumerate() {
            let word = if i == 0 { " carry" } else { "," };
            write!(f, "{word} {} = {}", self.name(v), self.name(init))?;
        }
        f.write_str(" {\n")?;
        self.indent += 1;
        self.block(f, block)?;
        self.indent -= 1;
        self.used = outer;
        self.margin(f)?;
        f.write_char('}')
    }

    fn operation(&self, f: &mut Formatter<'_>, inst: Inst) -> Result {
        let (kernel, args) = (self.kernel, self.kernel.args(inst));
        let op = &kernel.insts[inst].op;
        let result = kernel.results(inst).first().map(|&v| kernel.ty(v));
        let ty = result.map(|t| TypeText(&kernel.tunables, t));
        let ty: &dyn Display = ty.as_ref().map_or(&"?", |t| t);
        match op {
            Op::Int(v) if result == Some(Type::Scalar(Elem::Bool)) => write!(f, "{}", *v != 0),
            Op::Int(v) => write!(f, "{v} : {ty}"),
            Op::Float(v) => write!(f, "{} : {ty}", FloatText(*v)),
            Op::Dim(d) => write!(f, "dim({})", DimText(&kernel.tunables, *d)),
            Op::BlockIndex(d) | Op::GridDim(d) => write!(f, "{}({d})", op.name()),
            Op::ProgramId | Op::ProgramCount | Op::Unbounded | Op::AsyncCommit => f.write_str(op.name()),
            Op::AsyncWait(n) => write!(f, "async_wait {n}"),
            Op::Binary(_) | Op::Compare(_) if find(&BINARY, op.name()).is_none() => {
                let [x, y] = [0, 1].map(|i| self.arg(args, i));
                write!(f, "{x} {} {y}", op.name())
            }
            Op::Iota(d) => write!(f, "iota {d} : {ty}"),
            Op::View { strided, fill } => self.view(f, args, result, *strided, *fill),
            Op::SubView(kept) => self.sub_view(f, args, kept),
            Op::Load | Op::AsyncCopy | Op::LoadGather { .. } | Op::LoadRuns(_) => {
                self.access(f, op, args, ty)
            }
            Op::Workspace => {
                f.write_str("workspace ")?;
                self.list(f, args)?;
                write!(f, " : {}", result.map_or(Elem::Bool, Type::elem))
            }
            Op::Shared { layout } => {
                write!(f, "shared {}[", result.map_or(Elem::Bool, Type::elem))?;
                self.list(f, args)?;
                f.write_char(']')?;
                layout.as_ref().map_or(Ok(()), |l| write!(f, " layout \"{l}\""))
            }
            _ if op.is_write() => self.access(f, op, args, ty),
            Op::Print(text) => {
                write!(f, "print {}", StrText(text))?;
                args.iter().try_for_each(|&v| write!(f, ", {}", self.name(v)))
            }
            Op::Assume(promise) => write!(f, "assume {}{promise}", self.arg(args, 0)),
            Op::Mma { negated: true } if args.len() > 1 => {
                write!(f, "{} {}, -", op.name(), self.arg(args, 0))?;
                self.list(f, &args[1..])
            }
            Op::Yield | Op::Mma { .. } => {
                write!(f, "{} ", op.name())?;
                self.list(f, args)
            }
            _ => self.function(f, op, args, result, ty),
        }
    }

    fn arg(&self, args: &[Value], index: usize) -> Cow<'a, str> {
        args.get(index).map_or("?".into(), |&v| self.name(v))
    }

    /// `name(operands, attribute)` and the type where operands do not determine it.
    fn function(
        &self,
        f: &mut Formatter<'_>,
        op: &Op,
        args: &[Value],
        result: Option<Type>,
        ty: &dyn Display,
    ) -> Result {
        write!(f, "{}(", op.name())?;
        self.list(f, args)?;
        match op {
            Op::Cast => write!(f, ", {}", result.map_or(Elem::Bool, Type::elem))?,
            Op::ViewAs(e) => write!(f, ", {e}")?,
            Op::Trans(perm) => write!(f, ", {perm:?}")?,
            Op::ExpandDims(d) | Op::Reduce(_, d) | Op::Scan(_, d) | Op::Gather(d) => {
                write!(f, ", {d}")?;
            }
            Op::Assert(text) if !text.is_empty() => write!(f, ", {}", StrText(text))?,
            Op::Slice(offsets) => {
                let text = |d: &Dim| DimText(&self.kernel.tunables, *d).to_string();
                let all: Vec<String> = offsets.iter().map(text).collect();
                write!(f, ", [{}]", all.join(", "))?;
            }
            _ => {}
        }
        f.write_char(')')?;
        match op {
            Op::Full | Op::Broadcast | Op::Reshape | Op::Slice(_) => write!(f, " : {ty}"),
            _ => Ok(()),
        }
    }

    /// The indices of an access. Starts of runs stand in brackets of their own.
    fn indices(&self, f: &mut Formatter<'_>, op: &Op, args: &[Value], places: Range<usize>) -> Result {
        let rank = args.first().map_or(0, |&v| match self.kernel.ty(v) {
            Type::View(_, rank) => usize::from(rank),
            _ => 0,
        });
        let Some(starts) = op.run_starts(rank, args.len()) else {
            return self.list(f, args.get(places).unwrap_or_default());
        };
        for i in places.filter(|i| *i == starts.start || !starts.contains(i)) {
            f.write_str(if i > 1 { ", " } else { "" })?;
            match i == starts.start {
                true => {
                    f.write_char('[')?;
                    self.list(f, args.get(starts.clone()).unwrap_or_default())?;
                    f.write_char(']')?;
                }
                false => f.write_str(&self.arg(args, i))?,
            }
        }
        Ok(())
    }

    fn access(&self, f: &mut Formatter<'_>, op: &Op, args: &[Value], ty: &dyn Display) -> Result {
        let masked = usize::from(op.is_masked());
        let written = op.written_operand(args.len());
        let places = op.indices(args.len());
        let last = places.end;
        write!(f, "{} {}[", op.name(), self.arg(args, 0))?;
        self.indices(f, op, args, places)?;
        match written {
            Some(x) => {
                f.write_str("], ")?;
                self.list(f, args.get(last..=x).unwrap_or_default())?;
                if matches!(op, Op::AtomicScatter { old: true, .. }) {
                    write!(f, " : {ty}")?;
                }
                write!(f, "{}", op.sync())?;
            }
            None => write!(f, "] : {ty}")?,
        }
        if masked == 1 { write!(f, " where {}", self.arg(args, args.len() - 1)) } else { Ok(()) }
    }

    fn sub_view(&self, f: &mut Formatter<'_>, args: &[Value], kept: &[u8]) -> Result {
        write!(f, "subview {}[", self.arg(args, 0))?;
        let mut fixed = args.get(1..).unwrap_or_default().iter();
        for d in 0..args.len().saturating_sub(1) + kept.len() {
            let comma = if d == 0 { "" } else { ", " };
            match fixed.as_slice().first().filter(|_| !kept.contains(&(d as u8))) {
                Some(&v) => {
                    fixed.next();
                    write!(f, "{comma}{}", self.name(v))?;
                }
                None => write!(f, "{comma}_")?,
            }
        }
        f.write_char(']')
    }

    fn view(
        &self,
        f: &mut Formatter<'_>,
        args: &[Value],
        result: Option<Type>,
        strided: bool,
        fill: f64,
    ) -> Result {
        let rank = match result {
            Some(Type::View(_, rank)) => usize::from(rank),
            _ => 0,
        };
        let elem = result.map_or(Elem::Bool, Type::elem);
        write!(f, "view {} : {elem}[", self.arg(args, 0))?;
        self.list(f, args.get(1..=rank).unwrap_or_default())?;
        f.write_char(']')?;
        if strided {
            f.write_str(" strides [")?;
            self.list(f, args.get(rank + 1..).unwrap_or_default())?;
            f.write_char(']')?;
        }
        if fill == 1.0 && elem == Elem::Bool {
            f.write_str(" fill true")?;
        } else if fill.to_bits() != 0 {
            write!(f, " fill {}", FloatText(fill))?;
        }
        Ok(())
    }
}

/// Stands for the number of a value that is in sight.
const NUMBERED: &str = "#";

/// A float that reads back to the same bits (NaNs to the usual one).
pub(crate) struct FloatText(pub f64);

impl Display for FloatText {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0 {
            v if v.is_nan() => f.write_str("nan"),
            v => write!(f, "{v:?}"),
        }
    }
}

/// A string in quotes.
pub(crate) struct StrText<'a>(pub &'a str);

impl Display for StrText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                '"' | '\\' => write!(f, "\\{c}")?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

/// ` scope cta order release`; nothing where it is the usual.
impl Display for MemorySync {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { scope, order } = *self;
        if scope != MemoryScope::default() {
            write!(f, " scope {}", name_of(&SCOPES, scope))?;
        }
        if order != MemoryOrder::default() {
            write!(f, " order {}", name_of(&ORDERS, order))?;
        }
        Ok(())
    }
}

/// ` % 8 in 0..=64`
impl Display for Assumption {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { multiple, min, max } = *self;
        let range = (min, max) != (i64::MIN, i64::MAX);
        if multiple != 1 || !range {
            write!(f, " % {multiple}")?;
        }
        match max {
            _ if !range => Ok(()),
            i64::MAX => write!(f, " in {min}.."),
            max => write!(f, " in {min}..={max}"),
        }
    }
}

struct FactsText(Facts);

impl Display for FactsText {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Facts { align, multiple, min, max, may_alias } = self.0;
        if align != 1 {
            write!(f, " align {align}")?;
        }
        if may_alias {
            f.write_str(" may_alias")?;
        }
        if multiple != 1 {
            write!(f, " % {multiple}")?;
        }
        match (min, max) {
            (0, i64::MAX) => Ok(()),
            (min, i64::MAX) => write!(f, " in {min}.."),
            (min, max) => write!(f, " in {min}..={max}"),
        }
    }
}

/// `@[warps 4, deferred]`
struct AttrsText<'a>(&'a Attrs);

impl Display for AttrsText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let mut items = Vec::new();
        match self.0.team {
            Team::None => {}
            Team::Thread => items.push("thread".to_owned()),
            Team::Warps(n) => items.push(format!("warps {n}")),
            Team::Warpgroups(n) => items.push(format!("warpgroups {n}")),
        }
        items.extend(self.0.looped.map(|l| LoopText(l).to_string()));
        items.extend(FLAGS.iter().filter(|flag| flag.1(self.0)).map(|flag| flag.0.to_owned()));
        items.extend(self.0.below.map(|d| format!("below {d}")));
        items.extend(array_words(self.0.array).into_iter().map(str::to_owned));
        items.extend(self.0.layout.as_ref().map(|l| format!("layout \"{l}\"")));
        items.extend(self.0.warp_grid.map(|s| {
            let contiguous = if s.contiguous { " contiguous" } else { "" };
            format!("warp_grid {} {}{contiguous}", s.rows, s.columns)
        }));
        write!(f, "@[{}]", items.join(", "))
    }
}

struct LoopText(LoopMapping);

impl Display for LoopText {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0.pipeline {
            Depth::Fit => f.write_str("pipeline fit")?,
            Depth::Stages(n) => write!(f, "pipeline {n}")?,
        }
        for (word, count) in [
            ("producers", self.0.producers),
            ("consumers", self.0.consumers),
            ("wait", self.0.wait),
            ("chunk", self.0.chunk),
            ("mma_order", self.0.mma_order),
            ("split_k", self.0.split_k),
        ] {
            if let Some(n) = count {
                write!(f, ", {word} {n}")?;
            }
        }
        if self.0.stream_k {
            f.write_str(", stream_k")?;
        }
        Ok(())
    }
}

struct ConstantText(Constant);

impl Display for ConstantText {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0 {
            Constant::Int(v) => write!(f, "{v}"),
            Constant::Float(v) => write!(f, "{}", FloatText(v)),
        }
    }
}

/// ` in {64, 128}`, ` in 16..=256 step 16`; nothing for all values.
struct DomainText<'a>(&'a Domain);

impl Display for DomainText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0 {
            Domain::Any => Ok(()),
            Domain::OneOf(all) => {
                let all: Vec<String> = all.iter().map(ToString::to_string).collect();
                write!(f, " in {{{}}}", all.join(", "))
            }
            Domain::Range { min, max, step } => write!(f, " in {min}..={max} step {step}"),
        }
    }
}

impl Display for Mapping {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        writeln!(f, "mapping {} {{", self.kernel)?;
        for (name, value) in &self.tunables {
            writeln!(f, "    {name} = {value}")?;
        }
        for (name, looped) in &self.loops {
            writeln!(f, "    for {name}: {}", LoopText(*looped))?;
        }
        for (name, array) in &self.arrays {
            let words = array_words(*array);
            let words = if words.is_empty() { vec!["fit"] } else { words };
            writeln!(f, "    array {name}: {}", words.join(", "))?;
        }
        for (name, layout) in &self.tiles {
            writeln!(f, "    tile {name}: layout \"{layout}\"")?;
        }
        for (name, promise) in &self.promises {
            writeln!(f, "    assume {name}{promise}")?;
        }
        let items = whole_items(&self.whole);
        if !items.is_empty() {
            writeln!(f, "    kernel: {}", items.join(", "))?;
        }
        f.write_str("}\n")
    }
}

/// The words that differ from the default.
fn array_words(array: ArrayMapping) -> Vec<&'static str> {
    let way = match array.way {
        Way::Fit => None,
        Way::Plain => Some("plain"),
        Way::Staged => Some("staged"),
        Way::Packed => Some("packed"),
    };
    let flags = [array.stream.then_some("stream"), array.before_wait.then_some("before_wait")];
    way.into_iter().chain(flags.into_iter().flatten()).collect()
}

/// The items that differ from the default.
fn whole_items(whole: &KernelMapping) -> Vec<String> {
    let mut items = Vec::new();
    items.extend(whole.persistent.then(|| "persistent".to_owned()));
    items.extend(whole.raster_words());
    items.extend(match whole.epilogue {
        Epilogue::Direct => None,
        Epilogue::Deferred => Some("epilogue deferred".to_owned()),
        Epilogue::Warps => Some("epilogue warps".to_owned()),
    });
    if whole.pingpong != 1 {
        items.push(format!("pingpong {}", whole.pingpong));
    }
    if whole.cluster != 1 {
        items.push(format!("cluster {}", whole.cluster));
    }
    if whole.blocks != 1 {
        items.push(format!("blocks {}", whole.blocks));
    }
    if whole.resident != 1 {
        items.push(format!("resident {}", whole.resident));
    }
    items.extend(whole.warps.map(|n| format!("warps {n}")));
    items.extend(whole.chunk.map(|n| format!("chunk {n}")));
    items.extend(match whole.products {
        Products::Fit => None,
        Products::Wgmma => Some("products wgmma".to_owned()),
        Products::MmaSync => Some("products mma_sync".to_owned()),
    });
    items.extend((!whole.bulk_store).then(|| "no bulk_store".to_owned()));
    items.extend(whole.pdl.then(|| "pdl".to_owned()));
    items
}
