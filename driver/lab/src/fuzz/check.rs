//! Checks one case in every way: interpreted before and after `map`, compiled and simulated.

use super::Case;
use super::range::{DATA, Range, ranges};
use crate::validate::{Operand, Reference, Sizes, Style, Validation, ValidationError};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use warplift::{CompileError, Compiled, Options, compile};
use warplift_ir::interp;
use warplift_ir::manifest::Fact;
use warplift_ir::target::SM90A;
use warplift_ir::tile::{Kernel, parse_file, verify, verify_mapping};
use warplift_isel::map::{MapContext, do_map};
use warplift_sim::{self as sim, Adversary};

/// Seeds and orders of completion that a case is simulated under.
const ORDERS: [(u64, Adversary); 2] = [(1, Adversary::Latest), (2, Adversary::Random)];
/// Warp instructions of one cluster: far above what a case of this size takes.
const MAX_STEPS: u64 = 20_000_000;
/// Programs of a persistent kernel in the interpreter.
const PROGRAMS: [u32; 2] = [1, 3];
/// The contents of outputs before the launch. No kernel of small numbers computes this value.
const UNWRITTEN: f64 = 77.0;

/// The outcome of a case without a bug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A stage refused it.
    Refused {
        /// `map`, `isel`, `sched`, `registers`, `emit`, or `launch` for sizes that the manifest excludes.
        stage: &'static str,
        /// Why, in words.
        reason: String,
    },
    /// Compiled, and everything agrees.
    Same {
        /// Arrays whose values had to agree bit by bit.
        exact: usize,
        /// Arrays whose values had to agree within their bound.
        bounded: usize,
        /// Arrays with unbounded error. The check only shows that they were stored without a hazard.
        open: usize,
        /// What the compiled kernel is made of.
        made: Mechanisms,
    },
}

/// Mechanisms that only few kernels use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mechanisms {
    /// Warps of their own for the end of a tile's work.
    pub epilogue_role: bool,
    /// Blocks in clusters.
    pub cluster: bool,
    /// An array that the caller packs.
    pub packed: bool,
    /// Blocks share out a loop: they leave parts in a workspace.
    pub shared_out: bool,
}

impl Mechanisms {
    fn of(compiled: &Compiled) -> Self {
        Self {
            epilogue_role: compiled.explained.registers.iter().any(|r| r.role == "epilogue"),
            cluster: compiled.manifest.cluster != [1; 3],
            packed: compiled.manifest.arguments.iter().any(|a| a.packing.is_some()),
            shared_out: !compiled.manifest.workspace.is_zero(),
        }
    }
}

/// A bug.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The kernel or mapping does not pass the verifier: the generator's bug.
    #[error("not a valid case: {0}")]
    Invalid(String),
    /// Its text does not read back.
    #[error("text: {0}")]
    Text(String),
    /// The interpreter stops: the generator's bug, or the interpreter's.
    #[error("interpreter: {0}")]
    Meaning(String),
    /// A panic.
    #[error("panic: {0}")]
    Panic(String),
    /// A verifier refuses a pass's result.
    #[error("after pass `{pass}`: {errors}")]
    Pass {
        /// The pass.
        pass: &'static str,
        /// The verifier's message.
        errors: String,
    },
    /// The mapped kernel computes another result.
    #[error("after `map`: {0}")]
    Mapped(String),
    /// A hazard, or PTX that the simulator refuses.
    #[error("simulator, seed {seed}: {message}")]
    Simulator {
        /// Seed.
        seed: u64,
        /// The simulator's message.
        message: String,
    },
    /// The PTX computes another result.
    #[error("simulated, seed {seed}: {difference}")]
    Differs {
        /// Seed.
        seed: u64,
        /// Array, index, values.
        difference: String,
    },
}

impl Failure {
    /// Whether two failures are probably the same bug: the same kind, and the same words except numbers and names.
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Differs { .. }, Self::Differs { .. }) | (Self::Mapped(_), Self::Mapped(_)) => true,
            _ => general(&self.to_string()) == general(&other.to_string()),
        }
    }
}

/// The first line of a message without places, numbers and quoted names, so that messages can be counted.
pub(super) fn general(message: &str) -> String {
    let mut out = String::new();
    let line = message.lines().next().unwrap_or_default();
    for (i, part) in line.split('`').enumerate() {
        out.push_str(if i % 2 == 1 { "`_`" } else { part });
    }
    let number = |w: &str| {
        // An entity's number counts too: `v17`, `r3:`.
        let w = w.trim_start_matches(['(', '-', 'v', 'r']);
        w.starts_with(|c: char| c.is_ascii_digit())
    };
    let words =
        out.split("; ").next().unwrap_or_default().split(' ').map(|w| if number(w) { "#" } else { w });
    words.collect::<Vec<_>>().join(" ").trim_start_matches("# ").to_owned()
}

/// Whether a case is one that the generator could make: valid, with a meaning, and of blocks that may run in any order
/// because no two write the same element.
pub(super) fn in_domain(case: &Case) -> bool {
    let apart = || -> Result<bool, Failure> {
        valid(case)?;
        let kernel = warplift_isel::map::do_tunables(&case.kernel, &case.mapping);
        let kernel = kernel.map_err(|e| Failure::Invalid(e.to_string()))?;
        let Reference { validation, data, .. } = Meaning::new(case, &kernel)?.reference;
        validation.blocks_are_apart(&data).map_err(|e| Failure::Meaning(e.to_string()))
    };
    guarded(apart).unwrap_or(false)
}

/// Runs a case.
///
/// # Errors
/// The failure. A stage's typed refusal is an [`Outcome`], not a failure.
pub fn check(case: &Case) -> Result<Outcome, Failure> {
    guarded(|| run(case))
}

fn guarded<T>(f: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Failure::Panic(words.unwrap_or("of an unknown type").to_owned()))
    })
}

fn run(case: &Case) -> Result<Outcome, Failure> {
    valid(case)?;
    reads_back(case)?;
    let refused = |stage, e: &dyn Display| Ok(Outcome::Refused { stage, reason: general(&e.to_string()) });
    let kernel = match warplift_isel::map::do_tunables(&case.kernel, &case.mapping) {
        Ok(k) => k,
        Err(e) => return refused("map", &e),
    };
    let meaning = Meaning::new(case, &kernel)?;
    match do_map(&case.kernel, &MapContext::new(&case.mapping, &SM90A, &[])) {
        Ok(variants) => variants.iter().try_for_each(|v| meaning.check_mapped(&v.kernel))?,
        Err(e) => return refused("map", &e),
    }
    let options = Options { verify: true, ..Options::default() };
    let compiled = match compile(&case.kernel, &case.mapping, &SM90A, &options) {
        Ok(compiled) => compiled,
        Err(CompileError::Bug { pass, errors, .. }) => return Err(Failure::Pass { pass, errors }),
        Err(CompileError::Verify(errors) | CompileError::Mapping(errors)) => {
            return Err(Failure::Invalid(lines(&errors)));
        }
        Err(e @ CompileError::Isel(_)) => return refused("isel", &e),
        Err(e @ CompileError::Sched(_)) => return refused("sched", &e),
        Err(e @ CompileError::Registers(_)) => return refused("registers", &e),
        Err(e @ CompileError::Emit(_)) => return refused("emit", &e),
        // No limits are set, and the attempts end with a refusal.
        Err(
            e @ (CompileError::Declined { .. }
            | CompileError::NoMapping { .. }
            | CompileError::Time { .. }
            | CompileError::Memory { .. }),
        ) => {
            return Err(Failure::Pass { pass: "attempts", errors: e.to_string() });
        }
    };
    if let Some(fact) = compiled.manifest.facts.iter().find(|f| excludes(f, case)) {
        return refused("launch", &format!("the manifest requires {}", kind(fact)));
    }
    meaning.check_compiled(&compiled, case.sms)
}

/// Whether a fact that the compiler added to the kernel's own excludes the case's sizes.
fn excludes(fact: &Fact, case: &Case) -> bool {
    let size = |name: &str| case.sizes.get(name).copied();
    match fact {
        Fact::Range { name, min, max } => size(name).is_some_and(|v| !(*min..=*max).contains(&v)),
        Fact::Multiple { name, of } => size(name).is_some_and(|v| v % of != 0),
        Fact::Limit { value, min, max, .. } => {
            let value = value.eval(&size);
            value.is_ok_and(|v| !(*min..=*max).contains(&v))
        }
        Fact::Aligned { .. } | Fact::Disjoint { .. } => false,
    }
}

fn kind(fact: &Fact) -> &'static str {
    match fact {
        Fact::Range { .. } => "a range",
        Fact::Multiple { .. } => "a multiple",
        Fact::Aligned { .. } => "an alignment",
        Fact::Limit { .. } => "a limit",
        Fact::Disjoint { .. } => "memory apart",
    }
}

fn lines<E: Display>(errors: &[E]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn valid(case: &Case) -> Result<(), Failure> {
    verify(&case.kernel).map_err(|e| Failure::Invalid(lines(&e)))?;
    verify_mapping(&case.kernel, &case.mapping, &SM90A).map_err(|e| Failure::Invalid(lines(&e)))
}

fn reads_back(case: &Case) -> Result<(), Failure> {
    let text = format!("{}{}", case.kernel, case.mapping);
    let module = parse_file(&text, "").map_err(|e| Failure::Text(lines(&e)))?;
    let same_kernel = module.kernels.first().is_some_and(|k| k.same_as(&case.kernel));
    let mapping = module.mappings.first().cloned().unwrap_or_default();
    match same_kernel && mapping == case.mapping {
        true => Ok(()),
        false => Err(Failure::Text("reads back as something else".to_owned())),
    }
}

/// The reference result of a case, and the allowed distance from it.
struct Meaning<'a> {
    reference: Reference<'a>,
    /// Allowed distance of each array; infinite if the error is unbounded.
    bounds: Vec<f64>,
}

impl<'a> Meaning<'a> {
    /// `kernel` is the case's without tunables.
    fn new(case: &'a Case, kernel: &Kernel) -> Result<Self, Failure> {
        let invalid = |e: ValidationError| match e {
            ValidationError::Meaning(e) => Failure::Meaning(e.to_string()),
            other => Failure::Invalid(other.to_string()),
        };
        let sizes: Vec<(&str, i64)> = case.sizes.iter().map(|(n, &v)| (n.as_str(), v)).collect();
        let mut rng = StdRng::seed_from_u64(case.data);
        let whole = || rng.random_range(-DATA..=DATA).round();
        let sizes = Sizes::of(&case.kernel, &sizes).map_err(|e| invalid(e.into()))?.with_floats(whole);
        let mut validation = Validation::new(&case.kernel, &case.mapping, sizes).map_err(invalid)?;
        let data = validation.data_over(Style::Integers, case.data, UNWRITTEN);
        let bounds = bounds(kernel, &case.sizes, &validation.operands);
        Ok(Self { reference: Reference::of(validation, data).map_err(invalid)?, bounds })
    }

    fn check_mapped(&self, mapped: &Kernel) -> Result<(), Failure> {
        verify(mapped).map_err(|e| Failure::Pass { pass: "map", errors: lines(&e) })?;
        for programs in PROGRAMS {
            let options = interp::Options { programs, order: interp::Order::Reverse, ..Default::default() };
            let have = self.reference.interpret(mapped, &options);
            let have = have.map_err(|e| Failure::Mapped(e.to_string()))?;
            self.difference(&have).map_or(Ok(()), |d| Err(Failure::Mapped(d)))?;
        }
        Ok(())
    }

    fn check_compiled(&self, compiled: &Compiled, sms: u32) -> Result<Outcome, Failure> {
        for (seed, order) in ORDERS {
            let options = sim::Options { seed, order, max_steps: MAX_STEPS, ..sim::Options::default() };
            let run = self.reference.simulate(&compiled.ptx, &compiled.manifest, &options, sms);
            let (have, _) = run.map_err(|e| Failure::Simulator { seed, message: e.to_string() })?;
            self.difference(&have).map_or(Ok(()), |difference| Err(Failure::Differs { seed, difference }))?;
        }
        let count = |fits: fn(f64) -> bool| self.bounds.iter().filter(|b| fits(**b)).count();
        Ok(Outcome::Same {
            exact: count(|b| b == 0.0),
            bounded: count(|b| b > 0.0 && b.is_finite()),
            open: count(f64::is_infinite),
            made: Mechanisms::of(compiled),
        })
    }

    /// The first element that is too far off.
    fn difference(&self, have: &[Vec<u8>]) -> Option<String> {
        let near = |place: usize, want: f64, found: f64| {
            let bound = self.bounds[place];
            bound.is_infinite() || (want - found).abs() <= bound
        };
        Some(self.reference.difference_where(have, near)?.to_string())
    }
}

/// How far each array may be off: as far as the worst tile stored to it.
fn bounds(kernel: &Kernel, sizes: &BTreeMap<String, i64>, operands: &[Operand]) -> Vec<f64> {
    let known = ranges(kernel, sizes);
    let mut bounds = vec![0f64; operands.len()];
    for (inst, data) in kernel.insts.iter() {
        let args = kernel.args(inst);
        let Some(written) = data.op.written_operand(args.len()) else { continue };
        let pointer = kernel.def(args[0]).map(|view| kernel.args(view)[0]);
        let param = kernel.params.iter().find(|p| Some(p.value) == pointer);
        let place = param.and_then(|p| operands.iter().position(|o| o.name == p.name));
        let error = args.get(written).and_then(|v| known.get(v)).map_or(0.0, |r: &Range| r.error);
        if let Some(place) = place {
            bounds[place] = bounds[place].max(if error.is_nan() { f64::INFINITY } else { error });
        }
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# sizes: n = 100\n# sms: 2\nkernel k(x: ptr<f32> align 16, y: ptr<f32>, n: i32) {
        grid cdiv(n, 64)
        i = block_index
        gx = view x : f32[n]
        gy = view y : f32[n]
        t = load gx[i * 64] : f32[64]
        store gy[i * 64], t * 2.0
        }
        mapping k { kernel: warps 1 }";

    #[test]
    fn a_right_kernel_agrees() {
        let case: Case = TEXT.parse().unwrap();
        assert_eq!(
            check(&case),
            Ok(Outcome::Same { exact: 2, bounded: 0, open: 0, made: Mechanisms::default() })
        );
        let wide: Case = TEXT.replace("f32", "f64").parse().unwrap();
        assert!(matches!(check(&wide), Ok(Outcome::Refused { stage: "isel", .. })), "{:?}", check(&wide));
    }

    #[test]
    fn a_wrong_result_is_found() {
        let case: Case = TEXT.parse().unwrap();
        let kernel = warplift_isel::map::do_tunables(&case.kernel, &case.mapping).unwrap();
        let meaning = Meaning::new(&case, &kernel).unwrap();
        let options = Options::default();
        let mut compiled = compile(&case.kernel, &case.mapping, &SM90A, &options).unwrap();
        compiled.ptx = compiled.ptx.replace("mul.f32", "add.f32");
        assert!(matches!(meaning.check_compiled(&compiled, 1), Err(Failure::Differs { .. })));
        let other: Case = TEXT.replace("t * 2.0", "t + 2.0").parse().unwrap();
        assert!(matches!(meaning.check_mapped(&other.kernel), Err(Failure::Mapped(_))));
    }

    #[test]
    fn a_panic_is_a_failure() {
        let failure = guarded::<()>(|| panic!("at {}", 5)).unwrap_err();
        assert!(failure.is_like(&Failure::Panic("at 7".into())));
        assert!(!failure.is_like(&Failure::Panic("in 7".into())));
    }
}
