//! Runs a case.

use super::case::Case;
use super::judge::Difference;
use crate::validate::{Executor, SimExecutor, ValidationError};
use warplift_ir::target::SM90A;
use warplift_sim::{Adversary, Options};

/// The earliest and the latest order of events, and two random ones.
fn orders() -> impl Iterator<Item = Options> {
    let with = |order, seed| Options { order, seed, max_steps: 20_000_000, ..Options::default() };
    [
        with(Adversary::Earliest, 0),
        with(Adversary::Latest, 0),
        with(Adversary::Random, 1),
        with(Adversary::Random, 2),
    ]
    .into_iter()
}

impl Case {
    /// The contents of `out` after an executor ran this case's kernel.
    ///
    /// # Errors
    /// The launch fails, or `in` was changed.
    pub fn execute(&self, executor: &dyn Executor) -> Result<Vec<u8>, ValidationError> {
        let mut found = executor.execute(&self.arguments())?;
        let out = found.pop().unwrap_or_default();
        match found.pop() {
            Some(input) if input == self.input => Ok(out),
            _ => Err(ValidationError::Overrun("in".into())),
        }
    }
}

/// Runs a case in the simulator under several orders of events; gives `out` after the first.
///
/// # Errors
/// PTX that is not simulated, a hazard, a result that depends on the order, is not what the host
/// expects, or is outside of a stated error.
pub fn simulate(case: &Case) -> Result<Vec<u8>, Difference> {
    let mut first: Option<Vec<u8>> = None;
    for options in orders() {
        let executor =
            SimExecutor::new(case.ptx.clone(), case.manifest.clone(), options, SM90A.multiprocessors);
        let out = case.execute(&executor).map_err(|e| Difference(e.to_string()))?;
        if let Some(first) = &first {
            case.same(["another order", "first order"], &out, first)?;
        }
        first.get_or_insert(out);
    }
    let out = first.unwrap_or_default();
    if let Some(expected) = &case.expected {
        case.same(["simulator", "definition"], &out, expected)?;
    }
    case.near("simulator", &out)?;
    Ok(out)
}

/// Compares what a GPU left in `out` with the definition, with what is stated, and with what the
/// simulator left; gives words on how close they are.
///
/// # Errors
/// The first difference.
pub fn judge(case: &Case, gpu: &[u8], simulated: Option<&[u8]>) -> Result<String, Difference> {
    if let Some(simulated) = simulated {
        case.same(["GPU", "simulator"], gpu, simulated)?;
    }
    if let Some(expected) = &case.expected {
        case.same(["GPU", "definition"], gpu, expected)?;
    }
    let share = case.near("GPU", gpu)?;
    Ok(match (case.approximates(), simulated.is_some()) {
        (true, _) => format!("at most {share:.2} of the stated error"),
        (false, true) => "GPU and simulator agree".to_owned(),
        (false, false) => "GPU ran".to_owned(),
    })
}
