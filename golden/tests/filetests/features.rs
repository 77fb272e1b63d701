//! What a feature is worth: the PTX of a kernel with it, and without it.

use super::file::{File, changed};
use super::view::module;
use warplift::features::UnknownFeature;
use warplift::ir::target::SM90A;
use warplift::{Feature, Options, compile};

/// How PTX changes when the feature that a file is named after is turned on.
///
/// # Errors
/// No feature has this name, or the kernel is the same without it.
pub fn shown(file: &File) -> Result<String, String> {
    let stem = file.name.rsplit('/').next().and_then(|n| n.split('.').next()).unwrap_or_default();
    let feature: Feature = stem.parse().map_err(|e: UnknownFeature| e.to_string())?;
    let module = module(file)?;
    let ptx = |disable| {
        let options = Options { verify: true, disable, ..Options::default() };
        let made = compile(&module.kernels[0], &module.mappings[0], &SM90A, &options);
        made.map(|m| m.ptx).map_err(|e| e.to_string())
    };
    let (without, with) = (ptx(vec![feature])?, ptx(Vec::new())?);
    match changed(&file.filter(&without), &file.filter(&with), file.context()) {
        same if same.is_empty() && without == with => Err("the feature changes nothing".to_owned()),
        same if same.is_empty() => Err("the feature changes nothing that is shown".to_owned()),
        text => Ok(text),
    }
}
