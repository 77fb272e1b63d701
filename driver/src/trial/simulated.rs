//! The PTX simulator as executor.

use super::{Executor, Input, Scalar, TrialError, integer};
use crate::packing::as_wanted;
use crate::sim::{Arg, Memory, Options, launch_from_manifest, parse, run};
use warplift_ir::manifest::Manifest;

/// PTX on the simulator, which also looks for hazards.
pub struct SimExecutor {
    ptx: String,
    manifest: Manifest,
    options: Options,
    multiprocessors: u32,
}

impl SimExecutor {
    /// Runs `ptx` on a device imagined with so many multiprocessors.
    pub fn new(ptx: String, manifest: Manifest, options: Options, multiprocessors: u32) -> Self {
        Self { ptx, manifest, options, multiprocessors }
    }
}

impl SimExecutor {
    /// Whether the grid has no block: then nothing is launched.
    fn is_empty(&self, inputs: &[Input<'_>]) -> bool {
        let value = |name: &str| match name {
            "sm_count" => Some(self.multiprocessors.into()),
            _ => integer(&self.manifest, inputs, name),
        };
        self.manifest.grid.iter().any(|extent| extent.eval(&value) == Ok(0))
    }
}

impl Executor for SimExecutor {
    fn name(&self) -> String {
        let Options { seed, order, .. } = self.options;
        format!("simulator, {} multiprocessors, order {order:?} {seed}", self.multiprocessors)
    }

    fn execute(&self, inputs: &[Input<'_>]) -> Result<Vec<Vec<u8>>, TrialError> {
        let hazard = |e: &dyn std::fmt::Display| TrialError::Hazard(e.to_string());
        let module = parse(&self.ptx).map_err(|e| hazard(&e))?;
        let mut memory = Memory::new();
        let mut ids = Vec::new();
        let mut args = Vec::new();
        for (argument, input) in self.manifest.arguments.iter().zip(inputs) {
            let name = argument.name.as_str();
            let mut pointer = |id| {
                ids.push(id);
                Arg::Pointer(id, 0)
            };
            let arg = match *input {
                Input::Buffer(bytes) => {
                    let value = |name: &str| integer(&self.manifest, inputs, name);
                    let bytes = as_wanted(&self.manifest, name, bytes, &value)?;
                    pointer(memory.alloc(name, bytes.into_owned()))
                }
                Input::Output(bytes) => pointer(memory.alloc_poisoned(name, bytes)),
                Input::Scalar(Scalar::Int(v)) => Arg::Int(v),
                Input::Scalar(Scalar::Float(v)) => Arg::Float(v),
            };
            args.push((name, arg));
        }
        if self.is_empty(inputs) {
            return Ok(ids.iter().map(|&id| memory.bytes(id).to_vec()).collect());
        }
        let launch = launch_from_manifest(&module, &self.manifest, &args, &mut memory, self.multiprocessors);
        let launch = launch.map_err(|e| TrialError::Sizes(e.to_string()))?;
        run(&launch, &mut memory, &self.options).map_err(|e| hazard(&e))?;
        Ok(ids.iter().map(|&id| memory.bytes(id).to_vec()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Sizes, Style, Trial};
    use super::*;
    use crate::kernels::find;
    use warplift_ir::target::SM90A;

    fn check(spoil: impl Fn(&str) -> String) -> Result<bool, TrialError> {
        let module = find("axpy").unwrap().parse().unwrap();
        let (kernel, mapping) = (&module.kernels[0], &module.mappings[0]);
        let compiled = crate::compile(kernel, mapping, &SM90A, &Default::default()).unwrap();
        let trial = Trial::new(kernel, mapping, Sizes::parse(kernel, "n=5000").unwrap())?;
        let executor = SimExecutor::new(spoil(&compiled.ptx), compiled.manifest, Options::default(), 2);
        Ok(trial.check(&executor, Style::Integers, 1, None)?.passed())
    }

    #[test]
    fn ptx_is_run_and_judged() {
        assert!(check(str::to_owned).unwrap());
        assert!(!check(|ptx| ptx.replace("mul.f32", "add.f32")).is_ok_and(|passed| passed));
        let unread = check(|ptx| ptx.replace(".entry", ".nonsense"));
        assert!(unread.is_err_and(|e| e.is_wrong_result()));
    }
}
