//! The state between two passes as a file. It is written after any pass, and a compile can resume from it.
//!
//! ```text
//!  --dump PASS          to standard error, as soon as the pass has run
//!  --dump-dir DIR       DIR/07-widen.txt ..; further attempts in DIR/attempt-1 ..
//!  --stop-after PASS    the state instead of PTX, of the attempt that compiles
//!  --start-after PASS   the source is such a file: the passes after PASS give PTX
//! ```

use super::artifact::compile;
use super::failure::{Outcome, user};
use super::source::{Source, refusal};
use std::fs;
use std::path::{Path, PathBuf};
use warplift::options::Seen;
use warplift::passes::find;
use warplift::{Context, Observer, Options};

/// Options that show the state between passes.
#[derive(clap::Args, Clone, Default)]
pub struct DumpArgs {
    /// Print the state after this pass to standard error; `all` for every pass. May be repeated.
    #[arg(long, value_name = "PASS")]
    dump: Vec<String>,
    /// Write the state after every pass into this folder, each into a numbered file.
    #[arg(long, value_name = "DIR")]
    dump_dir: Option<PathBuf>,
}

impl DumpArgs {
    /// The observer that shows the requested states; `None` if there are none.
    ///
    /// # Errors
    /// A pass that does not exist, a folder that cannot be made.
    pub fn observer(&self) -> Outcome<Option<Observer>> {
        for name in self.dump.iter().filter(|d| *d != "all") {
            find(name).map_err(|e| user(e.to_string()))?;
        }
        if let Some(folder) = &self.dump_dir {
            fs::create_dir_all(folder).map_err(|e| user(format!("making {}: {e}", folder.display())))?;
        }
        let args = self.clone();
        let wanted = !self.dump.is_empty() || self.dump_dir.is_some();
        Ok(wanted.then(|| Observer::new(move |seen| args.show(seen))))
    }

    fn show(&self, seen: &Seen<'_, '_>) {
        if self.dump.iter().any(|d| d == seen.pass || d == "all") {
            eprintln!("{}", seen.text());
        }
        if let Some(folder) = &self.dump_dir {
            let path = path(folder, seen);
            let made = path.parent().map_or(Ok(()), fs::create_dir_all);
            if let Err(error) = made.and_then(|()| fs::write(&path, seen.text())) {
                eprintln!("warplift: writing {}: {error}", path.display());
            }
        }
    }
}

/// The file of a state.
fn path(folder: &Path, seen: &Seen<'_, '_>) -> PathBuf {
    let folder = match seen.attempt {
        0 => folder.to_owned(),
        n => folder.join(format!("attempt-{n}")),
    };
    folder.join(format!("{:02}-{}.txt", seen.at + 1, seen.pass))
}

/// The state after a pass in the attempt that compiles, or in the first attempt if none does.
///
/// # Errors
/// The pass does not exist, an earlier pass refuses the kernel, or the kernel has no mapping.
pub fn state_after(source: &Source, pass: &str, options: &Options) -> Outcome<String> {
    let last = find(pass).map_err(|e| user(e.to_string()))?;
    let refused = |e| user(refusal(source, &e));
    let options = Options { disable: source.disable.clone(), ..options.clone() };
    let mapping = match &source.mapping {
        Some(mapping) => mapping.clone(),
        None => compile(source, &options)?.0,
    };
    let problem = (&source.kernel, &mapping);
    let mut context = Context::default();
    let compiled = context.compile(problem.0, problem.1, source.target, &options).is_ok();
    let given_up = context.attempts().last().filter(|_| compiled).map_or(&[][..], |a| &a.without);
    let disable = [&options.disable[..], given_up].concat();
    let again = Options { disable, observer: None, ..options };
    context.inspect(problem, source.target, &again, last, |state| state.text(pass)).map_err(refused)
}
