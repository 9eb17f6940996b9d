//! The machines that guest tests run on, and their names: board, CPU model,
//! CPUs and memory, as in `q35-max-2-256M`.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use chitin::qemu::{Board, Cpu, Machine};
use chitin::size;

use super::cover;

const BOARDS: [(&str, Board); 2] = [("q35", Board::Q35), ("microvm", Board::Microvm)];
const MODELS: [(&str, Cpu); 2] = [("max", Cpu::Max), ("qemu64", Cpu::Qemu64)];
/// CPUs and MiB of memory that the pairwise cover combines.
const CPUS: [u32; 3] = [1, 2, 4];
const MEMORY: [u64; 3] = [256, 64, 6144];

/// What a guest test may choose of its machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Configuration {
    board: Board,
    cpu: Cpu,
    cpus: u32,
    memory: u64,
}

impl Default for Configuration {
    fn default() -> Self {
        Self { board: Board::Q35, cpu: Cpu::Max, cpus: 1, memory: 256 }
    }
}

impl Configuration {
    /// The machine to start; `counting` makes its clock count instructions.
    pub fn machine(&self, counting: bool) -> Machine {
        Machine {
            board: self.board,
            cpu: self.cpu,
            cpus: self.cpus,
            memory: self.memory,
            instruction_count: counting,
            ..Machine::default()
        }
    }

    /// Machines in which every two choices meet. The first is the plain one.
    pub fn pairwise() -> Vec<Self> {
        let rows = cover::pairwise(&[BOARDS.len(), MODELS.len(), CPUS.len(), MEMORY.len()]);
        let configuration = |row: &Vec<usize>| Self {
            board: BOARDS[row[0]].1,
            cpu: MODELS[row[1]].1,
            cpus: CPUS[row[2]],
            memory: MEMORY[row[3]],
        };
        rows.iter().map(configuration).collect()
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let board = BOARDS.iter().find(|(_, board)| *board == self.board).map_or("", |(name, _)| name);
        let model = MODELS.iter().find(|(_, cpu)| *cpu == self.cpu).map_or("", |(name, _)| name);
        write!(formatter, "{board}-{model}-{}-{}M", self.cpus, self.memory)
    }
}

impl FromStr for Configuration {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let wrong = || format!("{name:?} is no machine: write it as q35-max-2-256M");
        let parts: Vec<&str> = name.split('-').collect();
        let [board, model, cpus, memory] = parts[..] else { return Err(wrong()) };
        let (_, board) = BOARDS.iter().find(|(name, _)| *name == board).ok_or_else(wrong)?;
        let (_, cpu) = MODELS.iter().find(|(name, _)| *name == model).ok_or_else(wrong)?;
        let cpus = cpus.parse().map_err(|_| wrong())?;
        Ok(Self { board: *board, cpu: *cpu, cpus, memory: size::mebibytes(memory)? })
    }
}

impl TryFrom<String> for Configuration {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for configuration in Configuration::pairwise() {
            assert_eq!(configuration.to_string().parse(), Ok(configuration));
        }
        for bad in ["", "q35", "pc-max-1-64M", "q35-max-x-64M", "q35-max-1-0M", "q35-max-1-64M-1"] {
            assert!(bad.parse::<Configuration>().is_err(), "{bad}");
        }
    }

    #[test]
    fn every_choice_is_covered_and_the_plain_machine_comes_first() {
        let all = Configuration::pairwise();
        assert_eq!(all[0], Configuration::default());
        assert!(all.len() <= 11, "{}", all.len());
        for (memory, cpu) in MEMORY.iter().flat_map(|memory| MODELS.map(|(_, cpu)| (*memory, cpu))) {
            assert!(all.iter().any(|one| one.memory == memory && one.cpu == cpu));
        }
    }
}
