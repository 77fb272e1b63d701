//! The PTX simulator as executor.

use super::{Executor, Input, Scalar, ValidationError, integer};
use warplift::packing::as_wanted;
use warplift_ir::manifest::Manifest;
use warplift_sim::{
    Arg, Hazard, MEMORY_LIMIT, Memory, Options, Report, launch_from_manifest, parse, run_observed,
};

/// PTX on the simulator, which also detects hazards.
pub struct SimExecutor {
    ptx: String,
    manifest: Manifest,
    options: Options,
    multiprocessors: u32,
    observer: Option<Box<dyn Observer>>,
}

/// An observer of a run in progress.
pub trait Observer {
    /// Blocks done, and blocks in all.
    fn progress(&self, done: u64, blocks: u64);
    /// Hazards of a run that continued under [`warplift_sim::Hazards::Warn`].
    fn hazards(&self, found: &[Hazard]);
}

impl SimExecutor {
    /// Runs `ptx` on an imagined device with so many multiprocessors.
    pub fn new(ptx: String, manifest: Manifest, options: Options, multiprocessors: u32) -> Self {
        Self { ptx, manifest, options, multiprocessors, observer: None }
    }

    /// Adds an observer of every run.
    pub fn observed(self, observer: Box<dyn Observer>) -> Self {
        Self { observer: Some(observer), ..self }
    }
}

impl Executor for SimExecutor {
    fn name(&self) -> String {
        let Options { seed, order, .. } = self.options;
        format!("simulator, {} multiprocessors, order {order:?} {seed}", self.multiprocessors)
    }

    /// Data, a copy with its defined bytes, and who touched each of them: some ten times as much in all.
    fn most_bytes(&self) -> u64 {
        MEMORY_LIMIT / 2
    }

    fn execute(&self, inputs: &[Input<'_>]) -> Result<Vec<Vec<u8>>, ValidationError> {
        let observer = self.observer.as_deref();
        let mut tell = |done, blocks| observer.into_iter().for_each(|o| o.progress(done, blocks));
        let (ptx, manifest) = (&self.ptx, &self.manifest);
        let (buffers, report) =
            simulate(ptx, manifest, inputs, &self.options, self.multiprocessors, &mut tell)?;
        observer.into_iter().for_each(|o| o.hazards(&report.hazards));
        Ok(buffers)
    }
}

/// Whether the grid has no block, so that nothing is launched.
fn is_empty(manifest: &Manifest, inputs: &[Input<'_>], multiprocessors: u32) -> bool {
    let value = |name: &str| match name {
        "sm_count" => Some(multiprocessors.into()),
        _ => integer(manifest, inputs, name),
    };
    manifest.grid.iter().any(|extent| extent.eval(&value) == Ok(0))
}

/// Runs PTX; gives the buffers afterwards, in order, and what the simulator saw. `observe` is told blocks
/// done and blocks in all.
pub(super) fn simulate(
    ptx: &str,
    manifest: &Manifest,
    inputs: &[Input<'_>],
    options: &Options,
    multiprocessors: u32,
    observe: &mut dyn FnMut(u64, u64),
) -> Result<(Vec<Vec<u8>>, Report), ValidationError> {
    let module = parse(ptx)?;
    let mut memory = Memory::new();
    let mut ids = Vec::new();
    let mut args = Vec::new();
    for (argument, input) in manifest.arguments.iter().zip(inputs) {
        let name = argument.name.as_str();
        let mut pointer = |id| {
            ids.push(id);
            Arg::Pointer(id, 0)
        };
        let arg = match *input {
            Input::Buffer(bytes) => {
                let value = |name: &str| integer(manifest, inputs, name);
                let bytes = as_wanted(manifest, name, bytes, &value)?;
                pointer(memory.alloc(name, bytes.into_owned()))
            }
            Input::Output(bytes) => pointer(memory.alloc_poisoned(name, bytes)),
            Input::Scalar(Scalar::Int(v)) => Arg::Int(v),
            Input::Scalar(Scalar::Float(v)) => Arg::Float(v),
        };
        args.push((name, arg));
    }
    let mut report = Report::default();
    if !is_empty(manifest, inputs, multiprocessors) {
        let launch = launch_from_manifest(&module, manifest, &args, &mut memory, multiprocessors);
        let launch = launch.map_err(|e| super::ProblemError::Sizes(e.to_string()))?;
        report = run_observed(&launch, &mut memory, options, observe)?;
        print!("{}", report.printed);
    }
    Ok((ids.iter().map(|&id| memory.bytes(id).to_vec()).collect(), report))
}

#[cfg(test)]
mod tests {
    use super::super::{Sizes, Style, Validation};
    use super::*;
    use warplift::kernels::find;
    use warplift_ir::target::SM90A;

    fn check(spoil: impl Fn(&str) -> String) -> Result<bool, ValidationError> {
        let module = find("axpy").unwrap().parse().unwrap();
        let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
        let compiled = warplift::compile(kernel, mapping, &SM90A, &Default::default()).unwrap();
        let validation = Validation::new(kernel, mapping, Sizes::parse(kernel, "n=5000").unwrap())?;
        let executor = SimExecutor::new(spoil(&compiled.ptx), compiled.manifest, Options::default(), 2);
        Ok(validation.check(&executor, Style::Integers, 1, None)?.passed())
    }

    #[test]
    fn arrays_beyond_the_memory_are_refused_before_they_are_drawn() {
        let module = find("axpy").unwrap().parse().unwrap();
        let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
        let compiled = warplift::compile(kernel, mapping, &SM90A, &Default::default()).unwrap();
        let sizes = Sizes::parse(kernel, "n=1000000000").unwrap();
        let validation = Validation::new(kernel, mapping, sizes).unwrap();
        let executor = SimExecutor::new(compiled.ptx, compiled.manifest, Options::default(), 2);
        let said = validation.check(&executor, Style::Integers, 1, None).unwrap_err().to_string();
        assert!(said.contains("4000000000 bytes") && said.contains("536870912"), "{said}");
    }

    #[test]
    fn ptx_is_run_and_judged() {
        assert!(check(str::to_owned).unwrap());
        assert!(!check(|ptx| ptx.replace("mul.f32", "add.f32")).is_ok_and(|passed| passed));
        let unread = check(|ptx| ptx.replace(".entry", ".nonsense"));
        assert!(unread.is_err_and(|e| e.is_wrong_result()));
    }
}
