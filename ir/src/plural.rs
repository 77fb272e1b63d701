//! Counts in messages.

/// A number and its noun: `1 plan`, `2 plans`.
pub fn plural(n: impl Into<u64>, thing: &str) -> String {
    match n.into() {
        1 => format!("1 {thing}"),
        n => format!("{n} {thing}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::plural;

    #[test]
    fn one_is_singular() {
        assert_eq!([0u32, 1, 2].map(|n| plural(n, "plan")), ["0 plans", "1 plan", "2 plans"]);
    }
}
