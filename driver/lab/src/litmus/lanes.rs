//! Instructions that map each thread's operands to its result: one kernel applies a list of them to
//! 1024 threads' operands.
//!
//! ```text
//!  syntax of a row, `add.s32 $d, $0, $1` ─┐                        in: operands 0, 1, 2, a b64 a thread
//!  our own table, `r=rr add.sat.s32` ─────┴─► Form ─► kernel ─►   out: a b64 a thread for each form
//! ```

use super::approx::{Bound, Format};
use super::case::{Case, Check, How, Kernel, Near};
use super::values::{Domain, THREADS};
use std::fmt::Write as _;
use warplift_ir::target::{Class, Effect, Opcode, Row};

/// An instruction from registers to a register, in the syntax of the opcode table.
#[derive(Clone, Debug)]
pub(super) struct Form {
    pub syntax: String,
    pub args: Vec<Class>,
    pub result: Class,
}

/// The comparisons that a row's `$c` stands for.
const COMPARISONS: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];

/// Rows that are pure but whose operands mean something on one machine only; other families have
/// them.
const ELSEWHERE: [Opcode; 2] = [Opcode::ParamAddr, Opcode::Mapa];

impl Form {
    /// `r=rr` and `add.sat.s32`: classes of result and operands (`p` predicate, `h` `r` `d` 16, 32,
    /// 64 bits), and an opcode, or all of the syntax where there are more operands.
    pub fn new(classes: &str, syntax: &str) -> Self {
        let class = |c: char| match c {
            'p' => Class::Pred,
            'h' => Class::B16,
            'd' => Class::B64,
            _ => Class::B32,
        };
        let mut letters = classes.chars().filter(|c| *c != '=').map(class);
        let result = letters.next().unwrap_or(Class::B32);
        let args: Vec<Class> = letters.collect();
        let places: String = (0..args.len()).map(|i| format!(", ${i}")).collect();
        let syntax = if syntax.contains('$') { syntax.to_owned() } else { format!("{syntax} $d{places}") };
        Self { syntax, args, result }
    }

    /// The forms of a row that maps operands to one result; none where it does something else.
    pub fn of_row(row: &Row) -> Vec<Self> {
        let known = |c: &Class| *c != Class::Any;
        let [result] = row.opcode.results() else { return Vec::new() };
        let lanes = row.opcode.effect() == Effect::Pure && !row.syntax.is_empty() && known(result);
        // Rows of more operands are made of instructions that rows of their own have.
        let few = row.opcode.args().len() <= 3;
        if !lanes || !few || !row.opcode.args().iter().all(known) || ELSEWHERE.contains(&row.opcode) {
            return Vec::new();
        }
        let form = |syntax: String| Self { syntax, args: row.opcode.args().to_vec(), result: *result };
        if !row.syntax.contains("$c") {
            return vec![form(row.syntax.to_owned())];
        }
        // On floats `ne` is written so that it holds for NaN.
        let float = row.syntax.contains(".f32 ");
        let name = |c: &str| if float && c == "ne" { "neu".to_owned() } else { c.to_owned() };
        COMPARISONS.iter().map(|c| form(row.syntax.replace("$c", &name(c)))).collect()
    }

    /// The opcode of the last instruction.
    pub fn opcode(&self) -> &str {
        let last = self.syntax.trim_end_matches([' ', ';', '}']).rsplit(';').next().unwrap_or("");
        last.trim().split(' ').next().unwrap_or("")
    }

    fn domain(&self) -> Domain {
        // A row of several instructions may convert before or after the one that names the type.
        let words = self.syntax.split([' ', ';', ',']).filter(|w| w.contains('.') && !w.starts_with(".reg"));
        let domains = words.map(Domain::of);
        domains.fold(Domain::Integer, |found, d| if found == Domain::Integer { d } else { found })
    }

    fn register(class: Class, name: &str) -> String {
        let prefix = match class {
            Class::Pred => "p",
            Class::B16 => "h",
            Class::B64 => "l",
            Class::B32 | Class::Any => "",
        };
        format!("%{prefix}{name}")
    }

    /// Integer division by zero has no result.
    fn divides(&self) -> bool {
        let op = self.opcode();
        (op.starts_with("div.") || op.starts_with("rem.")) && self.domain() == Domain::Integer
    }

    /// The instruction, with its result in `%ld`.
    fn text(&self) -> String {
        let mut text = self.syntax.clone();
        for (i, class) in self.args.iter().enumerate() {
            text = text.replace(&format!("${i}"), &Self::register(*class, ["a", "b", "c"][i]));
        }
        let parameter = if self.result == Class::B64 { "long" } else { "word" };
        text =
            text.replace("$p", parameter).replace("$i", "5").replace("$d", &Self::register(self.result, "d"));
        let widen = match self.result {
            Class::Pred => "selp.b64 %ld, 1, 0, %pd;",
            Class::B16 => "cvt.u64.u16 %ld, %hd;",
            Class::B64 => "",
            Class::B32 | Class::Any => "cvt.u64.u32 %ld, %d;",
        };
        let end = if text.starts_with('{') { "" } else { ";" };
        let nonzero = if self.divides() { "max.u32 %b, %ob, 1;\nmax.u64 %lb, %olb, 1;\n" } else { "" };
        format!("{nonzero}{text}{end}\n{widen}\n")
    }

    /// Bit by bit; f64 and conversions between floats keep payloads of NaNs that the ISA leaves open.
    fn bitwise(&self) -> How {
        let words: Vec<&str> = self.opcode().split('.').collect();
        let formats: Vec<Format> = words.iter().filter_map(|w| Format::named(w)).collect();
        match (words[0], &formats[..]) {
            ("cvt", [to, _]) => How::Floats(*to),
            ("set" | "setp", _) => How::Bits(8),
            (_, [Format::F64]) => How::Floats(Format::F64),
            _ => How::Bits(8),
        }
    }

    fn how(&self, operands: &[Vec<u64>]) -> How {
        let opcode = self.opcode();
        let Some(bound) = Bound::of(opcode) else { return self.bitwise() };
        let operand = |i: usize| operands.get(i).cloned().unwrap_or_default();
        How::Near(Near {
            bound,
            flush: opcode.contains(".ftz"),
            packed: if opcode.ends_with("x2") { 2 } else { 1 },
            operands: [operand(0), operand(1)],
        })
    }
}

/// Grid, cluster and block of [`THREADS`] threads, none of them trivial.
const GRID: [u32; 3] = [4, 2, 2];
const CLUSTER: u32 = 2;
const BLOCK: u32 = 64;

/// Number of the thread within the grid to `%r3`, its operands to `%a`, `%la`, `%ha`, `%pa` and on.
fn prologue() -> String {
    let mut text = String::from(
        ".reg .pred %pa, %pb, %pc, %pd;\n.reg .b16 %ha, %hb, %hc, %hd;\n.reg .b32 %a, %b, %c, %d, %ob;\n\
         .reg .b64 %la, %lb, %lc, %ld, %olb;\nmov.u32 %r3, %ctaid.z;\nmov.u32 %r4, %ctaid.y;\n\
         mad.lo.u32 %r3, %r3, 2, %r4;\nmov.u32 %r4, %ctaid.x;\nmad.lo.u32 %r3, %r3, 4, %r4;\n\
         mad.lo.u32 %r3, %r3, 64, %r2;\nmul.wide.u32 %rd3, %r3, 8;\nadd.s64 %rd4, %rd1, %rd3;\n\
         add.s64 %rd5, %rd2, %rd3;\n",
    );
    for (i, n) in ["a", "b", "c"].iter().enumerate() {
        let _ = writeln!(
            text,
            "ld.global.b64 %l{n}, [%rd4+{}];\ncvt.u32.u64 %{n}, %l{n};\ncvt.u16.u64 %h{n}, %l{n};\n\
             and.b32 %r4, %{n}, 1;\nsetp.ne.u32 %p{n}, %r4, 0;",
            8 * THREADS * i
        );
    }
    text + "mov.b32 %ob, %b;\nmov.b64 %olb, %lb;\n"
}

/// The case that applies these forms, which read their operands alike.
pub(super) fn case(name: &str, forms: &[Form]) -> Case {
    let domain = forms.first().map_or(Domain::Integer, Form::domain);
    let seed = name.bytes().fold(7, |s: u64, b| s.wrapping_mul(31).wrapping_add(b.into()));
    let operands: Vec<Vec<u64>> = (0..3).map(|o| domain.values(o, seed)).collect();
    let mut body = prologue();
    let mut checks = Vec::new();
    for (i, form) in forms.iter().enumerate() {
        let bytes = 8 * THREADS * i..8 * THREADS * (i + 1);
        body += &form.text();
        let _ = writeln!(body, "st.global.b64 [%rd5+{}], %ld;", bytes.start);
        let place = |from: &str| from.replace("$d", "d").replace('$', "operand ");
        checks.push(Check { what: place(&form.syntax), bytes, how: form.how(&operands) });
    }
    let kernel = Kernel {
        name: name.to_owned(),
        body,
        grid: GRID,
        cluster: CLUSTER,
        block: BLOCK,
        input: operands.iter().flatten().flat_map(|v| v.to_le_bytes()).collect(),
        output: vec![0xaa; 8 * THREADS * forms.len()],
        ..Kernel::default()
    };
    kernel.with(checks)
}
