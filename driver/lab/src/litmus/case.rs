//! A litmus test: a PTX text, its launch, its input, and the comparison of its output.

use super::approx::{Bound, Format};
use crate::validate::{Input, Scalar};
use std::fmt::Write as _;
use std::ops::Range;
use warplift_ir::manifest::{Argument, Expr, MANIFEST_VERSION, Manifest, Param, TensorMap};

/// The value of every kernel's parameter `word`.
pub(super) const WORD: u32 = 0x89ab_cdef;
/// The value of every kernel's parameter `long`.
pub(super) const LONG: u64 = 0x0123_4567_89ab_cdef;

/// A litmus test. Its entry takes the tensor maps, then `in`, `out`, `word` and `long`.
#[derive(Clone, Debug)]
pub struct Case {
    /// Family and feature, `cvt/s32.f32`.
    pub name: String,
    /// The text.
    pub ptx: String,
    /// How it is launched.
    pub manifest: Manifest,
    /// Bytes of `in`.
    pub input: Vec<u8>,
    /// Bytes of `out` before the launch.
    pub output: Vec<u8>,
    /// The contents of `out` that the host computes from the definition, without the simulator.
    pub expected: Option<Vec<u8>>,
    /// The comparisons; together they cover all of `out`.
    pub checks: Vec<Check>,
}

/// Part of `out` that is compared.
#[derive(Clone, Debug)]
pub struct Check {
    /// The instruction.
    pub what: String,
    /// Where its results lie in `out`.
    pub bytes: Range<usize>,
    /// How they are compared.
    pub how: How,
}

/// How results are compared.
#[derive(Clone, Debug)]
pub enum How {
    /// Bit by bit, in words of so many bytes.
    Bits(usize),
    /// Floats in b64 words, bit by bit, but one NaN is as good as another: the PTX ISA leaves their
    /// payload open.
    Floats(Format),
    /// Every b64 word against the exact function.
    Near(Near),
}

/// Results of an approximate instruction, one in each b64 word.
#[derive(Clone, Debug)]
pub struct Near {
    /// Its stated error.
    pub bound: &'static Bound,
    /// Whether it is `.ftz`.
    pub flush: bool,
    /// Floats in a word: 2 for packed halves.
    pub packed: u32,
    /// First and second operand for each word.
    pub operands: [Vec<u64>; 2],
}

impl How {
    /// Bytes of a word that is compared bit by bit.
    pub(super) fn width(&self) -> Option<usize> {
        match self {
            Self::Bits(width) => Some(*width),
            Self::Floats(_) => Some(8),
            Self::Near(_) => None,
        }
    }

    /// The word that stands for all that are as good.
    pub(super) fn canonical(&self, word: u64) -> u64 {
        match self {
            Self::Floats(f) if f.decode(word).is_nan() => u64::MAX,
            _ => word,
        }
    }
}

impl Check {
    /// The words that are compared bit by bit, of a machine's `out`.
    pub(super) fn exact(&self, out: &[u8]) -> Vec<u64> {
        let Some(width) = self.how.width() else { return Vec::new() };
        let word = |b: &[u8]| b.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b));
        out[self.bytes.clone()].chunks(width).map(|b| self.how.canonical(word(b))).collect()
    }
}

impl Case {
    /// Arguments of a launch, in the manifest's order.
    pub fn arguments(&self) -> [Input<'_>; 4] {
        [
            Input::Buffer(&self.input),
            Input::Buffer(&self.output),
            Input::Scalar(Scalar::Int(WORD.into())),
            Input::Scalar(Scalar::Int(LONG as i64)),
        ]
    }

    /// Number of instructions under test.
    pub fn instructions(&self) -> usize {
        self.checks.len()
    }

    /// Whether some instruction of it is approximate.
    pub fn approximates(&self) -> bool {
        self.checks.iter().any(|c| matches!(c.how, How::Near(_)))
    }

    /// Description of the comparisons.
    pub fn comparison(&self) -> String {
        let bytes = self.output.len();
        match (self.approximates(), &self.expected) {
            (true, _) => format!("{} values, stated error", bytes / 8),
            (false, Some(_)) => format!("{bytes} bytes, and the definition"),
            (false, None) => format!("{bytes} bytes"),
        }
    }

    /// Name of the case's files.
    pub fn file_stem(&self) -> String {
        self.name.replace('/', "-")
    }
}

/// A kernel to be: declarations are put around the body. It finds `%rd1` = `in`, `%rd2` = `out`,
/// `%r1` = dynamic shared memory, `%r2` = `%tid.x`, and `%map0` and on.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    pub name: String,
    pub body: String,
    pub grid: [u32; 3],
    /// Blocks of a cluster, in x.
    pub cluster: u32,
    pub block: u32,
    pub shared: u32,
    pub maps: Vec<TensorMap>,
    pub input: Vec<u8>,
    pub output: Vec<u8>,
}

impl Default for Kernel {
    fn default() -> Self {
        Self {
            name: String::new(),
            body: String::new(),
            grid: [1; 3],
            cluster: 1,
            block: 32,
            shared: 4096,
            maps: Vec::new(),
            input: vec![0; 16],
            output: Vec::new(),
        }
    }
}

const REGISTERS: &str = ".reg .pred %p<16>;\n.reg .b16 %h<8>;\n.reg .b32 %r<64>, %x<144>;\n\
    .reg .f32 %f<144>;\n.reg .b64 %rd<32>;\n";

impl Kernel {
    fn text(&self) -> String {
        let maps = (0..self.maps.len()).map(|i| format!(".param .align 64 .b8 map{i}[128], "));
        let mut text = format!(
            ".version 8.4\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n\
             .visible .entry litmus({}.param .u64 in, .param .u64 out, .param .u32 word, .param .u64 long)\n\
             .reqntid {}\n.minnctapersm 1\n",
            maps.collect::<String>(),
            self.block
        );
        if self.cluster > 1 {
            let _ = writeln!(text, ".explicitcluster .reqnctapercluster {}, 1, 1", self.cluster);
        }
        text += "{\n";
        text += REGISTERS;
        for i in 0..self.maps.len() {
            let _ = writeln!(
                text,
                ".reg .b64 %map{i};\nmov.b64 %map{i}, map{i};\ncvta.param.u64 %map{i}, %map{i};"
            );
        }
        text +=
            "ld.param.u64 %rd1, [in];\nld.param.u64 %rd2, [out];\nmov.u32 %r1, smem;\nmov.u32 %r2, %tid.x;\n";
        text + &self.body + "\nret;\n}\n"
    }

    fn manifest(&self) -> Manifest {
        let argument = |name: &str, ty: &str| Argument {
            name: name.into(),
            ty: ty.into(),
            written: name == "out",
            // The frame reads it before the body.
            before_wait: name == "in",
            packing: None,
        };
        let arguments = vec![
            argument("in", "ptr<u8>"),
            argument("out", "ptr<u8>"),
            argument("word", "u32"),
            argument("long", "u64"),
        ];
        let maps = self.maps.iter().cloned().map(Param::TensorMap);
        let plain = arguments.iter().map(|a| Param::Argument { name: a.name.clone() });
        Manifest {
            version: MANIFEST_VERSION,
            kernel: self.name.clone(),
            entry: "litmus".into(),
            target: "sm_90a".into(),
            params: maps.chain(plain).collect(),
            arguments,
            grid: self.grid.map(|g| Expr::Const(g.into())),
            cluster: [self.cluster, 1, 1],
            block: self.block,
            pdl: false,
            dynamic_shared: self.shared,
            workspace: Expr::zero(),
            roles: Vec::new(),
            facts: Vec::new(),
        }
    }

    /// The case that makes these comparisons.
    pub fn with(self, checks: Vec<Check>) -> Case {
        let (ptx, manifest) = (self.text(), self.manifest());
        Case {
            name: self.name,
            ptx,
            manifest,
            input: self.input,
            output: self.output,
            expected: None,
            checks,
        }
    }

    /// The case that compares all of `out` in words of so many bytes.
    pub fn bits(self, width: usize) -> Case {
        let check = Check { what: self.name.clone(), bytes: 0..self.output.len(), how: How::Bits(width) };
        self.with(vec![check])
    }

    /// The same, with the host's expected results.
    pub fn expecting(self, width: usize, expected: Vec<u8>) -> Case {
        Case { expected: Some(expected), ..self.bits(width) }
    }
}

/// Little-endian bytes of words.
pub(super) fn words(v: impl IntoIterator<Item = u32>) -> Vec<u8> {
    v.into_iter().flat_map(u32::to_le_bytes).collect()
}
