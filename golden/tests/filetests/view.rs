//! What is shown of a pass: what it changed, or what it made where nothing of its kind was there before.
//!
//! ```text
//!  tile ───── kernel, changed      plan ── layouts      machine ─ program, changed      schedule ─ roles, rings, slots
//!  mma_variant ─ the variants      lints ─ remarks      modulo ── program and chart     smem ───── addresses
//!  role ───── code of the roles, changed      allocate ─ registers      emit ─ PTX
//! ```

use super::file::{File, changed};
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use warplift::chart::Chart;
use warplift::ir::machine::{Buffer, RoleKind, Schedule};
use warplift::ir::target::SM90A;
use warplift::ir::tile::{Module, parse_file};
use warplift::passes::find;
use warplift::state::State;
use warplift::{Observer, Options, compile};

/// What is shown of a state.
type View = fn(&State<'_>) -> String;

/// How a pass is shown: what it changed in a view, or the whole of it.
enum Shows {
    Changed(View),
    Made(View),
}

fn shows(pass: &str) -> Shows {
    match pass {
        "verify" | "teams" => Shows::Made(kernels),
        "mma_variant" => Shows::Made(variants),
        "plan" => Shows::Made(|s| s.plan().describe(s.kernel()).join("\n")),
        "mapping_lints" => Shows::Made(|s| s.lints.iter().map(|r| format!("remark: {r}\n")).collect()),
        "lower" => Shows::Made(|s| s.program().to_string()),
        "modulo" => Shows::Changed(overlap),
        "schedule" | "broadcast_tile_info" | "tell_producer" => Shows::Made(schedule),
        "smem" => Shows::Made(memory),
        "expand_roles" => Shows::Made(|s| s.scheduled().to_string()),
        "allocate" => Shows::Made(registers),
        "emit" => Shows::Made(|s| s.output().ptx.clone()),
        _ => Shows::Changed(ir),
    }
}

/// The kernel that a file is about, and its mapping.
///
/// # Errors
/// What the parser says.
pub fn module(file: &File) -> Result<Module, String> {
    parse_file(&file.input, &file.name).map_err(|e| e.to_string())
}

/// What a file's pass makes of its kernel.
///
/// # Errors
/// The pass did not come to run, or a later one refuses.
pub fn shown(file: &File) -> Result<String, String> {
    let at = find(&file.folder).map_err(|e| e.to_string())?;
    let (view, whole) = match shows(&file.folder) {
        Shows::Changed(view) => (view, false),
        Shows::Made(view) => (view, true),
    };
    let seen = Arc::new(Mutex::new(Seen::default()));
    let kept = Arc::clone(&seen);
    let observer = Observer::new(move |s| {
        let mut seen = kept.lock().expect("no observer panics");
        if seen.attempt != s.attempt {
            *seen = Seen { attempt: s.attempt, ..Seen::default() };
        }
        seen.passes = s.at + 1;
        // The first pass that makes a view is not asked for it before.
        match s.at {
            n if n == at => seen.after = Some(view(s.state)),
            n if n < at && !whole && has_view(n, at) => seen.before = view(s.state),
            _ => {}
        }
    });
    let module = module(file)?;
    let options = Options { verify: true, observer: Some(observer), ..Options::default() };
    let compiled = compile(&module.kernels[0], &module.mappings[0], &SM90A, &options);
    let seen = seen.lock().expect("no observer panics");
    match (&seen.after, compiled) {
        (None, Err(e)) if seen.passes == at => Ok(format!("refused: {e}\n")),
        (None, e) => {
            Err(format!("not run: {}", e.map_or_else(|e| e.to_string(), |_| String::from("compiles"))))
        }
        (Some(_), Err(e)) => Err(format!("refused later: {e}")),
        (Some(after), Ok(_)) if whole => Ok(file.filter(after)),
        (Some(after), Ok(_)) => {
            let text = changed(&file.filter(&seen.before), &file.filter(after), file.context());
            Ok(if text.is_empty() { "unchanged\n".to_owned() } else { text })
        }
    }
}

/// What an observer saw of the last attempt.
#[derive(Default)]
struct Seen {
    attempt: usize,
    /// Passes that have run, skipped ones among them included.
    passes: usize,
    before: String,
    after: Option<String>,
}

/// Whether the view of a pass can be asked for behind an earlier one: both speak of the same kind of IR.
fn has_view(earlier: usize, pass: usize) -> bool {
    let made = ["verify", "plan", "lower", "expand_roles", "emit"];
    let kind = |n: usize| made.iter().filter(|m| find(m).is_ok_and(|m| m <= n)).count();
    kind(earlier) == kind(pass)
}

/// The IR of the state.
fn ir(s: &State<'_>) -> String {
    match (&s.scheduled, &s.program) {
        (Some(scheduled), _) => scheduled.to_string(),
        (None, Some(program)) => program.to_string(),
        (None, None) => kernels(s),
    }
}

fn kernels(s: &State<'_>) -> String {
    s.variants.iter().map(|v| v.kernel.to_string()).collect()
}

fn variants(s: &State<'_>) -> String {
    s.variants.iter().map(|v| format!("variant: {}\n", v.mma)).collect()
}

/// The program, and the charts of its loops.
fn overlap(s: &State<'_>) -> String {
    s.loops.iter().fold(s.program().to_string(), |all, l| all + &Chart(l).to_string())
}

/// Roles with what they execute, rings, and what else the schedule decides.
fn schedule(s: &State<'_>) -> String {
    let (schedule, program) = (s.schedule(), s.program());
    let mut text = String::new();
    for role in [RoleKind::Producer, RoleKind::EpilogueLoad, RoleKind::Helper, RoleKind::Epilogue] {
        for inst in program.func.insts.keys().filter(|&i| schedule.roles[i] == role) {
            let data = &program.func.insts[inst];
            let _ = writeln!(text, "{role:?}: {inst} {}, line {}", data.op.name(), data.loc.line);
        }
    }
    rings(s, schedule, &mut text);
    for inst in program.func.insts.keys() {
        if schedule.in_flight[inst] > 0 {
            let _ = writeln!(text, "{inst}: {} groups of products in flight", schedule.in_flight[inst]);
        }
        if schedule.multicast[inst] {
            let _ = writeln!(text, "{inst}: multicast");
        }
    }
    let order = schedule.mma_order.iter().map(|m| format!("{m:?}\n"));
    let deferral = schedule.deferral.iter().map(|d| format!("{d:?}\n"));
    let before = schedule.before_wait.iter().map(|i| format!("before the wait for other grids: {i}\n"));
    let info = &schedule.tile_info;
    let info = info.makers.iter().map(|&i| {
        let data = &program.func.insts[i];
        let told = data.results.iter().filter(|v| info.values.contains(v)).map(ToString::to_string);
        let (op, line, told) = (data.op.name(), data.loc.line, told.collect::<Vec<_>>().join(", "));
        format!("Producer: {told} of {i} {op}, line {line}, for all roles\n")
    });
    let remarks = schedule.remarks.iter().map(|r| format!("remark: {r}\n"));
    text.extend(order.chain(deferral).chain(before).chain(info).chain(remarks));
    text
}

fn name<'s>(s: &'s State<'_>, buffer: Buffer) -> &'s str {
    &s.program().buffers[buffer].name
}

fn rings(s: &State<'_>, schedule: &Schedule, text: &mut String) {
    for (ring, d) in &schedule.rings {
        let names: Vec<&str> = d.buffers.iter().map(|&b| name(s, b)).collect();
        let most = d.wish.map_or(String::from("any"), |w| w.to_string());
        let (bytes, fill, least) = (d.bytes, d.fill, d.least);
        let _ = writeln!(
            text,
            "{ring}: {}, {bytes} bytes, filled by {fill:?}, at least {least} stages, at most {most}",
            names.join(", ")
        );
        if d.release != Default::default() {
            let _ = writeln!(text, "{ring}: released {:?}", d.release);
        }
    }
}

/// Where buffers and barriers lie.
fn memory(s: &State<'_>) -> String {
    let (schedule, map) = (s.schedule(), &s.smem);
    let mut text = String::new();
    for (buffer, data) in &s.program().buffers {
        let ring = schedule.rings.values().find(|r| r.buffers.contains(&buffer));
        let stages = ring.map_or(schedule.slots[buffer].max(1), |r| r.depth);
        let (at, name, bytes) = (map.buffers[buffer], &data.name, data.bytes);
        let _ = writeln!(text, "{at:>6}  {name}: {stages} x {bytes} bytes, {:?}", data.kind);
    }
    for (ring, d) in schedule.rings.iter().filter(|r| r.1.fill.has_barriers()) {
        let _ = writeln!(text, "{:>6}  barriers of {ring}: {} full, then empty", map.barriers[ring], d.depth);
    }
    text + &format!("{:>6}  bytes in all\n", map.bytes)
}

/// Registers of the roles.
fn registers(s: &State<'_>) -> String {
    let mut text = String::new();
    for (role, alloc) in s.scheduled().roles.iter().zip(&s.allocations().roles) {
        let [r, d, p] = alloc.names;
        let moves: usize = role.func.insts.keys().map(|i| alloc.before[i].len()).sum();
        let (name, budget, pressure) = (role.name, role.registers, alloc.pressure);
        let _ = writeln!(text, "role {name}: {pressure} registers of {budget}");
        let _ = writeln!(text, "  names: {r} of 32 bits, {d} of 64 bits, {p} predicates; {moves} moves");
    }
    text
}
