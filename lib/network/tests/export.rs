//! Connections move between stacks while they transfer, over links with all faults.

mod support;

use std::cell::Cell;
use std::rc::Rc;

use network::tcp::block::Options;
use network::tcp::engine::Tcp;
use network::tcp::export::{Exported, LIMIT};
use network::time::{SECOND, Time};
use support::ends::{End, drain, run};
use support::ours::Ours;
use support::random::{Random, seed};
use support::script::{Script, text};
use support::wire::{Faults, Wire};

/// An end whose connection moves into a fresh stack again and again.
struct Wanderer {
    ours: Ours,
    random: Random,
    key: [u64; 2],
    /// Of all runs.
    moves: Rc<Cell<u32>>,
}

impl Wanderer {
    fn wander(&mut self, now: Time) {
        let Some(handle) = self.ours.connection.filter(|_| !self.ours.is_closed && self.random.chance(300)) else {
            return;
        };
        let Some(exported) = self.ours.tcp.export(handle) else { return };
        assert!(exported.state.len() <= LIMIT, "{} bytes", exported.state.len());
        assert_eq!(self.ours.tcp.census()[0], 0);
        assert_eq!(self.ours.tcp.armed_timers(), 0);
        self.ours.tcp = Tcp::new(self.key, now);
        let connection = self.ours.tcp.import(exported, now, &mut self.ours.carrier);
        self.ours.connection = Some(connection.expect("what was exported is sound"));
        self.moves.set(self.moves.get() + 1);
    }
}

impl End for Wanderer {
    fn deliver(&mut self, packet: &[u8], now: Time) {
        self.ours.deliver(packet, now);
        self.wander(now);
    }

    fn poll(&mut self, now: Time) -> Vec<Vec<u8>> {
        let packets = self.ours.poll(now);
        self.wander(now);
        packets
    }

    fn deadline(&self, now: Time) -> Time {
        self.ours.deadline(now)
    }

    fn is_done(&self) -> bool {
        self.ours.is_done()
    }

    fn assert_clean(&self) {
        self.ours.assert_clean();
    }

    fn describe(&self) -> String {
        self.ours.describe()
    }
}

#[test]
fn connections_move_between_stacks_in_the_middle_of_everything() {
    let moves = Rc::new(Cell::new(0));
    for turn in 0..200 {
        let seed = seed() << 32 | turn;
        let mut random = Random::new(seed);
        let faults = Faults::draw(&mut random);
        let mut lengths = || random.between(5_000, 60_000) as usize;
        let (first, second) = (text(seed, lengths()), text(!seed, lengths()));
        let now = Time::from_micros(random.below(1 << 40));
        let options = Options { syn_retries: 60, retries: 60, sack: random.chance(700), ..Options::default() };
        let addresses = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        let scripts = [Script::new(first.clone(), second.clone(), seed), Script::new(second, first, seed + 1)];
        let [client, server] = scripts;
        let key = random.next();
        let mut client = Ours::new(addresses[0], key, 1500, client, options, now);
        let mut server = Ours::new(addresses[1], key ^ 1, 1500, server, options, now);
        server.listen(80);
        client.connect(addresses[1], 80, now);
        let client = Wanderer { ours: client, random: Random::new(seed), key: [key, !key], moves: moves.clone() };
        let mut ends: [Box<dyn End>; 2] = [Box::new(client), Box::new(server)];
        let mut wire = Wire::new(faults, seed);
        let end = run(&mut ends, &mut wire, now, 3600 * SECOND);
        drain(&mut ends, &mut wire, end);
    }
    assert!(moves.get() > 1_000, "{} moves in 200 runs", moves.get());
}

/// A state as the sending half of a connection has it, with bytes on their way.
fn some_state() -> Exported {
    let now = Time::from_micros(5 * SECOND);
    let script = || Script::new(text(1, 9_000), text(1, 9_000), 1);
    let mut client = Ours::new([10, 0, 0, 1].into(), 5, 1500, script(), Options::default(), now);
    let mut server = Ours::new([10, 0, 0, 2].into(), 6, 1500, script(), Options::default(), now);
    server.listen(80);
    client.connect([10, 0, 0, 2].into(), 80, now);
    client.poll(now).iter().for_each(|packet| server.deliver(packet, now));
    server.poll(now).iter().for_each(|packet| client.deliver(packet, now));
    assert!(client.poll(now).len() > 2, "data is on its way");
    let handle = client.connection.expect("it connects");
    client.tcp.export(handle).expect("it has not ended")
}

#[test]
fn damaged_states_are_refused_or_harmless() {
    let good = some_state();
    assert!(!good.extents.is_empty());
    let mut random = Random::new(seed());
    let (mut refused, mut taken) = (0, 0);
    for _ in 0..20_000 {
        let mut bad = good.clone();
        for _ in 0..random.between(1, 3) {
            let at = random.below(bad.state.len() as u64) as usize;
            bad.state[at] = random.next() as u8;
        }
        if random.chance(50) {
            bad.state.truncate(random.below(bad.state.len() as u64) as usize);
        }
        let now = Time::from_micros(6 * SECOND);
        let mut end = Ours::new([10, 0, 0, 1].into(), 5, 1500, Script::new(vec![], vec![], 1), Options::default(), now);
        // The extents name pages that this end does not have: it has as many of its own.
        bad.extents = bad.extents.iter().map(|it| end.carrier.memory.store(&vec![7; it.length as usize])).collect();
        end.carrier.mtu = 70_000;
        match end.tcp.import(bad, now, &mut end.carrier) {
            None => refused += 1,
            Some(_) => {
                taken += 1;
                for step in 0..20 {
                    end.carrier.out.clear();
                    end.tcp.advance(now.after(step * SECOND), &mut end.carrier);
                }
            }
        }
    }
    assert!(refused > 1_000 && taken > 1_000, "{refused} refused, {taken} taken");
}
