//! Products with weights of 8 bits and fewer: one text under every weight type, group size and mapping, as
//! emitted, in the simulator against the interpreter.

use warplift::ir::target::SM90A;
use warplift::ir::tile::parse_file;
use warplift::toolchain::{Fetch, PtxasOptions, Toolchain};
use warplift::{Options, compile};
use warplift_golden::given::{self, Given};
use warplift_golden::lowbit::{check, is_helped, mapped, narrow, roles, variant, way, zeros};

#[test]
fn every_weight_type_is_the_same_text() {
    for (ty, cast) in [
        ("u4", "cast(q, f16) - 8.0"),
        ("i4", "cast(q, f16)"),
        ("i4", "cast(q, f16) - 1.0"),
        ("u8", "cast(q, f16) - 32.0"),
        ("u8", "cast(q, f16) - 128.0"),
        ("i8", "cast(q, f16)"),
        ("f8e4m3", "cast(q, f16)"),
        ("f8e5m2", "cast(q, f16)"),
        ("u1", "cast(q, f16)"),
        ("u2", "cast(q, f16) - 2.0"),
        ("u3", "cast(q, f16) - 4.0"),
        ("i5", "cast(q, f16)"),
        ("u6", "cast(q, f16) - 32.0"),
        ("u7", "cast(q, f16)"),
        ("f3e1m1", "cast(q, f16)"),
        ("f4e2m1", "cast(q, f16)"),
        ("f5e2m2", "cast(q, f16)"),
        ("f6e3m2", "cast(q, f16)"),
        ("f6e2m3", "cast(q, f16)"),
        ("f7e3m3", "cast(q, f16)"),
        ("f7e4m2", "cast(q, f16)"),
        ("u4", "cast(cast(q, f32), f16)"),
        ("u4", "cast(cast(q, i32) - 8, f16)"),
        ("i5", "cast(cast(q, i32) + 1, f16)"),
        ("i3", "cast(q, f16) + 1.0"),
        ("u5", "cast(q, f16) - 16.0"),
    ] {
        let pointer = format!("ptr<{ty}>");
        let view = format!(": {ty}[");
        let words = [("ptr<u4>", pointer.as_str()), (": u4[", &view), ("cast(q, f16) - 8.0", cast)];
        check(&format!("{ty} {cast}"), &narrow(&words), [13, 72, 256]);
        // The array may lie the other way round.
        let (lies, turned) = (format!("view w : {ty}[n, k]"), format!("view w : {ty}[k, n]"));
        let read = format!("load gw[i*BN, t*GROUP] : {ty}[BN, GROUP]");
        let flipped = format!("trans(load gw[t*GROUP, i*BN] : {ty}[GROUP, BN])");
        let words = [&words[..], &[(&lies, &turned), (&read, &flipped)]].concat();
        check(&format!("{ty} {cast} of [k, n]"), &narrow(&words), [13, 72, 256]);
    }
}

/// Weights that lie as `[k, n]`, as checkpoints store them: a copy brings them, and threads read the byte of each element.
#[test]
fn columns_of_weights_as_they_lie() {
    for (ty, zero) in [("u4", " - 8.0"), ("i4", ""), ("f4e2m1", ""), ("u2", " - 2.0"), ("u1", "")] {
        let (pointer, view) = (format!("ptr<{ty}>"), format!("view w : {ty}[k, n]"));
        let read = format!("trans(load gw[t*GROUP, i*BN] : {ty}[GROUP, BN])");
        let cast = format!("cast(q, f16){zero}, trans");
        let words = [
            ("ptr<u4>", pointer.as_str()),
            ("view w : u4[n, k]", &view),
            ("load gw[i*BN, t*GROUP] : u4[BN, GROUP]", &read),
            ("cast(q, f16) - 8.0, trans", &cast),
            ("n: i32 % 8", "n: i32 % 128"),
        ];
        let (kernel, _) = variant(&words);
        // Parts of fewer elements than a register has would share it.
        let chunks = [([128, 16], 1, ""), ([128, 16], 2, ", chunk 32"), ([256, 8], 2, ", chunk 64")];
        for (tile, consumers, chunk) in chunks.into_iter().filter(|c| c.2.is_empty() || zero == " - 8.0") {
            let both = (kernel.clone(), mapped(&kernel, tile, consumers, chunk, "array s: staged"));
            assert!(way(&both, "18:19").contains("tensor copies"), "{ty} {}", way(&both, "18:19"));
            check(&format!("columns of {ty} {tile:?}{chunk}"), &both, [13, 384, 256]);
        }
    }
}

#[test]
fn weights_as_they_lie_come_by_tensor_copies() {
    let types =
        [("u4", " - 8.0"), ("i4", ""), ("f4e2m1", ""), ("u8", " - 128.0"), ("i8", ""), ("f8e4m3", "")];
    for (ty, zero) in types {
        let (pointer, view, cast) =
            (format!("ptr<{ty}>"), format!(": {ty}["), format!("cast(q, f16){zero}, trans"));
        let words = [("ptr<u4>", pointer.as_str()), (": u4[", &view), ("cast(q, f16) - 8.0, trans", &cast)];
        let (kernel, _) = variant(&words);
        for (tile, consumers, rest) in [
            ([64, 16], 1, ""),
            ([64, 16], 1, "array w: staged, stream array s: staged kernel: persistent"),
            ([512, 8], 4, "array w: before_wait kernel: pdl"),
            ([192, 8], 3, ", chunk 32"),
        ] {
            let (chunk, rest) = if rest.starts_with(',') { (rest, "") } else { ("", rest) };
            let both = (kernel.clone(), mapped(&kernel, tile, consumers, chunk, rest));
            assert!(way(&both, "18:13").contains("tensor copies"), "{}", way(&both, "18:13"));
            check(&format!("{ty} {tile:?} {rest}"), &both, [13, 520, 256]);
        }
    }
    // Threads hold pairs: elements of two bits share bytes with those of other threads.
    let (kernel, _) = variant(&[("ptr<u4>", "ptr<u2>"), (": u4[", ": u2["), (" - 8.0", " - 2.0")]);
    for (rest, why) in [("", "say `array w: packed`"), ("array w: staged", "do not hold whole bytes")] {
        let mapping = mapped(&kernel, [64, 16], 1, "", rest);
        let refused = compile(&kernel, &mapping, &SM90A, &Options::default()).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn parts_of_right_operands_of_warps_are_refused_with_the_cure() {
    let text = weights(["u5", "f16", "f32"], "f16", "cast(q, f16) - z").replace(
        "for t: pipeline fit, producers 1, consumers 1 array w: packed",
        "for t: chunk 16 array w: packed kernel: warps 2, products mma_sync",
    );
    let module = parse_file(&text, "w.tile").unwrap();
    let refused = compile(&module.kernels[0], &module.mappings[0], &SM90A, &Options::default());
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("leave out `chunk`"), "{refused}");
}

#[test]
fn bf16_activations() {
    for (ty, cast) in [
        ("u4", "cast(q, bf16) - 8.0"),
        ("i4", "cast(q, bf16)"),
        ("u4", "cast(q, bf16) - 7.5"),
        ("u8", "cast(q, bf16) - 128.0"),
        ("i8", "cast(q, bf16)"),
        ("u2", "cast(q, bf16) - 2.0"),
        ("i6", "cast(q, bf16) - 3.0"),
        ("u7", "cast(q, bf16)"),
        ("f8e4m3", "cast(q, bf16)"),
    ] {
        let (pointer, view) = (format!("ptr<{ty}>"), format!(": {ty}["));
        let words = [
            ("x: ptr<f16>", "x: ptr<bf16>"),
            ("x : f16[", "x : bf16["),
            ("tx = load gx[j*BM, t*GROUP] : f16", "tx = load gx[j*BM, t*GROUP] : bf16"),
            ("ptr<u4>", &pointer),
            (": u4[", &view),
            ("cast(q, f16) - 8.0", cast),
        ];
        check(&format!("bf16 from {ty}"), &narrow(&words), [13, 72, 256]);
    }
}

#[test]
fn any_mapping_computes_the_same() {
    let packed = "array w: packed, stream array s: staged";
    for (tile, consumers, chunk, rest) in [
        ([64, 8], 1, "", ""),
        ([64, 16], 1, "", "array s: staged"),
        ([64, 16], 1, ", chunk 32", "array w: packed"),
        ([64, 24], 1, ", chunk 64", packed),
        ([128, 64], 1, "", packed),
        ([128, 32], 2, ", chunk 16", packed),
        ([448, 16], 7, ", chunk 64", packed),
        ([128, 128], 2, "", "array w: packed array s: staged kernel: persistent, raster band_n 4"),
        ([128, 64], 2, "", "array w: packed array s: staged kernel: persistent, epilogue deferred"),
        ([128, 128], 2, ", wait 1", "array w: packed array s: staged kernel: persistent"),
    ] {
        let (kernel, _) = variant(&[]);
        let what = format!("{tile:?} {consumers} {chunk} {rest}");
        let mapping = mapped(&kernel, tile, consumers, chunk, rest);
        check(&what, &(kernel, mapping), [25, 200, 384]);
    }
}

/// Weights loaded before the wait for the grid before: fewer iterations than stages, as many, and more; loops
/// in which that is declined compute the same.
#[test]
fn early_loads() {
    let (kernel, _) = variant(&[]);
    let early = "array w: packed, stream, before_wait array s: staged, before_wait kernel: pdl";
    for (stages, rest) in [("2", ""), ("3", ""), ("2", ", persistent"), ("fit", "")] {
        let text = format!(
            "mapping a16w4 {{ BN = 64, BM = 16 for t: pipeline {stages}, producers 1, consumers 1, chunk 32 {early}{rest} }}"
        );
        let mapping =
            parse_file(&text, "mapping").unwrap_or_else(|e| panic!("{text}: {e:?}")).mappings.remove(0);
        for k in [128, 384, 896] {
            check(&format!("{stages} stages, {k} {rest}"), &(kernel.clone(), mapping.clone()), [13, 136, k]);
        }
    }
}

/// Scales and zero points that lie as checkpoints store them, each row's side by side: a copy brings 16 bytes of each row, in which
/// threads find those of the iteration.
#[test]
fn scales_of_a_row_come_with_their_neighbours() {
    let lies = [
        ("s : f16[n, cdiv(k, GROUP)] strides [1, n]", "s : f16[n, cdiv(k, GROUP)]"),
        ("k: i32 % 128", "k: i32 % 4096"),
    ];
    for (ty, groups) in [
        ("f16", &["128", "64", "32"][..]),
        ("f32", &["128"]),
        ("f8e4m3", &["128", "32", "16"]),
        ("u8", &["128"]),
        ("bf16", &["64"]),
    ] {
        let [pointer, view, load] = ["s: ptr<", "s : ", "t] : "].map(|w| format!("{w}{ty}"));
        let scales = [("s: ptr<f16", pointer.as_str()), ("s : f16", &view), ("t] : f16", &load)];
        for group in groups {
            let depth = format!("GROUP = {group}");
            let words = [&lies[..], &scales, &[("GROUP = 128", depth.as_str())]].concat();
            let both = narrow(&words);
            let way = way(&both, "19:17");
            assert!(way.contains("around each row"), "{ty} {group}: {way}");
            check(&format!("scales {ty} in groups of {group}"), &both, [13, 136, 4096]);
        }
    }
    for ty in ["u4", "u2", "i4", "u8"] {
        let of_groups = zeros(ty);
        let beside = format!("z : {ty}[n, cdiv(k, GROUP)]");
        let apart = format!("z : {ty}[n, cdiv(k, GROUP)] strides [1, n]");
        let depths = [("k: i32 % 4096", "k: i32 % 8192"), ("GROUP = 128", "GROUP = 64")];
        let words = [&lies[..], &of_groups, &[(apart.as_str(), beside.as_str())], &depths].concat();
        let both = narrow(&words);
        assert!(way(&both, "20:22").contains("around each row"), "{ty}: {}", way(&both, "20:22"));
        check(&format!("zero points {ty}"), &both, [13, 72, 8192]);
    }
}

/// Zero points of rows are subtracted with the offset that fields have as halves: one subtraction for each pair of weights, and
/// at most two for each zero point to have its offset. Elements of a few bits are read with those beside them.
#[test]
fn zero_points_of_rows_are_subtracted_with_offsets() {
    let sizes =
        [("GROUP = 128", "GROUP = 32"), ("n: i32 % 8", "n: i32 % 128"), ("k: i32 % 128", "k: i32 % 2048")];
    for ty in ["u4", "i4", "u2", "u8", "i8"] {
        let of_groups = zeros(ty);
        let apart = format!("z : {ty}[n, cdiv(k, GROUP)] strides [1, n]");
        let beside = [(apart.as_str(), apart.trim_end_matches(" strides [1, n]"))];
        for (lies, reads) in [(&[][..], 8), (&beside[..], 2)] {
            for bf16 in [false, true] {
                let halves = [("f16", "bf16")];
                let words = [&sizes[..], &of_groups, lies, if bf16 { &halves } else { &[] }].concat();
                let both = narrow(&words);
                let what = format!("{ty} {lies:?} {bf16}");
                check(&what, &both, [13, 128, 2048]);
                let [consumer, _] = roles(&both);
                let count = |word: &str| consumer.matches(word).count();
                // Four pairs of weights each; the loop may hold several iterations of eight.
                let products = count("wgmma.mma_async");
                let subtracted = count(if bf16 { "sub.rn.bf16x2" } else { "sub.rn.f16x2" });
                // A bf16 of a byte is made through f32.
                assert!(subtracted <= 6 * products || bf16 && ty.ends_with('8'), "{what}: {subtracted}");
                let bytes = count("ld.shared.u8");
                assert!(8 * bytes <= reads * products, "{what}: {bytes} reads of a byte");
            }
        }
    }
}

/// What threads hold no register of cannot be packed: the refusal says what to do.
#[test]
fn zero_points_that_cross_bytes_are_refused() {
    let (kernel, mapping) = narrow(&zeros("u3"));
    let refused =
        compile(&kernel, &mapping, &SM90A, &Options::default()).map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("a thread holds 6 bits: store `z` as elements of 4, 8 or 16 bits"), "{refused}");
}

/// Elements that cross words are converted in parts of any depth: registers hold the operand of one part, so ptxas
/// serializes no product of seven warpgroups.
#[test]
fn parts_of_elements_that_cross_words() {
    let tools = Toolchain::find_or_install(None, Fetch::default()).expect("the tools");
    for (ty, cast) in [
        ("u3", "cast(q, f16) - 4.0"),
        ("i5", "cast(q, f16)"),
        ("u6", "cast(q, f16) - 32.0"),
        ("u7", "cast(q, f16) - 64.0"),
        ("f5e2m2", "cast(q, f16)"),
        ("f7e3m3", "cast(q, f16)"),
    ] {
        let (pointer, view) = (format!("ptr<{ty}>"), format!(": {ty}["));
        let words = [("ptr<u4>", pointer.as_str()), (": u4[", &view), ("cast(q, f16) - 8.0", cast)];
        let (kernel, _) = variant(&words);
        for (tile, consumers, depth) in [([64, 16], 1, 16), ([128, 16], 1, 32), ([448, 16], 7, 32)] {
            let (what, chunk) = (format!("{ty} {tile:?} {depth}"), format!(", chunk {depth}"));
            let mapping = mapped(&kernel, tile, consumers, &chunk, "array w: packed, stream array s: staged");
            let both = (kernel.clone(), mapping);
            let [consumer, _] = roles(&both);
            let (products, groups) =
                (consumer.matches("wgmma.mma_async").count(), consumer.matches("wgmma.commit_group").count());
            let atoms = tile[0] as usize / 64 / consumers as usize;
            assert_eq!(products, groups * atoms * depth / 16, "{what}");
            check(&what, &both, [13, 456, 256]);
            let compiled = compile(&both.0, &both.1, &SM90A, &Options::default()).unwrap();
            let assembled = tools.ptxas(&compiled.ptx, &PtxasOptions::default()).expect("right PTX");
            assert_eq!(assembled.slowdown(), None, "{what}: {}", assembled.log);
        }
    }
}

/// Threads wait for a transposed tile where they use it: all tiles of an iteration fill one ring.
#[test]
fn transposed_weights_wait_with_the_others() {
    let turned = [
        ("view w : u4[n, k]", "view w : u4[k, n]"),
        ("load gw[i*BN, t*GROUP] : u4[BN, GROUP]", "trans(load gw[t*GROUP, i*BN] : u4[GROUP, BN])"),
    ];
    let zeros = zeros("f16");
    let words = [&turned[..], &zeros].concat();
    let rings = |words: &[(&str, &str)]| {
        let (kernel, mapping) = narrow(words);
        let compiled = compile(&kernel, &mapping, &SM90A, &Options::default()).unwrap();
        compiled.explained.schedule.rings.len()
    };
    assert_eq!(rings(&words), rings(&zeros));
    check("transposed weights, zero points", &narrow(&words), [13, 72, 384]);
}

#[test]
fn powers_of_two_go_behind_the_loop() {
    // Multiplications in the loop, whose last instruction hands a stage back, and behind it.
    let inside = |words: &[(&str, &str)]| {
        let [consumer, _] = roles(&narrow(words));
        let (looped, behind) = consumer.rsplit_once("mbarrier.arrive").expect("a stage that is handed back");
        [looped.contains("mul.f32"), behind.contains("mul.f32")]
    };
    let scaled = "yield fma(group, cast(scale, f32), sum)";
    assert_eq!(inside(&[]), [false, true]);
    // A power beside the scales is multiplied with these, which are fewer.
    assert_eq!(inside(&[(scaled, "yield sum + group * 0.5 * cast(scale, f32)")]), [true, false]);
    // What does not begin at zero, is read inside, is no number of a half, or is multiplied by too many of them.
    for (from, to) in [
        ("carry sum = zero", "carry sum = full 1.0 : f32[BN, BM]"),
        (scaled, "yield fma(group, cast(scale, f32), max(sum, zero))"),
        (scaled, "yield fma(group, sum, sum)"),
        // 2^-100: products are exact, so a sum that is fused with one is too.
        (scaled, "yield sum + group * 7.888609052210118e-31"),
        (scaled, "yield sum + group * cast(scale, f32) * cast(scale, f32) * cast(scale, f32)"),
    ] {
        let words = [(from, to)];
        let [_, behind] = inside(&words);
        assert!(!behind, "{to}");
        check(to, &narrow(&words), [13, 72, 256]);
    }
    let wide = [("s: ptr<f16>", "s: ptr<f32>"), ("gs = view s : f16", "gs = view s : f32")];
    let wide =
        [&wide[..], &[("gs[i*BN, t] : f16", "gs[i*BN, t] : f32"), ("cast(scale, f32)", "scale")]].concat();
    assert_eq!(inside(&wide), [true, false]);
    for (from, to) in [(scaled, "yield sum + group"), (scaled, "yield sum + group * 0.5 * cast(scale, f32)")]
    {
        check(to, &narrow(&[(from, to)]), [13, 72, 640]);
    }
}

#[test]
fn bytes_seen_as_nibbles() {
    let words = [
        ("ptr<u4>", "ptr<u8>"),
        ("u4[n, k]", "u8[n, k / 2]"),
        (
            "q = load gw[i*BN, t*GROUP] : u4[BN, GROUP]",
            "q = load gw[i*BN, t*(GROUP / 2)] : u8[BN, GROUP / 2]",
        ),
        ("cast(q, f16)", "cast(view_as(q, u4), f16)"),
    ];
    let (kernel, _) = variant(&words);
    for rest in ["array w: packed array s: staged", ""] {
        let mapping = mapped(&kernel, [64, 16], 1, "", rest);
        check(&format!("bytes {rest}"), &(kernel.clone(), mapping), [13, 72, 384]);
    }
}

#[test]
fn groups_and_ragged_sizes() {
    for group in [32, 64, 128] {
        for size in [[1, 8, 128], [16, 64, 384], [17, 200, 256]] {
            let words = format!("GROUP = {group}");
            check(&format!("group {group} {size:?}"), &narrow(&[("GROUP = 128", &words)]), size);
        }
    }
}

#[test]
fn scale_on_the_weights() {
    let words = [
        ("mma zero, cast(q, f16) - 8.0, trans(tx)", "mma sum, (cast(q, f16) - 8.0) * scale, trans(tx)"),
        ("yield fma(group, cast(scale, f32), sum)", "yield group"),
    ];
    check("scale on weights", &narrow(&words), [13, 72, 256]);
}

#[test]
fn two_products_of_the_same_fields_are_no_chains() {
    let group = "group = mma zero, cast(q, f16) - 8.0, trans(tx)";
    let scaled = "yield fma(group, cast(scale, f32), sum)";
    let two = [
        (
            group,
            "group = mma zero, cast(q, f16) - 8.0, trans(tx)\n        other = mma zero, cast(q, f16) - 3.0, trans(tx)",
        ),
        (scaled, "yield fma(other, cast(scale, f32), fma(group, cast(scale, f32), sum))"),
    ];
    assert!(!is_helped(&narrow(&two), &[]));
    check("two products", &narrow(&two), [13, 72, 640]);
}

/// A product of packed weights: their type, that of the activations and of sums, the zero points' type, and the operand.
fn weights([ty, half, to]: [&str; 3], zero: &str, operand: &str) -> String {
    format!(
        "kernel w(x: ptr<{half}> align 16, w: ptr<{ty}> align 16, zp: ptr<{zero}> align 16, y: ptr<{to}> align 16,
            m: i32, n: i32 % 16, k: i32 % 128) {{
            grid cdiv(n, 64), cdiv(m, 16)
            gx = view x : {half}[m, k] gw = view w : {ty}[n, k] gy = view y : {to}[n, m] strides [1, n]
            gz = view zp : {zero}[n, cdiv(k, 128)] strides [1, n]
            i, j = block_index
            acc = for t in 0..cdiv(k, 128) carry sum = full 0.0 : f32[64, 16] {{
                q = load gw[i*64, t*128] : {ty}[64, 128]
                z = load gz[i*64, t] : {zero}[64, 1]
                yield mma sum, {operand}, trans(load gx[j*16, t*128] : {half}[16, 128])
            }}
            store gy[i*64, j*16], cast(acc, {to})
        }}
        mapping w {{ for t: pipeline fit, producers 1, consumers 1 array w: packed }}"
    )
}

/// Weights times the identity are the weights: every code of every type, as f16 and as bf16.
#[test]
fn every_code_is_converted_exactly() {
    let floats = ["f3e1m1", "f3e2m0", "f4e1m2", "f4e2m1", "f4e3m0", "f5e2m2", "f5e3m1", "f6e2m3", "f6e3m2"];
    let types = floats.into_iter().chain(["f7e2m4", "f7e3m3", "f7e4m2"]);
    let types = types.chain(["u1", "u2", "u3", "u4", "u5", "u6", "u7", "i2", "i3", "i4", "i5", "i6", "i7"]);
    for ty in types {
        for (half, one) in [("f16", 0x3c00), ("bf16", 0x3f80)] {
            let text = weights([ty, half, half], "i32", &format!("cast(q, {half})"));
            let bits: u8 = ty[1..2].parse().unwrap();
            // A multiplicative generator: all bits of all places vary.
            let mut state = 1u32;
            let codes: Vec<u8> = (0..64 * 16 * u32::from(bits))
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 24) as u8
                })
                .collect();
            let identity: Vec<u16> =
                (0..128 * 128).map(|i| if i / 128 == i % 128 { one } else { 0 }).collect();
            let zeros = [0; 64];
            given::check(
                &text,
                &[("m", 128), ("n", 64), ("k", 128)],
                &[("w", Given::Bytes(&codes)), ("x", Given::F16(&identity)), ("zp", Given::I32(&zeros))],
            );
        }
    }
}

/// Zero points of 32 bits: a difference that wraps around, is infinite or is rounded, of each code. A row has one code, so its
/// sum is a multiple of one weight.
#[test]
fn zero_points_of_any_size() {
    let near = [0, 1, 7, 8, 15, 16, 31, 32, 33, 100, 127, 128, 255, 256, 1000, 2047, 2048, 2049, 2051, 4099];
    let far = [65471, 65503, 65504, 65505, 65519, 65520, 65535, 65536, 65551, 70000, 1 << 20, i32::MAX - 300];
    let ends = (0..20).flat_map(|d| [i32::MAX - d, i32::MIN + d, i32::MIN + 250 + d]);
    let points: Vec<i32> = near.into_iter().chain(far).flat_map(|z| [z, -z]).chain(ends).collect();
    for (ty, codes) in [("u4", 16), ("i4", 16), ("u8", 256), ("i8", 256)] {
        for operand in ["cast(cast(q, i32) - z, f16)", "cast(z + cast(q, i32), f16)"] {
            let text = weights([ty, "f16", "f32"], "i32", operand);
            let step = if codes == 16 { 1 } else { 5 };
            let rows: Vec<(u8, i32)> =
                (0..codes).step_by(step).flat_map(|c| points.iter().map(move |&z| (c as u8, z))).collect();
            let n = rows.len().next_multiple_of(64);
            let row = |i: usize| rows[i % rows.len()];
            let byte = |c: u8| if codes == 16 { c << 4 | c } else { c };
            let bytes = if codes == 16 { 64 } else { 128 };
            let w: Vec<u8> = (0..n * bytes).map(|i| byte(row(i / bytes).0)).collect();
            let z: Vec<i32> = (0..n).map(|i| row(i).1).collect();
            let ones = [0x3c00; 128];
            given::check(
                &text,
                &[("m", 1), ("n", n as i64), ("k", 128)],
                &[("w", Given::Bytes(&w)), ("x", Given::F16(&ones)), ("zp", Given::I32(&z))],
            );
        }
    }
}
