//! Plain tests: a transfer over a perfect link, as anyone would try first. The mutants in `mutants/` pass them.

mod support;

use network::tcp::block::Options;
use network::time::{SECOND, Time};
use support::ends::{End, run};
use support::ours::Ours;
use support::script::{Script, text};
use support::wire::{Faults, Wire};

#[test]
fn a_perfect_link_carries_both_directions() {
    let now = Time::from_micros(SECOND);
    let (first, second) = (text(1, 50_000), text(2, 30_000));
    let addresses = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
    let mut scripts = [Script::new(first.clone(), second.clone(), 1), Script::new(second, first, 2)];
    scripts.iter_mut().for_each(|script| script.eagerness = 1_000);
    let [client, server] = scripts;
    let mut client = Ours::new(addresses[0], 1, 1500, client, Options::default(), now);
    let mut server = Ours::new(addresses[1], 2, 1500, server, Options::default(), now);
    server.listen(80);
    client.connect(addresses[1], 80, now);
    let mut ends: [Box<dyn End>; 2] = [Box::new(client), Box::new(server)];
    let mut wire = Wire::new(Faults { delay: 1_000, ..Faults::default() }, 1);
    run(&mut ends, &mut wire, now, 10 * SECOND);
}
