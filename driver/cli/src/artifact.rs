//! Artifacts, the results of a compile: PTX, manifest, and code for a GPU. They are made here or read from files.
//!
//! A folder of artifacts holds, for each name, `NAME.tile` (kernel and mapping), `NAME.ptx`,
//! `NAME.json` (manifest) and `NAME.cubin`: everything that a machine without ptxas needs.

use super::Tools;
use super::failure::{Failure, Outcome, user};
use super::source::{Choice, SEED, Source, load, refusal, remarked};
use super::tuning_file::usual_tunings;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use warplift::enumerate::Search;
use warplift::ir::manifest::Manifest;
use warplift::ir::plural;
use warplift::ir::tile::{Kernel, Mapping};
use warplift::predict::Arrays;
use warplift::problem::{Problem, Sizes};
use warplift::toolchain::{Assembled, PtxasOptions};
use warplift::{Compiled, Options, enumerate};

/// A kernel, its mapping, and their compiled form.
pub struct Artifact {
    /// Name of the files.
    pub name: String,
    /// The kernel.
    pub kernel: Kernel,
    /// Its mapping.
    pub mapping: Mapping,
    /// The mapping whose tunables say what is meant: of a chosen mapping only what the command line sets, else the same.
    pub meaning: Mapping,
    /// Launch manifest.
    pub manifest: Manifest,
    /// PTX text; none where a cubin was given.
    pub ptx: Option<String>,
    /// Cubin; none where there is no ptxas.
    pub cubin: Option<Vec<u8>>,
    /// Notes on its origin, a line each.
    pub notes: Vec<String>,
}

/// Compiles under the source's mapping, or under the best proposed one.
///
/// # Errors
/// The compiler's refusal, shown in the text.
pub fn compile(source: &Source, options: &Options) -> Outcome<(Mapping, Compiled)> {
    Ok(candidates(source, options)?.swap_remove(0))
}

/// Compiles under the source's mapping, or under all that the compiler proposes: one at least, the best first.
fn candidates(source: &Source, options: &Options) -> Outcome<Vec<(Mapping, Compiled)>> {
    let refused = |e| user(refusal(source, &e));
    let options = &Options { disable: source.disable.clone(), ..options.clone() };
    if let Some(mapping) = &source.mapping {
        let compiled = warplift::compile(&source.kernel, mapping, source.target, options).map_err(refused)?;
        return Ok(vec![(mapping.clone(), compiled)]);
    }
    // The chosen mapping is shown, or a proposed one if none compiles.
    let hidden = Options { observer: None, ..options.clone() };
    let sizes = source.sizes.clone().unwrap_or_else(|| enumerate::usual_sizes(&source.kernel));
    let tuned = if source.exhaustive { None } else { usual_tunings() };
    let (defines, exhaustive) = (source.defines.clone(), source.exhaustive);
    let grants = source.grants.clone();
    let arrays = Arc::new(arrays_of(source, &sizes)?);
    let search = Search { defines, grants, exhaustive, tuned, arrays, ..Search::default() };
    let chosen = enumerate::choose(&source.kernel, &sizes, source.target, &hidden, &search);
    let proposed = || enumerate::mappings(&source.kernel, source.target, &source.grants).into_iter().next();
    let one = chosen.as_ref().ok().map(|c| c.best.mapping.clone()).or_else(proposed);
    if let Some(mapping) = one.filter(|_| options.observer.is_some()) {
        let _ = warplift::compile(&source.kernel, &mapping, source.target, options);
    }
    let chosen = chosen.map_err(refused)?;
    eprintln!("{chosen}\n{}", chosen.best.mapping);
    Ok(chosen.candidates().map(|c| (c.mapping, c.compiled)).collect())
}

/// The contents of arrays for which a mapping is chosen, at sizes.
fn arrays_of(source: &Source, sizes: &Sizes) -> Outcome<Arrays> {
    if source.data.is_empty() {
        return Ok(Arrays::new());
    }
    let problem = Problem::new(&source.kernel, &source.own_values(), sizes.clone())?;
    Ok(source.data.arrays(&problem.operands, SEED)?)
}

/// Candidates that ptxas sees at most.
const ASSEMBLED: usize = 8;

/// The first candidate that ptxas assembles without serialized products and spills, else the first of all; with words on
/// all that were not clean, in order.
fn first_clean<T>(
    candidates: &[T],
    mut assemble: impl FnMut(&T) -> Outcome<Assembled>,
) -> Outcome<(usize, Vec<String>)> {
    let mut slow = Vec::new();
    for (n, candidate) in candidates.iter().enumerate().take(ASSEMBLED) {
        match assemble(candidate)?.passed_over() {
            None => return Ok((n, slow)),
            Some(why) => slow.push(why),
        }
    }
    Ok((0, slow))
}

/// Compiles as [`compile`] does; of proposed mappings it takes the best one that ptxas neither serializes nor spills. Without
/// ptxas the best prediction stays.
///
/// # Errors
/// The compiler or ptxas refuses.
pub fn compile_for(source: &Source, options: &Options, tools: &Tools) -> Outcome<(Mapping, Compiled)> {
    let mut found = candidates(source, options)?;
    let mut at = 0;
    if let (true, Ok(tools)) = (found.len() > 1, tools.find()) {
        let assemble = |c: &(Mapping, Compiled)| Ok(tools.ptxas(&c.1.ptx, &PtxasOptions::default())?);
        let (chosen, slow) = first_clean(&found, assemble)?;
        tell(&found, chosen, &slow);
        at = chosen;
    }
    Ok(found.swap_remove(at))
}

/// Says why candidates were passed over, and whether the one taken is no better.
fn tell(found: &[(Mapping, Compiled)], chosen: usize, slow: &[String]) {
    if let (0, Some(why)) = (chosen, slow.first()) {
        let all = slow.len();
        return eprintln!(
            "{why}, and none of the {all} best predictions is clean: the first stays; its prediction may be too low"
        );
    }
    for (why, (mapping, _)) in slow.iter().zip(found) {
        eprintln!("passed over, since {why}:\n{mapping}");
    }
    if chosen > 0 {
        eprintln!("taken:\n{}", found[chosen].0);
    }
}

impl Artifact {
    /// Compiles, and assembles where there is a ptxas.
    ///
    /// # Errors
    /// The compiler or ptxas refuses.
    pub fn make(source: &Source, tools: &Tools) -> Outcome<Self> {
        let (mapping, compiled) = compile_for(source, &Options::default(), tools)?;
        Self::of(source, mapping, &compiled, tools)
    }

    /// What a compile left, assembled where there is a ptxas.
    ///
    /// # Errors
    /// ptxas refuses.
    pub fn of(source: &Source, mapping: Mapping, compiled: &Compiled, tools: &Tools) -> Outcome<Self> {
        let mut made = Self {
            name: source.kernel.name.clone(),
            kernel: source.kernel.clone(),
            manifest: compiled.manifest.clone(),
            ptx: Some(compiled.ptx.clone()),
            cubin: None,
            notes: vec![format!(
                "kernel `{}` from {}, mapping {}",
                source.kernel.name, source.text.file, source.origin
            )],
            meaning: source.meaning().unwrap_or_else(|| mapping.clone()),
            mapping,
        };
        let mut plan: Vec<String> =
            compiled.explained.plan.iter().map(|l| format!("  {}:{l}", source.text.file)).collect();
        plan.dedup();
        made.notes.extend(plan);
        made.notes.extend(remarked(source, &compiled.explained.lints));
        made.notes.push(times(&compiled.timings));
        made.assemble(tools)?;
        Ok(made)
    }

    fn assemble(&mut self, tools: &Tools) -> Outcome<()> {
        let Some(ptx) = &self.ptx else { return Ok(()) };
        let tools = match tools.find() {
            Ok(tools) => tools,
            Err(failure) => {
                self.notes.push(format!("not assembled: {}", failure.message()));
                return Ok(());
            }
        };
        let made = tools.ptxas(ptx, &PtxasOptions::default())?;
        self.notes.push(format!("ptxas {}: {}", tools.version, assembled(&made)));
        self.cubin = Some(made.cubin);
        Ok(())
    }

    /// The code for a GPU: the cubin, else PTX for the driver's compiler.
    ///
    /// # Errors
    /// There is neither.
    pub fn code(&self) -> Outcome<&[u8]> {
        let ptx = self.ptx.as_deref().map(str::as_bytes);
        self.cubin.as_deref().or(ptx).ok_or_else(|| user(format!("no code for `{}`", self.name)))
    }

    /// Writes all files into a folder, which is created if necessary.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn save(&self, folder: &Path) -> Outcome<()> {
        let made = fs::create_dir_all(folder);
        made.map_err(|e| user(format!("{}: {e}", folder.display())))?;
        let at = |extension: &str| folder.join(format!("{}.{extension}", self.name));
        write(&at("tile"), format!("{}\n{}", self.kernel, self.mapping).as_bytes())?;
        write(&at("json"), manifest_text(&self.manifest)?.as_bytes())?;
        for (extension, bytes) in
            [("ptx", self.ptx.as_deref().map(str::as_bytes)), ("cubin", self.cubin.as_deref())]
        {
            if let Some(bytes) = bytes {
                write(&at(extension), bytes)?;
            }
        }
        Ok(())
    }

    /// Reads an artifact from a folder.
    ///
    /// # Errors
    /// A file is missing or cannot be read.
    pub fn open(folder: &Path, name: &str) -> Outcome<Self> {
        Self::opened(folder, name, Self::source(folder, name)?)
    }

    /// Kernel and mapping of an artifact in a folder.
    fn source(folder: &Path, name: &str) -> Outcome<Source> {
        let path = folder.join(format!("{name}.tile"));
        if !path.exists() {
            return Err(Self::missing(folder, name)?);
        }
        load(&path.to_string_lossy(), &Choice::default())
    }

    /// Says which file of an artifact is missing, or which artifacts there are.
    fn missing(folder: &Path, name: &str) -> Outcome<Failure> {
        let (names, folder) = (Self::names(folder)?, folder.display());
        Ok(user(match names.iter().any(|n| n == name) {
            true => format!(
                "artifact `{name}` in {folder} lacks its text, {name}.tile, which `compile --save` writes beside {name}.json"
            ),
            false => format!("no artifact `{name}` in {folder}: there are {}", names.join(", ")),
        }))
    }

    /// The other files of an artifact in a folder.
    fn opened(folder: &Path, name: &str, source: Source) -> Outcome<Self> {
        let at = |extension: &str| folder.join(format!("{name}.{extension}"));
        let cubin = fs::read(at("cubin")).ok();
        let ptx = fs::read_to_string(at("ptx")).ok();
        let manifest = read_manifest(&at("json"))?;
        let mapping = source.mapping.unwrap_or_default();
        Ok(Self {
            name: name.to_owned(),
            meaning: mapping.clone(),
            mapping,
            kernel: source.kernel,
            manifest,
            ptx,
            cubin,
            notes: vec![format!("artifact {}", at("cubin").display())],
        })
    }

    /// Takes code made elsewhere for the source's kernel.
    ///
    /// # Errors
    /// A file cannot be read, or belongs to another kernel.
    pub fn ready(source: &Source, cubin: &Path, manifest: &Path) -> Outcome<Self> {
        let code = fs::read(cubin).map_err(|e| user(format!("reading {}: {e}", cubin.display())))?;
        let manifest = read_manifest(manifest)?;
        if manifest.kernel != source.kernel.name {
            let (has, wants) = (&manifest.kernel, &source.kernel.name);
            return Err(user(format!("the manifest is for kernel `{has}`, not `{wants}`")));
        }
        Ok(Self {
            name: source.kernel.name.clone(),
            kernel: source.kernel.clone(),
            mapping: source.mapping.clone().unwrap_or_default(),
            meaning: source.mapping.clone().unwrap_or_default(),
            manifest,
            ptx: None,
            cubin: Some(code),
            notes: vec![format!("ready code {}", cubin.display())],
        })
    }

    /// Names of the artifacts in a folder, sorted.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn names(folder: &Path) -> Outcome<Vec<String>> {
        let entries = fs::read_dir(folder).map_err(|e| user(format!("{}: {e}", folder.display())))?;
        let paths = entries.filter_map(|e| Some(e.ok()?.path()));
        let json = paths.filter(|p| p.extension().is_some_and(|e| e == "json"));
        let mut names: Vec<String> = json.filter_map(|p| Some(p.file_stem()?.to_str()?.to_owned())).collect();
        names.sort();
        Ok(names)
    }
}

/// Writes a file.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> Outcome<()> {
    fs::write(path, bytes).map_err(|e| user(format!("writing {}: {e}", path.display())))
}

/// The manifest as JSON.
///
/// # Errors
/// Never in practice: a manifest is plain data.
pub fn manifest_text(manifest: &Manifest) -> Outcome<String> {
    Ok(serde_json::to_string_pretty(manifest)? + "\n")
}

pub fn read_manifest(path: &Path) -> Outcome<Manifest> {
    let text = fs::read_to_string(path).map_err(|e| user(format!("reading {}: {e}", path.display())))?;
    serde_json::from_str(&text).map_err(|e| Failure::from(e).about(&path.display().to_string()))
}

/// Registers, spills and messages of ptxas.
pub fn assembled(made: &Assembled) -> String {
    let spills = match made.spills {
        (0, 0) => "no spills".to_owned(),
        (stores, loads) => format!("{stores} bytes of spill stores, {loads} of loads"),
    };
    let warnings: Vec<String> = made.warnings.iter().map(|w| format!("\n  {} {}", w.code, w.text)).collect();
    format!(
        "{} registers at entry, {spills}, {}{}",
        made.registers,
        plural(warnings.len() as u64, "warning"),
        warnings.concat()
    )
}

/// Time of each pass, and their sum.
pub fn times(timings: &[(&'static str, Duration)]) -> String {
    let micros = |d: &Duration| d.as_secs_f64() * 1e3;
    let each: Vec<String> = timings.iter().map(|(n, d)| format!("{n} {:.2}", micros(d))).collect();
    let total: Duration = timings.iter().map(|(_, d)| *d).sum();
    format!("compiled in {:.2} ms ({})", micros(&total), each.join(", "))
}

/// The source of code that was compiled elsewhere.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Ready {
    /// Folder of artifacts, as `compile --save` writes it; NAME is then a name in it.
    #[arg(long, value_name = "DIR")]
    pub artifacts: Option<PathBuf>,
    /// Ready code for the kernel.
    #[arg(long, value_name = "FILE", requires = "manifest")]
    pub cubin: Option<PathBuf>,
    /// Manifest of the ready code.
    #[arg(long, value_name = "FILE", requires = "cubin")]
    pub manifest: Option<PathBuf>,
}

impl Ready {
    /// Reads or makes the artifact with a name; where its mapping is chosen, for these sizes.
    ///
    /// # Errors
    /// It cannot be read or compiled.
    pub fn artifact(
        &self,
        name: &str,
        choice: &Choice,
        sizes: Option<&Sizes>,
        tools: &Tools,
    ) -> Outcome<Artifact> {
        let source = self.source(name, choice)?.launched(sizes.cloned().as_slice());
        self.made(name, source, tools)
    }

    /// Kernel and mapping with a name. Nothing is compiled yet.
    ///
    /// # Errors
    /// They cannot be read, or a choice comes too late for ready code.
    pub fn source(&self, name: &str, choice: &Choice) -> Outcome<Source> {
        let ready = self.artifacts.is_some() || self.cubin.is_some();
        if let (true, Some(feature)) = (ready, choice.disable.first()) {
            return Err(user(format!("ready code is not compiled again: it cannot be without `{feature}`")));
        }
        let Some(folder) = &self.artifacts else { return load(name, choice) };
        let given = choice.define.first().map(|d| format!("-D {d}"));
        let given = given.or(choice.mapping.as_ref().map(|m| format!("--mapping {m}")));
        match given.or(choice.kernel.as_ref().map(|k| format!("--kernel {k}"))) {
            Some(given) => {
                Err(user(format!("an artifact has its kernel and mapping: {given} comes too late")))
            }
            None => Artifact::source(folder, name),
        }
    }

    /// The artifact of a source that [`Ready::source`] gave.
    ///
    /// # Errors
    /// It cannot be read or compiled.
    pub fn made(&self, name: &str, source: Source, tools: &Tools) -> Outcome<Artifact> {
        match (&self.artifacts, &self.cubin, &self.manifest) {
            (Some(folder), ..) => Artifact::opened(folder, name, source),
            (None, Some(cubin), Some(manifest)) => Artifact::ready(&source, cubin, manifest),
            _ => Artifact::make(&source, tools),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warplift::toolchain::Warning;

    #[test]
    fn what_ptxas_makes_slow_is_passed_over() {
        let warned = Warning { code: "C7512".into(), text: "serialized".into() };
        let serialized = Assembled { warnings: vec![warned], ..Assembled::default() };
        let spilled = Assembled { spills: (8, 4), ..Assembled::default() };
        let clean = Assembled::default();
        let taken = |all: &[&Assembled]| first_clean(all, |c| Ok((*c).clone())).ok().unwrap();
        let reasons = ["ptxas serializes products (C7512)", "ptxas spills 12 bytes"].map(str::to_owned);
        assert_eq!(taken(&[&serialized, &spilled, &clean]), (2, reasons.to_vec()));
        assert_eq!(taken(&[&clean, &serialized]), (0, vec![]));
        assert_eq!(
            taken(&[&serialized, &spilled]),
            (0, reasons.to_vec()),
            "where none is better, the best prediction"
        );
        let refused = |_: &&Assembled| Err(user("ptxas refuses"));
        assert!(first_clean(&[&clean], refused).is_err());
    }
}
