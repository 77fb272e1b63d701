//! A trial's data and expected results, computed once and compared with many runs.

use super::blocks::prepared;
use super::data::{element, is_same};
use super::simulated::simulate;
use super::{Data, Sizes, Style, Validation, ValidationError};
use std::fmt;
use warplift_ir::interp::{self, InterpError, Number, run};
use warplift_ir::manifest::Manifest;
use warplift_ir::tile::{Kernel, Mapping};
use warplift_sim::{Options, Report};

/// A trial with data, and the buffers as the interpreter leaves them.
///
/// On small integers, every run must leave the same bytes if [`super::exact_on_integers`] says so.
#[derive(Debug)]
pub struct Reference<'a> {
    /// The trial.
    pub validation: Validation<'a>,
    /// The buffers before.
    pub data: Data,
    /// The buffers after.
    pub want: Vec<Vec<u8>>,
}

/// The first element that differs from the interpreter's.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Argument.
    pub name: String,
    /// Place in storage order.
    pub index: usize,
    /// The interpreter's value.
    pub want: f64,
    /// The value found.
    pub found: f64,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}] is {}, should be {}", self.name, self.index, self.found, self.want)
    }
}

impl<'a> Validation<'a> {
    /// Draws data and runs the interpreter over the whole grid.
    ///
    /// # Errors
    /// The interpreter refuses the kernel.
    pub fn reference(self, style: Style, seed: u64) -> Result<Reference<'a>, ValidationError> {
        let data = Data::given(&self.operands, &self.given, style, seed)?;
        Reference::of(self, data)
    }
}

/// Whether two kernels leave the same on the same random data, up to rounding, under their own tunables.
///
/// # Errors
/// Sizes that do not fit both; the interpreter refuses one.
pub fn agree(a: &Kernel, b: &Kernel, sizes: &Sizes) -> Result<bool, ValidationError> {
    let of = |kernel| Validation::new(kernel, &Mapping::default(), sizes.clone());
    let (first, second) = (of(a)?, of(b)?);
    if first.operands != second.operands {
        return Ok(false);
    }
    let (style, seed) = (Style::Normal, 1);
    let reference = first.reference(style, seed)?;
    Ok(second.judge(&reference.data, &reference.want, style, seed, None)?.passed())
}

impl<'a> Reference<'a> {
    /// The interpreter's results for these data.
    ///
    /// # Errors
    /// The interpreter refuses the kernel.
    pub fn of(validation: Validation<'a>, data: Data) -> Result<Self, ValidationError> {
        let mut reference = Self { validation, data, want: Vec::new() };
        reference.want = reference.interpret(&reference.validation.resolved, &interp::Options::default())?;
        Ok(reference)
    }

    /// The buffers after another form of the kernel, mapped or in another order of blocks, ran in the interpreter.
    ///
    /// # Errors
    /// The interpreter stops.
    pub fn interpret(&self, kernel: &Kernel, options: &interp::Options) -> Result<Vec<Vec<u8>>, InterpError> {
        let Validation { sizes, operands, .. } = &self.validation;
        let (mut memory, ids, args) = prepared(kernel, sizes, operands, &self.data);
        run(kernel, &args, &mut memory, options)?;
        Ok(ids.iter().map(|&id| memory.bytes(id).to_vec()).collect())
    }

    /// The buffers after PTX ran on these data in the simulator, and the simulator's report.
    ///
    /// # Errors
    /// Text or a launch that it refuses, a hazard under [`warplift_sim::Hazards::Deny`].
    pub fn simulate(
        &self,
        ptx: &str,
        manifest: &Manifest,
        options: &Options,
        multiprocessors: u32,
    ) -> Result<(Vec<Vec<u8>>, Report), ValidationError> {
        simulate(ptx, manifest, &self.validation.inputs(&self.data), options, multiprocessors, &mut |_, _| {})
    }

    /// The first element of an output that differs. Zeros of two signs do, NaNs of any payload do not.
    pub fn difference(&self, found: &[Vec<u8>]) -> Option<Difference> {
        self.first(found, |_, want, found| !is_same(want, found))
    }

    /// The first element of an output that is farther away than a tolerance, relative above 1; without one, that differs.
    pub fn difference_beyond(&self, found: &[Vec<u8>], tolerance: f64) -> Option<Difference> {
        if tolerance == 0.0 {
            return self.difference(found);
        }
        self.difference_where(found, |_, want, found| (want - found).abs() <= tolerance * want.abs().max(1.0))
    }

    /// As [`Self::difference_beyond`], but relative above the output's own greatest element where that is below 1: of a
    /// softmax over thousands of columns everything is smaller than a tolerance meant for 1.
    pub fn difference_to_scale(&self, found: &[Vec<u8>], tolerance: f64) -> Option<Difference> {
        if tolerance == 0.0 {
            return self.difference(found);
        }
        let greatest = |place: usize| {
            let (operand, want) = (&self.validation.operands[place], &self.want[place]);
            let size = |i| element(want, i, operand.elem).map_or(0.0, |n: Number| n.as_f64().abs());
            (0..operand.elements as usize).map(size).fold(0.0, f64::max).min(1.0)
        };
        let scales: Vec<f64> = (0..self.want.len()).map(greatest).collect();
        self.difference_where(found, |place, want, found| {
            (want - found).abs() <= tolerance * want.abs().max(scales[place])
        })
    }

    /// The first element of an output that is not near: `near` is told the argument's number among the pointers,
    /// the value wanted and the value found. Zeros of either sign are near, and so are NaNs.
    pub fn difference_where(
        &self,
        found: &[Vec<u8>],
        near: impl Fn(usize, f64, f64) -> bool,
    ) -> Option<Difference> {
        self.first(found, |place, want, found| {
            !is_same(want, found) && want != found && !near(place, want.as_f64(), found.as_f64())
        })
    }

    /// The first element of an output of which something holds.
    fn first(
        &self,
        found: &[Vec<u8>],
        differs: impl Fn(usize, Number, Number) -> bool,
    ) -> Option<Difference> {
        let all = self.validation.operands.iter().zip(self.want.iter().zip(found)).enumerate();
        let mut changed = all.filter(|(_, (o, (want, found)))| o.written && want != found);
        changed.find_map(|(place, (o, (want, found)))| {
            let value = |bytes: &[u8], i| element(bytes, i, o.elem).unwrap_or(Number::Float(f64::NAN));
            let pairs = (0..o.elements as usize).map(|i| (i, value(want, i), value(found, i)));
            let (index, want, found) = pairs.into_iter().find(|(_, a, b)| differs(place, *a, *b))?;
            Some(Difference { name: o.name.clone(), index, want: want.as_f64(), found: found.as_f64() })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Given, Sizes};
    use super::*;
    use warplift::kernels::find;

    #[test]
    fn a_tolerance_follows_the_size_of_results() {
        let module = find("axpy").unwrap().parse().unwrap();
        let kernel = &module.kernels[0];
        let validation =
            Validation::new(kernel, &module.mappings[0], Sizes::parse(kernel, "n=3").unwrap()).unwrap();
        let mut small = validation.reference(Style::Integers, 5).unwrap();
        let written = small.validation.operands.iter().position(|o| o.written).unwrap();
        let bytes = |v: [f32; 3]| v.iter().flat_map(|f| f.to_le_bytes()).collect::<Vec<u8>>();
        small.want[written] = bytes([1e-4, 5e-5, 0.0]);
        let mut found = small.want.clone();
        found[written] = bytes([1e-4, 5e-5, 5e-7]);
        assert_eq!(small.difference_to_scale(&found, 0.01), None);
        found[written] = bytes([1e-4, 5e-5, 5e-6]);
        assert_eq!(small.difference_beyond(&found, 0.01), None, "a tolerance for results about 1");
        assert_eq!(small.difference_to_scale(&found, 0.01).map(|d| d.index), Some(2));
    }

    #[test]
    fn a_reference_reads_the_contents_that_its_caller_gives() {
        let module = find("axpy").unwrap().parse().unwrap();
        let kernel = &module.kernels[0];
        let given = Given::parse(["x=list:3,4,5,6"]).unwrap();
        let sizes = Sizes::parse(kernel, "n=4").unwrap();
        let validation = Validation::new(kernel, &module.mappings[0], sizes).unwrap();
        let reference = validation.with_data(given).unwrap().reference(Style::Integers, 1).unwrap();
        let x: Vec<u8> = [3.0f32, 4.0, 5.0, 6.0].iter().flat_map(|f| f.to_le_bytes()).collect();
        assert_eq!(reference.data.buffers[0], x);
    }

    #[test]
    fn differences_are_named() {
        let module = find("axpy").unwrap().parse().unwrap();
        let kernel = &module.kernels[0];
        let validation =
            Validation::new(kernel, &module.mappings[0], Sizes::parse(kernel, "n=5000").unwrap()).unwrap();
        let reference = validation.reference(Style::Integers, 1).unwrap();
        let mut found = reference.want.clone();
        assert_eq!(reference.difference(&found), None);
        found[1][17] ^= 0x40;
        let off = reference.difference(&found).unwrap();
        assert_eq!((off.name.as_str(), off.index), ("y", 4));
        // A zero of the other sign is another zero.
        let mut zeros = reference;
        zeros.want[1][..4].copy_from_slice(&0.0f32.to_le_bytes());
        let mut signed = zeros.want.clone();
        signed[1][3] ^= 0x80;
        assert_eq!(zeros.difference(&signed).map(|d| d.index), Some(0));
        assert_eq!(zeros.difference_beyond(&signed, 0.1), None);
        let reference = zeros;
        found[1][..4].copy_from_slice(&0.0f32.to_le_bytes());
        // Arrays that are only read may not differ, but they are no outputs.
        found[1][17] ^= 0x40;
        found[0][0] ^= 1;
        assert_eq!(reference.difference(&found), None);
    }
}
