//! `likely` and `unlikely`: what a text expects of its data decides plans and predictions, and never a result.

use warplift::ir::target::SM90A;
use warplift::ir::tile::parse_file;
use warplift::predict::{Launch, predict};
use warplift::problem::Sizes;
use warplift::{Options, compile};
use warplift_golden::given::{Given, check, parsed};

/// Rows that are summed again, as often as an array says, where a flag is set.
const AGAIN: &str = "kernel again(x: ptr<f32> align 16, flags: ptr<i32>, y: ptr<f32> align 16, m: i32) {
    grid m
    gx = view x : f32[m, 128]
    gf = view flags : i32[m]
    gy = view y : f32[m, 128]
    i = block_index
    flag = load gf[i] : i32
    again = EXPECTED
    row = load gx[i, 0] : f32[1, 128]
    more = for t in 0..select(again, 24, 0) carry x0 = row { yield x0 + row * 0.5 }
    last = if again { yield more + 1.0 } else { yield more }
    store gy[i, 0], last
}
mapping again { kernel: warps 1 }";

fn text(expected: &str) -> String {
    AGAIN.replace("EXPECTED", expected)
}

#[test]
fn results_do_not_depend_on_them() {
    let flags = [0, 1, 0, -3];
    for expected in ["flag != 0", "likely(flag != 0)", "unlikely(flag != 0)", "not(likely(flag == 0))"] {
        check(&text(expected), &[("m", 4)], &[("flags", Given::I32(&flags))]);
    }
}

fn cycles(expected: &str, flags: Option<&[i32]>) -> f64 {
    let (kernel, mapping) = parsed(&text(expected));
    let sizes = Sizes::parse(&kernel, "m=4").expect("sizes");
    let bytes = |flags: &[i32]| flags.iter().flat_map(|f| f.to_le_bytes()).collect::<Vec<u8>>();
    let arrays = flags.map(|f| ("flags".to_owned(), bytes(f))).into_iter().collect();
    let launch = Launch { sizes: &sizes, arrays: &arrays };
    let found = predict(&kernel, &mapping, &SM90A, launch, &Options::default()).expect("a prediction");
    found.cycles
}

/// Of data that is not given what is expected counts, of given data the data.
#[test]
fn predictions_count_with_what_is_expected() {
    let [rare, often] = ["unlikely(flag != 0)", "likely(flag != 0)"].map(|e| cycles(e, None));
    let [none, all] = [[0; 4], [1; 4]].map(|flags| cycles("flag != 0", Some(&flags)));
    assert!((rare - none).abs() < 40.0 && (often - all).abs() < 40.0, "{rare} {none}, {often} {all}");
    assert!(often > rare + 100.0, "{often} {rare}");
    assert_eq!(cycles("unlikely(flag != 0)", Some(&[1; 4])), cycles("likely(flag != 0)", Some(&[1; 4])));
}

#[test]
fn they_take_conditions_alone() {
    let of = |body: &str| {
        let text = format!(
            "kernel k(x: ptr<f32> align 16) {{ grid 1 gx = view x : f32[128] v = load gx[0] : f32[128] {body} }} mapping k {{ kernel: warps 1 }}"
        );
        match parse_file(&text, "k.tile") {
            Err(errors) => format!("{errors:?}"),
            Ok(file) => match compile(&file.kernels[0], &file.mappings[0], &SM90A, &Options::default()) {
                Err(error) => error.to_string(),
                Ok(_) => String::new(),
            },
        }
    };
    assert!(of("c = unlikely(v)").contains("of bool"), "{}", of("c = unlikely(v)"));
    let tile = of("c = unlikely(v > 0.0) store gx[0], select(c, v, -v)");
    assert!(tile.contains("unlikely"), "{tile}");
}
