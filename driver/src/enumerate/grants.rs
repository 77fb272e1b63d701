//! What a caller grants of its arguments. A mapping may ask four things of whoever launches it, and none is proposed unasked:
//!
//! ```text
//!  packed        the array is stored in another order, before the launch
//!  before_wait   no grid that may still run writes it
//!  align 16      it begins at a multiple of so many bytes        assume a align 16
//!  a size told   launches divide as the size that is given       assume k % 8
//! ```

use warplift_ir::tile::{ArrayMapping, Kernel, Mapping, Promise, Way};

/// What may be asked of arguments, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// Arrays that may be packed, or read before the wait for the grids before.
    arrays: Vec<(String, ArrayMapping)>,
    /// Arrays that begin at multiples of so many bytes.
    aligned: Vec<(String, u64)>,
    /// Integers whose values are those of all launches, as far as divisors go.
    told: Vec<String>,
}

impl Grants {
    /// What these mappings ask of arrays: their author has granted it. What they assume of integers says for which launches they
    /// are, and nothing of the launches of other mappings.
    pub fn of<'m>(mappings: impl IntoIterator<Item = &'m Mapping>) -> Self {
        let mut grants = Self::default();
        for mapping in mappings {
            for (name, array) in &mapping.arrays {
                grants.add(name, array.way == Way::Packed, array.before_wait);
            }
            for (name, promise) in &mapping.promises {
                if let Promise::Align(bytes) = promise {
                    grants.align(name, *bytes);
                }
            }
        }
        grants
    }

    /// Grants that an array begins at a multiple of so many bytes.
    pub fn align(&mut self, name: &str, bytes: u64) {
        self.aligned.push((name.to_owned(), bytes));
    }

    /// Grants that every launch has the sizes for which a mapping is chosen, of these integers, as far as divisors go.
    pub fn tell<'n>(&mut self, names: impl IntoIterator<Item = &'n str>) {
        self.told.extend(names.into_iter().map(str::to_owned));
    }

    /// Bytes at whose multiples an array begins; 1 where nothing is granted.
    pub(super) fn alignment(&self, name: &str) -> u64 {
        self.aligned.iter().filter(|(n, _)| n == name).map(|a| a.1).max().unwrap_or(1)
    }

    /// Whether a mapping may assume of an integer what its value says.
    pub(super) fn tells(&self, name: &str) -> bool {
        self.told.iter().any(|n| n == name)
    }

    /// Grants more of an array.
    pub fn add(&mut self, name: &str, packed: bool, before_wait: bool) {
        if !packed && !before_wait {
            return;
        }
        let known = self.arrays.iter().position(|(n, _)| n == name);
        let at = known.unwrap_or_else(|| {
            self.arrays.push((name.to_owned(), ArrayMapping::default()));
            self.arrays.len() - 1
        });
        let array = &mut self.arrays[at].1;
        array.before_wait |= before_wait;
        if packed {
            array.way = Way::Packed;
        }
    }

    /// Whether an array may be stored in another order.
    pub fn packs(&self, name: &str) -> bool {
        self.of_array(name).way == Way::Packed
    }

    /// Whether a mapping asks for nothing else.
    pub fn allow(&self, mapping: &Mapping) -> bool {
        let own = |(name, array): &(String, ArrayMapping)| {
            let granted = self.of_array(name);
            (array.way != Way::Packed || granted.way == Way::Packed)
                && (!array.before_wait || granted.before_wait)
        };
        let assumed = |(name, promise): &(String, Promise)| match promise {
            Promise::Align(bytes) => *bytes <= self.alignment(name),
            Promise::Number(_) => self.tells(name),
        };
        mapping.arrays.iter().all(own) && mapping.promises.iter().all(assumed)
    }

    /// Has a mapping read before the wait whatever may be, of the arrays that the kernel reads and does not write.
    pub(super) fn read_early(&self, kernel: &Kernel, mapping: &mut Mapping) {
        let early = |(name, granted): &&(String, ArrayMapping)| granted.before_wait && is_read(kernel, name);
        for (name, _) in self.arrays.iter().filter(early) {
            let at = mapping.arrays.iter().position(|(n, _)| n == name).unwrap_or_else(|| {
                mapping.arrays.push((name.clone(), ArrayMapping::default()));
                mapping.arrays.len() - 1
            });
            mapping.arrays[at].1.before_wait = true;
        }
    }

    fn of_array(&self, name: &str) -> ArrayMapping {
        self.arrays.iter().find(|(n, _)| n == name).map_or(ArrayMapping::default(), |g| g.1)
    }
}

/// Whether a kernel reads an array, and does not write it.
fn is_read(kernel: &Kernel, name: &str) -> bool {
    let of = |i| kernel.args(i).first().and_then(|&v| kernel.argument_of(v)).is_some_and(|p| p.name == name);
    let (mut read, mut written) = (false, false);
    for (inst, data) in kernel.insts.iter() {
        let writes = data.op.written_operand(kernel.args(inst).len()).is_some();
        read |= data.op.is_read() && of(inst);
        written |= writes && of(inst);
    }
    read && !written
}
