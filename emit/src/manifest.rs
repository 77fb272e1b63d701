//! The launch manifest of a scheduled program.

use crate::module::entry_name;
use warplift_ir::machine::Scheduled;
use warplift_ir::manifest::{MANIFEST_VERSION, Manifest, RoleInfo};
use warplift_ir::target::Target;

/// Collects what a launcher needs.
pub(crate) fn manifest(program: &Scheduled<'_>, target: &Target) -> Manifest {
    let launch = &program.launch;
    let role = |r: &warplift_ir::machine::Role<'_>| RoleInfo {
        name: r.name.to_owned(),
        warps: [r.first_warp, r.warps],
        registers: r.registers,
    };
    Manifest {
        version: MANIFEST_VERSION,
        kernel: launch.kernel.clone(),
        entry: entry_name(&launch.kernel),
        target: target.arch.to_string(),
        arguments: launch.arguments.clone(),
        params: launch.params.clone(),
        grid: launch.grid.clone(),
        cluster: [launch.cluster.max(1), 1, 1],
        block: program.threads,
        pdl: launch.pdl,
        dynamic_shared: program.shared.bytes,
        workspace: launch.workspace.clone(),
        roles: program.roles.iter().map(role).collect(),
        facts: launch.facts.clone(),
    }
}
