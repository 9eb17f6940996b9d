include!("../../lib/runtime/link/build.rs");
