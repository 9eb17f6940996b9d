//! The date at boot, from the real-time clock of a PC (MC146818 data sheet; the registers as every PC keeps them).
//! The clock is taken to run in UTC, as virtual machines set it.

use machine::cmos;

const SECONDS: u8 = 0;
const MINUTES: u8 = 2;
const HOURS: u8 = 4;
const DAY: u8 = 7;
const MONTH: u8 = 8;
const YEAR: u8 = 9;
const STATUS_A: u8 = 10;
const STATUS_B: u8 = 11;
const UPDATING: u8 = 0x80;
const BINARY: u8 = 4;
const HOURS_24: u8 = 2;
const AFTERNOON: u8 = 0x80;
const ATTEMPTS: u32 = 10_000;
const NANOSECONDS: u64 = 1_000_000_000;

/// Registers as they were read: seconds, minutes, hours, day, month, year, status B.
type Reading = [u8; 7];

/// Nanoseconds from 1970 to now; none where there is no clock or it shows no date.
pub fn read() -> Option<u64> {
    let reading = stable(|| {
        let updating = cmos::read(STATUS_A) & UPDATING != 0;
        let registers = [SECONDS, MINUTES, HOURS, DAY, MONTH, YEAR, STATUS_B];
        (!updating).then(|| registers.map(cmos::read))
    })?;
    seconds(reading)?.checked_mul(NANOSECONDS)
}

/// Two readings in a row that agree, neither while the clock was changing.
fn stable(mut read: impl FnMut() -> Option<Reading>) -> Option<Reading> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let reading = read();
        if reading.is_some() && reading == last {
            return reading;
        }
        last = reading;
    }
    None
}

/// Seconds from 1970; none if it is no date.
fn seconds(reading: Reading) -> Option<u64> {
    let [seconds, minutes, hours, day, month, year, mode] = reading;
    let number = |value: u8| if mode & BINARY != 0 { value } else { (value >> 4) * 10 + (value & 0xf) };
    let hour = match (mode & HOURS_24 != 0, hours & AFTERNOON != 0) {
        (true, _) => number(hours),
        (false, afternoon) => number(hours & !AFTERNOON) % 12 + if afternoon { 12 } else { 0 },
    };
    let [second, minute, day, month, year] = [seconds, minutes, day, month, year].map(|value| u64::from(number(value)));
    let plausible =
        second < 60 && minute < 60 && hour < 24 && (1..=31).contains(&day) && (1..=12).contains(&month) && year < 100;
    plausible.then(|| ((days(2000 + year, month, day) * 24 + u64::from(hour)) * 60 + minute) * 60 + second)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar from 2000 on. Years are counted from March, so that the
/// leap day comes last.
fn days(year: u64, month: u64, day: u64) -> u64 {
    const MARCH_0_TO_1970: u64 = 719_468;
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - MARCH_0_TO_1970
}

#[cfg(test)]
mod tests {
    use super::*;

    const BCD_24: u8 = HOURS_24;

    #[test]
    fn dates_become_seconds() {
        assert_eq!(seconds([0x00, 0x00, 0x00, 0x01, 0x01, 0x00, BCD_24]), Some(946_684_800));
        assert_eq!(seconds([0x56, 0x34, 0x12, 0x29, 0x02, 0x24, BCD_24]), Some(1_709_210_096));
        assert_eq!(seconds([59, 59, 23, 31, 12, 99, BINARY | HOURS_24]), Some(4_102_444_799));
    }

    #[test]
    fn twelve_hour_clocks_are_read() {
        let at = |hours| seconds([0, 0, hours, 1, 1, 0, BINARY]).unwrap() - 946_684_800;
        assert_eq!([at(12), at(1), at(12 | AFTERNOON), at(11 | AFTERNOON)], [0, 3600, 12 * 3600, 23 * 3600]);
    }

    #[test]
    fn fault_93_a_machine_without_clock_has_no_date() {
        assert_eq!(seconds([0xff; 7]), None);
        assert_eq!(stable(|| None), None);
        let mut ticks = 0;
        assert_eq!(
            stable(|| {
                ticks = (ticks + 1) % 200;
                Some([ticks; 7])
            }),
            None
        );
    }

    #[test]
    fn days_follow_one_another() {
        let mut last = days(2000, 1, 1) - 1;
        for year in 2000..2100 {
            let leap = year % 4 == 0;
            for (month, length) in
                [31, 28 + u64::from(leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31].into_iter().enumerate()
            {
                for day in 1..=length {
                    let day = days(year, month as u64 + 1, day);
                    assert_eq!(day, last + 1);
                    last = day;
                }
            }
        }
    }
}
