//! The kernel library: kernels and their mappings, as text.
//!
//! The compiler knows none of them. They are examples. The tests and `run` take them by name.

use warplift_ir::tile::{Module, ParseErrors, parse_file};

/// A text of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    /// Name of its kernel, and of the file without `.tile`.
    pub name: &'static str,
    /// Name of the file.
    pub file: &'static str,
    /// Contents.
    pub text: &'static str,
}

impl Text {
    /// Its kernels and mappings.
    ///
    /// # Errors
    /// The text has mistakes. The library has none.
    pub fn parse(&self) -> Result<Module, ParseErrors> {
        parse_file(self.text, self.file)
    }

    /// The first sentence of the comment above the kernel.
    pub fn summary(&self) -> String {
        let comment = self.text.lines().map_while(|l| l.strip_prefix('#')).map(str::trim);
        let comment = comment.collect::<Vec<_>>().join(" ");
        // Formulas contain dots too. A sentence ends before a capital letter or with the comment.
        let ends = |(at, _): &(usize, &str)| {
            comment[at + 2..].starts_with(char::is_uppercase) && !comment[..*at].ends_with('.')
        };
        match comment.match_indices(". ").find(ends) {
            Some((at, _)) => comment[..=at].to_owned(),
            None => comment,
        }
    }
}

/// Rows of [`LIBRARY`] from the files beside it.
macro_rules! library {
    ($($name:literal),* $(,)?) => {
        &[$(Text {
            name: $name,
            file: concat!($name, ".tile"),
            text: include_str!(concat!("../kernels/", $name, ".tile")),
        }),*]
    };
}

/// All texts, sorted by name.
pub const LIBRARY: &[Text] = library![
    "a16e4m3",
    "a16w4",
    "a16w4_large",
    "a16w8",
    "attention",
    "attention_causal",
    "attention_causal_max_free",
    "attention_decode",
    "attention_decode_paged",
    "attention_f16",
    "attention_gqa",
    "attention_max_free",
    "attention_paged",
    "attention_varlen",
    "axpy",
    "compaction",
    "convert",
    "convolution",
    "cumsum",
    "embedding",
    "gather_rows",
    "gemm",
    "gemm_alpha_beta",
    "gemm_any",
    "gemm_batched",
    "gemm_bf16",
    "gemm_bias_relu_residual",
    "gemm_chain",
    "gemm_dual",
    "gemm_e4m3",
    "gemm_e4m3_blocks",
    "gemm_f32out",
    "gemm_grouped",
    "gemm_i8_scaled",
    "gemm_nn",
    "gemm_parts",
    "gemm_ragged",
    "gemm_rowsum",
    "gemm_silu",
    "gemm_split_k",
    "gemm_tn",
    "gemm_tt",
    "gemm_two_outputs",
    "gemv",
    "histogram",
    "layer_norm",
    "layer_norm_warp_specialized",
    "moe_a16w4",
    "moe_e4m3",
    "moe_gemm",
    "moe_route",
    "rms_norm",
    "row_max",
    "row_sum",
    "softmax",
    "softmax_long",
    "softmax_warp_specialized",
    "spmv",
    "sum_parts",
    "swiglu",
    "transpose",
];

/// The text of that name.
pub fn find(name: &str) -> Option<&'static Text> {
    LIBRARY.iter().find(|t| t.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_listed() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/kernels");
        let files = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = files.map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        let listed: Vec<&str> = LIBRARY.iter().map(|t| t.file).collect();
        assert_eq!(names, listed);
    }

    #[test]
    fn texts_hold_the_kernel_of_their_name_and_its_mapping() {
        for text in LIBRARY {
            let module = text.parse().unwrap();
            assert!(
                module.kernel(text.name).is_some() && module.mapping(text.name).is_some(),
                "{}",
                text.name
            );
            let summary = text.summary();
            assert!(summary.len() > 10 && summary.ends_with('.'), "{}: {summary}", text.name);
        }
        assert_eq!(find("nothing"), None);
    }
}
