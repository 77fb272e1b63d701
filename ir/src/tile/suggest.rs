//! Suggestions for unknown words: the nearest known word, or our word for one of another language.

/// Words of other languages, each with our equivalent.
const ELSEWHERE: [(&str, &str); 51] = [
    ("arange", "`iota 0 : i32[..]`"),
    ("argmax", "`reduce_max(x, d)`, then `reduce_min` of the indices where `x` equals it"),
    ("argmin", "`reduce_min(x, d)`, then `reduce_min` of the indices where `x` equals it"),
    ("astype", "`cast(x, f16)`"),
    ("atomic_compare_exchange", "`atomic_cas`"),
    ("atomic_xchg", "`atomic_exchange`"),
    ("bfloat16", "`bf16`"),
    ("bitcast", "`view_as(x, u8)`"),
    ("ceil_div", "`cdiv`"),
    ("ceildiv", "`cdiv`"),
    ("clamp", "`min(max(x, lo), hi)`"),
    ("cumprod", "`scan_prod`"),
    ("cumsum", "`scan_sum`"),
    ("dot", "`mma acc, a, b`"),
    ("double", "`f64`"),
    ("e4m3", "`f8e4m3`"),
    ("e5m2", "`f8e5m2`"),
    ("float", "`f32`"),
    ("float16", "`f16`"),
    ("float32", "`f32`"),
    ("float64", "`f64`"),
    ("floor_div", "`/`"),
    ("fp16", "`f16`"),
    ("fp32", "`f32`"),
    ("fp8", "`f8e4m3`"),
    ("half", "`f16`"),
    ("int", "`i32`"),
    ("int32", "`i32`"),
    ("int64", "`i64`"),
    ("int8", "`i8`"),
    ("matmul", "`mma acc, a, b`"),
    ("maximum", "`max`"),
    ("mean", "`reduce_sum(x, d) / n`"),
    ("minimum", "`min`"),
    ("num_programs", "`grid_dim`"),
    ("ones", "`full 1.0 : f32[..]`"),
    ("permute", "`trans(x, [2, 0, 1])`"),
    ("pow", "`exp2(y * log2(x))`"),
    ("range", "`iota 0 : i32[..]`"),
    ("reduce_argmax", "`reduce_max(x, d)`, then `reduce_min` of the indices where `x` equals it"),
    ("reduce_argmin", "`reduce_min(x, d)`, then `reduce_min` of the indices where `x` equals it"),
    ("reduce_mean", "`reduce_sum(x, d) / n`"),
    ("relu", "`max(x, 0.0)`"),
    ("return", "`yield`"),
    ("sigmoid", "`rcp(1.0 + exp(-x))`"),
    ("softmax", "`exp(x - m) / s` with `m = reduce_max(x, d)` and `s` the sum"),
    ("sum", "`reduce_sum(x, d)`"),
    ("transpose", "`trans(x)`"),
    ("where", "`select(c, x, y)`"),
    ("zeros", "`full 0.0 : f32[..]`"),
    ("zeros_like", "`full 0.0 : f32[..]`"),
];

/// The known word that differs least, by one letter in three at most. Among equally near words, it is the first by
/// name.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let most = (word.chars().count() / 3).max(1);
    let rated = known.into_iter().map(|k| (strsim::damerau_levenshtein(word, k), k));
    rated.filter(|&(far, k)| far <= most && far < k.chars().count()).min().map(|(_, k)| k)
}

/// The end of a message about an unknown word: `; did you mean ..?`, empty where nothing is near.
pub fn did_you_mean<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    match nearest(word, known) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => String::new(),
    }
}

/// The same for words of the language, including equivalents of other languages' words.
pub(crate) fn did_you_mean_word<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    match ELSEWHERE.iter().find(|(w, _)| *w == word) {
        Some((_, here)) => format!("; write {here}"),
        None => did_you_mean(word, known),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tile::operations;

    #[test]
    fn near_words_are_found() {
        for (word, near) in [
            ("mmma", Some("mma")),
            ("laod", Some("load")),
            ("reduce_summ", Some("reduce_sum")),
            ("stor", Some("store")),
            ("quux", None),
            ("x", None),
        ] {
            assert_eq!(nearest(word, operations()), near, "{word}");
        }
        assert_eq!(nearest("ac", ["b", "aa", "ab"]), Some("aa"), "the first of equally near ones");
    }

    #[test]
    fn words_of_other_languages_are_none_of_ours() {
        assert!(ELSEWHERE.is_sorted_by(|a, b| a.0 < b.0));
        for (word, _) in ELSEWHERE {
            assert!(!operations().contains(&word), "{word}");
        }
    }
}
