//! Instructions of a listing: predicate, opcode with its modifiers, operands, and registers.

use std::collections::BTreeMap;

/// Why a listing cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SassError {
    /// There is no instruction in it.
    #[error("the listing holds no instruction")]
    Empty,
    /// A branch names a label that is nowhere.
    #[error("the branch at {address:#x} goes to {label}, which is nowhere")]
    Label {
        /// Byte address of the branch.
        address: u32,
        /// Label.
        label: String,
    },
    /// A branch through a register: its targets are unknown.
    #[error("{opcode} at {address:#x} jumps through a register: its targets are unknown")]
    Indirect {
        /// Byte address.
        address: u32,
        /// Opcode with modifiers.
        opcode: String,
    },
}

/// A tuple of consecutive general registers: first, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// Number of the first.
    pub first: u32,
    /// How many, at least 1.
    pub count: u32,
}

impl Registers {
    /// The register with the highest number.
    pub fn last(self) -> u32 {
        self.first + self.count - 1
    }

    /// Whether the tuples share a register.
    pub fn overlaps(self, other: Self) -> bool {
        self.first <= other.last() && other.first <= self.last()
    }
}

/// One machine instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Byte address in its function.
    pub address: u32,
    /// Predicate that guards it, `@!P0`.
    pub guard: Option<String>,
    /// Opcode with modifiers, `HGMMA.64x256x16.F32`.
    pub opcode: String,
    /// Operands, split at commas.
    pub operands: Vec<String>,
}

/// Products of warpgroups: of halves and words, of floats of 8 bits, of integers of 8 bits.
pub const WARPGROUP_PRODUCTS: &[&str] = &["HGMMA", "QGMMA", "IGMMA"];

/// Opcodes whose first operand is a register that they read.
const READERS: &[&str] = &["LDGSTS", "BAR", "WARPSYNC", "RET", "CALL", "BRX", "JMX", "NANOSLEEP"];

/// Opcodes whose registers are pairs.
const DOUBLE: &[&str] = &["DADD", "DMUL", "DFMA"];

impl Instruction {
    /// Reads `@!P0 IMAD.MOV.U32 R2, RZ, RZ, R3`.
    fn read(address: u32, text: &str) -> Option<Self> {
        let (guard, rest) = match text.strip_prefix('@') {
            Some(_) => text.split_once(char::is_whitespace)?,
            None => ("", text),
        };
        let rest = rest.trim();
        let (opcode, operands) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let operands = operands.split(',').map(|o| o.trim().to_owned()).filter(|o| !o.is_empty());
        let guard = (!guard.is_empty()).then(|| guard.to_owned());
        (!opcode.is_empty()).then(|| Self {
            address,
            guard,
            opcode: opcode.to_owned(),
            operands: operands.collect(),
        })
    }

    /// Whether it is a product of a warpgroup or of a warp.
    pub fn is_product(&self) -> bool {
        self.name() == "HMMA" || WARPGROUP_PRODUCTS.contains(&self.name())
    }

    /// The opcode without modifiers.
    pub fn name(&self) -> &str {
        self.opcode.split('.').next().unwrap_or("")
    }

    /// Whether the opcode has this modifier.
    pub fn has(&self, modifier: &str) -> bool {
        self.opcode.split('.').skip(1).any(|m| m == modifier)
    }

    /// The label that an operand names.
    pub fn label(&self) -> Option<&str> {
        let operand = self.operands.iter().find_map(|o| o.split_once("`("));
        operand.and_then(|(_, rest)| rest.strip_suffix(')'))
    }

    /// The general registers that it writes. Register 255 (`RZ`) takes nothing.
    pub fn written(&self) -> Option<Registers> {
        let first = self.operands.first().filter(|_| !READERS.contains(&self.name()))?;
        let first = bare(first)?;
        Some(Registers { first, count: self.result_width() })
    }

    /// Every tuple of general registers that it names, results and sources.
    pub fn registers(&self) -> Vec<Registers> {
        let at = |(i, operand): (usize, &String)| {
            let width = self.width(i, operand);
            named(operand).into_iter().map(|first| Registers { first, count: width }).collect::<Vec<_>>()
        };
        self.operands.iter().enumerate().flat_map(at).collect()
    }

    /// The source of a copy from register to register: `MOV R1, R2` or `IMAD.MOV.U32 R1, RZ, RZ, R2`.
    pub fn copied(&self) -> Option<u32> {
        let moves = self.name() == "MOV" || (self.name() == "IMAD" && self.has("MOV"));
        self.operands.last().filter(|_| moves).and_then(|o| bare(o))
    }

    /// Registers of operand `i`.
    fn width(&self, i: usize, operand: &str) -> u32 {
        let address = operand.contains('[');
        match self.name() {
            _ if address => 1 + u32::from(operand.contains(".64")),
            "HGMMA" | "IGMMA" | "QGMMA" if self.is_fragment(i) => 4,
            "HMMA" => [self.result_width(), 4, 2, self.result_width()].get(i).copied().unwrap_or(1),
            "STG" | "STS" | "STL" | "ST" | "RED" => self.data_width(),
            "STSM" => self.matrices(),
            _ if i == 0 => self.result_width(),
            "HGMMA" | "IGMMA" | "QGMMA" => self.result_width(),
            _ if i == self.operands.len() - 1 && self.has("WIDE") => 2,
            _ if DOUBLE.contains(&self.name()) => 2,
            _ => 1,
        }
    }

    /// Whether operand `i` of a warpgroup product is the left matrix in registers (four of them).
    fn is_fragment(&self, i: usize) -> bool {
        i == 1 && !self.operands[1].contains("desc")
    }

    fn result_width(&self) -> u32 {
        match self.name() {
            "HGMMA" | "IGMMA" | "QGMMA" => self.accumulators().unwrap_or(1),
            "HMMA" if self.has("F32") => 4,
            "HMMA" => 2,
            "LDSM" => self.matrices(),
            "LDG" | "LDS" | "LDL" | "LD" | "LDC" | "ATOM" | "ATOMG" | "ATOMS" => self.data_width(),
            "CS2R" => 2 - u32::from(self.has("32")),
            _ if self.has("WIDE") || DOUBLE.contains(&self.name()) => 2,
            _ => 1,
        }
    }

    /// Registers of memory data: `.64` is two, `.128` four.
    fn data_width(&self) -> u32 {
        let wide = |m, n| if self.has(m) { n } else { 1 };
        wide("128", 4).max(wide("64", 2))
    }

    /// Registers of `STSM.16.M88.4`.
    fn matrices(&self) -> u32 {
        self.opcode.rsplit('.').next().and_then(|n| n.parse().ok()).filter(|n| *n <= 4).unwrap_or(1)
    }

    /// Accumulator registers of a thread in a warpgroup product: 64 N values over 128 threads, two of f16 in a register.
    fn accumulators(&self) -> Option<u32> {
        let shape = self.opcode.split('.').nth(1)?;
        let n: u32 = shape.split('x').nth(1)?.parse().ok()?;
        let narrow = self.has("F16") && !self.has("F32");
        Some(if narrow { n / 4 } else { n / 2 }.max(1))
    }
}

/// The number of `R24` or `R24.reuse` that stands alone; `RZ` is none.
fn bare(operand: &str) -> Option<u32> {
    operand.split('.').next()?.strip_prefix('R')?.parse().ok()
}

/// The numbers of all general registers in an operand: `-R5`, `[R13+URZ+0x38]`, `desc[UR4][R2.64]`.
fn named(operand: &str) -> Vec<u32> {
    let words = operand.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter_map(|w| w.strip_prefix('R')?.parse().ok()).collect()
}

/// A listing: instructions in order, and labels with the number of the instruction that follows.
pub type Listing = (Vec<Instruction>, BTreeMap<String, usize>);

/// Reads the text of one function as `nvdisasm -c` prints it.
///
/// ```text
/// .L_x_21:
///         /*1450*/              @!P0 BRA `(.L_x_19) ;
/// ```
///
/// # Errors
/// No instruction in the text.
pub fn parse(text: &str) -> Result<Listing, SassError> {
    let (mut instructions, mut labels) = (Vec::new(), BTreeMap::new());
    for line in text.lines().map(str::trim) {
        if let Some(label) = line.strip_suffix(':').filter(|l| l.starts_with('.') && !l.contains(' ')) {
            labels.insert(label.to_owned(), instructions.len());
        } else if let Some((address, code)) = line.strip_prefix("/*").and_then(|l| l.split_once("*/")) {
            let code = code.split(';').next().unwrap_or("").trim();
            let address = u32::from_str_radix(address, 16).ok();
            instructions.extend(address.and_then(|a| Instruction::read(a, code)));
        }
    }
    if instructions.is_empty() { Err(SassError::Empty) } else { Ok((instructions, labels)) }
}
