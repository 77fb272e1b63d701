//! The buffers of a launch, from the elements that a kernel's views can reach.

use super::{ProblemError, Sizes};
use warplift_ir::manifest::Expr;
use warplift_ir::tile::{Inst, Kernel, Op, Type, Value};
use warplift_ir::types::Elem;
use warplift_isel::facts::{launch_bound, launch_expr};

/// A pointer argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Name of the parameter.
    pub name: String,
    /// Element type.
    pub elem: Elem,
    /// Elements that its views span.
    pub elements: u64,
    /// Whether it is loaded from.
    pub read: bool,
    /// Whether it is stored to.
    pub written: bool,
    /// The line of a view whose extents come from memory, or are unknown: its elements are not counted.
    pub from_memory: Option<u32>,
}

impl Operand {
    /// An array that nothing uses.
    pub fn new(name: &str, elem: Elem) -> Self {
        Self { name: name.to_owned(), elem, elements: 0, read: false, written: false, from_memory: None }
    }

    /// Bytes of the buffer; elements are packed with no gaps.
    pub fn bytes(&self) -> u64 {
        (self.elements * u64::from(self.elem.bits())).div_ceil(8)
    }
}

/// Elements that one operand may have.
const MAX_ELEMENTS: u64 = 1 << 36;

/// The pointer arguments of a kernel without tunables, in the order of the signature.
///
/// # Errors
/// An extent that is negative or spans too much.
pub fn operands(kernel: &Kernel, sizes: &Sizes) -> Result<Vec<Operand>, ProblemError> {
    let mut found = Vec::new();
    for p in &kernel.params {
        let Type::Ptr(elem) = kernel.ty(p.value) else { continue };
        let mut operand = Operand::new(&p.name, elem);
        for (inst, data) in kernel.insts.iter() {
            let args = kernel.args(inst);
            let through = |view: &Value| kernel.argument_of(*view).is_some_and(|of| of.value == p.value);
            match data.op {
                Op::View { .. }
                    if args[0] == p.value
                        && (is_from_memory(kernel, inst) || kernel.is_open(kernel.result(inst))) =>
                {
                    operand.from_memory.get_or_insert(data.loc.line);
                }
                Op::View { strided, .. } if args[0] == p.value => {
                    operand.elements = operand.elements.max(span(kernel, inst, strided, sizes)?);
                }
                Op::Load | Op::AsyncCopy | Op::LoadGather { .. } | Op::LoadRuns(_) => {
                    operand.read |= args.first().is_some_and(through);
                }
                Op::Store | Op::StoreScatter { .. } => operand.written |= args.first().is_some_and(through),
                Op::Atomic(_) | Op::AtomicScatter { .. } if args.first().is_some_and(through) => {
                    (operand.read, operand.written) = (true, true);
                }
                _ => {}
            }
        }
        found.push(operand);
    }
    Ok(found)
}

/// Whether arguments alone do not bound a view.
pub(super) fn is_from_memory(kernel: &Kernel, view: Inst) -> bool {
    let strided = matches!(kernel.insts[view].op, Op::View { strided: true, .. });
    let args = kernel.args(view)[1..].iter().enumerate();
    args.into_iter().any(|(n, &v)| bound(kernel, view, strided, (n, v)).is_none())
}

/// What an extent or a stride of a view is at most. Where strides follow from extents, only the first extent may come
/// from memory: no stride depends on it.
fn bound(kernel: &Kernel, view: Inst, strided: bool, (n, v): (usize, Value)) -> Option<Expr> {
    let extents = if strided { (kernel.args(view).len() - 1) / 2 } else { 1 };
    if n < extents { launch_bound(kernel, v) } else { launch_expr(kernel, v) }
}

/// The value of a scalar that depends on arguments alone.
pub fn evaluate(kernel: &Kernel, value: Value, sizes: &Sizes) -> Option<i64> {
    launch_expr(kernel, value)?.eval(&|name| sizes.int(name)).ok()
}

/// Extents of a view, and its strides in elements. An extent from memory counts as what arguments bound it by.
///
/// # Errors
/// An extent that is negative, or not known before the launch.
pub fn extents(
    kernel: &Kernel,
    view: Inst,
    strided: bool,
    sizes: &Sizes,
) -> Result<(Vec<i64>, Vec<i64>), ProblemError> {
    let each = kernel.args(view)[1..].iter().enumerate().map(|(n, &v)| {
        let value = bound(kernel, view, strided, (n, v)).and_then(|e| e.eval(&|name| sizes.int(name)).ok());
        let value = value.filter(|e| *e >= 0);
        value.ok_or_else(|| {
            let line = kernel.insts[view].loc.line;
            ProblemError::Operands(format!(
                "line {line}: an extent of a view is negative or not known before the launch"
            ))
        })
    });
    let mut all: Vec<i64> = each.collect::<Result<_, _>>()?;
    if strided {
        let strides = all.split_off(all.len() / 2);
        return Ok((all, strides));
    }
    let mut strides = vec![1i64; all.len()];
    for i in (1..all.len()).rev() {
        strides[i - 1] = strides[i].saturating_mul(all[i]);
    }
    Ok((all, strides))
}

fn span(kernel: &Kernel, view: Inst, strided: bool, sizes: &Sizes) -> Result<u64, ProblemError> {
    let (extents, strides) = extents(kernel, view, strided, sizes)?;
    if extents.contains(&0) {
        return Ok(0);
    }
    let last = extents.iter().zip(&strides).map(|(&e, &s)| i128::from(e - 1) * i128::from(s)).sum::<i128>();
    let span = u64::try_from(last + 1).ok().filter(|s| *s <= MAX_ELEMENTS);
    span.ok_or_else(|| {
        let line = kernel.insts[view].loc.line;
        ProblemError::Operands(format!(
            "line {line}: with these sizes a view spans {} elements, and {MAX_ELEMENTS} at most are possible: take smaller sizes",
            last + 1
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use warplift_ir::tile::parse_file;

    fn of(text: &str, sizes: &str) -> Result<Vec<Operand>, ProblemError> {
        let kernel = parse_file(text, "").unwrap().kernels.remove(0);
        let sizes = Sizes::parse(&kernel, sizes).unwrap();
        operands(&kernel, &sizes)
    }

    const TEXT: &str = "kernel k(p: ptr<u4>, q: ptr<f32>, n: i32, s: i32) { grid 1
        a = view p : u4[n, 5] b = view p : u4[7] c = view q : f32[n, 2] strides [1, s]
        x = load a[0, 0] : u4[2, 2] y = load c[0, 0] : f32[2, 2] store c[0, 0], y }";

    #[test]
    fn extents_follow_from_the_views() {
        let found = of(TEXT, "3x10").unwrap();
        assert_eq!((found[0].elements, found[0].bytes()), (15, 8));
        assert_eq!((found[0].read, found[0].written), (true, false));
        assert_eq!((found[1].elements, found[1].read, found[1].written), (13, true, true));
        assert_eq!(of(TEXT, "0x1").unwrap().iter().map(|o| o.elements).collect::<Vec<_>>(), [7, 0]);
    }

    #[test]
    fn arguments_bound_extents_from_memory() {
        let text = |extent: &str| {
            format!(
                "kernel k(p: ptr<i32>, q: ptr<f32>, n: i32) {{ grid 1 gp = view p : i32[1] c = load gp[0] : i32
                a = view q : f32[{extent}, 3] x = load a[0, 0] : f32[1, 4] store a[0, 0], x }}"
            )
        };
        for (extent, elements, line) in
            [("min(c, n)", 30, None), ("select(c < 0, 0, min(n, c))", 30, None), ("max(c, n)", 0, Some(2))]
        {
            let found = of(&text(extent), "n=10").unwrap();
            assert_eq!((found[1].elements, found[1].from_memory), (elements, line), "{extent}");
        }
    }

    #[test]
    fn impossible_extents_are_errors() {
        assert!(of(TEXT, "n=-1").is_err());
        assert!(of(TEXT, "n=9999999999999").unwrap_err().to_string().contains("spans"));
    }
}
