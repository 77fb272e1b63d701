//! A launch from the compiler's manifest and the caller's arguments.

use super::SimError;
use super::float::{BF16, F16, Round};
use super::launch::{Launch, ParamValue};
use super::memory::{BufferId, MEMORY_LIMIT, Memory};
use super::program::Module;
use super::tensormap::TensorMapDesc;
use warplift_manifest::{Argument, Expr, Fact, MANIFEST_VERSION, Manifest, Param, TensorMap};

/// An argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg {
    /// A buffer, plus an offset in bytes.
    Pointer(BufferId, u64),
    /// An integer or a bool.
    Int(i64),
    /// A float.
    Float(f64),
}

/// The name of the buffer that holds the workspace of an entry.
pub fn workspace_of(entry: &str) -> String {
    format!("the workspace of {entry}")
}

/// The launch that a manifest describes, with these arguments by name. The first launch allocates a workspace in
/// `memory`, zeroed; later ones find it as it was left.
///
/// # Errors
/// Another manifest version, a missing or mistyped argument, a broken fact, a size that cannot be
/// evaluated: [`SimError::Launch`] with the names and numbers.
pub fn launch_from_manifest<'a>(
    module: &'a Module,
    manifest: &'a Manifest,
    args: &[(&str, Arg)],
    memory: &mut Memory,
    sm_count: u32,
) -> Result<Launch<'a>, SimError> {
    let caller = Caller { manifest, args, sm_count };
    caller.launch(module, memory).map_err(SimError::Launch)
}

struct Caller<'a, 'b> {
    manifest: &'a Manifest,
    args: &'b [(&'b str, Arg)],
    sm_count: u32,
}

impl<'a> Caller<'a, '_> {
    fn launch(&self, module: &'a Module, memory: &mut Memory) -> Result<Launch<'a>, String> {
        let m = self.manifest;
        if m.version != MANIFEST_VERSION {
            return Err(format!("manifest version {}, this is {MANIFEST_VERSION}", m.version));
        }
        for (name, _) in self.args {
            if !m.arguments.iter().any(|a| a.name == *name) {
                return Err(format!("the kernel has no argument `{name}`"));
            }
        }
        m.facts.iter().try_for_each(|f| self.fact(f, memory))?;
        let mut grid = [1; 3];
        for (out, e) in grid.iter_mut().zip(&m.grid) {
            *out = self.count(e)?;
        }
        let mut launch = Launch::new(module, &m.entry);
        launch.grid = grid;
        launch.cluster = m.cluster;
        launch.block = m.block;
        launch.dynamic_shared = m.dynamic_shared;
        launch.sm_count = self.sm_count;
        launch.pdl = m.pdl;
        launch.before_wait = self.before_wait()?;
        for p in &m.params {
            let value = self.param(p, memory)?;
            launch.params.push(value);
        }
        Ok(launch)
    }

    /// Buffers that the manifest lets threads read before they wait for other grids.
    fn before_wait(&self) -> Result<Vec<BufferId>, String> {
        let before_wait = self.manifest.arguments.iter().filter(|a| a.before_wait);
        let buffer = |a: &Argument| match self.arg(&a.name)? {
            Arg::Pointer(id, _) => Ok(id),
            other => Err(format!("argument `{}` is {other:?}, a buffer is needed", a.name)),
        };
        before_wait.map(buffer).collect()
    }

    fn arg(&self, name: &str) -> Result<Arg, String> {
        let found = self.args.iter().find(|(n, _)| *n == name);
        found.map(|(_, a)| *a).ok_or_else(|| format!("argument `{name}` is missing"))
    }

    fn int(&self, name: &str) -> Result<i64, String> {
        match self.arg(name)? {
            Arg::Int(v) => Ok(v),
            other => Err(format!("argument `{name}` is {other:?}, an integer is needed")),
        }
    }

    fn pointer(&self, name: &str, memory: &Memory) -> Result<u64, String> {
        match self.arg(name)? {
            Arg::Pointer(id, offset) => Ok(memory.address(id).wrapping_add(offset)),
            other => Err(format!("argument `{name}` is {other:?}, a buffer is needed")),
        }
    }

    fn eval(&self, e: &Expr) -> Result<i64, String> {
        let lookup = |name: &str| match name {
            "sm_count" => Some(i64::from(self.sm_count)),
            _ => self.int(name).ok(),
        };
        e.eval(&lookup).map_err(|e| e.to_string())
    }

    fn count(&self, e: &Expr) -> Result<u32, String> {
        let v = self.eval(e)?;
        u32::try_from(v).map_err(|_| format!("`{e}` is {v}"))
    }

    fn fact(&self, fact: &Fact, memory: &Memory) -> Result<(), String> {
        match fact {
            Fact::Aligned { name, align } => {
                let a = self.pointer(name, memory)?;
                if *align == 0 || a.is_multiple_of(*align) {
                    return Ok(());
                }
                Err(format!("`{name}` at {a:#x} is not aligned to {align} bytes"))
            }
            Fact::Multiple { name, of } => {
                let v = self.int(name)?;
                if v.checked_rem(*of).is_none_or(|r| r == 0) {
                    return Ok(());
                }
                Err(format!("`{name}` is {v}, no multiple of {of}"))
            }
            Fact::Range { name, min, max } => {
                let v = self.int(name)?;
                if (*min..=*max).contains(&v) {
                    return Ok(());
                }
                Err(format!("`{name}` is {v}, not from {min} to {max}"))
            }
            Fact::Disjoint { written, other } => {
                let buffer = |name: &str| match self.arg(name)? {
                    Arg::Pointer(id, _) => Ok(id),
                    other => Err(format!("argument `{name}` is {other:?}, a buffer is needed")),
                };
                if buffer(written)? != buffer(other)? {
                    return Ok(());
                }
                Err(format!(
                    "`{written}` and `{other}` are one buffer, and the kernel writes through `{written}`"
                ))
            }
            Fact::Limit { what, value, min, max } => {
                let v = self.eval(value)?;
                if (*min..=*max).contains(&v) {
                    return Ok(());
                }
                Err(format!("{what} is {v} (`{value}`), not from {min} to {max}"))
            }
        }
    }

    fn param(&self, p: &Param, memory: &mut Memory) -> Result<ParamValue, String> {
        match p {
            Param::Argument { name } => self.scalar(name),
            Param::TensorMap(map) => self.map(map, memory).map(ParamValue::TensorMap),
            Param::Workspace { offset } => {
                let bytes = self.eval(&self.manifest.workspace)?;
                let name = workspace_of(&self.manifest.entry);
                let id = match memory.named(&name, usize::try_from(bytes).unwrap_or(usize::MAX)) {
                    Some(id) => id,
                    None => memory.alloc(&name, vec![0; self.room(bytes, memory)?]),
                };
                Ok(ParamValue::Pointer(id, self.eval(offset)? as u64))
            }
        }
    }

    /// The bytes of a workspace, if they fit beside the buffers.
    fn room(&self, bytes: i64, memory: &Memory) -> Result<usize, String> {
        let room = MEMORY_LIMIT.saturating_sub(memory.bytes_in_all());
        let fits = usize::try_from(bytes).ok().filter(|b| *b as u64 <= room);
        fits.ok_or_else(|| {
            format!(
                "a workspace of {bytes} bytes does not fit: the simulator takes {MEMORY_LIMIT} bytes, of which the \
                 arguments leave {room}"
            )
        })
    }

    fn scalar(&self, name: &str) -> Result<ParamValue, String> {
        let declared = self.manifest.arguments.iter().find(|a| a.name == name);
        let ty = &declared.ok_or_else(|| format!("parameter `{name}` is no argument"))?.ty;
        let arg = self.arg(name)?;
        let wrong = || format!("argument `{name}` is {arg:?}, its type is `{ty}`");
        match arg {
            Arg::Pointer(id, offset) if ty.starts_with("ptr") => Ok(ParamValue::Pointer(id, offset)),
            Arg::Int(v) => integer(v, ty).map(ParamValue::Bytes).ok_or_else(wrong),
            Arg::Float(v) => float(v, ty).map(ParamValue::Bytes).ok_or_else(wrong),
            Arg::Pointer(..) => Err(wrong()),
        }
    }

    fn map(&self, map: &TensorMap, memory: &Memory) -> Result<TensorMapDesc, String> {
        let base = self.pointer(&map.base, memory)?;
        let unsigned = |e: &Expr| {
            let v = self.eval(e)?;
            u64::try_from(v).map_err(|_| format!("tensor map of `{}`: `{e}` is {v}", map.base))
        };
        Ok(TensorMapDesc {
            address: base.wrapping_add_signed(self.eval(&map.offset)?),
            element: map.element.clone(),
            dims: map.dims.iter().map(unsigned).collect::<Result<_, _>>()?,
            strides: map.strides.iter().map(unsigned).collect::<Result<_, _>>()?,
            box_dims: map.box_dims.clone(),
            swizzle: map.swizzle,
        })
    }
}

/// Little-endian bytes of an integer of a type; `None` where it does not fit.
fn integer(v: i64, ty: &str) -> Option<Vec<u8>> {
    if ty == "bool" {
        return (0..=1).contains(&v).then(|| vec![v as u8]);
    }
    let bits: u32 = ty.get(1..)?.parse().ok()?;
    let fits = match ty.as_bytes().first()? {
        b'i' => (1..=64).contains(&bits) && v >> (bits - 1).min(63) == v >> 63,
        b'u' => (1..=64).contains(&bits) && (bits == 64 || (v >> bits == 0 && v >= 0)),
        _ => false,
    };
    let bytes = bits.div_ceil(8).next_power_of_two() as usize;
    fits.then(|| v.to_le_bytes()[..bytes].to_vec())
}

fn float(v: f64, ty: &str) -> Option<Vec<u8>> {
    Some(match ty {
        "f64" => v.to_le_bytes().to_vec(),
        "f32" => (v as f32).to_le_bytes().to_vec(),
        "f16" => (F16.encode(v, Round::Even) as u16).to_le_bytes().to_vec(),
        "bf16" => (BF16.encode(v, Round::Even) as u16).to_le_bytes().to_vec(),
        _ => return None,
    })
}
