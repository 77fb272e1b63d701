//! A message at a place in a text.

use super::Loc;

/// The message with its place, the line and a caret under it:
///
/// ```text
/// gemm.tile:12:19: unknown name `acd`
///    12 |     y = mma acd, ta, trans(tb)
///       |             ^^^
/// ```
///
/// `len` is the number of characters that the carets span. Without a line (`loc.line` 0 or past the
/// end) it is the message alone.
pub fn render(file: &str, text: &str, loc: Loc, len: u32, message: &str) -> String {
    let index = (loc.line as usize).checked_sub(1);
    let Some(line) = index.and_then(|i| text.lines().nth(i)) else {
        return format!("{file}: {message}");
    };
    // One column a character, so that the carets stand right.
    let shown: String = line.chars().map(|c| if c == '\t' { ' ' } else { c }).collect();
    let width = shown.chars().count();
    let before = (loc.column.saturating_sub(1) as usize).min(width);
    let carets = (len as usize).clamp(1, (width - before).max(1));
    format!(
        "{file}:{}:{}: {message}\n{:6} | {shown}\n{:6} | {:before$}{}",
        loc.line,
        loc.column,
        loc.line,
        "",
        "",
        "^".repeat(carets),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carets_stand_under_the_place() {
        let loc = Loc { line: 2, column: 5 };
        let text = render("f.tile", "one\n\ta = bcd\n", loc, 2, "no");
        assert_eq!(text, "f.tile:2:5: no\n     2 |  a = bcd\n       |     ^^");
        let far = Loc { line: 9, column: 1 };
        assert_eq!(render("f", "x", far, 1, "no"), "f: no");
        let wide = Loc { line: 1, column: 40 };
        assert!(render("f", "x", wide, u32::MAX, "no").ends_with("| x\n       |  ^"));
    }
}
