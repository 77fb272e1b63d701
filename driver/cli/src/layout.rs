//! `layout`: shows a layout and its properties.

use super::artifact::write;
use super::failure::{Outcome, user};
use std::path::PathBuf;
use warplift::ir::layout::report;

/// `layout EXPR`.
#[derive(clap::Args)]
pub struct LayoutArgs {
    /// A layout, in any of the notations that the documentation of layouts lists.
    expression: String,
    /// Write the picture to this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Runs `layout`.
///
/// # Errors
/// Text that is no layout.
pub fn layout(args: &LayoutArgs) -> Outcome<()> {
    let found = report::layout(&args.expression);
    let report = found.map_err(|e| user(format!("`{}`: {e}", args.expression)))?;
    println!("{report}");
    match &args.svg {
        Some(path) => write(path, report.svg.as_bytes()),
        None => Ok(()),
    }
}
