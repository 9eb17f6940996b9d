//! Renders `doc/memory-map.md` from the constants of the address space.

use std::collections::BTreeMap;
use std::fmt::Write;

use syn::{BinOp, Expr, Item, ItemConst, Lit, UnOp, Visibility};

/// Where the rendered page stands, from the root of the checkout.
pub const FILE: &str = "doc/memory-map.md";

/// The files whose constants are on the page, those before the ones that name them.
const SOURCES: [&str; 5] = [
    "abi/src/limits.rs",
    "abi/src/memory_map.rs",
    "abi/src/boot.rs",
    "lib/runtime/src/layout.rs",
    "lib/linux-abi/src/address_map.rs",
];
/// What ends the name of a constant that is no address.
const NO_ADDRESS: [&str; 8] = ["BYTES", "SIZE", "MASK", "ALIGNMENT", "COUNT", "MOST", "SLOT_BYTES", "GIB"];
/// Constants that are distances, not addresses.
const DISTANCES: [&str; 3] = ["TOP_LEVEL_SLOT", "runtime::WINDOWS", "runtime::LIBRARY"];
/// Below this nothing is an address: limits and counts.
const LEAST: u64 = 0x1_0000;

const INTRODUCTION: &str = "\
# Memory map

Made from the constants of the source by `./chitin tidy --write`; a rule of `./chitin tidy` holds the two together.
All processes have the kernel's half and the library's slot at the same addresses. Highest addresses come first.

";

/// A constant that is an address.
struct Place {
    address: u64,
    name: String,
    file: &'static str,
    meaning: String,
}

/// The whole page, from the path and text of every file.
pub fn render<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let files: BTreeMap<&str, &str> = files.filter(|(path, _)| SOURCES.contains(path)).collect();
    let mut known = BTreeMap::new();
    let mut places = Vec::new();
    for file in SOURCES {
        let parsed = files.get(file).and_then(|source| syn::parse_file(source).ok());
        for item in parsed.into_iter().flat_map(|parsed| parsed.items) {
            let Item::Const(item) = item else { continue };
            places.extend(place(file, &item, &mut known));
        }
    }
    places.sort_by(|one, other| other.address.cmp(&one.address).then_with(|| one.name.cmp(&other.name)));
    let mut page = String::from(INTRODUCTION);
    page.push_str("| address | constant | meaning | file |\n|---|---|---|---|\n");
    for Place { address, name, file, meaning } in places {
        // Writing into a string cannot fail.
        let _ = writeln!(page, "| `{}` | `{name}` | {meaning} | `{file}` |", grouped(address));
    }
    page
}

/// The constant, if it is public and an address; its value is known from here on.
fn place(file: &'static str, item: &ItemConst, known: &mut BTreeMap<String, u64>) -> Option<Place> {
    let name = item.ident.to_string();
    let value = value(&item.expr, known)?;
    known.insert(name.clone(), value);
    let is_of_runtime = file.starts_with("lib/runtime");
    let is_distance = |other: &&str| **other == name || is_of_runtime && **other == format!("runtime::{name}");
    let is_address = value >= LEAST
        && matches!(item.vis, Visibility::Public(_))
        && !NO_ADDRESS.iter().any(|end| name.ends_with(end))
        && !DISTANCES.iter().any(|other| is_distance(&other));
    let meaning = meaning(item);
    is_address.then_some(Place { address: value, name, file, meaning })
}

/// What an expression comes to, where it is made of numbers and of constants that are known.
fn value(expression: &Expr, known: &BTreeMap<String, u64>) -> Option<u64> {
    match expression {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => number.base10_parse().ok(),
            _ => None,
        },
        Expr::Path(path) => known.get(&path.path.segments.last()?.ident.to_string()).copied(),
        Expr::Paren(inner) => value(&inner.expr, known),
        Expr::Cast(cast) => value(&cast.expr, known),
        Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) => Some(!value(&unary.expr, known)?),
        Expr::Binary(binary) => combine(&binary.op, value(&binary.left, known)?, value(&binary.right, known)?),
        _ => None,
    }
}

fn combine(operator: &BinOp, left: u64, right: u64) -> Option<u64> {
    match operator {
        BinOp::Add(_) => left.checked_add(right),
        BinOp::Sub(_) => left.checked_sub(right),
        BinOp::Mul(_) => left.checked_mul(right),
        BinOp::Div(_) => left.checked_div(right),
        BinOp::Shl(_) => left.checked_shl(u32::try_from(right).ok()?),
        BinOp::Shr(_) => left.checked_shr(u32::try_from(right).ok()?),
        BinOp::BitAnd(_) => Some(left & right),
        BinOp::BitOr(_) => Some(left | right),
        _ => None,
    }
}

/// Its documentation as one line of a table.
fn meaning(item: &ItemConst) -> String {
    let line = |attribute: &syn::Attribute| {
        let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
        let Expr::Lit(literal) = &pair.value else { return None };
        let Lit::Str(text) = &literal.lit else { return None };
        pair.path.is_ident("doc").then(|| text.value().trim().to_owned())
    };
    let lines: Vec<String> = item.attrs.iter().filter_map(line).collect();
    lines.join(" ").replace("[`", "`").replace("`]", "`").replace('|', "\\|")
}

/// An address with its digits in fours.
fn grouped(address: u64) -> String {
    let digits = format!("{address:016x}");
    let parts: Vec<&str> = (0..4).map(|part| &digits[4 * part..4 * part + 4]).collect();
    format!("0x{}", parts.join("_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(source: &str) -> String {
        render([("abi/src/memory_map.rs", source), ("other.rs", "pub const OTHER: u64 = 0x8_0000;")].into_iter())
    }

    #[test]
    fn constants_that_name_others_are_addresses_highest_first() {
        let page = page(
            "/// Where it begins.\npub const LOW: u64 = 1 << 20;\n/// Its end.\npub const HIGH: u64 = LOW + 2 * (512 << 10);\n",
        );
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(
            rows,
            [
                "| `0x0000_0000_0020_0000` | `HIGH` | Its end. | `abi/src/memory_map.rs` |",
                "| `0x0000_0000_0010_0000` | `LOW` | Where it begins. | `abi/src/memory_map.rs` |",
            ]
        );
    }

    #[test]
    fn sizes_private_constants_and_other_files_are_not_on_the_page() {
        let page =
            page("pub const ROOM_BYTES: u64 = 1 << 30;\nconst OWN: u64 = 1 << 30;\npub const FEW: u64 = 4096;\n");
        assert!(!page.contains("| `"), "{page}");
    }
}
