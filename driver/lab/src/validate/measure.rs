//! The elements of arrays whose extents come from memory.
//!
//! ```text
//!  data ─► interpreter: a view extends the array as far as it reaches ─► elements ─► data of that length ─► ..
//! ```
//!
//! Data of another length may give other extents, so this is repeated until the lengths stay.

use super::given::Contents;
use super::{Data, Operand, ProblemError, Style, Validation, ValidationError, npy};
use warplift_ir::interp::{self, Arg, Memory};

/// Repetitions until the lengths must stay.
const ROUNDS: usize = 4;

impl Validation<'_> {
    /// The operands with all that their views reach on these data. `most` bounds the bytes of each array.
    ///
    /// # Errors
    /// The interpreter stops; lengths that depend on themselves; a grid that is too large for the interpreter.
    pub(super) fn measured(
        &self,
        style: Style,
        seed: u64,
        most: u64,
    ) -> Result<Vec<Operand>, ValidationError> {
        let mut operands = self.operands_of_files()?;
        if operands.iter().all(|o| o.from_memory.is_none()) {
            return Ok(operands);
        }
        if !super::blocks::runs_whole(&self.resolved, &self.sizes) {
            return Err(unknown(
                &operands,
                "the interpreter measures it, but not on so many blocks: give smaller sizes",
            ));
        }
        for _ in 0..ROUNDS {
            let lengths = self.lengths(&operands, style, seed, most)?;
            let stay = operands.iter().zip(&lengths).all(|(o, l)| o.elements == *l);
            operands.iter_mut().zip(lengths).for_each(|(o, l)| o.elements = l);
            if stay {
                operands.iter_mut().for_each(|o| o.from_memory = None);
                return Ok(operands);
            }
        }
        Err(unknown(&operands, "it changes whenever the array has another length"))
    }

    /// The operands; those whose contents a file holds are as long as the file.
    fn operands_of_files(&self) -> Result<Vec<Operand>, ValidationError> {
        let mut operands = self.operands.clone();
        for operand in operands.iter_mut().filter(|o| o.from_memory.is_some()) {
            if let Some(Contents::File(path)) = self.given.of(&operand.name) {
                operand.elements = npy::read(path).map_err(ProblemError::Sizes)?.len() as u64;
                operand.from_memory = None;
            }
        }
        Ok(operands)
    }

    /// The elements of each operand after one run.
    fn lengths(
        &self,
        operands: &[Operand],
        style: Style,
        seed: u64,
        most: u64,
    ) -> Result<Vec<u64>, ValidationError> {
        let data = Data::given(operands, &self.given, style, seed)?;
        let mut memory = Memory::new();
        let pairs = operands.iter().zip(data.buffers);
        let ids: Vec<_> = pairs
            .map(|(o, bytes)| match o.from_memory {
                Some(_) => memory.add_open(&o.name, bytes, most as usize),
                None => memory.add(&o.name, bytes),
            })
            .collect();
        let mut pointers = ids.iter();
        let args: Vec<Arg> = self
            .kernel
            .params
            .iter()
            .filter_map(|p| match self.sizes.get(&p.name) {
                Some(super::Scalar::Int(v)) => Some(Arg::Int(v)),
                Some(super::Scalar::Float(v)) => Some(Arg::Float(v)),
                None => pointers.next().map(|&id| Arg::Ptr(id, 0)),
            })
            .collect();
        interp::run(&self.resolved, &args, &mut memory, &interp::Options::default())?;
        let length = |(o, &id): (&Operand, _)| match o.from_memory {
            Some(_) => memory.bytes(id).len() as u64 * 8 / u64::from(o.elem.bits()),
            None => o.elements,
        };
        Ok(operands.iter().zip(&ids).map(length).collect())
    }
}

fn unknown(operands: &[Operand], why: &str) -> ValidationError {
    let open = operands.iter().find_map(|o| Some((o.name.as_str(), o.from_memory?)));
    let (name, line) = open.unwrap_or(("", 0));
    ProblemError::Operands(format!("line {line}: the size of `{name}` is not known before the launch; {why}"))
        .into()
}

#[cfg(test)]
mod tests {
    use super::super::{Given, Sizes};
    use super::*;
    use warplift_ir::tile::{Mapping, parse_file};

    const TEXT: &str = "kernel k(c: ptr<i32>, x: ptr<f16>, y: ptr<f16>) { grid 2
        gc = view c : i32[1] n = reduce_max(load gc[0] : i32[1], 0)
        gx = view x : f16[n, 3] gy = view y : f16[4] i = block_index
        store gy[i], reduce_max(load gx[i, 0] : f16[1, 4], 1) }";

    fn elements(data: &[&str]) -> Result<u64, ValidationError> {
        let kernel = parse_file(TEXT, "").unwrap().kernels.remove(0);
        let sizes = Sizes::defaults(&kernel);
        let validation = Validation::open(&kernel, &Mapping::default(), sizes)?;
        let validation = validation.with_data(Given::parse(data.iter().copied()).unwrap())?;
        Ok(validation.measured(Style::Integers, 1, 1 << 20)?[1].elements)
    }

    #[test]
    fn arrays_are_as_long_as_the_data_say() {
        assert_eq!(elements(&["c=ints:37..=37"]).unwrap(), 111);
        assert_eq!(elements(&["c=zeros"]).unwrap(), 0);
        assert!((3..=768).contains(&elements(&[]).unwrap()));
        let error = elements(&["c=ints:1000000..=1000000"]).unwrap_err().to_string();
        assert!(error.contains("`x`"), "{error}");
    }

    #[test]
    fn only_an_open_validation_takes_such_arrays() {
        let kernel = parse_file(TEXT, "").unwrap().kernels.remove(0);
        let error = Validation::new(&kernel, &Mapping::default(), Sizes::defaults(&kernel)).unwrap_err();
        assert!(error.to_string().contains("line 3: the size of `x` follows from memory"), "{error}");
    }
}
