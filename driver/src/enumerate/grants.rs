//! What a caller grants of its arrays. A mapping may ask two things of whoever launches it, and neither is proposed unasked:
//!
//! ```text
//!  packed        the array is stored in another order, before the launch
//!  before_wait   no grid that may still run writes it
//! ```

use warplift_ir::tile::{ArrayMapping, Kernel, Mapping, Way};

/// Arrays that may be packed, or read before the wait for the grids before, by their arguments' names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(Vec<(String, ArrayMapping)>);

impl Grants {
    /// What these mappings ask for: their author has granted it.
    pub fn of<'m>(mappings: impl IntoIterator<Item = &'m Mapping>) -> Self {
        let mut grants = Self::default();
        for (name, array) in mappings.into_iter().flat_map(|m| &m.arrays) {
            grants.add(name, array.way == Way::Packed, array.before_wait);
        }
        grants
    }

    /// Grants more of an array.
    pub fn add(&mut self, name: &str, packed: bool, before_wait: bool) {
        if !packed && !before_wait {
            return;
        }
        let known = self.0.iter().position(|(n, _)| n == name);
        let at = known.unwrap_or_else(|| {
            self.0.push((name.to_owned(), ArrayMapping::default()));
            self.0.len() - 1
        });
        let array = &mut self.0[at].1;
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
        mapping.arrays.iter().all(own)
    }

    /// Has a mapping read before the wait whatever may be, of the arrays that the kernel reads and does not write.
    pub(super) fn read_early(&self, kernel: &Kernel, mapping: &mut Mapping) {
        for (name, _) in self.0.iter().filter(|(name, granted)| granted.before_wait && is_read(kernel, name))
        {
            let at = mapping.arrays.iter().position(|(n, _)| n == name).unwrap_or_else(|| {
                mapping.arrays.push((name.clone(), ArrayMapping::default()));
                mapping.arrays.len() - 1
            });
            mapping.arrays[at].1.before_wait = true;
        }
    }

    fn of_array(&self, name: &str) -> ArrayMapping {
        self.0.iter().find(|(n, _)| n == name).map_or(ArrayMapping::default(), |g| g.1)
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
