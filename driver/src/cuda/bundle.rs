//! A loaded bundle: several mappings of one kernel, of which each launch gets the one for its sizes.
//!
//! ```text
//!  Bundle ─► LoadedBundle ─ args ─► integers ─► table ─► Kernel ─► launch
//! ```

use super::arguments::{Arg, LaunchError};
use super::device::Device;
use super::launch::{Kernel, Prepared};
use super::stream::Stream;
use crate::bundle::{Bundle, Table};

/// A bundle on a device.
pub struct LoadedBundle {
    kernels: Vec<Kernel>,
    table: Table,
    /// Where the integer arguments stand among all.
    places: Vec<usize>,
}

impl LoadedBundle {
    /// Loads all entries.
    ///
    /// # Errors
    /// As [`Kernel::load`].
    pub fn load(device: &Device, bundle: &Bundle) -> Result<Self, LaunchError> {
        let load = |e: &crate::bundle::Entry| Kernel::load(device, e.code.bytes(), e.manifest.clone());
        let kernels = bundle.entries.iter().map(load).collect::<Result<_, _>>()?;
        Ok(Self { kernels, table: bundle.table.clone(), places: places(bundle) })
    }

    /// The kernel for these arguments. Wrong arguments get one too, which then refuses them.
    pub fn pick(&self, args: &[Arg]) -> &Kernel {
        &self.kernels[pick(&self.table, &self.places, args)]
    }

    /// As [`Kernel::prepare`], of the kernel for these arguments.
    ///
    /// # Errors
    /// A refused argument, or a failed call.
    pub fn prepare(&self, args: &[Arg]) -> Result<Prepared, LaunchError> {
        self.pick(args).prepare(args)
    }

    /// As [`Kernel::launch`], of the kernel for these arguments.
    ///
    /// # Errors
    /// A refused argument, or a failed call.
    pub fn launch(&self, args: &[Arg], stream: &Stream) -> Result<(), LaunchError> {
        self.pick(args).launch(args, stream)
    }
}

/// Places of the table's arguments in the signature.
fn places(bundle: &Bundle) -> Vec<usize> {
    let arguments = bundle.entries.first().map_or(&[][..], |e| &e.manifest.arguments);
    let place = |name: &String| arguments.iter().position(|a| a.name == *name);
    bundle.table.names.iter().map(|name| place(name).unwrap_or(usize::MAX)).collect()
}

/// Integer arguments of a kernel at most that decide its entry without an allocation.
const SIZES: usize = 16;

fn pick(table: &Table, places: &[usize], args: &[Arg]) -> usize {
    let mut sizes = [0; SIZES];
    for (size, &place) in sizes.iter_mut().zip(places) {
        if let Some(&Arg::Int(value)) = args.get(place) {
            *size = value.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        }
    }
    table.pick(&sizes).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::tests::small;
    use std::hint::black_box;
    use std::time::{Duration, Instant};

    #[test]
    fn arguments_pick_the_entry_of_their_sizes() {
        let bundle = small();
        let places = places(&bundle);
        let at = |n: i64| {
            let pointer = Arg::Pointer { address: 256, bytes: None };
            let args = [Arg::Float(1.0), pointer, pointer, Arg::Int(n.into())];
            pick(&bundle.table, &places, &args)
        };
        assert_eq!((places.clone(), at(1000), at(1001), at(1 << 40)), (vec![3], 0, 1, 1));
        assert_eq!(pick(&bundle.table, &places, &[]), 0, "too few arguments: the kernel refuses them");
        let args = [Arg::Float(1.0), Arg::Int(0), Arg::Int(0), Arg::Int(7)];
        let start = |_| {
            let start = Instant::now();
            (0..1000).for_each(|_| _ = black_box(pick(&bundle.table, &places, black_box(&args))));
            start.elapsed() / 1000
        };
        assert!((0..50).map(start).min().unwrap() < Duration::from_micros(1));
    }
}
