//! The strong tests: objects of clang, objects built to be wrong, and random damage. A
//! failing run prints its seed; `CHITIN_SEED` repeats it, and `CHITIN_FULL=1` runs the
//! long ones.

mod compiler;
mod corpus;
mod damage;
mod execute;
mod link;
mod refusal;
mod synthetic;

/// One seed makes one run: from `CHITIN_SEED`, else a fixed one.
fn seed() -> u64 {
    let given = std::env::var("CHITIN_SEED").ok();
    let seed = given.map_or(0x5eed, |text| text.parse().expect("CHITIN_SEED is a decimal number"));
    println!("seed {seed}");
    seed
}

/// How many generated cases to run: `few`, or `many` under `CHITIN_FULL=1`.
fn cases(few: u64, many: u64) -> u64 {
    if std::env::var_os("CHITIN_FULL").is_some_and(|value| value == "1") { many } else { few }
}
