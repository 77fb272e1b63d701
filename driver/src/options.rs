//! Options of a compile: verification, disabled features, observers, limits.

use crate::error::CompileError;
use crate::features::Feature;
use crate::passes::all;
use crate::state::State;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use warplift_ir::{Bump, Full};

/// Options of a compile.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Run the verifiers after every pass. Debug builds always do.
    pub verify: bool,
    /// Optimizations to turn off.
    pub disable: Vec<Feature>,
    /// A function that sees the state after every pass at once, even if a later pass refuses the kernel.
    pub observer: Option<Observer>,
    /// Emit roles that need more registers than they have. ptxas then spills or serializes: for measuring where the
    /// limit lies.
    pub unbounded_registers: bool,
    /// Limits of time and memory.
    pub limits: Limits,
}

impl Options {
    /// Whether verifiers run.
    pub(crate) fn verifies(&self) -> bool {
        self.verify || cfg!(debug_assertions)
    }

    /// Shows the state after a pass to the observer.
    pub(crate) fn show(&self, seen: &Seen<'_, '_>) {
        if let Some(Observer(see)) = &self.observer {
            see(seen);
        }
    }
}

/// The state after a pass.
pub struct Seen<'s, 'a> {
    /// Number of the attempt, from 0.
    pub attempt: usize,
    /// Number of the pass among all, from 0.
    pub at: usize,
    /// Its name.
    pub pass: &'static str,
    /// The state after it.
    pub state: &'s State<'a>,
}

impl Seen<'_, '_> {
    /// The IR of the pass's level alone.
    pub fn ir(&self) -> String {
        all().nth(self.at).map_or_else(String::new, |(level, _)| (level.print)(self.state))
    }

    /// The state as text.
    pub fn text(&self) -> String {
        self.state.text(self.pass)
    }
}

/// A function that sees the state after every pass.
#[derive(Clone)]
pub struct Observer(Arc<dyn Fn(&Seen<'_, '_>) + Send + Sync>);

impl Observer {
    /// An observer of a function.
    pub fn new(see: impl Fn(&Seen<'_, '_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(see))
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// Limits of a compile. Both are checked after every pass. The searches for a plan and for a modulo schedule take the
/// longest, so they also stop when the time is over. `lower`, `modulo_expand` and `expand_roles` make many instructions
/// of one, so they also stop when the memory is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Time of all attempts.
    pub time: Option<Duration>,
    /// Bytes of tile IR, in all its variants, and of machine IR. A compile that exceeds them stops after the pass on tile
    /// IR, or before the next instruction of machine IR.
    pub memory: Option<usize>,
    /// Attempts at a kernel that is refused: see [`crate::attempts`].
    pub attempts: Option<usize>,
}

impl Limits {
    /// Whether a compile that began at `started` may continue after a pass.
    pub(crate) fn check(
        &self,
        pass: &'static str,
        started: Instant,
        bump: &Bump,
    ) -> Result<(), CompileError> {
        match (self.time, bump.check()) {
            (Some(limit), _) if started.elapsed() > limit => Err(CompileError::Time { limit, pass }),
            (_, Err(Full { limit, used })) => Err(CompileError::Memory { limit, used, pass }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::find;
    use warplift_ir::target::SM90A;

    #[test]
    fn limits_of_time_and_memory_are_refusals_with_the_pass() {
        let module = find("gemm").unwrap().parse().unwrap();
        let refused = |limits| {
            let options = Options { limits, ..Options::default() };
            crate::compile(&module.kernels[0], &module.mappings[0], &SM90A, &options)
                .map(|c| c.ptx)
                .unwrap_err()
        };
        let late = refused(Limits { time: Some(Duration::ZERO), ..Limits::default() });
        assert!(matches!(late, CompileError::Time { pass: "verify", limit: Duration::ZERO }), "{late}");
        let large = refused(Limits { memory: Some(1), ..Limits::default() });
        assert!(matches!(large, CompileError::Memory { limit: 1, used: 2.., .. }), "{large}");
    }

    #[test]
    fn attempts_end_at_their_limit() {
        let module = find("a16w4").unwrap().parse().unwrap();
        let text = "mapping a16w4 { BM = 256 BN = 128 for t: pipeline fit, producers 1, consumers 2 }";
        let mapping = warplift_ir::tile::parse_file(text, "").unwrap().mappings.remove(0);
        let made = |attempts| {
            let mut context = crate::Context::default();
            let options = Options { limits: Limits { attempts, ..Limits::default() }, ..Options::default() };
            let refused = context.compile(&module.kernels[0], &mapping, &SM90A, &options).is_err();
            (refused, context.attempts().len())
        };
        let (refused, all) = made(None);
        assert!(refused && all > 2, "{all}");
        assert_eq!(made(Some(2)), (true, 2));
    }

    /// Bytes in use after each pass of a compile, and its result.
    fn bytes(
        text: &str,
        memory: Option<usize>,
    ) -> (Vec<(&'static str, usize)>, Result<String, CompileError>) {
        let module = warplift_ir::tile::parse_file(text, "grown").unwrap();
        let used = Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = Arc::clone(&used);
        let observer = Observer::new(move |s| seen.lock().unwrap().push((s.pass, s.state.bump.used())));
        let limits = Limits { memory, ..Limits::default() };
        let options = Options { limits, observer: Some(observer), ..Options::default() };
        let made = crate::compile(&module.kernels[0], &module.mappings[0], &SM90A, &options).map(|c| c.ptx);
        let used = used.lock().unwrap().clone();
        (used, made)
    }

    /// What a pass adds to the arena.
    fn added(bytes: &[(&'static str, usize)], pass: &str) -> [usize; 2] {
        let at = bytes.iter().position(|b| b.0 == pass).unwrap_or_else(|| panic!("no {pass} in {bytes:?}"));
        [bytes[at - 1].1, bytes[at].1]
    }

    /// A limit in the first tenth of what one pass makes stops the compile inside that pass.
    fn stops_inside(text: &str, pass: &str) {
        let (used, made) = bytes(text, None);
        assert!(made.is_ok(), "{made:?}");
        let [before, after] = added(&used, pass);
        let limit = before + (after - before) / 10;
        match bytes(text, Some(limit)).1 {
            Err(CompileError::Memory { limit: l, used, pass: at }) => {
                assert_eq!((l, at), (limit, pass));
                let half = before + (after - before) / 2;
                assert!(used > limit && used < half, "{before} .. {used} .. {after}, the limit is {limit}");
            }
            other => panic!("{other:?}"),
        }
    }

    /// The tile IR counts too: in all variants, before any machine IR is made.
    #[test]
    fn a_pass_that_grows_the_tile_ir_is_refused_at_the_limit() {
        let text = find("attention").unwrap().text;
        let (used, made) = bytes(text, None);
        assert!(made.is_ok(), "{made:?}");
        let grows = used.windows(2).find(|w| w[1].1 > w[0].1).expect("a pass grows the kernel");
        let [(_, before), (pass, after)] = [grows[0], grows[1]];
        assert!(used.iter().position(|u| u.0 == pass) < used.iter().position(|u| u.0 == "plan"), "{used:?}");
        match bytes(text, Some(before)).1 {
            Err(CompileError::Memory { limit, used, pass: at }) => {
                assert_eq!((limit, used, at), (before, after, pass))
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(bytes(text, Some(1)).1, Err(CompileError::Memory { pass: "verify", .. })));
    }

    const ROWS: &str = "kernel rows(x: ptr<f32> align 16, y: ptr<f32> align 16, n: i32 % 4) {
        grid cdiv(n, 1024)
        gx = view x : f32[n]
        gy = view y : f32[n]
        i = block_index\n";

    #[test]
    fn a_long_text_stops_inside_lower_when_the_memory_is_full() {
        let mut text = ROWS.to_owned() + "v0 = load gx[i*1024] : f32[1024]\n";
        for q in 0..400 {
            text += &format!("v{} = v{q} + 1.5\n", q + 1);
        }
        text += "store gy[i*1024], v400\n}\nmapping rows {\nkernel: warps 4\n}";
        stops_inside(&text, "lower");
        stops_inside(&text, "expand_roles");
    }

    #[test]
    fn a_row_of_loads_stops_inside_lower_when_the_memory_is_full() {
        let text = ROWS.replace("1024", "16384")
            + "v = load gx[i*16384] : f32[16384]
            store gy[i*16384], v\n}\nmapping rows {\nkernel: warps 4\n}";
        stops_inside(&text, "lower");
    }

    #[test]
    fn loops_stop_inside_modulo_expand_when_the_memory_is_full() {
        let mut text = "kernel chain(q: ptr<f16> align 16, k: ptr<f16> align 16, v: ptr<f16> align 16, o: ptr<f16> align 16, m: i32, n: i32) {
            grid cdiv(m, 64)
            gq = view q : f16[m, 64]
            gk = view k : f16[n, 64]
            gv = view v : f16[n, 64]
            go = view o : f16[m, 64]
            i = block_index
            tq = load gq[i*64, 0] : f16[64, 64]
            zero = full 0.0 : f32[64, 32]
            x0 = full 0.0 : f32[64, 64]\n"
            .to_owned();
        let mut words = String::new();
        for q in 0..6 {
            text += &format!(
                "x{} = for t{q} in 0..cdiv(n, 32) carry y{q} = x{q} {{
                    k{q} = load gk[t{q}*32, 0] : f16[32, 64]
                    s{q} = mma zero, tq, trans(k{q})
                    p{q} = cast(exp2(s{q}), f16)
                    v{q} = load gv[t{q}*32, 0] : f16[32, 64]
                    yield mma y{q}, p{q}, v{q}
                }}\n",
                q + 1
            );
            words += &format!("for t{q}: pipeline fit, producers 1, consumers 1\n");
        }
        text += &format!("store go[i*64, 0], cast(x6, f16)\n}}\nmapping chain {{\n{words}}}");
        stops_inside(&text, "modulo_expand");
    }

    #[test]
    fn a_context_counts_what_this_compile_uses() {
        let [module, small] = ["attention", "transpose"].map(|n| find(n).unwrap().parse().unwrap());
        let alone = bytes(find("transpose").unwrap().text, None).0.last().unwrap().1;
        let mut context = crate::Context::default();
        let mut used = |module: &warplift_ir::tile::Module, memory| {
            let options = Options { limits: Limits { memory, ..Limits::default() }, ..Options::default() };
            context.compile(&module.kernels[0], &module.mappings[0], &SM90A, &options).map(|c| c.ptx)
        };
        let first = used(&small, Some(alone)).unwrap();
        used(&module, None).unwrap();
        assert_eq!(used(&small, Some(alone)).unwrap(), first);
    }
}
