//! One small kernel for each class of hazard: the class, both instructions with their places in the source, the
//! thread and the address are told. A class without a kernel does not compile here.

mod common;

use common::kernel::Kernel;
use strum::VariantArray;
use warplift_sim::{Hazard, HazardKind, Memory, Site};

/// Where shared memory begins, and the second block's of a cluster.
const SHARED: u64 = 1024;
const PEER: u64 = (1 << 24) + SHARED;

/// A kernel that makes one mistake.
struct Mistake {
    /// Threads of a block, blocks of a cluster.
    threads: u32,
    cluster: u32,
    /// The instruction that runs into it ends with `// here`; a second one at fault, if there is one, with
    /// `// there`. Without either it is the end of the kernel.
    body: String,
    thread: u32,
    /// The thread that the report names where the two meet in the other order, if they can.
    swapped: Option<u32>,
    address: Option<u64>,
}

fn mistake(threads: u32, body: &str, thread: u32, address: impl Into<Option<u64>>) -> Mistake {
    Mistake { threads, cluster: 1, body: body.to_owned(), thread, swapped: None, address: address.into() }
}

/// Of threads of two warps, 3 and 37, that nothing orders.
fn of_two_warps(body: &str, address: u64) -> Mistake {
    let body = format!("setp.eq.u32 %p1, %r2, 3;\nsetp.eq.u32 %p2, %r2, 37;\n{body}");
    Mistake { swapped: Some(3), ..mistake(64, &body, 37, address) }
}

fn of_two_blocks(body: &str, address: impl Into<Option<u64>>) -> Mistake {
    Mistake { cluster: 2, ..mistake(1, body, 0, address) }
}

/// The global address of a byte of the input.
fn input(at: u64) -> u64 {
    let mut memory = Memory::new();
    let buffer = memory.alloc("in", vec![0; 16]);
    memory.address(buffer) + at
}

/// Operands of zeros and one product of 64 x 8 x 16 whose accumulators are written before its fence, between
/// fence and product, and behind the product.
fn product(between: &str, behind: &str) -> String {
    format!(
        "shl.b32 %r3, %r2, 4;\nadd.u32 %r3, %r3, %r1;\nmov.u32 %r4, 0;\n\
         st.shared.v4.u32 [%r3], {{%r4, %r4, %r4, %r4}};\nst.shared.v4.u32 [%r3+2048], {{%r4, %r4, %r4, %r4}};\n\
         fence.proxy.async.shared::cta;\nbar.sync 0;\n\
         and.b32 %r5, %r1, 0x3ffff;\nshr.u32 %r5, %r5, 4;\nor.b32 %r5, %r5, 0x80000;\nmov.u32 %r6, 16;\n\
         mov.b64 %rd5, {{%r5, %r6}};\n\
         mov.f32 %f1, 0f00000000;\nmov.f32 %f2, %f1;\nmov.f32 %f3, %f1;\nmov.f32 %f4, %f1;\n\
         wgmma.fence.sync.aligned;\n{between}\n\
         wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f1, %f2, %f3, %f4}}, %rd5, %rd5, 1, 1, 1, 0, 0; // product\n\
         {behind}\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
    )
}

fn of(kind: HazardKind) -> Mistake {
    match kind {
        HazardKind::SharedRace => of_two_warps(
            "@%p1 st.shared.u32 [%r1+8], %r2; // there\n@%p2 st.shared.u32 [%r1+8], %r2; // here",
            SHARED + 8,
        ),
        HazardKind::Assumption => {
            mistake(32, "add.u32 %r3, %r2, 8;\n//sim assume.s32 %r3, 1, 8, 23; // here", 16, None)
        }
        HazardKind::GlobalRace => of_two_warps(
            "@%p1 st.global.u32 [%rd1+8], %r2; // there\n@%p2 ld.global.u32 %r3, [%rd1+8]; // here",
            input(8),
        ),
        HazardKind::InFlight => mistake(
            1,
            "st.shared.u32 [%r1], %r2;\ncp.async.ca.shared.global [%r1], [%rd1], 4; // there\n\
             ld.shared.u32 %r3, [%r1]; // here\ncp.async.wait_all;",
            0,
            SHARED,
        ),
        HazardKind::MissingProxyFence => mistake(
            1,
            "st.shared.v4.u32 [%r1], {%r2, %r2, %r2, %r2}; // there\n\
             cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 16; // here\n\
             cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;",
            0,
            SHARED,
        ),
        HazardKind::LaneRace => mistake(
            32,
            "shl.b32 %r3, %r2, 2;\nadd.u32 %r3, %r3, %r1;\nst.shared.u32 [%r3], %r2; // there\n\
             xor.b32 %r4, %r3, 4;\nld.shared.u32 %r5, [%r4]; // here",
            0,
            SHARED + 4,
        ),
        HazardKind::RegisterInFlight => {
            let body = product("", "add.f32 %f5, %f1, %f1; // here").replace("// product", "// there");
            mistake(128, &body, 0, None)
        }
        HazardKind::MissingWgmmaFence => {
            let body = product("mov.f32 %f1, 0f00000000; // there", "").replace("// product", "// here");
            mistake(128, &body, 0, None)
        }
        HazardKind::OverArrival => mistake(
            1,
            "mbarrier.init.shared::cta.b64 [%r1], 1; // there\n\
             mbarrier.arrive.shared::cta.b64 _, [%r1], 2; // here",
            0,
            SHARED,
        ),
        HazardKind::TransactionCount => mistake(
            1,
            "mbarrier.init.shared::cta.b64 [%r1], 1; // there\n\
             mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 1048576; // here",
            0,
            SHARED,
        ),
        HazardKind::BarrierMisuse => mistake(
            1,
            "mbarrier.init.shared::cta.b64 [%r1], 1; // there\nmbarrier.init.shared::cta.b64 [%r1], 2; // here",
            0,
            SHARED,
        ),
        HazardKind::Deadlock => mistake(
            1,
            "mbarrier.init.shared::cta.b64 [%r1], 1; // there\nAGAIN:\n\
             mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; // here\n@!%p1 bra AGAIN;",
            0,
            SHARED,
        ),
        HazardKind::UninitialisedRegister => {
            let body = "setp.ge.u32 %p1, %r2, 5;\n@%p1 add.u32 %r5, %r6, 1; // there\n\
                @%p1 st.shared.u32 [%r1], %r5; // here";
            mistake(32, body, 5, None)
        }
        HazardKind::UninitialisedMemory => mistake(1, "ld.shared.u32 %r3, [%r1+12]; // here", 0, SHARED + 12),
        HazardKind::OutOfBounds => mistake(1, "ld.global.u32 %r3, [%rd1+16]; // here", 0, input(16)),
        HazardKind::Misaligned => mistake(1, "ld.global.u32 %r3, [%rd1+2]; // here", 0, input(2)),
        HazardKind::Divergence => mistake(
            32,
            "setp.lt.u32 %p1, %r2, 10;\n@%p1 bra AWAY; // there\nwgmma.fence.sync.aligned; // here\nAWAY:\nmov.u32 %r3, 0;",
            0,
            None,
        ),
        HazardKind::Disagreement => {
            mistake(32, "shr.u32 %r3, %r2, 4;\nbar.warp.sync -1;\nbar.sync %r3, 32; // here", 16, None)
        }
        HazardKind::RegisterPool => mistake(32, "setmaxnreg.inc.sync.aligned.u32 24; // here", 0, None),
        HazardKind::EarlyExit => of_two_blocks(
            "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n\
             mov.u32 %r3, %cluster_ctarank;\nsetp.eq.u32 %p1, %r3, 0;\nmov.u32 %r4, 1;\n\
             mapa.shared::cluster.u32 %r5, %r1, %r4;\n@%p1 st.shared::cluster.u32 [%r5], %r2; // there",
            None,
        ),
        HazardKind::GridDependency => {
            mistake(1, "ld.global.u32 %r3, [%rd1+4]; // here\ngriddepcontrol.wait; // there", 0, input(4))
        }
        HazardKind::LateStart => of_two_blocks(
            "mov.u32 %r3, %cluster_ctarank;\nsetp.eq.u32 %p1, %r3, 0;\nmov.u32 %r4, 1;\n\
             mapa.shared::cluster.u32 %r5, %r1, %r4;\n@%p1 st.shared::cluster.u32 [%r5], %r2; // here\n\
             barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;",
            PEER,
        ),
        HazardKind::BadOperand => mistake(32, "mov.u32 %r3, 16;\nbar.sync %r3; // here", 0, None),
    }
}

impl Mistake {
    /// The body with a `.loc` before each line: its number there.
    fn located(&self) -> String {
        let lines = self.body.lines().enumerate();
        lines.map(|(i, line)| format!(".loc 1 {} 5\n{line}\n", i + 1)).collect()
    }

    fn hazards(&self, body: &str) -> (String, Vec<Hazard>) {
        let (block, cluster) = (self.threads, self.cluster);
        let kernel = Kernel {
            name: "mistake",
            body,
            block,
            cluster,
            grid: cluster,
            shared: 40960,
            ..Kernel::default()
        };
        (kernel.text(), kernel.hazards())
    }

    /// Line in the text and in the body of what a mark is on.
    fn marked(&self, text: &str, mark: &str) -> Option<(u32, u32)> {
        let line_of = |s: &str| s.lines().position(|l| l.ends_with(mark)).map(|i| i as u32 + 1);
        Some((line_of(text)?, line_of(&self.body)?))
    }
}

fn place(site: &Site) -> (u32, u32) {
    let Some((file, line, column)) = &site.loc else { panic!("{site} has no place in the source") };
    assert_eq!((file.as_str(), *column), ("body", 5));
    (site.line, *line)
}

/// The mistake is found, and nothing but it, with all that a report tells.
fn check(kind: HazardKind, mistake: &Mistake) {
    check_beside(&[], kind, mistake);
}

/// The same of a mistake that may show in other ways too, where events come in another order.
fn check_beside(others: &[HazardKind], kind: HazardKind, mistake: &Mistake) {
    let (text, found) = mistake.hazards(&mistake.located());
    let of_kind: Vec<_> = found.iter().filter(|h| !others.contains(&h.kind)).collect();
    let [h] = of_kind[..] else { panic!("{kind:?}: {found:?}\n{text}") };
    assert_eq!(h.kind, kind, "{h}\n{text}");
    let line = text.lines().position(|l| l == "ret;").map_or(0, |i| i as u32 + 1);
    let end = (line, mistake.body.lines().count() as u32);
    let mut places = (mistake.marked(&text, "// here").unwrap_or(end), mistake.marked(&text, "// there"));
    let mut thread = mistake.thread;
    if let (Some(other), (here, Some(there))) = (mistake.swapped, places)
        && h.site.line == there.0
    {
        (places, thread) = ((there, Some(here)), other);
    }
    assert_eq!((place(&h.site), h.other.as_ref().map(place)), places, "{h}\n{text}");
    // All warps of a warpgroup make the mistake: whichever comes first is named.
    let named = if mistake.threads == 128 { h.thread % 32 } else { h.thread };
    assert_eq!((named, h.address), (thread, mistake.address), "{h}\n{text}");
    assert!(!h.message.is_empty() && h.to_string().contains(&h.message));
    assert!(h.to_string().contains(&format!("(body:{}:5)", places.0.1)), "{h}");
}

#[test]
fn every_class_of_hazard_is_reported_with_its_places() {
    HazardKind::VARIANTS.iter().for_each(|kind| check(*kind, &of(*kind)));
}

/// A bulk copy of 16 bytes into shared memory that holds zeros, and what follows it; the mbarrier is at 1024.
fn load(fence: &str, bytes: u32, behind: &str) -> String {
    format!(
        "mov.u32 %r4, 0;\nst.shared.v4.u32 [%r1], {{%r4, %r4, %r4, %r4}};\nfence.proxy.async.shared::cta;\n\
         mbarrier.init.shared::cta.b64 [%r1+1024], 1; // init\n{fence}add.u32 %r5, %r1, 1024;\n\
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], {bytes};\n\
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 16, [%r5]; // load\n{behind}"
    )
}

const VISIBLE: &str = "fence.mbarrier_init.release.cluster;\n";

fn wait(parity: u32) -> String {
    format!(
        "AGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1+1024], {parity}; // wait\n@!%p1 bra AGAIN;\n"
    )
}

/// Memory is read before the copy into it is complete: nobody waited, or for another phase.
#[test]
fn reads_before_completion() {
    let read = "ld.shared.u32 %r3, [%r1+4]; // here\n";
    let body = |behind: &str| load(VISIBLE, 16, behind).replace("// load", "// there");
    let unordered = mistake(1, &body(&format!("{read}{}", wait(0))), 0, SHARED + 4);
    check_beside(&[HazardKind::MissingProxyFence], HazardKind::InFlight, &unordered);
    // The phase before the first is over at once; once the first is, there is no second.
    let early = body(&format!("{}{read}{}", wait(1), wait(0).replace("AGAIN", "THEN")));
    let early = Mistake { swapped: Some(0), ..mistake(1, &early, 0, SHARED + 4) };
    check_beside(&[HazardKind::Deadlock, HazardKind::MissingProxyFence], HazardKind::InFlight, &early);
}

/// What an operation in flight still reads is overwritten: an operand in shared memory, the source of a store.
#[test]
fn overwrites_in_flight() {
    let operand = "setp.eq.u32 %p1, %r2, 0;\n@%p1 st.shared.u32 [%r1], %r2; // here";
    let body = product("", operand).replace("// product", "// there");
    let operand = Mistake { swapped: Some(0), ..mistake(128, &body, 0, SHARED) };
    check_beside(&[HazardKind::MissingProxyFence], HazardKind::InFlight, &operand);
    let source = "st.shared.v4.u32 [%r1], {%r2, %r2, %r2, %r2};\nfence.proxy.async.shared::cta;\n\
        cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 16; // there\ncp.async.bulk.commit_group;\n\
        st.shared.u32 [%r1+8], %r2; // here\ncp.async.bulk.wait_group.read 0;";
    let source = mistake(1, source, 0, SHARED + 8);
    check_beside(&[HazardKind::MissingProxyFence], HazardKind::InFlight, &source);
}

/// Barriers: other bytes than come, one that was never made, one that a copy cannot see, one that is read as data.
#[test]
fn barriers_that_are_used_wrongly() {
    let marked = |from: &str, body: String| body.replace(from, "// there").replace("// wait", "// here");
    let bytes = marked("// init", load(VISIBLE, 32, &wait(0)));
    check(HazardKind::Deadlock, &mistake(1, &bytes, 0, SHARED + 1024));
    let unseen = load("", 16, &wait(0)).replace("// init", "// there").replace("// load", "// here");
    check(HazardKind::MissingProxyFence, &mistake(1, &unseen, 0, SHARED + 1024));
    let none = "mbarrier.arrive.shared::cta.b64 _, [%r1]; // here";
    check(HazardKind::BarrierMisuse, &mistake(1, none, 0, SHARED));
    let data = "mbarrier.init.shared::cta.b64 [%r1], 1; // there\nld.shared.u32 %r3, [%r1+4]; // here";
    check(HazardKind::BarrierMisuse, &mistake(1, data, 0, SHARED + 4));
}

/// More registers than the pool has: nobody gives any back.
#[test]
fn registers_that_nobody_gives_back() {
    let ask = "setmaxnreg.dec.sync.aligned.u32 24;\nsetmaxnreg.inc.sync.aligned.u32 256; // here";
    check(HazardKind::Deadlock, &mistake(32, ask, 0, None));
}

#[test]
fn shared_memory_has_an_end() {
    check(HazardKind::OutOfBounds, &mistake(1, "ld.shared.u32 %r3, [%r1+40960]; // here", 0, SHARED + 40960));
}

/// Text without `.loc` has lines of its own only.
#[test]
fn a_text_without_places_is_reported_by_its_lines() {
    let mistake = of(HazardKind::SharedRace);
    let (text, found) = mistake.hazards(&mistake.body);
    let [h] = &found[..] else { panic!("{found:?}") };
    let line = |mark: &str| text.lines().position(|l| l.ends_with(mark)).expect("a mark") as u32 + 1;
    let other = h.other.as_ref().expect("two instructions");
    let mut lines = [h.site.line, other.line];
    lines.sort_unstable();
    assert_eq!(lines, [line("// there"), line("// here")]);
    assert_eq!((&h.site.loc, &other.loc), (&None, &None));
}

/// A deadlock tells what every warp waits for, and the state of every barrier.
#[test]
fn a_deadlock_tells_the_state_of_every_barrier() {
    let mistake = of(HazardKind::Deadlock);
    let (_, found) = mistake.hazards(&mistake.body);
    let [h] = &found[..] else { panic!("{found:?}") };
    for part in [
        "waits for parity 0 of mbarrier 0x400",
        "1 of 1 arrivals missing",
        "0 bytes missing",
        "initialised at line",
    ] {
        assert!(h.message.contains(part), "{part}: {h}");
    }
}

/// Warp 0 initialises the second barrier behind the block's barrier and then arrives on the first; warp 1 waits for
/// the first before it arrives on the second.
fn initialised_late(wait: &str) -> String {
    format!(
        "setp.eq.u32 %p1, %r2, 0;\n@%p1 mbarrier.init.shared::cta.b64 [%r1], 1;\nbar.sync 0;\n\
         @%p1 mbarrier.init.shared::cta.b64 [%r1+8], 1;\n@%p1 mbarrier.arrive.shared::cta.b64 _, [%r1];\n\
         setp.ne.u32 %p2, %r2, 32;\n@%p2 bra END;\n{wait}mbarrier.arrive.shared::cta.b64 _, [%r1+8];\nEND:"
    )
}

/// The initialisation of a barrier is ordered before its use by any release and acquire between, the block's barrier
/// or another mbarrier (PTX ISA, "Memory consistency model: causality order"), and by nothing less.
#[test]
fn any_synchronisation_orders_the_initialisation_of_a_barrier() {
    let late = |wait: &str| mistake(64, "", 0, None).hazards(&initialised_late(wait)).1;
    let wait = "AGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 %p3, [%r1], 0;\n@!%p3 bra AGAIN;\n";
    assert_eq!(late(wait), vec![]);
    let relaxed = wait.replace(".parity", ".parity.relaxed.cta");
    for unordered in ["", &relaxed] {
        let kinds: Vec<_> = late(unordered).iter().map(|h| h.kind).collect();
        assert_eq!(kinds, vec![HazardKind::BarrierMisuse], "{unordered}");
    }
}
