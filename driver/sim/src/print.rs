//! `vprintf`: the text and its values from the thread's memory, lane after lane.
//!
//! ```text
//!  [text] ─► "n %d\n"      [values] ─► 4 or 8 bytes for each conversion, aligned
//! ```
//!
//! `%d`, `%u`, `%lld`, `%llu`, `%g` and `%%`, without widths, as C formats them.

use super::exec::Flow;
use super::inst::Space;
use super::machine::{Machine, Stop};
use super::mask::lanes;
use super::shadow::Kind;

/// Longest text.
const MOST: usize = 4096;
/// Digits of `%g`.
const DIGITS: i32 = 6;

impl Machine<'_> {
    /// A call of `vprintf` by the active lanes.
    pub fn print(&mut self, w: usize, (text, values): (u32, u32), mask: u32) -> Result<Flow, Stop> {
        for lane in lanes(mask) {
            let [text, values] = [
                self.fetch(w, lane, Space::Local, text.into(), 8)?,
                self.fetch(w, lane, Space::Local, values.into(), 8)?,
            ];
            let line = self.formatted(w, lane, text, values)?;
            self.report.printed.push_str(&line);
        }
        Ok(Flow::Next)
    }

    /// A number of so many bytes.
    fn fetch(&mut self, w: usize, lane: usize, space: Space, at: u64, bytes: usize) -> Result<u64, Stop> {
        let mut number = [0; 8];
        self.read(w, lane, space, at, Kind::default(), &mut number[..bytes])?;
        Ok(u64::from_le_bytes(number))
    }

    fn formatted(&mut self, w: usize, lane: usize, text: u64, values: u64) -> Result<String, Stop> {
        let mut bytes = Vec::new();
        while bytes.len() < MOST {
            match self.fetch(w, lane, Space::Generic, text + bytes.len() as u64, 1)? as u8 {
                0 => break,
                byte => bytes.push(byte),
            }
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (mut out, mut at) = (String::new(), values);
        let mut rest = text.as_str();
        while let Some(place) = rest.find('%') {
            out.push_str(&rest[..place]);
            rest = &rest[place + 1..];
            let word = ["lld", "llu", "d", "u", "g", "%"].into_iter().find(|word| rest.starts_with(word));
            let Some(word) = word else { return self.unsupported(w, "this conversion of a print") };
            rest = &rest[word.len()..];
            if word == "%" {
                out.push('%');
                continue;
            }
            let size = if matches!(word, "d" | "u") { 4 } else { 8 };
            at = at.next_multiple_of(size);
            let number = self.fetch(w, lane, Space::Generic, at, size as usize)?;
            at += size;
            out += &match word {
                "d" => (number as u32 as i32).to_string(),
                "lld" => (number as i64).to_string(),
                "g" => general(f64::from_bits(number)),
                _ => number.to_string(),
            };
        }
        out.push_str(rest);
        Ok(out)
    }
}

/// `%g`: six digits without zeros at the end; with an exponent below 1e-4 and from 1e6 on.
fn general(x: f64) -> String {
    if x.is_nan() || x.is_infinite() {
        return if x.is_nan() { "nan".to_owned() } else { x.to_string() };
    }
    let scientific = format!("{x:.*e}", DIGITS as usize - 1);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |s: &str| match s.contains('.') {
        true => s.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => s.to_owned(),
    };
    if !(-4..DIGITS).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(digits), exponent.unsigned_abs());
    }
    trimmed(&format!("{x:.*}", (DIGITS - 1 - exponent) as usize))
}

#[cfg(test)]
mod tests {
    use super::general;

    #[test]
    fn floats_are_written_as_c_does() {
        for (x, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.5, "1.5"),
            (100_000.0, "100000"),
            (1e6, "1e+06"),
            (123_456_789.0, "1.23457e+08"),
            (0.0001, "0.0001"),
            (0.000_012_345_67, "1.23457e-05"),
            (-2.0 / 3.0, "-0.666667"),
            (999_999.6, "1e+06"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(general(x), text);
        }
    }
}
