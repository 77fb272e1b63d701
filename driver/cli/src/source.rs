//! Kernels and mappings from files, the library and options. Mistakes are shown in their text.

use super::failure::{Outcome, user};
use clap::Args;
use std::fs;
use std::path::Path;
use warplift::enumerate::Grants;
use warplift::ir::target::{SM90A, Target};
use warplift::ir::tile::{
    Item, Kernel, Loc, Mapping, Module, Origin, ParamData, Remark, Type, VerifyError, nearest, parse_file,
    render, verify, verify_mapping,
};
use warplift::kernels;
use warplift::problem::Sizes;
use warplift::{CompileError, Feature};
use warplift_lab::validate::Given;

/// The kernel and its mapping.
#[derive(Args, Clone)]
pub struct SourceArgs {
    /// A file of tile IR, or the name of a kernel of the library.
    pub source: String,
    #[command(flatten)]
    pub choice: Choice,
}

/// Options that choose and change a mapping.
#[derive(Args, Clone, Default)]
pub struct Choice {
    /// Kernel of a file that holds several.
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,
    /// Mapping: a file, the name of a library kernel, a text `mapping NAME { .. }`, or `auto` to
    /// let the compiler propose one. Default: of those beside the kernel the first that agrees with `-D`, else the
    /// first, else `auto`.
    #[arg(long, value_name = "FILE|NAME|TEXT|auto")]
    pub mapping: Option<String>,
    /// What a proposed mapping may ask of whoever launches it: `packed`, another order of the array, `before_wait`, that no
    /// grid before writes it, and `align`, that it begins at a multiple of 16 bytes. What the mappings beside the kernel ask for
    /// is granted.
    #[arg(long, value_name = "ARRAY:WORD")]
    pub grant: Vec<String>,
    /// Value of a tunable, which replaces the mapping's.
    #[arg(short = 'D', value_name = "NAME=VALUE")]
    pub define: Vec<String>,
    /// Disable an optimization; several separated by commas, or repeated.
    #[arg(long, value_name = "FEATURE", value_delimiter = ',')]
    pub disable: Vec<Feature>,
    #[command(flatten)]
    pub chip: Chip,
}

/// Options of commands that choose mappings themselves.
#[derive(Args, Clone, Default)]
pub struct Proposals {
    /// Kernel of a file that holds several.
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// What the mappings may ask of whoever launches them, as `compile --grant`.
    #[arg(long, value_name = "ARRAY:WORD")]
    grant: Vec<String>,
    #[command(flatten)]
    chip: Chip,
}

impl Proposals {
    /// The same as of a command that takes mappings too.
    pub fn choice(&self) -> Choice {
        Choice {
            kernel: self.kernel.clone(),
            grant: self.grant.clone(),
            chip: self.chip,
            ..Choice::default()
        }
    }
}

/// The chip for which choices and predictions are made.
#[derive(Args, Clone, Copy, Default)]
pub struct Chip {
    /// The chip, h100 or h200, whose memory rates predictions and `--mapping auto` take; default: h200. Code runs on both.
    #[arg(long, value_name = "CHIP", value_parser = named)]
    chip: Option<&'static Target>,
}

impl Chip {
    /// The chip.
    pub fn target(self) -> &'static Target {
        self.chip.unwrap_or(&SM90A)
    }
}

fn named(name: &str) -> Result<&'static Target, String> {
    let known = || Target::names().collect::<Vec<_>>().join(", ");
    Target::named(name)
        .ok_or_else(|| format!("`{name}` is no chip that this compiler knows; it knows {}", known()))
}

/// A text and its origin.
#[derive(Clone)]
pub struct Text {
    /// Name in messages.
    pub file: String,
    /// Contents.
    pub text: String,
}

/// The seed of random data where none is given.
pub const SEED: u64 = 1;

/// A kernel and the given parts of its mapping.
#[derive(Clone)]
pub struct Source {
    /// The kernel.
    pub kernel: Kernel,
    /// The mapping; none: the compiler proposes one.
    pub mapping: Option<Mapping>,
    /// Values of tunables from the command line, to put over a proposed mapping.
    pub defines: Vec<(String, i64)>,
    /// What a proposed mapping may ask for.
    pub grants: Grants,
    /// Sizes for which the compiler proposes one; none: usual ones.
    pub sizes: Option<Sizes>,
    /// Contents of arrays for which it proposes one.
    pub data: Given,
    /// Whether it tries everything legal.
    pub exhaustive: bool,
    /// The chip for which it is compiled.
    pub target: &'static Target,
    /// Disabled optimizations.
    pub disable: Vec<Feature>,
    /// The kernel's text.
    pub text: Text,
    /// The mapping's text.
    pub mapping_text: Text,
    /// The origin of the mapping.
    pub origin: String,
}

impl SourceArgs {
    /// Reads kernel and mapping.
    ///
    /// # Errors
    /// No such kernel, mistakes in the text, each with its line and a caret.
    pub fn load(&self) -> Outcome<Source> {
        load(&self.source, &self.choice)
    }
}

impl Source {
    /// The kernel for sizes by default: what its mapping assumes of arguments are facts.
    pub fn assumed(&self) -> Kernel {
        self.mapping.as_ref().map_or_else(|| self.kernel.clone(), |mapping| self.kernel.assuming(mapping))
    }

    /// What a kernel whose mapping is chosen computes: the text's own values of tunables, and those of the command line.
    /// `None` where the mapping is given.
    pub fn meaning(&self) -> Option<Mapping> {
        self.mapping.is_none().then(|| self.own_values())
    }

    /// The same for launches of given sizes. A mapping is proposed for the first, and may assume how the integers divide that
    /// are equal in all.
    pub fn launched(mut self, all: &[Sizes]) -> Self {
        let value = |sizes: &Sizes, name: &str| sizes.int(name);
        let equal = |p: &&ParamData| all.iter().all(|s| value(s, &p.name) == value(&all[0], &p.name));
        if !all.is_empty() {
            self.grants.tell(self.kernel.params.iter().filter(equal).map(|p| p.name.as_str()));
        }
        Self { sizes: all.first().cloned(), ..self }
    }

    /// No mapping but the values of the command line.
    pub fn own_values(&self) -> Mapping {
        Mapping { kernel: self.kernel.name.clone(), tunables: self.defines.clone(), ..Mapping::default() }
    }
}

/// Reads kernel and mapping.
///
/// # Errors
/// No such kernel, mistakes in the text.
pub fn load(source: &str, choice: &Choice) -> Outcome<Source> {
    let target = choice.chip.target();
    let text = read(source)?;
    let module = parse(&text)?;
    let kernel = pick(&module, choice.kernel.as_deref(), source)?;
    mapped(&module, &text)?;
    let refused = |errors: Vec<VerifyError>| user(shown_all(&text, &errors));
    verify(&kernel).map_err(refused)?;
    let defines = choice.define.iter().map(|d| define(d)).collect::<Outcome<Vec<_>>>()?;
    if let Some(twice) = repeated(defines.iter().map(|d| d.0.as_str())) {
        return Err(user(format!("-D {twice}: it is given twice")));
    }
    let (mut mapping, from, origin) = mapping(&kernel, &module, &text, choice.mapping.as_deref(), &defines)?;
    if let Some(m) = &mut mapping {
        overlay(m, &defines);
        verify_mapping(&kernel, m, target).map_err(|e| user(shown_all(&from, &e)))?;
    }
    let disable = choice.disable.clone();
    let grants = granted(&kernel, &module, &choice.grant)?;
    let (sizes, exhaustive) = (None, false);
    Ok(Source {
        kernel,
        mapping,
        defines,
        grants,
        target,
        sizes,
        data: Given::default(),
        exhaustive,
        disable,
        text,
        mapping_text: from,
        origin,
    })
}

/// Bytes at whose multiples an array begins that is granted to be aligned.
const ALIGNED: u64 = 16;

/// What the mappings of a kernel ask for, and what the command line grants.
fn granted(kernel: &Kernel, module: &Module, given: &[String]) -> Outcome<Grants> {
    let own = module.mappings.iter().filter(|m| m.kernel == kernel.name);
    let mut grants = Grants::of(own);
    for text in given {
        let (name, word) = text.split_once(':').unwrap_or((text, ""));
        let word = word.trim();
        let is_array = |p: &&ParamData| p.name == name && matches!(kernel.ty(p.value), Type::Ptr(_));
        if !kernel.params.iter().any(|p| is_array(&p)) {
            return Err(user(format!("--grant {text}: `{}` has no array `{name}`", kernel.name)));
        }
        if !["packed", "before_wait", "align"].contains(&word) {
            return Err(user(format!(
                "--grant {text}: expected ARRAY:packed, ARRAY:before_wait or ARRAY:align"
            )));
        }
        if word == "align" {
            grants.align(name, ALIGNED);
        }
        grants.add(name, word == "packed", word == "before_wait");
    }
    Ok(grants)
}

/// A name that comes more than once.
pub fn repeated<'n>(names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let mut seen: Vec<&str> = Vec::new();
    for name in names {
        if seen.contains(&name) {
            return Some(name);
        }
        seen.push(name);
    }
    None
}

/// Puts values of tunables over a mapping's.
pub fn overlay(mapping: &mut Mapping, defines: &[(String, i64)]) {
    for (name, value) in defines {
        let known = mapping.tunables.iter().position(|(n, _)| n == name);
        let item = known.unwrap_or_else(|| {
            mapping.tunables.push((name.clone(), *value));
            mapping.tunables.len() - 1
        });
        mapping.tunables[item].1 = *value;
        mapping.places.forget(Item::Tunable(item));
    }
}

fn read(source: &str) -> Outcome<Text> {
    if let Some(found) = kernels::find(source) {
        return Ok(Text { file: found.file.to_owned(), text: found.text.to_owned() });
    }
    match fs::read_to_string(source) {
        Ok(text) => Ok(Text { file: source.to_owned(), text }),
        Err(error)
            if Path::new(source).extension().is_none() && error.kind() == std::io::ErrorKind::NotFound =>
        {
            let known: Vec<&str> = kernels::LIBRARY.iter().map(|t| t.name).collect();
            Err(user(match nearest(source, known.iter().copied()) {
                Some(near) => format!("no kernel `{source}`; did you mean `{near}`?"),
                None => format!("no kernel `{source}`; the library has {}", known.join(", ")),
            }))
        }
        Err(error) => Err(user(format!("reading {source}: {error}"))),
    }
}

fn parse(text: &Text) -> Outcome<Module> {
    parse_file(&text.text, &text.file).map_err(|errors| {
        let each = errors.iter().map(|e| render(&text.file, &text.text, e.loc, e.len, &e.message));
        user(each.collect::<Vec<_>>().join("\n"))
    })
}

fn pick(module: &Module, name: Option<&str>, source: &str) -> Outcome<Kernel> {
    let names = || module.kernels.iter().map(|k| k.name.as_str()).collect::<Vec<_>>().join(", ");
    let found = match (name, &module.kernels[..]) {
        (Some(name), _) => module.kernel(name),
        (None, [only]) => Some(only),
        (None, []) => return Err(user(format!("{source} holds no kernel"))),
        (None, _) => return Err(user(format!("{source} holds {}; name one with --kernel", names()))),
    };
    let wanted = name.unwrap_or("");
    found.cloned().ok_or_else(|| user(format!("{source} holds {}, no `{wanted}`", names())))
}

/// Refuses a mapping of a kernel that the file does not hold: nobody would ever use it.
fn mapped(module: &Module, text: &Text) -> Outcome<()> {
    let Some(stray) = module.mappings.iter().find(|m| module.kernel(&m.kernel).is_none()) else {
        return Ok(());
    };
    let names: Vec<String> = module.kernels.iter().map(|k| format!("`{}`", k.name)).collect();
    let message = format!("mapping of kernel `{}`: the file holds {}", stray.kernel, names.join(", "));
    Err(user(shown(text, stray.places.of(Item::Mapping, ""), &message)))
}

fn define(text: &str) -> Outcome<(String, i64)> {
    let pair = text.split_once('=').and_then(|(n, v)| Some((n.trim().to_owned(), v.trim().parse().ok()?)));
    pair.ok_or_else(|| user(format!("-D {text}: expected NAME=NUMBER")))
}

/// The mapping, its text, and a description of its origin.
fn mapping(
    kernel: &Kernel,
    module: &Module,
    text: &Text,
    wish: Option<&str>,
    defines: &[(String, i64)],
) -> Outcome<(Option<Mapping>, Text, String)> {
    let proposed = "proposed by the compiler".to_owned();
    let wish = match wish {
        Some("auto") => return Ok((None, text.clone(), proposed)),
        Some(wish) => wish,
        None => {
            let own = agreeing(kernel, module, defines).or(module.mapping(&kernel.name)).cloned();
            let origin = if own.is_some() { format!("from {}", text.file) } else { proposed };
            return Ok((own, text.clone(), origin));
        }
    };
    let from = match wish.contains('{') {
        true => Text { file: "--mapping".to_owned(), text: wish.to_owned() },
        false => read(wish)?,
    };
    let all = parse(&from)?.mappings;
    let borrowed = || all.first().filter(|_| kernels::find(wish).is_some());
    let named = all.iter().find(|m| m.kernel == kernel.name).or_else(borrowed);
    let mut found = named
        .cloned()
        .ok_or_else(|| user(format!("{} holds no mapping of kernel `{}`", from.file, kernel.name)))?;
    found.kernel.clone_from(&kernel.name);
    let origin = format!("from {}", from.file);
    Ok((Some(found), from, origin))
}

/// The first mapping of a kernel that contradicts no defined value of a tunable.
fn agreeing<'m>(kernel: &Kernel, module: &'m Module, defines: &[(String, i64)]) -> Option<&'m Mapping> {
    let differs = |m: &Mapping| m.tunables.iter().any(|(n, v)| defines.iter().any(|(d, w)| d == n && w != v));
    module.mappings.iter().find(|m| m.kernel == kernel.name && !differs(m))
}

fn shown_all(text: &Text, errors: &[VerifyError]) -> String {
    errors.iter().map(|e| shown(text, e.loc, &e.message)).collect::<Vec<_>>().join("\n")
}

fn shown(text: &Text, loc: Loc, message: &str) -> String {
    render(&text.file, &text.text, loc, 1, message)
}

/// A compiler's refusal, at its place in the text if it has one.
pub fn refusal(source: &Source, error: &CompileError) -> String {
    let unmapped = Mapping::default();
    let message = match error {
        CompileError::Isel(e) => e.message.clone(),
        other => other.to_string(),
    };
    match (error, error.place(source.mapping.as_ref().unwrap_or(&unmapped))) {
        (CompileError::Verify(errors), _) => shown_all(&source.text, errors),
        (CompileError::Mapping(errors), _) => shown_all(&source.mapping_text, errors),
        (_, Some((Origin::Kernel, loc))) if loc.line > 0 => shown(&source.text, loc, &message),
        (_, Some((Origin::Mapping, loc))) if loc.line > 0 => shown(&source.mapping_text, loc, &message),
        _ => format!("{}: kernel `{}`: {error}", source.text.file, source.kernel.name),
    }
}

/// Remarks at their places in the mapping's text; none for a proposed mapping.
pub fn remarked(source: &Source, remarks: &[Remark]) -> Vec<String> {
    let of = remarks.iter().filter(|_| source.mapping.is_some());
    of.map(|r| shown(&source.mapping_text, r.loc, &format!("remark: {}", r.message))).collect()
}
