//! Threads, warps and blocks that exchange data: shared memory, barriers, clusters, matrix moves,
//! asynchronous copies by threads, atomics, control flow.
//!
//! Every body finds `%r3` = its 16 bytes of shared memory, `%x0` to `%x3` = 16 bytes of `in`, and
//! leaves its result in `%x4` to `%x7`, which were zero. `%r4` numbers threads over the grid.

use super::case::{Case, Kernel, words};
use super::values::Domain;

/// A body and its launch: threads of a block, blocks (one cluster).
struct Body {
    name: &'static str,
    threads: u32,
    blocks: u32,
    text: &'static str,
}

const PROLOGUE: &str = "mov.u32 %r4, %ctaid.x;\nmov.u32 %r5, %ntid.x;\nmad.lo.u32 %r4, %r4, %r5, %r2;\n\
    mul.wide.u32 %rd5, %r4, 16;\nadd.s64 %rd3, %rd1, %rd5;\nadd.s64 %rd4, %rd2, %rd5;\nmad.lo.u32 %r3, %r2, 16, %r1;\n\
    ld.global.v4.b32 {%x0, %x1, %x2, %x3}, [%rd3];\nmov.b32 %x4, 0;\nmov.b32 %x5, 0;\nmov.b32 %x6, 0;\nmov.b32 %x7, 0;\n";
const EPILOGUE: &str = "\nst.global.v4.b32 [%rd4], {%x4, %x5, %x6, %x7};";

/// Initialises a barrier behind the threads' shared memory, at `%r10`, for `%r11` arrivals.
const BARRIER: &str = "add.u32 %r10, %r1, 16384;\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 bra MADE;\n\
    mbarrier.init.shared::cta.b64 [%r10], COUNT;\nmbarrier.init.shared::cta.b64 [%r10+8], COUNT;\n\
    fence.mbarrier_init.release.cluster;\nMADE:\nbar.sync 0;\n";

const BODIES: &[Body] = &[
    Body {
        name: "control/loop",
        threads: 32,
        blocks: 1,
        text: "mov.b32 %x4, 0;\nmov.b32 %r6, 0;\n\
        LOOP:\nsetp.ge.u32 %p1, %r6, %r2;\n@%p1 bra DONE;\nadd.u32 %x4, %x4, %r6;\nadd.u32 %r6, %r6, 1;\n\
        setp.eq.u32 %p2, %x4, 10;\n@%p2 bra DONE;\nbra LOOP;\nDONE:\nvote.sync.ballot.b32 %x5, 1, -1;",
    },
    Body {
        name: "control/partial",
        threads: 64,
        blocks: 1,
        text: "and.b32 %r6, %r2, 16;\nsetp.ne.u32 %p1, %r6, 0;\n\
        @%p1 bra HIGH;\nshfl.sync.idx.b32 %x4, %x0, 3, 31, 0xffff;\nredux.sync.add.u32 %x5, %x1, 0xffff;\n\
        vote.sync.ballot.b32 %x6, 1, 0xffff;\nbar.warp.sync 0xffff;\nbra.uni DONE;\nHIGH:\n\
        shfl.sync.bfly.b32 %x4, %x0, 7, 31, 0xffff0000;\nmatch.any.sync.b32 %x5, %x1, 0xffff0000;\n\
        activemask.b32 %x6;\nDONE:\nbar.warp.sync -1;",
    },
    Body {
        name: "control/ret",
        threads: 64,
        blocks: 1,
        text: "setp.eq.u32 %p1, %x0, 31;\n@%p1 ret;\nsetp.lt.u32 %p2, %r2, 40;\n\
        @%p2 bra GO;\nmov.b32 %x4, 9;\nst.global.v4.b32 [%rd4], {%x4, %x5, %x6, %x7};\nexit;\nGO:\nmov.b32 %x5, %r4;\n\
        setp.gt.u32 %p3, %r2, 100;\n@%p3 trap;",
    },
    Body {
        name: "shared/exchange",
        threads: 96,
        blocks: 1,
        text: "st.shared.v4.b32 [%r3], {%x0, %x1, %x2, %x3};\nbar.sync 0;\n\
        sub.u32 %r6, 95, %r2;\nmad.lo.u32 %r6, %r6, 16, %r1;\nld.shared.v2.b32 {%x4, %x5}, [%r6+8];\nld.shared.v2.u16 {%h1, %h2}, [%r6+4];\n\
        mov.b32 %x6, {%h1, %h2};\nld.shared.s8 %x7, [%r6+7];",
    },
    Body {
        name: "shared/narrow",
        threads: 64,
        blocks: 1,
        text: "cvt.u16.u32 %h1, %x0;\nadd.u32 %r6, %r1, %r2;\nst.shared.u8 [%r6], %h1;\n\
        mad.lo.u32 %r7, %r2, 2, %r1;\nst.shared.b16 [%r7+64], %h1;\nbar.sync 0;\nxor.b32 %r8, %r2, 3;\nadd.u32 %r6, %r1, %r8;\n\
        ld.shared.u8 %x4, [%r6];\nld.shared.s8 %x5, [%r6];\nmad.lo.u32 %r7, %r8, 2, %r1;\nld.shared.u16 %x6, [%r7+64];\nld.shared.s16 %x7, [%r7+64];",
    },
    Body {
        name: "shared/warp",
        threads: 64,
        blocks: 1,
        text: "st.shared.b32 [%r3], %x0;\nbar.warp.sync -1;\nxor.b32 %r6, %r3, 16;\n\
        ld.shared.b32 %x4, [%r6];\nbar.warp.sync -1;\nst.shared.b32 [%r6], %x1;\nbar.warp.sync -1;\nld.shared.b32 %x5, [%r3];",
    },
    Body {
        name: "memory/generic",
        threads: 32,
        blocks: 1,
        text: ".local .align 16 .b8 own[32];\ncvt.u64.u32 %rd6, %r3;\ncvta.shared.u64 %rd6, %rd6;\n\
        st.v4.b32 [%rd6], {%x0, %x1, %x2, %x3};\nld.shared.v2.b32 {%x4, %x5}, [%r3];\ncvta.to.shared.u64 %rd7, %rd6;\ncvt.u32.u64 %r6, %rd7;\n\
        st.local.v2.b32 [own+8], {%x2, %x3};\nld.local.b32 %x6, [own+12];\nmov.u64 %rd8, own;\ncvta.local.u64 %rd8, %rd8;\nld.b32 %x7, [%rd8+8];",
    },
    Body {
        name: "memory/global",
        threads: 32,
        blocks: 1,
        text: "ld.global.nc.v2.u64 {%rd6, %rd7}, [%rd3];\nld.relaxed.gpu.global.u32 %x4, [%rd3+4];\n\
        ld.acquire.sys.global.b32 %x5, [%rd3+8];\nld.volatile.global.s8 %x6, [%rd3+13];\nprefetch.global.L2 [%rd3];\n\
        ld.global.L1::no_allocate.L2::128B.u8 %x7, [%rd3+3];\nst.release.gpu.global.u32 [%rd4], %x4;\nfence.acq_rel.gpu;\nmembar.gl;\n\
        st.relaxed.sys.global.u32 [%rd4+4], %x5;\ncvt.u32.u64 %r6, %rd7;\nadd.u32 %x7, %x7, %r6;",
    },
    Body {
        name: "barrier/named",
        threads: 128,
        blocks: 1,
        text: "setp.lt.u32 %p1, %r2, 64;\n@%p1 bra MAKE;\nbar.sync 3, 128;\n\
        add.u32 %r6, %r3, -1024;\nld.shared.b32 %x4, [%r6];\nbar.arrive 4, 128;\nbra DONE;\nMAKE:\nst.shared.b32 [%r3], %x0;\n\
        bar.arrive 3, 128;\nbar.sync 4, 128;\nst.shared.b32 [%r3], %x1;\nDONE:\nbarrier.sync 5;\nld.shared.b32 %x5, [%r1+16];",
    },
    Body {
        name: "barrier/reduce",
        threads: 96,
        blocks: 1,
        text: "setp.lt.u32 %p1, %r2, 40;\nbarrier.red.popc.aligned.u32 %x4, 1, 96, %p1;\n\
        bar.red.or.pred %p2, 0, %p1;\nselp.b32 %x5, 1, 0, %p2;\nbar.red.and.pred %p3, 2, !%p1;\nselp.b32 %x6, 1, 0, %p3;",
    },
    Body {
        name: "barrier/registers",
        threads: 384,
        blocks: 1,
        text: "setp.lt.u32 %p1, %r2, 128;\n@%p1 bra LESS;\n\
        setmaxnreg.inc.sync.aligned.u32 216;\nadd.u32 %x4, %x0, 1;\nbra DONE;\nLESS:\nsetmaxnreg.dec.sync.aligned.u32 40;\n\
        add.u32 %x4, %x0, 2;\nDONE:\nbar.sync 0;",
    },
    Body {
        name: "barrier/grid",
        threads: 32,
        blocks: 1,
        text: "griddepcontrol.wait;\npmevent 0;\nadd.u32 %x4, %x0, %x1;\ngriddepcontrol.launch_dependents;",
    },
    Body {
        name: "cluster/exchange",
        threads: 64,
        blocks: 2,
        text: "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nmov.u32 %r6, %cluster_ctarank;\nxor.b32 %r7, %r6, 1;\n\
        mapa.shared::cluster.u32 %r8, %r3, %r7;\nst.shared::cluster.v2.b32 [%r8], {%x0, %x1};\nbarrier.cluster.arrive.release;\n\
        barrier.cluster.wait.acquire;\nld.shared.v2.b32 {%x4, %x5}, [%r3];\nld.shared::cluster.b32 %x6, [%r8+4];\n\
        barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;",
    },
    Body {
        name: "cluster/widths",
        threads: 32,
        blocks: 4,
        text: "barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\nmov.u32 %r6, %cluster_ctarank;\nadd.u32 %r7, %r6, 3;\n\
        and.b32 %r7, %r7, 3;\nmapa.shared::cluster.u32 %r8, %r3, %r7;\nst.shared::cluster.v4.b32 [%r8], {%x0, %x1, %x2, %x3};\n\
        cvt.u16.u32 %h1, %r2;\nst.shared::cluster.b16 [%r8+6], %h1;\nbarrier.cluster.arrive.release;\n\
        barrier.cluster.wait.acquire;\nld.shared.v4.b32 {%x4, %x5, %x6, %x7}, [%r3];",
    },
    Body {
        name: "cluster/ranks",
        threads: 32,
        blocks: 4,
        text: "cvt.u64.u32 %rd6, %r3;\ncvta.shared.u64 %rd6, %rd6;\nmapa.u64 %rd7, %rd6, 2;\n\
        getctarank.u64 %x4, %rd7;\nmapa.shared::cluster.u32 %r6, %r3, 3;\ngetctarank.shared::cluster.u32 %x5, %r6;\n\
        getctarank.shared::cluster.u32 %x6, %r3;\n\
        barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;",
    },
    Body {
        name: "cluster/relaxed",
        threads: 64,
        blocks: 2,
        text: "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nmov.u32 %r6, %cluster_ctarank;\nxor.b32 %r7, %r6, 1;\n\
        mapa.shared::cluster.u32 %r8, %r3, %r7;\nst.shared::cluster.b32 [%r8], %x0;\nfence.acq_rel.cluster;\nbarrier.cluster.arrive.relaxed.aligned;\n\
        barrier.cluster.wait.acquire.aligned;\nld.shared.b32 %x4, [%r3];",
    },
    Body {
        name: "mbarrier/phases",
        threads: 128,
        blocks: 1,
        text: "BARRIER:128 mov.u32 %r12, 0;\nmov.u32 %r13, 0;\nLOOP:\n\
        mad.lo.u32 %r14, %x0, %r13, %r2;\nst.shared.b32 [%r3], %r14;\nmbarrier.arrive.shared::cta.b64 _, [%r10];\nFULL:\n\
        mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r10], %r12;\n@!%p2 bra FULL;\nsub.u32 %r15, 127, %r2;\nmad.lo.u32 %r15, %r15, 16, %r1;\n\
        ld.shared.b32 %r16, [%r15];\nmad.lo.u32 %x4, %x4, 3, %r16;\nmbarrier.arrive.shared::cta.b64 _, [%r10+8];\nEMPTY:\n\
        mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r10+8], %r12;\n@!%p2 bra EMPTY;\nxor.b32 %r12, %r12, 1;\nadd.u32 %r13, %r13, 1;\n\
        setp.lt.u32 %p3, %r13, 5;\n@%p3 bra LOOP;",
    },
    Body {
        name: "mbarrier/state",
        threads: 64,
        blocks: 1,
        text: "BARRIER:64 st.shared.b32 [%r3], %x0;\n\
        mbarrier.arrive.shared::cta.b64 %rd6, [%r10];\nWAIT:\nmbarrier.try_wait.shared::cta.b64 %p2, [%r10], %rd6;\n@!%p2 bra WAIT;\n\
        xor.b32 %r6, %r3, 512;\nld.shared.b32 %x4, [%r6];",
    },
    Body {
        name: "mbarrier/count",
        threads: 64,
        blocks: 1,
        text: "BARRIER:7 st.shared.b32 [%r3], %x0;\nbar.sync 0;\n\
        setp.eq.u32 %p2, %r2, 5;\n@%p2 mbarrier.arrive.shared::cta.b64 _, [%r10], 4;\nsetp.eq.u32 %p3, %r2, 40;\n\
        @%p3 mbarrier.arrive.release.cta.shared::cta.b64 _, [%r10], 3;\nWAIT:\nmbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p4, [%r10], 0;\n\
        @!%p4 bra WAIT;\nmbarrier.test_wait.parity.shared::cta.b64 %p5, [%r10], 1;\nselp.b32 %x4, 1, 2, %p5;\n\
        mbarrier.test_wait.parity.shared::cta.b64 %p5, [%r10], 0;\nselp.b32 %x5, 1, 2, %p5;",
    },
    Body {
        name: "mbarrier/drop",
        threads: 32,
        blocks: 1,
        text: "BARRIER:32 setp.lt.u32 %p2, %r2, 12;\n\
        @%p2 mbarrier.arrive_drop.shared::cta.b64 _, [%r10];\n@!%p2 mbarrier.arrive.shared::cta.b64 _, [%r10];\nA:\n\
        mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r10], 0;\n@!%p3 bra A;\n@!%p2 mbarrier.arrive.shared::cta.b64 _, [%r10];\nB:\n\
        mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r10], 1;\n@!%p3 bra B;\nmov.b32 %x4, %x0;",
    },
    Body {
        name: "mbarrier/transactions",
        threads: 32,
        blocks: 1,
        text: "BARRIER:1 st.shared.b32 [%r3], %x0;\nbar.sync 0;\n@%p1 bra WAIT;\n\
        mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r10], 48;\nmbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r10], 16;\n\
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], 32;\nmbarrier.test_wait.parity.shared::cta.b64 %p2, [%r10], 0;\n\
        selp.b32 %x4, 1, 2, %p2;\nmbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r10], 64;\nWAIT:\n\
        mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r10], 0;\n@!%p2 bra WAIT;",
    },
    Body {
        name: "mbarrier/again",
        threads: 32,
        blocks: 1,
        text: "BARRIER:32 mbarrier.arrive.shared::cta.b64 _, [%r10];\nA:\n\
        mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r10], 0;\n@!%p2 bra A;\nbar.sync 0;\n@%p1 bra NEW;\nmbarrier.inval.shared::cta.b64 [%r10];\n\
        mbarrier.init.shared::cta.b64 [%r10], 64;\nNEW:\nbar.sync 0;\nmbarrier.arrive.shared::cta.b64 _, [%r10], 2;\nB:\n\
        mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r10], 0;\n@!%p2 bra B;\nmov.b32 %x4, %x0;",
    },
    Body {
        name: "mbarrier/remote",
        threads: 32,
        blocks: 2,
        text: "BARRIER:32 barrier.cluster.arrive.release.aligned;\n\
        barrier.cluster.wait.acquire.aligned;\nmov.u32 %r6, %cluster_ctarank;\nxor.b32 %r7, %r6, 1;\nmapa.shared::cluster.u32 %r8, %r3, %r7;\n\
        mapa.shared::cluster.u32 %r9, %r10, %r7;\nst.shared::cluster.b32 [%r8], %x0;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r9];\nA:\n\
        mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r10], 0;\n@!%p2 bra A;\nld.shared.b32 %x4, [%r3];\n\
        mbarrier.arrive.shared::cluster.b64 _, [%r9+8];\nB:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r10+8], 0;\n@!%p2 bra B;\n\
        barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;",
    },
    Body {
        name: "cp.async/groups",
        threads: 32,
        blocks: 1,
        text: "cp.async.cg.shared.global [%r3], [%rd3], 16;\ncp.async.commit_group;\n\
        cp.async.ca.shared.global [%r3+512], [%rd3], 8, 4;\ncp.async.ca.shared.global [%r3+520], [%rd3+4], 4;\ncp.async.commit_group;\n\
        cp.async.wait_group 1;\nld.shared.b32 %x4, [%r3+4];\ncp.async.wait_all;\nld.shared.v2.b32 {%x5, %x6}, [%r3+512];\nld.shared.b32 %x7, [%r3+520];",
    },
    Body {
        name: "cp.async/sizes",
        threads: 32,
        blocks: 1,
        text: "and.b32 %r6, %x0, 15;\ncp.async.ca.shared.global [%r3], [%rd3], 16, %r6;\n\
        cp.async.commit_group;\ncp.async.wait_group 0;\nld.shared.v4.b32 {%x4, %x5, %x6, %x7}, [%r3];",
    },
    Body {
        name: "cp.async/cluster.cta",
        threads: 32,
        blocks: 1,
        text: "cp.async.cg.shared::cta.global [%r3], [%rd3], 16, 0;\n\
        cp.async.ca.shared::cta.global [%r3+512], [%rd3], 16;\ncp.async.wait_all;\nld.shared.v2.b32 {%x4, %x5}, [%r3];\nld.shared.v2.b32 {%x6, %x7}, [%r3+520];",
    },
    Body {
        name: "cp.async/mbarrier",
        threads: 64,
        blocks: 1,
        text: "BARRIER:32 setp.ge.u32 %p2, %r2, 32;\n@%p2 bra WAIT;\n\
        cp.async.ca.shared.global [%r3], [%rd3], 8;\ncp.async.mbarrier.arrive.noinc.shared.b64 [%r10];\nWAIT:\n\
        mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r10], 0;\n@!%p3 bra WAIT;\nand.b32 %r6, %r2, 31;\nmad.lo.u32 %r6, %r6, 16, %r1;\n\
        ld.shared.v2.b32 {%x4, %x5}, [%r6];\ncp.async.wait_all;",
    },
    Body {
        name: "atomic/contended",
        threads: 96,
        blocks: 1,
        text: "setp.ne.u32 %p1, %r2, 0;\n@%p1 bra READY;\nmov.u32 %r6, 0;\n\
        st.shared.v4.b32 [%r1], {%r6, %r6, %r6, %r6};\nst.shared.v2.b32 [%r1+16], {%r6, %r6};\nREADY:\nbar.sync 0;\natom.shared.add.u32 %r7, [%r1], %x0;\n\
        red.shared.max.s32 [%r1+4], %x1;\nred.shared.xor.b32 [%r1+8], %x2;\nmov.b32 %f1, 0f3F800000;\nred.shared.add.f32 [%r1+12], %f1;\n\
        atom.shared.inc.u32 %r8, [%r1+16], 50;\nREPEAT:\nld.volatile.shared.u32 %r9, [%r1+20];\nadd.u32 %r11, %r9, 3;\n\
        atom.shared.cas.b32 %r12, [%r1+20], %r9, %r11;\nsetp.ne.u32 %p2, %r12, %r9;\n@%p2 bra REPEAT;\nbar.sync 0;\n\
        ld.shared.v4.b32 {%x4, %x5, %x6, %x7}, [%r1];\nld.shared.v2.b32 {%r6, %r7}, [%r1+16];\nmad.lo.u32 %x7, %r6, 7, %x7;\nadd.u32 %x7, %x7, %r7;",
    },
];

impl Body {
    fn case(&self) -> Case {
        let text = match self.text.strip_prefix("BARRIER:").and_then(|t| t.split_once(' ')) {
            Some((count, rest)) => BARRIER.replace("COUNT", count) + rest,
            None => self.text.to_owned(),
        };
        kernel(self.name, self.threads, self.blocks, &text, Domain::Integer).bits(4)
    }
}

fn kernel(name: &str, threads: u32, blocks: u32, text: &str, domain: Domain) -> Kernel {
    let all = (threads * blocks) as usize;
    let operands = |i: usize| domain.values(i, 11).into_iter();
    let four = operands(0).zip(operands(1)).zip(operands(2).zip(operands(2).skip(9)));
    let input = four.take(all).flat_map(|((a, b), (c, d))| [a, b, c, d].map(|v| v as u32));
    Kernel {
        name: name.to_owned(),
        body: format!("{PROLOGUE}{text}{EPILOGUE}"),
        grid: [blocks, 1, 1],
        cluster: blocks,
        block: threads,
        shared: 16384 + 64,
        input: words(input),
        output: vec![0xaa; 16 * all],
        ..Kernel::default()
    }
}

fn list(from: usize, n: usize) -> String {
    let names: Vec<String> = (from..from + n).map(|i| format!("%x{i}")).collect();
    format!("{{{}}}", names.join(", "))
}

/// Matrix moves: each lane gives the address of the row of another one.
fn matrices() -> Vec<Case> {
    let mut out = Vec::new();
    let rows = "xor.b32 %r6, %r2, 5;\nmad.lo.u32 %r6, %r6, 16, %r1;\n";
    let whole = "bar.warp.sync -1;\n";
    for n in [1, 2, 4] {
        for trans in ["", ".trans"] {
            let shape = format!("sync.aligned.m8n8.x{n}{trans}.shared.b16");
            let load = format!(
                "{rows}st.shared.v4.b32 [%r3], {};\n{whole}ldmatrix.{shape} {}, [%r6];",
                list(0, 4),
                list(4, n)
            );
            out.push(kernel(&format!("matrix/ldmatrix.x{n}{trans}"), 32, 1, &load, Domain::Integer).bits(4));
            let store = format!(
                "{rows}st.shared.v4.b32 [%r3], {};\n{whole}stmatrix.{shape} [%r6], {};\n{whole}ld.shared.v4.b32 {}, [%r3];",
                list(4, 4),
                list(0, n),
                list(4, 4)
            );
            out.push(kernel(&format!("matrix/stmatrix.x{n}{trans}"), 32, 1, &store, Domain::Integer).bits(4));
        }
    }
    let moved =
        "movmatrix.sync.aligned.m8n8.trans.b16 %x4, %x0;\nmovmatrix.sync.aligned.m8n8.trans.b16 %x5, %x1;";
    out.push(kernel("matrix/movmatrix", 32, 1, moved, Domain::Integer).bits(4));
    out
}

/// Read-modify-write operations and the types that they take.
const ATOMICS: &[(&str, &[&str])] = &[
    ("add", &["u32", "s32", "u64", "f32", "f64", "noftz.f16x2", "noftz.bf16x2", "noftz.f16", "noftz.bf16"]),
    ("min", &["u32", "s32", "u64", "s64"]),
    ("max", &["u32", "s32", "u64", "s64"]),
    ("inc", &["u32"]),
    ("dec", &["u32"]),
    ("and", &["b32", "b64"]),
    ("or", &["b32", "b64"]),
    ("xor", &["b32", "b64"]),
    ("exch", &["b32", "b64"]),
    ("cas", &["b16", "b32", "b64"]),
];

/// Each thread at its own address: what was there comes back, and what is there then.
fn atomics() -> Vec<Case> {
    let mut out = Vec::new();
    for (space, address) in [("shared", "%r3"), ("global", "%rd4")] {
        for (op, types) in ATOMICS {
            out.extend(types.iter().map(|ty| atomic(space, address, op, ty)));
        }
    }
    out
}

fn atomic(space: &str, address: &str, op: &str, ty: &str) -> Case {
    let bits = if ty.ends_with("64") {
        64
    } else if ty.ends_with("16") {
        16
    } else {
        32
    };
    let (d, a, b) = match bits {
        64 => ("%rd8", "%rd6", "%rd7"),
        16 => ("%h3", "%h1", "%h2"),
        _ => ("%x4", "%x1", "%x2"),
    };
    // Compared with what is there in half of the threads.
    let compare =
        "and.b32 %r6, %r2, 1;\nsetp.ne.u32 %p1, %r6, 0;\n@%p1 mov.b32 %x1, %x0;\n@%p1 mov.b32 %x2, %x1;\n";
    let operands = if op == "cas" { format!("{a}, {b}") } else { a.to_owned() };
    let back = match bits {
        64 => "mov.b64 {%x4, %x5}, %rd8;",
        16 => "mov.b32 %x4, {%h3, %h3};",
        _ => "",
    };
    let text = format!(
        "{}st.{space}.v4.b32 [{address}], {};\nmov.b64 %rd6, {{%x1, %x2}};\nmov.b64 %rd7, {{%x2, %x3}};\nmov.b32 {{%h1, %h2}}, %x1;\n\
         atom.{space}.{op}.{ty} {d}, [{address}], {operands};\n{back}\nld.{space}.v2.b32 {{%x6, %x7}}, [{address}];",
        if op == "cas" { compare } else { "" },
        list(0, 4),
    );
    let name = format!("atomic/{space}.{op}.{}", ty.trim_start_matches("noftz."));
    kernel(&name, 64, 1, &text, Domain::of(&format!("atom.{ty}"))).bits(4)
}

/// Sums that are added to two or four neighbouring words at once.
const VECTOR_SUMS: &[&str] =
    &["v2.f32", "v4.f32", "noftz.v2.f16x2", "noftz.v4.f16x2", "noftz.v2.bf16x2", "noftz.v4.bf16x2"];

/// Each thread adds to its own words, and reads them back.
fn vector_sum(ty: &str) -> Case {
    let added = if ty.contains("v4") { "{%x3, %x0, %x1, %x2}" } else { "{%x2, %x3}" };
    let words = list(0, 4);
    let back = list(4, 4);
    let text = format!(
        "st.global.v4.b32 [%rd4], {words};\nred.global.add.{ty} [%rd4], {added};\nld.global.v4.b32 {back}, [%rd4];"
    );
    let name = format!("atomic/global.red.add.{}", ty.trim_start_matches("noftz."));
    kernel(&name, 64, 1, &text, Domain::of(&format!("red.{ty}"))).bits(4)
}

/// All of them.
pub(super) fn cases() -> Vec<Case> {
    let mut out: Vec<Case> = BODIES.iter().map(Body::case).collect();
    out.extend(matrices());
    out.extend(atomics());
    out.extend(VECTOR_SUMS.iter().map(|ty| vector_sum(ty)));
    out
}
