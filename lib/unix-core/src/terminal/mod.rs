//! A terminal without its pages: modes (`termios`), what becomes of typed bytes (`line_discipline`) and of written ones
//! (`opost`).

pub mod line_discipline;
pub mod opost;
pub mod termios;
