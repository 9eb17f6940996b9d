//! Room behind a pointer: rustc walks a slice by a pointer that increases and a number of elements left, which
//! decreases. The two together do not pass the region's end: `offset + number + slack <= length`, in integers that do
//! not wrap around.
//!
//! A room comes from a meeting of two states in both of which it holds. One is on the way into a loop, where the
//! number is known together with the length; the other is after one round of it. It lasts while both registers move
//! by constants and do not wrap around, which is mostly known because of a jump. So all that is learnt through a room
//! rests on jumps (see [`super::guarded`]).

use super::state::{State, TRACKED_REGISTERS};
use super::value::{Kind, Value};

/// The room of a pointer into a region: `offset + number + slack <= length`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// The register that holds the number.
    pub(crate) number: u8,
    pub(crate) slack: i32,
}

/// The room of each register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rooms([Option<Room>; TRACKED_REGISTERS]);

impl Rooms {
    pub(crate) const NONE: Self = Self([None; TRACKED_REGISTERS]);

    pub(crate) fn get(&self, pointer: u8) -> Option<Room> {
        self.0.get(usize::from(pointer)).copied().flatten()
    }

    /// A register gets another value, with this room.
    pub(crate) fn overwrite(&mut self, register: u8, new: Option<Room>) {
        let lasts = |room: &Room| room.number != register;
        self.0 = self.0.map(|room| room.filter(lasts));
        if let Some(place) = self.0.get_mut(usize::from(register)) {
            *place = new.filter(lasts);
        }
    }

    /// A register that held `before` is moved by a constant.
    pub(crate) fn step(&mut self, register: u8, before: &Value, by: i64) {
        let stays = does_not_wrap(before, by);
        for (own, room) in self.0.iter_mut().enumerate() {
            let Some(old) = room.filter(|room| own == usize::from(register) || room.number == register) else {
                continue;
            };
            *room = moved(old.slack, by).filter(|_| stays).map(|slack| Room { slack, ..old });
        }
    }

    /// The packed form, a word for each register.
    pub(crate) fn pack(&self) -> [u64; TRACKED_REGISTERS] {
        self.0.map(|room| room.map_or(0, |room| u64::from(room.number) + 1 | u64::from(room.slack as u32) << 32))
    }

    pub(crate) fn unpack(words: &[u64; TRACKED_REGISTERS]) -> Self {
        Self(words.map(|word| Some(Room { number: (word as u8).checked_sub(1)?, slack: (word >> 32) as i32 })))
    }

    /// What holds in two states that meet. With `new`, rooms are looked for that are as large in both, and may
    /// become smaller.
    pub(crate) fn met(old: &State, other: &State, new: bool) -> Self {
        Self(core::array::from_fn(|pointer| {
            let pointer = pointer as u8;
            if old.register(pointer).kind != other.register(pointer).kind {
                return None;
            }
            let slacks = |number: u8| Some((slack(old, pointer, number)?, slack(other, pointer, number)?));
            let kept = old.rooms.get(pointer).and_then(|room| {
                let slack = slacks(room.number).map(|(first, second)| first.min(second))?;
                (new || slack == room.slack).then_some(Room { slack, ..room })
            });
            let moves = |register: u8| old.register(register) != other.register(register);
            let in_step = |number: u8| {
                let (slack, _) = slacks(number).filter(|(first, second)| first == second)?;
                Some(Room { number, slack })
            };
            let found = || (0..TRACKED_REGISTERS as u8).filter(|number| moves(*number)).find_map(in_step);
            kept.or_else(|| if new && moves(pointer) { found() } else { None })
        }))
    }
}

/// Moving one of the summands takes as much from the slack.
fn moved(slack: i32, by: i64) -> Option<i32> {
    i64::from(slack).checked_sub(by).and_then(|slack| i32::try_from(slack).ok())
}

/// Whether a value moved by a constant is what it is in integers. A pointer that has room is not far above its
/// region's end.
fn does_not_wrap(before: &Value, by: i64) -> bool {
    match before.kind {
        Kind::Number if by < 0 => before.scalar.minimum >= by.unsigned_abs(),
        Kind::Number => before.scalar.maximum.checked_add(by as u64).is_some(),
        _ => by >= 0 || before.scalar.signed_minimum.checked_add(by).is_some(),
    }
}

/// The slack of the room that a pointer shares with a number: recorded, or known since the number is related to the
/// region's length.
fn slack(state: &State, pointer: u8, number: u8) -> Option<i32> {
    let (place, rest) = (state.register(pointer), state.register(number));
    let Kind::Region(region) = place.kind else { return None };
    if let Some(room) = state.rooms.get(pointer).filter(|room| room.number == number) {
        return Some(room.slack);
    }
    let relation = rest.relation.filter(|relation| rest.is_number() && relation.region == region)?;
    moved(relation.slack, place.scalar.signed_maximum)
}

#[cfg(test)]
mod tests {
    use super::super::scalar::Scalar;
    use super::super::value::Relation;
    use super::*;

    const POINTER: u8 = 1;
    const REST: u8 = 2;

    /// A pointer at an offset, and so much less than the region's length.
    fn at(offset: i64, less: i32) -> State {
        let mut state = State::EMPTY;
        let relation = Some(Relation { region: 0, exact: true, untaught: true, slack: less });
        state.set_register(POINTER, Value::pointer(Kind::Region(0), offset));
        state.set_register(REST, Value { relation, ..Value::number(Scalar::range(0, 1500)) });
        state
    }

    fn room(slack: i32) -> Option<Room> {
        Some(Room { number: REST, slack })
    }

    #[test]
    fn what_goes_up_and_what_goes_down_have_room_together() {
        let met = |old: &State, other: &State, new| Rooms::met(old, other, new).get(POINTER);
        assert_eq!(met(&at(14, 14), &at(15, 15), true), room(0));
        assert_eq!(met(&at(14, 14), &at(16, 15), true), None, "not in step");
        assert_eq!(met(&at(14, 14), &at(15, 15), false), None, "none is looked for");
        let mut known = at(14, 14);
        known.rooms.overwrite(POINTER, room(0));
        assert_eq!(met(&known, &at(15, 15), false), room(0));
        assert_eq!(met(&known, &at(16, 15), true), room(-1));
        assert_eq!(met(&known, &at(16, 15), false), None, "it would become smaller");
        let mut elsewhere = at(15, 15);
        elsewhere.set_register(POINTER, Value::pointer(Kind::Region(1), 15));
        assert_eq!(met(&known, &elsewhere, true), None);
    }

    #[test]
    fn steps_keep_the_sum_unless_they_wrap() {
        let number = |minimum| Value::number(Scalar::range(minimum, 1500));
        let mut rooms = Rooms::NONE;
        rooms.overwrite(POINTER, room(3));
        rooms.step(POINTER, &Value::pointer(Kind::Region(0), 0), 4);
        assert_eq!(rooms.get(POINTER), room(-1));
        rooms.step(REST, &number(4), -4);
        assert_eq!(rooms.get(POINTER), room(3));
        rooms.step(7, &number(0), -4);
        assert_eq!(rooms.get(POINTER), room(3));
        rooms.step(REST, &number(3), -4);
        assert_eq!(rooms.get(POINTER), None, "3 - 4 is much");
    }

    #[test]
    fn another_value_in_either_register_ends_it() {
        for register in [POINTER, REST] {
            let mut rooms = Rooms::NONE;
            rooms.overwrite(POINTER, room(3));
            rooms.overwrite(7, None);
            assert_eq!(rooms.get(POINTER), room(3));
            rooms.overwrite(register, None);
            assert_eq!(rooms, Rooms::NONE);
        }
    }

    #[test]
    fn rooms_are_packed_and_unpacked() {
        let mut rooms = Rooms::NONE;
        rooms.overwrite(POINTER, room(-3));
        assert_eq!(Rooms::unpack(&rooms.pack()), rooms);
        assert_eq!(Rooms::unpack(&Rooms::NONE.pack()), Rooms::NONE);
    }
}
