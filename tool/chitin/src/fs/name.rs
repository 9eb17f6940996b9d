//! Names in commands: a path of this machine, or `FILE:/path` in a file system.

use std::path::PathBuf;

/// Where something is copied from or to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Host(PathBuf),
    Image(PathBuf, String),
}

impl Place {
    /// `FILE:/path` with the first `:/` as the border. A path that this machine has counts first.
    pub fn parse(text: &str) -> Self {
        match text.split_once(":/") {
            Some((file, path)) if !file.is_empty() && !std::path::Path::new(text).exists() => {
                Self::Image(file.into(), format!("/{path}"))
            }
            _ => Self::Host(text.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_and_a_slash_divide() {
        assert_eq!(Place::parse("a.img:/b/c"), Place::Image("a.img".into(), "/b/c".into()));
        assert_eq!(Place::parse("a.img:/"), Place::Image("a.img".into(), "/".into()));
        assert_eq!(Place::parse("/dev/null"), Place::Host("/dev/null".into()));
        assert_eq!(Place::parse("a:b"), Place::Host("a:b".into()));
    }
}
