//! What symbols the object does not define stand for.

/// Finds a context's regions and helpers by name.
pub trait Names {
    /// The number of the region of memory that `extern` data of this name is.
    fn region(&self, name: &str) -> Option<u32>;

    /// The number of the helper that an `extern` function of this name is.
    fn helper(&self, name: &str) -> Option<u32>;

    /// The number of the region that holds the program's constants.
    fn constants(&self) -> u32;

    /// All names of regions, to be shown when one is not found.
    fn regions(&self) -> Vec<String>;

    /// All names of helpers, to be shown when one is not found.
    fn helpers(&self) -> Vec<String>;
}

/// Names given as lists; a name's place in its list is its number.
#[derive(Clone, Debug, Default)]
pub struct FixedNames {
    /// Names of regions. The program's constants are the region after the last one.
    pub regions: Vec<String>,
    /// Names of helpers.
    pub helpers: Vec<String>,
}

fn place(names: &[String], name: &str) -> Option<u32> {
    names.iter().position(|candidate| candidate == name).map(|index| index as u32)
}

impl Names for FixedNames {
    fn region(&self, name: &str) -> Option<u32> {
        place(&self.regions, name)
    }

    fn helper(&self, name: &str) -> Option<u32> {
        place(&self.helpers, name)
    }

    fn constants(&self) -> u32 {
        self.regions.len() as u32
    }

    fn regions(&self) -> Vec<String> {
        self.regions.clone()
    }

    fn helpers(&self) -> Vec<String> {
        self.helpers.clone()
    }
}
