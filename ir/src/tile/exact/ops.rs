//! Operations, types and attributes as fields of the exact text.

use crate::text::{Field, Result, Shown, entity, record, variants};
use crate::tile::parse::cursor::Cursor;
use crate::tile::*;
use std::fmt::{self, Formatter};

entity!(Value: "v", Inst: "inst", Block: "block", Tunable: "tunable");

record!(ParamData { name, value, facts });
record!(Loc { line, column });
record!(Facts { align, multiple, min, max, may_alias });
record!(Assumption { multiple, min, max });
record!(ConstantData { name, value });
variants!(Constant { Int "int" (value), Float "float" (value) });
record!(TunableData { name, default, domain });
variants!(Domain = default { Any "any", OneOf "one_of" (values), Range "range" { min, max, step } });

variants!(UnOp {
    Neg "neg", Abs "abs", Not "not", Exp "exp", Exp2 "exp2", Log "log", Log2 "log2", Sqrt "sqrt", Rsqrt "rsqrt",
    Rcp "rcp", Sin "sin", Cos "cos", Tanh "tanh", Erf "erf", Likely "likely", Unlikely "unlikely",
});
variants!(BinOp {
    Add "add", Sub "sub", Mul "mul", MulHi "mulhi", Div "div", CeilDiv "cdiv", Rem "rem", Min "min", Max "max", And "and", Or "or",
    Xor "xor", Shl "shl", Shr "shr",
});
variants!(ReduceOp {
    Sum "sum", Prod "prod", Min "min", Max "max", And "and", Or "or", Xor "xor",
});
variants!(AtomicOp { Add "add", Min "min", Max "max", Exchange "exchange", CompareAndSwap "cas" });

variants!(MemoryScope { Cta "cta", Cluster "cluster", Gpu "gpu", Sys "sys" });
variants!(MemoryOrder { Relaxed "relaxed", Acquire "acquire", Release "release", AcqRel "acq_rel" });
record!(MemorySync { scope, order });

variants!(Op {
    Int "int" (value),
    Float "float" (value),
    Dim "dim" (dim),
    BlockIndex "block_index" (dimension),
    GridDim "grid_dim" (dimension),
    ProgramId "program_id",
    ProgramCount "program_count",
    Unbounded "unbounded",
    Unary "unary" (op),
    Binary "binary" (op),
    Compare "compare" (op),
    Select "select",
    Fma "fma",
    Cast "cast",
    ToIndex "to_index",
    ViewAs "view_as" (elem),
    Full "full",
    Iota "iota" (dimension),
    Broadcast "broadcast",
    Reshape "reshape",
    Trans "trans" (perm),
    Join "join",
    Split "split",
    Slice "slice" (offsets),
    Rearrange "rearrange",
    ExpandDims "expand_dims" (at),
    View "view" { strided, fill },
    SubView "subview" (kept),
    Load "load",
    Store "store",
    Atomic "atomic" (op),
    Workspace "workspace",
    Shared "shared" { layout },
    Arrive "arrive",
    LoadGather "load_gather" { masked },
    LoadRuns "load_runs" (dimension),
    StoreScatter "store_scatter" { masked },
    AtomicScatter "atomic_scatter" { op, old, masked, sync },
    Mma "mma" { negated },
    Reduce "reduce" (op, dimension),
    Scan "scan" (op, dimension),
    Gather "gather" (dimension),
    AsyncCopy "async_copy",
    AsyncCommit "async_commit",
    AsyncWait "async_wait" (groups),
    Print "print" (text),
    Assume "assume" (promise),
    Assert "assert" (text),
    For "for",
    While "while",
    If "if",
    Yield "yield",
});

variants!(Team = default { None "none", Thread "thread", Warps "warps" (n), Warpgroups "warpgroups" (n) });
variants!(Depth { Fit "fit", Stages "stages" (n) });
variants!(Way { Fit "fit", Plain "plain", Staged "staged", Packed "packed" });
record!(LoopMapping { pipeline, producers, consumers, wait, chunk, mma_order, split_k, stream_k });
record!(ArrayMapping = default { way, stream, before_wait });
record!(WarpGrid { rows, columns, contiguous });
record!(Attrs {
    team,
    looped,
    persistent,
    index,
    below,
    deferred,
    by_threads,
    ahead,
    in_parts,
    operand,
    trips,
    array,
    layout,
    warp_grid,
});

/// `128`, `256 / 2`, `tunable0`, `tunable0 * 2 / 4`, `tunable0 * tunable1 * 1 / 1 + 8`
impl Field for Dim {
    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (mul, div, add) = self.parts();
        let tunables: Vec<String> = self.tunables().map(|t| t.to_string()).collect();
        match (&tunables[..], mul, div) {
            ([], mul, 1) => write!(f, "{mul}")?,
            ([], mul, div) => write!(f, "{mul} / {div}")?,
            ([t], 1, 1) => write!(f, "{t}")?,
            (all, mul, div) => write!(f, "{} * {mul} / {div}", all.join(" * "))?,
        }
        match add {
            0 => Ok(()),
            1.. => write!(f, " + {add}"),
            _ => write!(f, " - {}", add.unsigned_abs()),
        }
    }

    fn read(c: &mut Cursor<'_>) -> Result<Self> {
        let is_number = |c: &Cursor<'_>| matches!(c.peek(), parse::lex::Tok::Int(_));
        let mut tunables = Vec::new();
        let mut mul = None;
        loop {
            if is_number(c) {
                mul = Some(u32::read(c)?);
                break;
            }
            tunables.push(Tunable::read(c)?);
            if !c.eat("*") {
                break;
            }
        }
        let div = if c.eat("/") { u32::read(c)? } else { 1 };
        let add = if c.eat("+") {
            u32::read(c)?.try_into().ok()
        } else if c.eat("-") {
            i32::try_from(u32::read(c)?).ok().map(|n| -n)
        } else {
            Some(0)
        };
        let dim = add.and_then(|add| Self::of_parts(&tunables, (mul.unwrap_or(1), div, add)));
        match dim {
            Some(dim) => Ok(dim),
            None => c.expected("an extent with at most two tunables"),
        }
    }
}

/// `f32`, `ptr<f16>`, `view<f16, 2>`, `f32[128, 64]`
impl Field for Type {
    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(e) => write!(f, "{e}"),
            Self::Ptr(e) => write!(f, "ptr<{e}>"),
            Self::View(e, rank) => write!(f, "view<{e}, {rank}>"),
            Self::Tile(e, shape) => write!(f, "{e}{}", Shown(&shape.dims().to_vec())),
        }
    }

    fn read(c: &mut Cursor<'_>) -> Result<Self> {
        if c.eat_word("ptr") {
            c.expect("<")?;
            let elem = Elem::read(c)?;
            c.expect(">")?;
            return Ok(Self::Ptr(elem));
        }
        if c.eat_word("view") {
            c.expect("<")?;
            let elem = Elem::read(c)?;
            c.expect(",")?;
            let rank = u8::read(c)?;
            c.expect(">")?;
            return Ok(Self::View(elem, rank));
        }
        let elem = Elem::read(c)?;
        if !c.is("[") {
            return Ok(Self::Scalar(elem));
        }
        let (span, dims) = (c.span(), Vec::<Dim>::read(c)?);
        let shape = Shape::new(&dims);
        let above = || ParseError::at(span, format!("{} extents, above {MAX_RANK}", dims.len()));
        Ok(Self::Tile(elem, shape.ok_or_else(above)?))
    }
}
