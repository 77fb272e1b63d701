//! Litmus kernels of shared memory, barriers, clusters, matrix moves and atomics: results under
//! every adversary, and the hazard that each mistake gives.

mod common;

use common::kernel::Kernel;
use warplift_sim::HazardKind::{self, *};

fn words(v: &[u32]) -> Vec<u8> {
    v.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// `%r3` = address of the thread's word in shared memory, `%rd3` of its output word.
const PLACE: &str =
    "shl.b32 %r4, %r2, 2;\nadd.u32 %r3, %r1, %r4;\nmul.wide.u32 %rd3, %r2, 4;\nadd.s64 %rd3, %rd2, %rd3;\n";

#[test]
fn threads_exchange_through_shared_memory() {
    let body = format!(
        "{PLACE}st.shared.u32 [%r3], %r2;\nbar.sync 0;\n\
         sub.u32 %r5, 95, %r2;\nshl.b32 %r5, %r5, 2;\nadd.u32 %r5, %r5, %r1;\n\
         ld.shared.u32 %r6, [%r5];\nst.global.u32 [%rd3], %r6;"
    );
    let k = Kernel { name: "exchange", body: &body, block: 96, out_bytes: 384, ..Kernel::default() };
    let out = k.words();
    assert!(out.iter().enumerate().all(|(t, v)| *v == 95 - t as u32));
    let body = body.replace("bar.sync 0;\n", "");
    let k = Kernel { name: "exchange_race", body: &body, block: 96, out_bytes: 384, ..Kernel::default() };
    assert!(kinds(&k).contains(&SharedRace) || kinds(&k).contains(&UninitialisedMemory));
}

fn kinds(k: &Kernel<'_>) -> Vec<HazardKind> {
    k.hazards().iter().map(|h| h.kind).collect()
}

#[test]
fn lanes_need_a_warp_synchronisation() {
    let body = format!(
        "{PLACE}st.shared.u32 [%r3], %r2;\nbar.warp.sync -1;\n\
         xor.b32 %r5, %r3, 4;\nld.shared.u32 %r6, [%r5];\nst.global.u32 [%rd3], %r6;"
    );
    let k = Kernel { name: "lanes", body: &body, out_bytes: 128, ..Kernel::default() };
    assert!(k.words().iter().enumerate().all(|(t, v)| *v == t as u32 ^ 1));
    let body = body.replace("bar.warp.sync -1;\n", "");
    let k = Kernel { name: "lanes_race", body: &body, out_bytes: 128, ..Kernel::default() };
    assert_eq!(kinds(&k), vec![LaneRace]);
}

#[test]
fn bytes_of_a_word_belong_to_different_threads() {
    let body = format!(
        "{PLACE}add.u32 %r5, %r1, %r2;\ncvt.u16.u32 %h1, %r2;\nst.shared.u8 [%r5], %h1;\nbar.sync 0;\n\
         setp.ge.u32 %p1, %r2, 16;\n@%p1 bra END;\nld.shared.u32 %r6, [%r3];\nst.global.u32 [%rd3], %r6;\nEND:"
    );
    let k = Kernel { name: "bytes", body: &body, block: 64, out_bytes: 64, ..Kernel::default() };
    let out = k.words();
    assert!(out.iter().enumerate().all(|(i, v)| v.to_le_bytes() == [0, 1, 2, 3].map(|b| (4 * i + b) as u8)));
}

#[test]
fn matrices_move_as_the_figure_says() {
    // 8 rows of 8 b16 a matrix, element value 64*matrix + 8*row + column.
    let image: Vec<u8> = (0..256u16).flat_map(u16::to_le_bytes).collect();
    let load = "add.u32 %r5, %r1, 0;\nshl.b32 %r6, %r2, 4;\nadd.u32 %r6, %r6, %r1;\n\
        mul.wide.u32 %rd4, %r2, 16;\nadd.s64 %rd4, %rd4, %rd1;\nld.global.v4.b32 {%r8, %r9, %r10, %r11}, [%rd4];\n\
        st.shared.v4.b32 [%r6], {%r8, %r9, %r10, %r11};\nbar.warp.sync -1;\n\
        mul.wide.u32 %rd5, %r2, 16;\nadd.s64 %rd5, %rd5, %rd2;\n";
    for (trans, name) in [("", "ldmatrix"), (".trans", "ldmatrix_trans")] {
        let body = format!(
            "{load}ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%r12, %r13, %r14, %r15}}, [%r6];\n\
             st.global.v4.b32 [%rd5], {{%r12, %r13, %r14, %r15}};"
        );
        let k = Kernel { name, body: &body, input: image.clone(), out_bytes: 512, ..Kernel::default() };
        let out = k.words();
        for lane in 0..32usize {
            for matrix in 0..4 {
                let at = |i: usize| {
                    let (r, c) = (lane / 4, 2 * (lane % 4) + i);
                    let (r, c) = if trans.is_empty() { (r, c) } else { (c, r) };
                    (64 * matrix + 8 * r + c) as u32
                };
                assert_eq!(out[4 * lane + matrix], at(0) | at(1) << 16, "{name} lane {lane}");
            }
        }
        // The way back gives the image again.
        let body = format!(
            "{load}ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%r12, %r13, %r14, %r15}}, [%r6];\n\
             add.u32 %r6, %r6, 512;\n\
             stmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 [%r6], {{%r12, %r13, %r14, %r15}};\nbar.warp.sync -1;\n\
             ld.shared.v4.b32 {{%r12, %r13, %r14, %r15}}, [%r6];\nst.global.v4.b32 [%rd5], {{%r12, %r13, %r14, %r15}};"
        );
        let name = format!("{name}_back");
        let k =
            Kernel { name: &name, body: &body, input: image.clone(), out_bytes: 512, ..Kernel::default() };
        assert_eq!(words(&k.words()), image);
    }
}

/// A and B of an m16n8 product as small integers in fragments, one word array a register.
fn mma(k: usize, bytes: usize, code: fn(i32) -> u32, types: &str, float: bool) {
    let (a, b) = (
        (0..16 * k).map(|i| (i * 5 % 7) as i32 - 3).collect::<Vec<_>>(),
        (0..8 * k).map(|i| (i * 3 % 11) as i32 - 5).collect::<Vec<_>>(),
    );
    let per = 4 / bytes;
    let (ra, rb) = (16 * k * bytes / 128, 8 * k * bytes / 128);
    let mut image = Vec::new();
    for lane in 0..32 {
        let mut word = |v: &dyn Fn(usize) -> i32| {
            let w = (0..per)
                .fold(0u32, |w, p| w | (code(v(p)) & (u32::MAX >> (32 - 8 * bytes))) << (8 * bytes * p));
            image.push(w);
        };
        for r in 0..ra {
            word(&|p| a[(lane / 4 + 8 * (r % 2)) * k + lane % 4 * per + p + 4 * per * (r / 2)]);
        }
        for r in 0..rb {
            word(&|p| b[lane / 4 * k + lane % 4 * per + p + 4 * per * r]);
        }
    }
    let stride = 4 * (ra + rb);
    let loads: String =
        (0..ra + rb).map(|i| format!("ld.global.b32 %r{}, [%rd4+{}];\n", 10 + i, 4 * i)).collect();
    let list =
        |from: usize, n: usize| (from..from + n).map(|i| format!("%r{i}")).collect::<Vec<_>>().join(", ");
    let acc = if float { "%f1, %f2, %f3, %f4" } else { "%r30, %r31, %r32, %r33" };
    let init = if float {
        "mov.f32 %f1, 0f3F800000;\nmov.f32 %f2, %f1;\nmov.f32 %f3, %f1;\nmov.f32 %f4, %f1;\n"
    } else {
        "mov.u32 %r30, 1;\nmov.u32 %r31, 1;\nmov.u32 %r32, 1;\nmov.u32 %r33, 1;\n"
    };
    let ty = if float { "f32" } else { "b32" };
    let body = format!(
        "mul.wide.u32 %rd4, %r2, {stride};\nadd.s64 %rd4, %rd4, %rd1;\n{loads}{init}\
         mma.sync.aligned.m16n8k{k}.row.col.{types} {{{acc}}}, {{{}}}, {{{}}}, {{{acc}}};\n\
         mul.wide.u32 %rd5, %r2, 16;\nadd.s64 %rd5, %rd5, %rd2;\nst.global.v4.{ty} [%rd5], {{{acc}}};",
        list(10, ra),
        list(10 + ra, rb)
    );
    let name = format!("mma_{k}_{}", types.replace('.', "_"));
    let kernel =
        Kernel { name: &name, body: &body, input: words(&image), out_bytes: 512, ..Kernel::default() };
    let out = kernel.words();
    for row in 0..16 {
        for col in 0..8 {
            let want = 1 + (0..k).map(|i| a[row * k + i] * b[col * k + i]).sum::<i32>();
            let w = out[4 * (row % 8 * 4 + col / 2) + 2 * (row / 8) + col % 2];
            let got = if float { f32::from_bits(w) as i32 } else { w as i32 };
            assert_eq!(got, want, "{types} {row} {col}");
        }
    }
}

#[test]
fn synchronous_products() {
    let f16 = |v: i32| u32::from(half::f16::from_f32(v as f32).to_bits());
    let bf16 = |v: i32| u32::from(half::bf16::from_f32(v as f32).to_bits());
    let e4m3 = |v: i32| u32::from(float8::F8E4M3::from_f32(v as f32).to_bits());
    for k in [8, 16] {
        mma(k, 2, f16, "f32.f16.f16.f32", true);
        mma(k, 2, bf16, "f32.bf16.bf16.f32", true);
    }
    for k in [4, 8] {
        mma(k, 4, |v| (v as f32).to_bits(), "f32.tf32.tf32.f32", true);
    }
    for k in [16, 32] {
        mma(k, 1, |v| v as u32, "s32.s8.s8.s32", false);
    }
    mma(32, 1, e4m3, "f32.e4m3.e4m3.f32", true);
}

#[test]
fn copies_in_groups() {
    let image: Vec<u32> = (0..128).map(|i| i * 3 + 1).collect();
    let body = "shl.b32 %r3, %r2, 4;\nadd.u32 %r3, %r3, %r1;\nmul.wide.u32 %rd4, %r2, 16;\nadd.s64 %rd4, %rd4, %rd1;\n\
        cp.async.cg.shared.global [%r3], [%rd4], 16;\ncp.async.commit_group;\n\
        cp.async.ca.shared.global [%r3+512], [%rd4], 8, 4;\ncp.async.commit_group;\n\
        cp.async.wait_group 1;\nld.shared.u32 %r5, [%r3+4];\n\
        cp.async.wait_all;\nld.shared.v2.u32 {%r6, %r7}, [%r3+512];\n\
        mul.wide.u32 %rd5, %r2, 16;\nadd.s64 %rd5, %rd5, %rd2;\nst.global.v4.u32 [%rd5], {%r5, %r6, %r7, %r2};";
    let k = Kernel { name: "cp_async", body, input: words(&image), out_bytes: 512, ..Kernel::default() };
    let out = k.words();
    for t in 0..32usize {
        assert_eq!(out[4 * t..4 * t + 4], [image[4 * t + 1], image[4 * t], 0, t as u32]);
    }
    let narrow = body.replace(
        "[%r3+512], [%rd4], 8, 4;",
        "[%r3+512], [%rd4+8], 4;\nmov.u32 %r4, 0;\n\
        cp.async.ca.shared.global [%r3+516], [%rd4], 4, %r4;",
    );
    let k = Kernel {
        name: "cp_async_4",
        body: &narrow,
        input: words(&image),
        out_bytes: 512,
        ..Kernel::default()
    };
    let out = k.words();
    for t in 0..32usize {
        assert_eq!(out[4 * t..4 * t + 4], [image[4 * t + 1], image[4 * t + 2], 0, t as u32]);
    }
    let early = body.replace("cp.async.wait_group 1", "cp.async.wait_group 2");
    let k = Kernel {
        name: "cp_async_early",
        body: &early,
        input: words(&image),
        out_bytes: 512,
        ..Kernel::default()
    };
    let found = kinds(&k);
    assert!(found.contains(&InFlight) && found.contains(&UninitialisedMemory), "{found:?}");
}

#[test]
fn copies_arrive_on_an_mbarrier() {
    let image: Vec<u32> = (0..64).map(|i| i + 9).collect();
    let body = "setp.ne.u32 %p1, %r2, 0;\n@%p1 bra READY;\nmbarrier.init.shared::cta.b64 [%r1+1024], 32;\nREADY:\nbar.sync 0;\n\
        setp.ge.u32 %p2, %r2, 32;\n@%p2 bra WAIT;\n\
        shl.b32 %r3, %r2, 3;\nadd.u32 %r3, %r3, %r1;\nmul.wide.u32 %rd4, %r2, 8;\nadd.s64 %rd4, %rd4, %rd1;\n\
        cp.async.ca.shared.global [%r3], [%rd4], 8;\ncp.async.mbarrier.arrive.noinc.shared.b64 [%r1+1024];\n\
        WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p3, [%r1+1024], 0;\n@!%p3 bra WAIT;\n\
        shl.b32 %r4, %r2, 2;\nadd.u32 %r4, %r4, %r1;\nld.shared.u32 %r5, [%r4];\n\
        mul.wide.u32 %rd5, %r2, 4;\nadd.s64 %rd5, %rd5, %rd2;\nst.global.u32 [%rd5], %r5;\n\
        cp.async.wait_all;";
    let k = Kernel {
        name: "cp_async_mbarrier",
        body,
        block: 64,
        input: words(&image),
        out_bytes: 256,
        ..Kernel::default()
    };
    assert_eq!(k.words(), image);
}

/// Each of two blocks writes a word into the other's memory and reads what came.
const PEER: &str = "barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;\n\
    mov.u32 %r3, %cluster_ctarank;\nxor.b32 %r4, %r3, 1;\nmapa.shared::cluster.u32 %r5, %r1, %r4;\n\
    setp.ne.u32 %p1, %r2, 0;\n@%p1 bra ALL;\nadd.u32 %r6, %r3, 70;\nst.shared::cluster.u32 [%r5], %r6;\nALL:\n\
    barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n\
    @%p1 bra END;\nld.shared.u32 %r7, [%r1];\nmul.wide.u32 %rd3, %r3, 4;\nadd.s64 %rd3, %rd3, %rd2;\nst.global.u32 [%rd3], %r7;\nEND:";

fn pair<'a>(name: &'a str, body: &'a str) -> Kernel<'a> {
    Kernel { name, body, block: 64, cluster: 2, grid: 2, out_bytes: 8, ..Kernel::default() }
}

#[test]
fn blocks_of_a_cluster_exchange() {
    assert_eq!(pair("cluster", PEER).words(), vec![71, 70]);
    let relaxed = PEER.replace("arrive.release", "arrive.relaxed");
    assert!(kinds(&pair("cluster_relaxed", &relaxed)).contains(&SharedRace));
    let fenced = relaxed.replace("ALL:\n", "ALL:\nfence.acq_rel.cluster;\n");
    assert_eq!(pair("cluster_fenced", &fenced).words(), vec![71, 70]);
    let early = PEER.replace("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;\n", "");
    assert!(kinds(&pair("cluster_early", &early)).contains(&LateStart));
    let none = PEER.replace("barrier.cluster.wait.acquire.aligned;\n", "");
    let found = kinds(&pair("cluster_no_wait", &none));
    assert!(found.contains(&UninitialisedMemory) || found.contains(&SharedRace), "{found:?}");
}

#[test]
fn a_block_must_not_end_under_its_peers() {
    // Rank 0 writes into rank 1, which does not wait for it.
    let body = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n\
        mov.u32 %r3, %cluster_ctarank;\nsetp.ne.u32 %p1, %r3, 0;\n@%p1 bra END;\n\
        mov.u32 %r4, 1;\nmapa.shared::cluster.u32 %r5, %r1, %r4;\nst.shared::cluster.u32 [%r5], %r4;\nEND:";
    let k = Kernel { name: "early_exit", body, block: 32, cluster: 2, grid: 2, ..Kernel::default() };
    assert!(kinds(&k).contains(&EarlyExit));
    let safe = format!("{body}\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;");
    let k = Kernel { name: "late_exit", body: &safe, block: 32, cluster: 2, grid: 2, ..Kernel::default() };
    assert_eq!(kinds(&k), vec![]);
}

/// Rank 1 reads a slot that rank 0 fills by a multicast copy, and releases it remotely; rank 0
/// fills it again.
fn remote_release(read: &str, arrive: &str, wait: &str) -> String {
    format!(
        "mov.u32 %r3, %cluster_ctarank;\nadd.u32 %r20, %r1, 1024;\nadd.u32 %r21, %r1, 1032;\n\
         setp.ne.u32 %p1, %r2, 0;\n@%p1 bra READY;\nmbarrier.init.shared::cta.b64 [%r20], 1;\nmbarrier.init.shared::cta.b64 [%r21], 2;\n\
         fence.mbarrier_init.release.cluster;\nREADY:\nbarrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n\
         @%p1 bra END;\n\
         mov.u32 %r10, 0;\nmov.u32 %r11, 0;\nLOOP:\n\
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 64;\n\
         setp.ne.u32 %p2, %r3, 0;\n@%p2 bra CONSUME;\n\
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%rd1], 64, [%r20], 3;\n\
         CONSUME:\nmbarrier.try_wait.parity.shared::cta.b64 %p3, [%r20], %r10;\n@!%p3 bra CONSUME;\n\
         {read}\n\
         mov.u32 %r12, 0;\nmapa.shared::cluster.u32 %r13, %r21, %r12;\n{arrive}\n\
         @%p2 bra NEXT;\nEMPTY:\nmbarrier.try_wait.parity{wait}.shared::cta.b64 %p4, [%r21], %r10;\n@!%p4 bra EMPTY;\n\
         NEXT:\nxor.b32 %r10, %r10, 1;\nadd.u32 %r11, %r11, 1;\nsetp.lt.u32 %p5, %r11, 3;\n@%p5 bra LOOP;\n\
         END:\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"
    )
}

#[test]
fn a_plain_remote_arrive_orders_asynchronous_reads_only() {
    let input = vec![7; 64];
    let kernel = |name, body: &String| {
        let k =
            Kernel { name, body, block: 32, cluster: 2, grid: 2, input: input.clone(), ..Kernel::default() };
        kinds(&k)
    };
    // Bulk stores read the slot, complete, and then a plain arrive releases it.
    let bulk = "cp.async.bulk.global.shared::cta.bulk_group [%rd1+64], [%r1], 64;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;";
    let (plain, wide) = (
        "mbarrier.arrive.shared::cluster.b64 _, [%r13];",
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r13];",
    );
    let big = vec![7; 128];
    let run = |name, body: &String, input: &Vec<u8>| {
        let k =
            Kernel { name, body, block: 32, cluster: 2, grid: 2, input: input.clone(), ..Kernel::default() };
        // Both blocks store the same bytes to one place, which is a race of its own and not looked at here.
        let mut found = kinds(&k);
        found.retain(|h| *h != GlobalRace);
        found
    };
    assert_eq!(run("remote_async", &remote_release(bulk, plain, ""), &big), vec![]);
    // An ordinary load is not covered by it, only by a release of cluster scope, and a fence between the proxies: the next
    // copy may overtake the load.
    let load = "ld.shared.u32 %r14, [%r1];";
    assert!(kernel("remote_plain", &remote_release(load, plain, "")).contains(&InFlight));
    let wide = |read: &str| kernel("remote_wide", &remote_release(read, wide, ".acquire.cluster"));
    assert!(wide(load).contains(&MissingProxyFence));
    assert_eq!(wide(&format!("{load}\nfence.proxy.async.shared::cta;")), vec![]);
}

#[test]
fn atomics_and_reductions() {
    let body = "setp.ne.u32 %p1, %r2, 0;\n@%p1 bra READY;\nmov.u32 %r5, 0;\nst.shared.u32 [%r1], %r5;\nREADY:\nbar.sync 0;\n\
        atom.shared.add.u32 %r6, [%r1], 2;\nred.global.add.u32 [%rd2], %r2;\natom.global.max.s32 %r7, [%rd2+4], %r2;\n\
        red.global.add.f32 [%rd2+8], 0f3F800000;\nmov.b32 %r10, 0x3c003c00;\nred.global.add.noftz.f16x2 [%rd2+12], %r10;\n\
        bar.sync 0;\n@%p1 bra END;\nld.shared.u32 %r8, [%r1];\nst.global.u32 [%rd2+16], %r8;\nEND:";
    let init = "setp.ne.u32 %p2, %r2, 0;\n@%p2 bra GO;\nmov.u32 %r9, 0;\nst.global.v4.u32 [%rd2], {%r9, %r9, %r9, %r9};\nGO:\nbar.sync 0;\n";
    let body = format!("{init}{body}");
    let k = Kernel { name: "atomics", body: &body, block: 96, out_bytes: 20, ..Kernel::default() };
    let sum: u32 = (0..96).sum();
    assert_eq!(k.words(), vec![sum, 95, 96f32.to_bits(), 0x5600_5600, 192]);
}

#[test]
fn sums_of_neighbouring_words() {
    let body = "mov.b32 %r5, 0;\nmov.b32 %r6, 0x3c004000;\nmov.b32 %r7, 0x3f804000;\nsetp.ne.u32 %p1, %r2, 0;\n\
        @!%p1 st.global.v4.u32 [%rd2], {%r5, %r5, %r5, %r5};\n@!%p1 st.global.v2.u32 [%rd2+16], {%r5, %r5};\nbar.sync 0;\n\
        red.global.add.noftz.v4.f16x2 [%rd2], {%r6, %r5, %r6, %r6};\nred.global.add.noftz.v2.bf16x2 [%rd2+16], {%r7, %r5};";
    let k = Kernel { name: "vector_red", body, block: 32, out_bytes: 24, ..Kernel::default() };
    assert_eq!(k.words(), vec![0x5000_5400, 0, 0x5000_5400, 0x5000_5400, 0x4200_4280, 0]);
}

#[test]
fn named_barriers_reduce_and_refuse() {
    let body = "setp.lt.u32 %p1, %r2, 40;\nbarrier.red.popc.aligned.u32 %r5, 1, 96, %p1;\nbar.red.or.pred %p2, 0, %p1;\n\
        mul.wide.u32 %rd3, %r2, 4;\nadd.s64 %rd3, %rd3, %rd2;\n@%p2 add.u32 %r5, %r5, 1000;\nst.global.u32 [%rd3], %r5;";
    let k = Kernel { name: "bar_red", body, block: 96, out_bytes: 384, ..Kernel::default() };
    assert!(k.words().iter().all(|v| *v == 1040));
    let odd = Kernel {
        name: "bar_split",
        body: "setp.lt.u32 %p1, %r2, 10;\n@%p1 bra A;\nbar.sync 0;\nA:\nadd.u32 %r5, %r2, 1;",
        ..Kernel::default()
    };
    assert!(kinds(&odd).contains(&Divergence));
    let many = Kernel { name: "bar_many", body: "bar.sync 1, 64;", block: 96, ..Kernel::default() };
    assert_eq!(kinds(&many), vec![Deadlock]);
}

#[test]
fn every_kind_of_bad_access_is_found() {
    let cases: [(&str, &str, HazardKind); 9] = [
        ("ld.global.u32 %r5, [%rd1+16];", "oob", OutOfBounds),
        ("ld.global.u32 %r5, [%rd1+2];", "odd", Misaligned),
        ("ld.shared.u32 %r5, [%r1+4096];", "shared_oob", OutOfBounds),
        ("ld.shared.u32 %r5, [%r1];", "shared_undefined", UninitialisedMemory),
        ("add.u32 %r5, %r6, 1;\nst.shared.u32 [%r1], %r5;", "register", UninitialisedRegister),
        ("@%p9 add.u32 %r5, %r2, 1;", "predicate", UninitialisedRegister),
        ("mov.u32 %r5, 0;\nmbarrier.arrive.shared::cta.b64 _, [%r1];", "no_barrier", BarrierMisuse),
        ("setp.eq.u32 %p1, %r2, 3;\n@%p1 bra.uni L;\nL:\nadd.u32 %r5, %r2, 1;", "uni", Divergence),
        ("mov.u32 %r5, 16;\nbar.sync %r5;", "barrier_16", BadOperand),
    ];
    for (body, name, kind) in cases {
        let k = Kernel { name, body, ..Kernel::default() };
        assert!(kinds(&k).contains(&kind), "{name}: {:?}", kinds(&k));
    }
}
