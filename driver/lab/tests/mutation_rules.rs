//! The rules that call a mutant the same program: each accepts what its proof covers, and refuses where one of the
//! proof's assumptions does not hold.

use warplift_lab::mutation::equivalent;
use warplift_sim::mutate::{Mutant, mutants};

/// A kernel of 128 threads with a body.
fn text(body: &str) -> String {
    format!(".version 8.4\n.target sm_90a\n.visible .entry k()\n.reqntid 128\n{{\n{body}ret;\n}}\n")
}

/// What the rules say of each mutant of the lines that contain `of`, by what was done.
fn said(body: &str, of: &str) -> Vec<(String, bool)> {
    let ptx = text(body);
    let changed = |m: &Mutant| ptx.lines().nth(m.line as usize - 1).is_some_and(|l| l.contains(of));
    let all = mutants(&ptx).unwrap_or_else(|e| panic!("{e}\n{ptx}"));
    let done = |m: &Mutant| m.description.split(": ").nth(1).unwrap_or_default().to_owned();
    all.iter().filter(|m| changed(m)).map(|m| (done(m), equivalent(&ptx, m).is_some())).collect()
}

/// Whether the rules accept the mutant of this kind of such a line, of which there is one.
fn accepts(body: &str, of: &str, done: &str) -> bool {
    let all = said(body, of);
    let found: Vec<bool> = all.iter().filter(|(d, _)| d.starts_with(done)).map(|(_, same)| *same).collect();
    let [same] = found[..] else { panic!("{done} of {of}: {all:?}\n{body}") };
    same
}

/// Accepted as it stands, and refused once any of the pieces is replaced.
fn rule(body: &str, of: &str, done: &str, pieces: &[(&str, &str)]) {
    assert!(accepts(body, of, done), "{done} of {of} in\n{body}");
    for (from, to) in pieces {
        let other = body.replacen(from, to, 1);
        assert_ne!(other, body, "{from}");
        assert!(!accepts(&other, of, done), "{done} of {of} in\n{other}");
    }
}

/// A product of A registers that adds to accumulators.
fn product(to: &str, from: &str) -> String {
    format!(
        "wgmma.fence.sync.aligned;\n\
         wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{{to}}}, {{{from}}}, %d1, 1, 1, 1, 0;\n"
    )
}

#[test]
fn a_product_may_join_the_next_group() {
    let (a, b) = (product("%r0, %r1", "%r2, %r3"), product("%r4, %r5", "%r6, %r7"));
    let body = format!(
        "{a}wgmma.commit_group.sync.aligned /* own */;\nadd.s32 %r9, %r10, %r11;\n{b}\
         wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nadd.f32 %r12, %r0, %r1;\n"
    );
    rule(
        &body,
        "own",
        "removed",
        &[
            // The first wait leaves one group: without its commit the product is in it.
            ("wait_group.sync.aligned 0", "wait_group.sync.aligned 1"),
            // Nothing commits it.
            (&format!("{b}wgmma.commit_group.sync.aligned;\n"), &b),
            // Another way leads past the next commit.
            ("add.s32 %r9, %r10, %r11;\n", "@%p1 bra $a_b2;\n$a_b2:\n"),
        ],
    );
}

#[test]
fn a_wait_may_be_left_to_the_next_where_nothing_minds() {
    let (a, b) = (product("%r0, %r1", "%r2, %r3"), product("%r0, %r1", "%r6, %r7"));
    let commit = "wgmma.commit_group.sync.aligned;\n";
    let body = format!(
        "{a}{commit}{b}{commit}wgmma.wait_group.sync.aligned 1; /* own */\nadd.s32 %r9, %r10, %r11;\n\
         wgmma.wait_group.sync.aligned 0;\nadd.f32 %r12, %r0, %r1;\n"
    );
    for done in ["removed", "one group less"] {
        rule(
            &body,
            "own",
            done,
            &[
                // Between stands a use of the first product's registers, what tells others, or a way out.
                ("add.s32 %r9, %r10, %r11", "add.s32 %r2, %r10, %r11"),
                ("add.s32 %r9, %r10, %r11", "add.f32 %r9, %r0, %r1"),
                ("add.s32 %r9, %r10, %r11", "mbarrier.arrive.shared::cta.b64 _, [%r9]"),
                ("add.s32 %r9, %r10, %r11", "st.shared.b32 [%r9], %r10"),
                ("add.s32 %r9, %r10, %r11", "@%p1 ret"),
                // The next wait leaves the second product, and so the first too where the wait is gone.
                ("wait_group.sync.aligned 0", "wait_group.sync.aligned 2"),
            ],
        );
    }
}

/// What was in flight before a loop, or in its last iteration, counts too.
#[test]
fn products_of_the_iteration_before_are_known() {
    let commit = "wgmma.commit_group.sync.aligned;\n";
    let (a, b) = (product("%r0, %r1", "%r2, %r3"), product("%r4, %r5", "%r6, %r7"));
    let body = |last: u32| {
        format!(
            "$a_b1:\n{b}{commit}wgmma.wait_group.sync.aligned 1; /* own */\nadd.s32 %r2, %r10, %r11;\n\
             wgmma.wait_group.sync.aligned 0;\n{a}{commit}wgmma.wait_group.sync.aligned {last}; /* last */\n@%p1 bra $a_b1;\n"
        )
    };
    assert!(accepts(&body(0), "own", "removed"), "nothing is in flight at the loop's begin");
    assert!(
        !accepts(&body(1), "own", "removed"),
        "the product on %r2 is in flight over the end of the iteration"
    );
}

#[test]
fn a_store_may_join_the_next_group() {
    let store = "@%p2 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%d0, {%r1, %r2}], [%r3];\n";
    let commit = "@%p2 cp.async.bulk.commit_group;\n";
    let body = format!(
        "{store}@%p2 cp.async.bulk.commit_group /* own */;\n@%p2 cp.async.bulk.wait_group.read 1;\n\
         stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r9], {{%r4, %r5, %r6, %r7}};\n\
         {store}{commit}@%p2 cp.async.bulk.wait_group.read 0;\n"
    );
    rule(
        &body,
        "own",
        "moved before",
        &[
            // The next wait covers its own group, and not the one that it joins.
            ("wait_group.read 1", "wait_group.read 0"),
            // Other lanes than those that stored commit and wait.
            (&format!("{store}{commit}"), &format!("{store}{}", commit.replace("%p2", "%p4"))),
            ("@%p2 cp.async.bulk.wait_group.read 0", "@%p4 cp.async.bulk.wait_group.read 0"),
            ("stmatrix", "setp.eq.s32 %p2, %r1, %r2;\nstmatrix"),
            // No commit stands between, or no wait.
            (&format!("{store}{commit}"), store),
            ("@%p2 cp.async.bulk.wait_group.read 0;\n", ""),
            // A wait for done stores counts groups that a wait for read ones has let pass.
            ("wait_group.read 0;\n", "wait_group.read 0;\n@%p2 cp.async.bulk.wait_group 1;\n"),
        ],
    );
}

#[test]
fn a_fence_of_copies_may_stand_behind_the_barrier() {
    let body =
        "add.s32 %r1, %r2, %r3;\ncp.async.wait_group 1;\nfence.proxy.async.shared::cta;\nbar.sync 0, 128;\n";
    for (of, done) in [("fence", "moved behind"), ("bar.sync", "moved before")] {
        rule(
            body,
            of,
            done,
            &[
                // Not all threads take part, or not all fence.
                ("bar.sync 0, 128", "bar.sync 0, 96"),
                ("fence.proxy", "@%p1 fence.proxy"),
                // Ordinary stores need the writer's fence.
                ("add.s32 %r1, %r2, %r3", "st.shared.b32 [%r1], %r2"),
                ("add.s32 %r1, %r2, %r3", "red.shared.add.u32 [%r1], %r2"),
                ("add.s32 %r1, %r2, %r3", "st.b32 [%d1], %r2"),
                ("cp.async.wait_group 1;\n", "cp.async.wait_group 1;\nst.shared.b32 [%r1], %r2;\n"),
            ],
        );
    }
}

/// Two roles that end together; the first with a store.
const ROLES: &str = "@%p0 bra $producer;\n$consumer:\nfence.proxy.async.shared::cta;\nbar.warp.sync -1;\n\
    @%p2 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%d0, {%r1, %r2}], [%r3];\n\
    @%p2 cp.async.bulk.commit_group;\n@%p2 cp.async.bulk.wait_group.read 0;\n\
    barrier.cluster.arrive.release; /* first */\nbarrier.cluster.wait.acquire; /* first */\nret;\n\
    $producer:\nbarrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire; /* second */\n";

#[test]
fn one_role_may_leave_the_wait_to_another() {
    for wait in ["wait.acquire; /* first */", "wait.acquire; /* second */"] {
        rule(
            ROLES,
            wait,
            "removed",
            &[
                // There is no other role.
                ("$producer:\n", "$producer_b1:\n"),
                // Another way ends without the cluster.
                ("$consumer:\n", "$consumer:\n@%p1 ret;\n"),
            ],
        );
    }
    let goes_on = ROLES.replace("/* second */\n", "/* second */\nst.shared::cluster.b32 [%r1], %r2;\n");
    assert!(!accepts(&goes_on, "/* second */", "removed"), "the wait is not the end");
}

#[test]
fn the_last_arrival_may_pass_the_block_s_own_stores() {
    let others: [(&str, &str); 3] = [
        // What peers may wait for.
        (
            "@%p2 cp.async.bulk.wait_group.read 0;\n",
            "@%p2 cp.async.bulk.wait_group.read 0;\nld.shared.b32 %r9, [%r1];\n",
        ),
        // It is not the last.
        ("/* first */\nret", "/* first */\nld.shared.b32 %r9, [%r1];\nret"),
        ("/* second */\n", "/* second */\nld.shared::cluster.b32 %r9, [%r1];\n"),
    ];
    rule(ROLES, "arrive.release; /* first */", "moved before", &others);
    rule(ROLES, "wait_group.read 0", "moved behind", &others[1..]);
}

/// The loop before the wait for other grids: at most as many copies as the ring has slots, from slot 0.
#[test]
fn a_loop_of_its_ring_s_depth_does_not_wrap() {
    let body = "min.s32 %r49, 6, %r60;\nsetp.lt.s32 %p51, 0, %r49;\n@!%p51 bra.uni $p_b5;\n\
        $p_b3:\nmov.b32 %r69, 0;\nmov.b32 %r72, %r69;\nbra.uni $p_b4;\n\
        $p_b4:\nmul.lo.s32 %r32, %r72, 8;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r32], 128;\n\
        add.s32 %r58, %r72, 1;\nsetp.eq.s32 %p47, %r58, 6;\nselp.b32 %r72, 0, %r58, %p47;\n\
        add.s32 %r69, %r69, 1;\nsetp.lt.s32 %p53, %r69, %r49;\n@!%p53 bra.uni $p_b6;\n\
        $p_b7:\nbra.uni $p_b4;\n$p_b6:\n$p_b5:\nmov.b32 %r72, 0;\nadd.s32 %r1, %r72, 1;\n";
    rule(
        body,
        "setp.eq.s32 %p47",
        "wraps a slot later",
        &[
            // More iterations than slots.
            ("min.s32 %r49, 6,", "min.s32 %r49, 7,"),
            // From another slot.
            ("mov.b32 %r72, %r69;", "mov.b32 %r72, 1;"),
            // The slot lives on.
            ("mov.b32 %r72, 0;\nadd", "add"),
            // So does the predicate.
            ("add.s32 %r1, %r72, 1;", "selp.b32 %r1, 0, 1, %p47;"),
            // The bound changes within the loop.
            ("mul.lo.s32 %r32, %r72, 8;", "add.s32 %r49, %r72, 8;"),
            // Another way leads into the loop.
            ("add.s32 %r1, %r72, 1;", "@%p53 bra.uni $p_b4;"),
        ],
    );
}
