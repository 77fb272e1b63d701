//! Numbers and type names of PTX text.

use super::ast::{Class, Operand};

pub(crate) fn register_class(ty: &str) -> Option<Class> {
    if ty == ".pred" {
        return Some(Class::Pred);
    }
    let bits = type_bytes(ty)? * 8;
    u8::try_from(bits).ok().filter(|b| *b <= 64).map(Class::Bits)
}

pub(crate) fn type_bytes(ty: &str) -> Option<u32> {
    Some(match ty {
        ".b8" | ".u8" | ".s8" => 1,
        ".b16" | ".u16" | ".s16" | ".f16" | ".bf16" => 2,
        ".b32" | ".u32" | ".s32" | ".f32" | ".f16x2" | ".bf16x2" => 4,
        ".b64" | ".u64" | ".s64" | ".f64" => 8,
        _ => return None,
    })
}

pub(crate) fn integer(text: &str) -> Option<u64> {
    let t = text.strip_suffix(['U', 'u']).unwrap_or(text);
    let low = t.to_ascii_lowercase();
    if let Some(h) = low.strip_prefix("0x") {
        u64::from_str_radix(h, 16).ok()
    } else if let Some(b) = low.strip_prefix("0b") {
        u64::from_str_radix(b, 2).ok()
    } else if low.len() > 1 && low.starts_with('0') {
        u64::from_str_radix(&low[1..], 8).ok()
    } else {
        low.parse().ok()
    }
}

pub(crate) fn literal(text: &str) -> Option<Operand> {
    let hex = |t: &str| u64::from_str_radix(t, 16).ok();
    match text.get(..2) {
        Some("0f" | "0F") if text.len() == 10 => {
            return hex(&text[2..]).map(|v| Operand::F32(v as u32));
        }
        Some("0d" | "0D") if text.len() == 18 => return hex(&text[2..]).map(Operand::F64),
        _ => {}
    }
    if let Some(v) = integer(text) {
        return Some(Operand::Int(v));
    }
    let decimal = text.contains(['.', 'e', 'E']);
    decimal.then(|| text.parse().ok().map(Operand::Decimal))?
}
