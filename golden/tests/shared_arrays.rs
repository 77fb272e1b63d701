//! Arrays that a text keeps in shared memory: compiled, simulated under many orders without hazard, and compared with the
//! interpreter.

use warplift::compile;
use warplift::ir::interp::{Arg, Memory, run};
use warplift::ir::target::SM90A;
use warplift::ir::tile::{Kernel, parse_file};
use warplift::ir::types::Elem;
use warplift_golden::given::{Given, check, has_producer, parsed};

/// A matrix, turned in an array with a layout.
fn turned(elem: &str, layout: &str, fact: &str) -> String {
    format!(
        "kernel turned(x: ptr<{elem}> align 16, y: ptr<{elem}> align 16, m: i32 {fact}, n: i32 {fact}) {{
            grid cdiv(m, 64), cdiv(n, 64)
            gx = view x : {elem}[m, n]
            gy = view y : {elem}[n, m]
            i, j = block_index
            s = shared {elem}[64, 64]{layout}
            store s[0, 0], load gx[i*64, j*64] : {elem}[64, 64]
            store gy[j*64, i*64], trans(load s[0, 0] : {elem}[64, 64])
        }}
        mapping turned {{ kernel: warps 4 }}"
    )
}

#[test]
fn a_layout_says_where_elements_lie() {
    let layouts = [
        ("f16", ""),
        ("f16", " layout \"smem 64x64 f16 swizzle 128\""),
        ("f16", " layout \"smem 64x64 f16 pad 8\""),
        ("f16", " layout \"smem 64x64 f16 core\""),
        ("f32", " layout \"(d0: 64:1@m, d1: 64:64@m) -> (m: 4096)\""),
        ("f32", " layout \"smem 64x64 f32 swizzle 64\""),
        ("u8", " layout \"smem 64x64 u8 swizzle 64\""),
    ];
    for (elem, layout) in layouts {
        for fact in ["% 16", ""] {
            let made =
                check(&turned(elem, layout, fact), &[("m", 80), ("n", 72 + fact.len() as i64 * 2)], &[]);
            assert!(made.ptx.contains("st.shared") && made.ptx.contains("bar.sync"), "{layout}");
        }
    }
}

/// Starts of groups with the end behind them: one more than a tunable.
#[test]
fn extents_are_sums_and_products_of_tunables() {
    for (extent, last) in [("E + 1", 64), ("2*E + 2", 64), ("1 + E / 3 * 2", 43)] {
        let text = format!(
            "kernel starts(x: ptr<i32>, y: ptr<i32>, n: i32) {{
                tunable E = 63
                grid 1
                gx = view x : i32[n]
                gy = view y : i32[n]
                s = shared i32[{extent}]
                at = iota 0 : i32[64]
                store s[at], load gx[0] : i32[64]
                store gy[0], load s[min(at + 1, {last} - 1)] : i32[64]
            }}
            mapping starts {{ kernel: warps 2 }}"
        );
        check(&text, &[("n", 64)], &[]);
    }
}

/// What is stored in an iteration is read by other threads in the next one, and then overwritten.
#[test]
fn iterations_hand_on_what_they_store() {
    let text = "kernel lagged(x: ptr<f32> align 16, y: ptr<f32> align 16, n: i32 % 4) {
        grid 2
        gx = view x : f32[n]
        gy = view y : f32[n]
        s = shared f32[2, 260]
        b = block_index
        store s[1, 0], full 0.0 : f32[1, 256]
        at = 255 - iota 0 : i32[256]
        for t in 0..cdiv(n, 512) {
            first = (2*t + b) * 256
            own = subview s[t % 2, _]
            last = subview s[(t + 1) % 2, _]
            store own[0], load gx[first] : f32[256]
            store gy[first], load last[at] : f32[256]
        }
    }
    mapping lagged { kernel: warps 2 }";
    for n in [0, 4, 512, 2500] {
        check(text, &[("n", n)], &[]);
    }
}

/// Updates that several threads make of one word, with and without what they found; a barrier before the loop, none inside.
#[test]
fn threads_count_in_an_array() {
    let text = "kernel counted(x: ptr<i32> align 16, y: ptr<i32> align 16, z: ptr<f32> align 16, w: ptr<i32>, n: i32 % 4) {
        grid cdiv(n, 1024)
        gx = view x : i32[n] fill -1
        gy = view y : i32[64]
        gz = view z : f32[64]
        gw = view w : i32[n]
        counts = shared i32[64]
        sums = shared f32[64]
        most = shared u32[2]
        i = block_index
        store counts[0], full 0 : i32[64]
        store sums[0], full 0.0 : f32[64]
        store most[0], full 0 : u32[2]
        one = full 1 : i32[256]
        for t in 0..4 {
            at = load gx[i*1024 + t*256] : i32[256]
            atomic_add counts[at], one
            atomic_add sums[at], cast(at, f32) where at % 2 == 0
            atomic_max most[0], full 3 : u32[1]
        }
        places = iota 0 : i32[64]
        old = atomic_add counts[places], full 1 : i32[64] : i32[64]
        count = load most[0] : u32
        store gw[i*64], old where old < cast(count, i32) * 20
        atomic_add gy[0], load counts[0] : i32[64]
        atomic_add gz[0], load sums[0] : f32[64]
    }
    mapping counted { kernel: warps 4 }";
    let made = check(text, &[("n", 2300)], &[]);
    // From the loop's first instruction to the branch back.
    let inside = made.ptx.split("nounroll").nth(1).and_then(|rest| rest.split("bra").next()).expect("a loop");
    assert!(inside.contains("red.shared.add.s32") && inside.contains("red.shared.add.f32"), "{inside}");
    assert!(!inside.contains("bar.sync"), "{inside}");
    assert!(made.ptx.contains("atom.shared.add.u32"), "{}", made.ptx);
}

/// A product reads an operand that the text keeps, tile after tile of a persistent kernel, beside a producer.
const KEPT: &str =
    "kernel kept(a: ptr<f16> align 16, b: ptr<f16> align 16, c: ptr<f16> align 16, m: i32 % 8, n: i32 % 8) {
        tunable BM = 128, BN = 64
        grid cdiv(m, BM)
        ga = view a : f16[m, 64]
        gb = view b : f16[n, 64]
        gc = view c : f16[m, n]
        i = block_index
        s = shared f16[BM, 64]
        store s[0, 0], load ga[i*BM, 0] : f16[BM, 64]
        zero = full 0.0 : f32[BM, BN]
        for j in 0..cdiv(n, BN) {
            tb = load gb[j*BN, 0] : f16[BN, 64]
            acc = mma zero, load s[0, 0] : f16[BM, 64], trans(tb)
            store gc[i*BM, j*BN], cast(acc, f16)
        }
    }";

#[test]
fn products_read_arrays() {
    for words in [
        "for j: producers 1, consumers 1",
        "for j: producers 1, consumers 2 kernel: persistent",
        "kernel: warps 4",
    ] {
        let made = check(&format!("{KEPT} mapping kept {{ {words} }}"), &[("m", 264), ("n", 200)], &[]);
        assert!(has_producer(&made), "{words}");
    }
}

/// The length of a loop comes from an array.
#[test]
fn scalars_come_from_arrays() {
    let text = "kernel bounded(x: ptr<i32> align 16, y: ptr<i32> align 16, n: i32 % 4) {
        grid 3
        gx = view x : i32[n]
        gy = view y : i32[n]
        s = shared i32[128]
        i = block_index
        store s[0], load gx[i*128] : i32[128]
        few = max(load s[i] : i32, 0) % 5
        zero = full 0 : i32[64]
        sum = for t in 0..few carry a = zero {
            yield a + load s[t*2] : i32[64]
        }
        store gy[i*64], sum
    }
    mapping bounded { kernel: WORDS }";
    let x: Vec<i32> = (0..400).map(|i| i * 7 % 23).collect();
    for words in ["warps 2", "persistent, warps 2", "persistent, raster counter, warps 4"] {
        check(&text.replace("WORDS", words), &[("n", 400)], &[("x", Given::I32(&x))]);
    }
}

/// Each iteration stores over a part of what other threads stored before; updates that give what they found do the same.
#[test]
fn overlapping_stores_keep_their_order() {
    let text =
        "kernel overlapped(x: ptr<i32> align 16, y: ptr<i32> align 16, z: ptr<i32> align 16, n: i32 % 4) {
        grid 1
        gx = view x : i32[n]
        gy = view y : i32[n]
        gz = view z : i32[256]
        s = ARRAY
        store s[0], full 0 : i32[512]
        for t in 0..cdiv(n, 256) { store s[t*32], load gx[t*256] : i32[256] }
        none = full 0 : i32[256]
        last = for t in 0..5 carry a = none {
            old = atomic_exchange s[t], a + t : i32[256]
            yield old
        }
        store gz[0], last
        AFTER
    }
    mapping overlapped { kernel: warps 4 }";
    let shared =
        text.replace("ARRAY", "shared i32[512]").replace("AFTER", "store gy[0], load s[0] : i32[512]");
    let global = text.replace("ARRAY", "view y : i32[n]").replace("AFTER", "");
    for text in [shared, global] {
        check(&text, &[("n", 2048)], &[]);
    }
}

/// A thread reads what it stored itself, in the same iteration or in an earlier one.
#[test]
fn what_threads_keep_for_themselves_needs_no_barrier() {
    let text = "kernel own(x: ptr<i32> align 16, y: ptr<i32> align 16, n: i32 % 4) {
        grid 1
        gx = view x : i32[n]
        gy = view y : i32[n]
        s = shared i32[1024]
        none = full 0 : i32[256]
        all = for t in 0..4 carry a = none {
            store s[t*256], a + load gx[t*256] : i32[256]
            yield a + load s[t*256] : i32[256]
        }
        store gy[0], all
    }
    mapping own { kernel: warps 4 }";
    let made = check(text, &[("n", 1020)], &[]);
    assert!(!made.ptx.contains("bar.sync"), "{}", made.ptx);
    let bounds = made.ptx.lines().filter(|l| l.contains("setp.lt.u32") && l.contains("1024"));
    assert_eq!(bounds.count(), 0, "the counter's range says that all lies inside: {}", made.ptx);
}

/// Blocks past the end of the grid have arrays of their own.
#[test]
fn clusters_may_have_arrays() {
    let text = "kernel paired(x: ptr<f16> align 16, y: ptr<f16> align 16, m: i32 % 8, n: i32 % 8) {
        grid cdiv(m, 64), cdiv(n, 64)
        gx = view x : f16[m, n]
        gy = view y : f16[m, n]
        i, j = block_index
        s = shared f16[64, 64]
        store s[0, 0], load gx[i*64, j*64] : f16[64, 64]
        store gy[i*64, j*64], load s[0, 0] : f16[64, 64]
    }
    mapping paired { kernel: cluster 2, warps 4 }";
    check(text, &[("m", 136), ("n", 72)], &[]);
}

fn refusal(text: &str) -> String {
    let (kernel, mapping) = parsed(text);
    compile(&kernel, &mapping, &SM90A, &warplift::Options::default()).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn what_does_not_compile_says_why() {
    let text = |array: &str, words: &str| {
        let elem = array.split('[').next().unwrap_or_default();
        format!(
            "kernel k(x: ptr<f32> align 16, n: i32 % 4) {{
                tunable B = 64
                grid 1
                gx = view x : f32[n]
                s = shared {array}
                store s[0], full 1 : {elem}[64]
                store gx[0], full 1.0 : f32[64]
            }}
            mapping k {{ kernel: {words} }}"
        )
    };
    let counted = text("u32[64]", "warps 2")
        .replace("store gx", "last = arrive s[0], 3 if last { store s[1], full 2 : u32[1] } store gx");
    assert!(refusal(&counted).contains("`arrive` counts blocks"), "{}", refusal(&counted));
    for (array, words, why) in [
        ("f32[n]", "warps 2", "are numbers, constants and tunables, and sums and products of them"),
        ("i4[64]", "warps 2", "elements of whole bytes"),
        ("f32[64] layout \"(d0: 32:1@m) -> (m: 32)\"", "warps 2", "maps its indices d0 64 to `m`"),
        ("f32[64] layout \"(d0: 64:0@m) -> (m: 1)\"", "warps 2", "two elements at one place"),
        ("f32[B*4096]", "warps 2", "shared memory"),
    ] {
        let refused = refusal(&text(array, words));
        assert!(refused.contains(why), "{array}: {refused}");
    }
}

#[test]
fn an_element_is_stored_before_it_is_read() {
    let text = "kernel early(y: ptr<f32>, n: i32) {
        grid 1
        gy = view y : f32[n]
        s = shared f32[64]
        store s[0], full 1.0 : f32[32]
        store gy[0], load s[1] : f32[32]
    }";
    let kernel: Kernel = parse_file(text, "k.tile").expect("a kernel").kernels.remove(0);
    let mut memory = Memory::new();
    let y = memory.add_values("y", Elem::F32, &[0.0; 32]);
    let args = [Arg::Ptr(y, 0), Arg::Int(32)];
    let fault = run(&kernel, &args, &mut memory, &Default::default()).unwrap_err().to_string();
    assert!(fault.contains("an element of a shared array is read before it is stored"), "{fault}");
}

/// The text is read back as it is printed, layout included.
#[test]
fn arrays_are_printed_as_they_are_read() {
    let (kernel, _) = parsed(&turned("f16", " layout \"smem 64x64 f16 swizzle 128\"", ""));
    let printed = kernel.to_string();
    assert!(printed.contains("] layout \"(d0: ^72@m"), "{printed}");
    let again = parse_file(&printed, "k.tile").unwrap_or_else(|e| panic!("{e}\n{printed}"));
    assert_eq!(again.kernels[0].to_string(), printed);
}
