//! Pages that the server and its clients map: those of files, orphans, and the access lists that open them.

pub(super) mod file_mapping;
pub mod orphaned_pages;
pub(super) mod page_acl;
