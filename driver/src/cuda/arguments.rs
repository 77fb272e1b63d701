//! Checks arguments against a manifest. This is the part of a launch that needs no device.
//!
//! ```text
//!  &[Arg] ──► types and ranges ──► facts ──► grid, workspace ──► parameters: bytes,
//!  manifest ┘                                                   tensor map requests, workspace
//! ```
//!
//! The result, a [`Plan`], is data; [`super::launch`] turns it into calls.

use super::error::CudaError;
use super::memory::Buffer;
use super::tensor_map::{ElementType, TensorMapError, TensorMapRequest};
use warplift_ir::manifest::{Argument, Expr, ExprError, Fact, MANIFEST_VERSION, Manifest, Param, TensorMap};

/// An argument of a launch. The manifest says which type each must have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg {
    /// A device address, with the bytes behind it where they are known.
    Pointer {
        /// Address.
        address: u64,
        /// Bytes of the buffer behind the address.
        bytes: Option<u64>,
    },
    /// An integer or bool of any width.
    Int(i128),
    /// A float of any width.
    Float(f64),
}

impl From<&Buffer> for Arg {
    fn from(buffer: &Buffer) -> Self {
        Self::Pointer { address: buffer.address(), bytes: Some(buffer.len()) }
    }
}

/// Conversions from the numbers that kernels take.
macro_rules! from_numbers {
    ($($ty:ty => $variant:ident),*) => {$(
        impl From<$ty> for Arg {
            fn from(value: $ty) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}
from_numbers!(bool => Int, i32 => Int, u32 => Int, i64 => Int, u64 => Int, f32 => Float, f64 => Float);

/// An integer without a range is a size: what helps whoever meant another one.
fn range_hint(name: &str, value: i64, min: i64) -> String {
    match value < 0 && min == 0 {
        true => format!("; if negative numbers are meant, the signature says so: `{name}: i32 in LO..HI`"),
        false => String::new(),
    }
}

/// Why a launch was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LaunchError {
    /// A manifest of another format.
    #[error("the manifest has format version {found}; this launcher reads {MANIFEST_VERSION}")]
    Version {
        /// Version in the manifest.
        found: u32,
    },
    /// Wrong number of arguments.
    #[error("`{kernel}` takes {} arguments ({}), {found} were given", names.len(), names.join(", "))]
    Count {
        /// Kernel.
        kernel: String,
        /// Names of its arguments.
        names: Vec<String>,
        /// Arguments given.
        found: usize,
    },
    /// An argument of another type.
    #[error("argument `{name}` is {expected}, {found:?} was given")]
    Type {
        /// Argument.
        name: String,
        /// Type in the signature.
        expected: String,
        /// The argument.
        found: Arg,
    },
    /// A value that its type cannot hold.
    #[error("argument `{name}` = {value} does not fit {ty}")]
    DoesNotFit {
        /// Argument.
        name: String,
        /// Value.
        value: i128,
        /// Type in the signature.
        ty: String,
    },
    /// Alignment fact.
    #[error("argument `{name}` = {address:#x} must be aligned to {align} bytes")]
    Misaligned {
        /// Argument.
        name: String,
        /// Address.
        address: u64,
        /// Bytes.
        align: u64,
    },
    /// An array that must be packed is smaller than it is then.
    #[error("argument `{name}` must be packed, which takes {needed} bytes; it has {found}")]
    NotPacked {
        /// Argument.
        name: String,
        /// Bytes given.
        found: u64,
        /// Bytes of the packed array.
        needed: i64,
    },
    /// Divisibility fact.
    #[error("argument `{name}` = {value} must be a multiple of {of}")]
    NotMultiple {
        /// Argument.
        name: String,
        /// Value.
        value: i64,
        /// Divisor.
        of: i64,
    },
    /// Range fact.
    #[error("argument `{name}` = {value} must be in {min}..={max}{}", range_hint(name, *value, *min))]
    OutOfRange {
        /// Argument.
        name: String,
        /// Value.
        value: i64,
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
    },
    /// Two arguments whose memory overlaps, though the kernel takes it to lie apart.
    #[error(
        "arguments `{written}` and `{other}` share memory ({bytes} bytes from {address:#x}), and the kernel writes through \
         `{written}`; if that is meant, say `may_alias` of both in the signature"
    )]
    Overlap {
        /// The argument that is written through.
        written: String,
        /// The other one.
        other: String,
        /// Where the shared memory starts.
        address: u64,
        /// Bytes that are shared.
        bytes: u64,
    },
    /// A number computed from arguments that the kernel's arithmetic cannot hold.
    #[error("{what} is {value} (`{expr}`); it must be in {min}..={max}")]
    Exceeded {
        /// The meaning of the number.
        what: String,
        /// Its expression.
        expr: String,
        /// Value.
        value: i64,
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
    },
    /// The manifest names an argument that it does not declare, or one of the wrong kind.
    #[error("the manifest's {place} names `{name}`, which is no {kind} argument")]
    Unknown {
        /// Where in the manifest.
        place: &'static str,
        /// The name.
        name: String,
        /// Kind needed there.
        kind: &'static str,
    },
    /// An expression that has no value for these arguments.
    #[error("{place}: {error}")]
    Expr {
        /// Where in the manifest.
        place: String,
        /// Why.
        error: ExprError,
    },
    /// A value that must not be negative, or exceeds its limit.
    #[error("{place} is {value}; the limit is {limit}")]
    Limit {
        /// The value's name, in words.
        place: String,
        /// Value.
        value: i64,
        /// Greatest value; the least is 0.
        limit: i64,
    },
    /// The grid is not whole clusters.
    #[error("the grid has {grid} blocks in {axis}, which {cluster} blocks a cluster do not divide")]
    Cluster {
        /// `x`, `y` or `z`.
        axis: char,
        /// Blocks.
        grid: u32,
        /// Blocks of a cluster.
        cluster: u32,
    },
    /// A tensor map that the copy engine does not take.
    #[error("tensor map over `{name}`: {error}")]
    TensorMap {
        /// Pointer argument.
        name: String,
        /// Why.
        error: TensorMapError,
    },
    /// The code's parameters are not those of the manifest.
    #[error("the manifest does not belong to this code: {0}")]
    Parameters(String),
    /// A failed call.
    #[error(transparent)]
    Cuda(#[from] CudaError),
}

/// A launch, computed as far as possible without a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Blocks in x, y, z; any 0 launches nothing.
    pub grid: [u32; 3],
    /// Bytes of workspace to provide, zeroed.
    pub workspace: u64,
    /// Parameters of the entry, in order; empty where nothing is launched.
    pub params: Vec<PlannedParam>,
}

/// One parameter of a [`Plan`].
#[derive(Clone, Debug, PartialEq)]
pub enum PlannedParam {
    /// A value of up to 8 bytes, little-endian.
    Bytes([u8; 8]),
    /// A tensor map to encode.
    TensorMap(TensorMapRequest),
    /// A tensor map over a tensor without elements: nothing is in bounds, so loads give zeros and
    /// stores write nothing. The driver has no such map; `written` picks the stand-in memory.
    EmptyTensor {
        /// The map with every extent 1 and legal strides.
        request: TensorMapRequest,
        /// Whether the kernel writes through the argument.
        written: bool,
    },
    /// Address in the workspace: bytes from its start.
    Workspace(u64),
}

impl Plan {
    /// Whether the grid has any block.
    pub fn is_empty(&self) -> bool {
        self.grid.contains(&0)
    }
}

/// Greatest grid in x, y, z (CUDA C++ Programming Guide, "Compute Capabilities").
const GRID_LIMITS: [i64; 3] = [(1 << 31) - 1, 65535, 65535];

/// Checks a manifest itself: format, block, cluster, and shared memory of a device that gives one
/// block `shared_per_block` bytes.
///
/// # Errors
/// The first limit broken.
pub fn check_manifest(manifest: &Manifest, shared_per_block: u32) -> Result<(), LaunchError> {
    let found = manifest.version;
    if found != MANIFEST_VERSION {
        return Err(LaunchError::Version { found });
    }
    let cluster = manifest.cluster.iter().map(|&c| i64::from(c)).product();
    for (place, value, limit) in [
        ("block size", i64::from(manifest.block), 1024),
        ("blocks of a cluster", cluster, 16),
        ("dynamic shared memory", i64::from(manifest.dynamic_shared), i64::from(shared_per_block)),
    ] {
        limited(place, value, limit)?;
    }
    if manifest.block == 0 || cluster == 0 {
        return Err(LaunchError::Parameters("block or cluster of size 0".into()));
    }
    Ok(())
}

fn limited(place: &str, value: i64, limit: i64) -> Result<i64, LaunchError> {
    if (0..=limit).contains(&value) {
        return Ok(value);
    }
    let place = place.to_owned();
    Err(LaunchError::Limit { place, value, limit })
}

/// Bytes of workspace at most.
const MAX_WORKSPACE: i64 = 1 << 40;

/// Computes a launch. `sm_count` is the variable of that name in the manifest's expressions.
///
/// # Errors
/// The arguments do not fit the signature, break a required fact, or lead over a limit.
pub fn plan(manifest: &Manifest, args: &[Arg], sm_count: u32) -> Result<Plan, LaunchError> {
    let call = Call::new(manifest, args, sm_count)?;
    for fact in &manifest.facts {
        call.check_fact(fact)?;
    }
    call.check_packed()?;
    let grid = call.grid()?;
    let workspace = limited("workspace bytes", call.eval("workspace", &manifest.workspace)?, MAX_WORKSPACE)?;
    let mut plan = Plan { grid, workspace: workspace as u64, params: Vec::new() };
    if !plan.is_empty() {
        let params = manifest.params.iter().map(|p| call.param(p));
        plan.params = params.collect::<Result<_, _>>()?;
    }
    Ok(plan)
}

/// Arguments of one launch beside their declarations.
struct Call<'a> {
    manifest: &'a Manifest,
    args: &'a [Arg],
    sm_count: u32,
}

impl<'a> Call<'a> {
    fn new(manifest: &'a Manifest, args: &'a [Arg], sm_count: u32) -> Result<Self, LaunchError> {
        let declared = &manifest.arguments;
        if args.len() != declared.len() {
            return Err(LaunchError::Count {
                kernel: manifest.kernel.clone(),
                names: declared.iter().map(|a| a.name.clone()).collect(),
                found: args.len(),
            });
        }
        for (argument, arg) in declared.iter().zip(args) {
            encode(argument, arg)?;
        }
        Ok(Self { manifest, args, sm_count })
    }

    fn find(&self, name: &str) -> Option<(&'a Argument, &'a Arg)> {
        let mut pairs = self.manifest.arguments.iter().zip(self.args);
        pairs.find(|(argument, _)| argument.name == name)
    }

    fn variable(&self, name: &str) -> Option<i64> {
        match self.find(name) {
            Some((_, Arg::Int(v))) => i64::try_from(*v).ok(),
            None if name == "sm_count" => Some(i64::from(self.sm_count)),
            _ => None,
        }
    }

    fn eval(&self, place: &str, expr: &Expr) -> Result<i64, LaunchError> {
        expr.eval(&|name| self.variable(name))
            .map_err(|error| LaunchError::Expr { place: place.to_owned(), error })
    }

    fn pointer(&self, place: &'static str, name: &str) -> Result<(u64, Option<u64>), LaunchError> {
        match self.find(name) {
            Some((_, &Arg::Pointer { address, bytes })) => Ok((address, bytes)),
            _ => Err(unknown(place, name, "pointer")),
        }
    }

    /// Checks that packed arrays are large enough.
    fn check_packed(&self) -> Result<(), LaunchError> {
        for argument in &self.manifest.arguments {
            let Some(packing) = &argument.packing else { continue };
            let (_, Some(found)) = self.pointer("arguments", &argument.name)? else { continue };
            let needed = packing.bytes(&|name| self.variable(name));
            let place = format!("packing of `{}`", argument.name);
            let needed = needed.map_err(|error| LaunchError::Expr { place, error })?;
            let name = argument.name.clone();
            ensure(needed <= found as i64, || LaunchError::NotPacked { name, found, needed })?;
        }
        Ok(())
    }

    fn check_fact(&self, fact: &Fact) -> Result<(), LaunchError> {
        match fact {
            Fact::Aligned { name, align } => self.check_aligned(name, *align),
            Fact::Multiple { name, of } => {
                let value = self.integer(name)?;
                let holds = value.checked_rem(*of) == Some(0);
                let (name, of) = (name.clone(), *of);
                ensure(holds, || LaunchError::NotMultiple { name, value, of })
            }
            Fact::Range { name, min, max } => {
                let value = self.integer(name)?;
                let (name, min, max) = (name.clone(), *min, *max);
                let holds = (min..=max).contains(&value);
                ensure(holds, || LaunchError::OutOfRange { name, value, min, max })
            }
            Fact::Limit { what, value: expr, min, max } => {
                let value = self.eval(what, expr)?;
                let (what, expr) = (what.clone(), expr.to_string());
                let (min, max) = (*min, *max);
                let holds = (min..=max).contains(&value);
                ensure(holds, || LaunchError::Exceeded { what, expr, value, min, max })
            }
            Fact::Disjoint { written, other } => self.check_disjoint(written, other),
        }
    }

    /// What can be checked: buffers whose sizes are known.
    fn check_disjoint(&self, written: &str, other: &str) -> Result<(), LaunchError> {
        let ((a, Some(own)), (b, Some(its))) =
            (self.pointer("facts", written)?, self.pointer("facts", other)?)
        else {
            return Ok(());
        };
        let end = a.saturating_add(own).min(b.saturating_add(its));
        let (address, written, other) = (a.max(b), written.to_owned(), other.to_owned());
        let bytes = end.saturating_sub(address);
        ensure(bytes == 0, || LaunchError::Overlap { written, other, address, bytes })
    }

    fn check_aligned(&self, name: &str, align: u64) -> Result<(), LaunchError> {
        let (address, _) = self.pointer("facts", name)?;
        let name = name.to_owned();
        let holds = address.checked_rem(align) == Some(0);
        ensure(holds, || LaunchError::Misaligned { name, address, align })
    }

    fn integer(&self, name: &str) -> Result<i64, LaunchError> {
        let value = self.find(name).and_then(|_| self.variable(name));
        value.ok_or_else(|| unknown("facts", name, "64-bit integer"))
    }

    fn grid(&self) -> Result<[u32; 3], LaunchError> {
        let mut grid = [0; 3];
        for (i, axis) in ['x', 'y', 'z'].into_iter().enumerate() {
            let place = format!("grid in {axis}");
            let value = self.eval(&place, &self.manifest.grid[i])?;
            grid[i] = limited(&place, value, GRID_LIMITS[i])? as u32;
            let (blocks, cluster) = (grid[i], self.manifest.cluster[i].max(1));
            let whole = blocks.is_multiple_of(cluster);
            ensure(whole, || LaunchError::Cluster { axis, grid: blocks, cluster })?;
        }
        Ok(grid)
    }

    fn param(&self, param: &Param) -> Result<PlannedParam, LaunchError> {
        match param {
            Param::Argument { name } => {
                let pair = self.find(name);
                let (argument, arg) = pair.ok_or_else(|| unknown("params", name, "declared"))?;
                Ok(PlannedParam::Bytes(encode(argument, arg)?))
            }
            Param::TensorMap(map) => self.tensor_map(map).map_err(|error| match error {
                MapError::Launch(error) => error,
                MapError::Map(error) => LaunchError::TensorMap { name: map.base.clone(), error },
            }),
            Param::Workspace { offset } => {
                let bytes = limited("workspace offset", self.eval("workspace", offset)?, MAX_WORKSPACE)?;
                Ok(PlannedParam::Workspace(bytes as u64))
            }
        }
    }

    fn tensor_map(&self, map: &TensorMap) -> Result<PlannedParam, MapError> {
        let (base, bytes) = self.pointer("tensor maps", &map.base)?;
        let element = ElementType::named(&map.element);
        let element = element.ok_or_else(|| TensorMapError::Element(map.element.clone()))?;
        let offset = self.eval("tensor map offset", &map.offset)?;
        let mut request = TensorMapRequest {
            address: base.wrapping_add_signed(offset),
            element,
            dims: self.extents(map)?,
            strides: self.strides(map)?,
            box_dims: map.box_dims.clone(),
            swizzle: map.swizzle,
            l2_promotion: map.l2_promotion,
        };
        if request.dims.contains(&0) {
            request.dims.fill(1);
            request.strides.fill(16);
            request.address = 0;
            request.check()?;
            let written = self.find(&map.base).is_some_and(|(a, _)| a.written);
            return Ok(PlannedParam::EmptyTensor { request, written });
        }
        request.check()?;
        check_bounds(&request, offset, bytes)?;
        Ok(PlannedParam::TensorMap(request))
    }

    fn extents(&self, map: &TensorMap) -> Result<Vec<u64>, MapError> {
        let each = map.dims.iter().enumerate().map(|(dimension, expr)| {
            let extent = self.eval("tensor map extent", expr)?;
            let out = TensorMapError::Extent { dimension, extent };
            u64::try_from(extent).map_err(|_| MapError::Map(out))
        });
        each.collect()
    }

    fn strides(&self, map: &TensorMap) -> Result<Vec<u64>, MapError> {
        let each = map.strides.iter().enumerate().map(|(i, expr)| {
            let stride = self.eval("tensor map stride", expr)?;
            let dimension = i + 1;
            let out = TensorMapError::StrideRange { dimension, stride };
            u64::try_from(stride).map_err(|_| MapError::Map(out))
        });
        each.collect()
    }
}

/// An error that still lacks the name of its tensor map, or one that is complete.
enum MapError {
    Launch(LaunchError),
    Map(TensorMapError),
}

impl From<LaunchError> for MapError {
    fn from(error: LaunchError) -> Self {
        Self::Launch(error)
    }
}

impl From<TensorMapError> for MapError {
    fn from(error: TensorMapError) -> Self {
        Self::Map(error)
    }
}

fn ensure(holds: bool, error: impl FnOnce() -> LaunchError) -> Result<(), LaunchError> {
    if holds { Ok(()) } else { Err(error()) }
}

fn unknown(place: &'static str, name: &str, kind: &'static str) -> LaunchError {
    let name = name.to_owned();
    LaunchError::Unknown { place, name, kind }
}

fn check_bounds(request: &TensorMapRequest, offset: i64, bytes: Option<u64>) -> Result<(), TensorMapError> {
    let Some(bytes) = bytes else { return Ok(()) };
    let available = bytes.saturating_add_signed(offset.saturating_neg());
    let needed = request.extent_bytes().unwrap_or(u64::MAX);
    if needed > available {
        return Err(TensorMapError::Bounds { needed, available });
    }
    Ok(())
}

/// The bytes of an argument by value, little-endian, zero-extended to 8.
fn encode(argument: &Argument, arg: &Arg) -> Result<[u8; 8], LaunchError> {
    let ty = argument.ty.as_str();
    let mismatch = || LaunchError::Type { name: argument.name.clone(), expected: ty.to_owned(), found: *arg };
    let bits = match *arg {
        Arg::Pointer { address, .. } if ty.starts_with("ptr") => address,
        Arg::Int(value) => {
            let (signed, bits) = integer_type(ty).ok_or_else(mismatch)?;
            let name = || argument.name.clone();
            fit(value, signed, bits).ok_or_else(|| LaunchError::DoesNotFit {
                name: name(),
                value,
                ty: ty.to_owned(),
            })?
        }
        Arg::Float(value) => float_bits(ty, value).ok_or_else(mismatch)?,
        Arg::Pointer { .. } => return Err(mismatch()),
    };
    Ok(bits.to_le_bytes())
}

/// Signedness and width of `i32`, `u7`, `bool`.
fn integer_type(ty: &str) -> Option<(bool, u32)> {
    if ty == "bool" {
        return Some((false, 1));
    }
    let signed = ty.starts_with('i');
    let digits = ty.strip_prefix(['i', 'u'])?;
    let bits = digits.parse().ok()?;
    (1..=64).contains(&bits).then_some((signed, bits))
}

/// The value in two's complement, sign-extended within 64 bits, if the type can hold it.
fn fit(value: i128, signed: bool, bits: u32) -> Option<u64> {
    let (min, max) = match signed {
        true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        false => (0, (1i128 << bits) - 1),
    };
    (min..=max).contains(&value).then_some(value as u64)
}

/// The bits of a float, rounded to nearest.
fn float_bits(ty: &str, value: f64) -> Option<u64> {
    Some(match ty {
        "f64" => value.to_bits(),
        "f32" | "tf32" => u64::from((value as f32).to_bits()),
        "f16" => u64::from(half::f16::from_f64(value).to_bits()),
        "bf16" => u64::from(half::bf16::from_f64(value).to_bits()),
        _ => return None,
    })
}

/// Bytes of a parameter as the PTX entry declares it.
pub(crate) fn param_bytes(manifest: &Manifest, param: &Param) -> Option<usize> {
    match param {
        Param::TensorMap(_) => Some(128),
        Param::Workspace { .. } => Some(8),
        Param::Argument { name } => {
            let argument = manifest.arguments.iter().find(|a| a.name == *name)?;
            value_bytes(&argument.ty)
        }
    }
}

fn value_bytes(ty: &str) -> Option<usize> {
    match ty {
        "f64" => Some(8),
        "f32" | "tf32" => Some(4),
        "f16" | "bf16" => Some(2),
        _ if ty.starts_with("ptr") => Some(8),
        _ => {
            let (_, bits) = integer_type(ty)?;
            Some(bits.div_ceil(8).next_power_of_two() as usize)
        }
    }
}

#[cfg(test)]
#[path = "arguments_tests.rs"]
mod tests;
