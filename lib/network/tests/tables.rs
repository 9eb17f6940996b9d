//! RFC cases as tables: segments of a peer in, segments of ours out. The notation is `support/talk.rs`'s.

mod support;

use network::tcp::block::Options;
use support::talk::Talk;

fn plain() -> Options {
    Options { timestamps: false, ..Options::default() }
}

/// Runs each script in an established connection of its own.
fn established(scripts: &[&str]) {
    for script in scripts {
        Talk::established(plain()).runs(script);
    }
}

#[test]
fn rfc_9293_openings() {
    Talk::listening(plain()).runs("< S 0 - 0 | > SA 0 1 0 | < A 1 1 0 | > | state Established");
    Talk::connecting(plain()).runs("> S 0 - 0 | < SA 0 1 0 | > A 1 1 0 | state Established");
    // Simultaneous: SYNs cross, and then their answers.
    Talk::connecting(plain()).runs("> S 0 - 0 | < S 0 - 0 | > SA 0 1 0 | < SA 0 1 0 | > | state Established");
    Talk::connecting(plain()).runs("> S 0 - 0 | < S 0 - 0 | > SA 0 1 0 | < A 1 1 0 | > | state Established");
    // An acknowledgement of something else is reset, a refusal ends the attempt, a reset out of the blue does not.
    Talk::connecting(plain()).runs("> S 0 - 0 | < A 1 9 0 | > R 9 - 0 | state SynSent");
    Talk::connecting(plain()).runs("> S 0 - 0 | < RA 0 1 0 | > | state Closed | error Some(Refused)");
    Talk::connecting(plain()).runs("> S 0 - 0 | < R 0 - 0 | > | state SynSent");
    // FIN that was asked for during the handshake follows it.
    Talk::connecting(plain()).runs("> S 0 - 0 | write 5 | shut | > | < SA 0 1 0 | > FA 1 1 5 | state FinWait1");
}

#[test]
fn rfc_9293_what_listeners_and_closed_ports_answer() {
    Talk::listening(plain()).runs("< A 5 7 0 | > R 0 - 0");
    Talk::listening(plain()).runs("< R 0 - 0 | > | < SF 0 - 0 | > | < F 0 - 0 | > | < - 0 - 5 | >");
    Talk::listening(plain()).runs("< S 0 - 0 | > SA 0 1 0 | < R 1 - 0 | > | < A 1 1 0 | > R 1 - 0");
    let mut closed = Talk::listening(plain());
    closed.pair.local.port = 81;
    closed.runs("< S 0 - 0 | > RA 0 1 0 | < A 5 0 0 | > R 0 - 0 | < S 3 - 10 | > RA 0 14 0 | < R 0 - 0 | >");
}

#[test]
fn rfc_9293_closing_in_all_orders() {
    established(&[
        "shut | > FA 1 1 0 | state FinWait1 | < A 1 2 0 | state FinWait2 | < FA 1 2 0 | > A 2 2 0 | state TimeWait",
        "shut | > FA 1 1 0 | < FA 1 2 0 | > A 2 2 0 | state TimeWait",
        "shut | > FA 1 1 0 | < FA 1 1 0 | > A 2 2 0 | state Closing | < A 2 2 0 | state TimeWait",
        "< FA 1 1 0 | > A 1 2 0 | state CloseWait | shut | > FA 1 2 0 | state LastAck | < A 2 2 0 | state Closed",
        // Half-close: each direction ends alone.
        "shut | > FA 1 1 0 | < A 1 2 0 | < A 1 2 500 | > A 2 501 0 | read 500 | < FA 501 2 0 | > A 2 502 0 | state TimeWait",
        "< FA 1 1 0 | > A 1 2 0 | write 300 | > A 1 2 300 | < A 2 301 0 | shut | > FA 301 2 0 | < A 2 302 0 | state Closed",
        // Data and FIN in one segment; FIN before the data that it follows.
        "< FA 1 1 100 | > A 1 102 0 | read 100 | state CloseWait",
        "< FA 101 1 0 | > A 1 1 0 | state Established | < A 1 1 100 | > A 1 102 0 | state CloseWait",
        // FIN is sent again until it is acknowledged.
        "shut | > FA 1 1 0 | wait 1000 | > FA 1 1 0 | wait 2000 | > FA 1 1 0 | < A 1 2 0 | state FinWait2",
    ]);
}

#[test]
fn what_nobody_will_read_is_reset() {
    established(&[
        "close | > FA 1 1 0 | < A 1 2 0 | < A 1 2 10 | > R 2 - 0 | state Gone",
        "< A 1 1 10 | > A 1 11 0 | close | > RA 1 11 0 | state Gone",
        // An end without an owner waits for FIN no longer than a minute.
        "close | > FA 1 1 0 | < A 1 2 0 | wait 59000 | state FinWait2 | wait 1001 | state Gone | < FA 1 2 0 | > R 2 - 0",
        // With an owner it waits for ever.
        "shut | > FA 1 1 0 | < A 1 2 0 | wait 3600000 | > | state FinWait2",
    ]);
}

#[test]
fn rfc_5961_blind_attacks() {
    established(&[
        // A reset counts with the exact number alone; elsewhere in the window it is asked about, outside ignored.
        "< R 1 - 0 | > | state Closed | error Some(Reset)",
        "< R 100 - 0 | > A 1 1 0 | state Established",
        "< R 99999 - 0 | > | state Established",
        "< S 1 - 0 | > A 1 1 0 | < S 0 - 0 | > A 1 1 0 | < SA 77 1 0 | > A 1 1 0 | state Established",
        // Acknowledgements of what was never sent, or older than any window.
        "< A 1 500 10 | > A 1 1 0 | read 0 | state Established",
        "write 10 | > A 1 1 10 | < A 1 4000000000 0 | > A 11 1 0",
    ]);
}

#[test]
fn fault_78_malformed_segments() {
    established(&[
        // No flags, no ACK, SYN with FIN, everything at once.
        "< - 1 - 50 | > | < F 1 - 0 | > | read 0 | < SF 1 1 0 | > A 1 1 0 | < SFRPA 5 1 9 | > A 1 1 0 | state Established",
        // Before and behind the window; overlapping it on both sides.
        "< A 1 1 100 | > A 1 101 0 | < A 1 1 100 | > A 1 101 0 | < A 51 1 100 | > A 1 151 0 | read 150",
        "< A 99999 1 10 | > A 1 1 0 | < FA 99999 1 0 | > A 1 1 0 | read 0",
        // Data behind FIN does not exist.
        "< FA 1 1 10 | > A 1 12 0 | < A 11 1 50 | > A 1 12 0 | read 10 | state CloseWait",
        // A window that closes, and one that shrinks below what is on its way.
        "< A 1 1 0 win=0 | write 10 | > | < A 1 1 0 win=5 | > | wait 200 | > A 1 1 5",
        "write 2000 | > A 1 1 1000, A 1001 1 1000 | < A 1 1001 0 win=10 | > | wait 1000 | > A 1001 1 1000",
    ]);
    // Damage, and a connection from an end to itself (LAND).
    let mut talk = Talk::established(plain());
    talk.deliver_bytes(&[0; 20]);
    talk.deliver_bytes(&[0xff; 60]);
    talk.deliver_bytes(&[]);
    talk.pair.remote = talk.pair.local;
    talk.deliver("S 0 - 0");
    talk.runs(">");
    assert_eq!(talk.tcp.census(), [1, 0, 0]);
}

#[test]
fn fault_78_no_storm_of_acknowledgements() {
    let mut talk = Talk::established(plain());
    // Two ends that disagree: each empty segment outside the window would be answered by another one.
    for _ in 0..1_000 {
        talk.deliver("A 90000 1 0");
    }
    assert_eq!(talk.sent().len(), 1);
    let mut answers = 0;
    for _ in 0..1_000 {
        talk.deliver("S 1 - 0");
        answers += talk.outgoing().len();
    }
    assert!((1..=100).contains(&answers), "{answers} challenges in a second");
    assert_eq!(talk.tcp.census(), [1, 0, 0]);
}

#[test]
fn rfc_2018_and_6675_selective_acknowledgements() {
    established(&[
        // The receiver's half: what came last is reported first.
        "< A 101 1 100 | > A 1 1 0 block=101-201 | < A 301 1 100 | > A 1 1 0 block=301-401 block=101-201 | \
         < A 1 1 100 | > A 1 201 0 block=301-401 | < A 201 1 100 | > A 1 401 0 | read 400",
        // The sender's: a gap that three segments lie behind is filled at once, and only the gap.
        "write 5000 | > A 1 1 1000, A 1001 1 1000, A 2001 1 1000, A 3001 1 1000, A 4001 1 1000 | \
         < A 1 1001 0 block=2001-3001 | > | < A 1 1001 0 block=2001-4001 | > | \
         < A 1 1001 0 block=2001-5001 | > A 1001 1 1000 | < A 1 5001 0 | > | wait 5000 | >",
        // After a time-out, too.
        "write 4000 | > A 1 1 1000, A 1001 1 1000, A 2001 1 1000, A 3001 1 1000 | < A 1 1 0 block=1001-2001 | > | \
         wait 1000 | > A 1 1 1000 | < A 1 2001 0 | > A 2001 1 1000, A 3001 1 1000 | < A 1 4001 0 | >",
        "write 5000 | > A 1 1 1000, A 1001 1 1000, A 2001 1 1000, A 3001 1 1000, A 4001 1 1000 | \
         < A 1 1 0 block=2001-3001 | wait 1000 | > A 1 1 1000 | < A 1 1001 0 | > A 1001 1 1000, A 3001 1 1000",
        // A receiver that drops what it had reported gets it again.
        "write 2000 | > A 1 1 1000, A 1001 1 1000 | < A 1 1 0 block=1001-2001 | wait 1000 | > A 1 1 1000 | \
         < A 1 1001 0 | > A 1001 1 1000 | < A 1 2001 0 | >",
        // Blocks that make no sense change nothing.
        "write 1000 | > A 1 1 1000 | < A 1 1 0 block=5000-9000 block=900-100 block=1-1 | > | < A 1 1001 0 | >",
        "write 1000 | > A 1 1 1000 | < A 1 1 0 block=500-9000 | > | < A 1 1001 0 | >",
    ]);
}

#[test]
fn rfc_5681_and_6582_without_sack() {
    let mut talk = Talk::listening(plain());
    talk.runs("< S 0 - 0 mss=1000 | > SA 0 1 0 | < A 1 1 0 | > | write 6000");
    talk.runs("> A 1 1 1000, A 1001 1 1000, A 2001 1 1000, A 3001 1 1000, A 4001 1 1000, A 5001 1 1000");
    talk.runs("< A 1 1 0 | > | < A 1 1 0 | > | < A 1 1 0 | > A 1 1 1000 | < A 1 1 0 | >");
    // A partial acknowledgement sends the next one at once; the last one ends recovery.
    talk.runs("< A 1 3001 0 | > A 3001 1 1000 | < A 1 6001 0 | > | wait 5000 | >");
}

#[test]
fn rfc_6298_time_outs() {
    established(&[
        "write 10 | > A 1 1 10 | wait 999 | > | wait 1 | > A 1 1 10 | wait 1999 | > | wait 1 | > A 1 1 10 | \
         wait 4000 | > A 1 1 10 | < A 1 11 0 | wait 100000 | >",
    ]);
    // With a sample of 10 ms the least time-out holds.
    established(&[
        "write 10 | > A 1 1 10 | wait 10 | < A 1 11 0 | write 10 | > A 11 1 10 | wait 199 | > | wait 1 | > A 11 1 10",
    ]);
    let mut talk = Talk::connecting(Options { syn_retries: 2, ..plain() });
    talk.runs("> S 0 - 0 | wait 1000 | > S 0 - 0 | wait 2000 | > S 0 - 0 | wait 4000 | > | error Some(TimedOut)");
}

/// A receiver answers a duplicate with the timestamp of the first copy: no sample, so the time-out stays doubled. The
/// timestamp of the last copy is a sample.
#[test]
fn echoes_from_before_the_last_retransmission_measure_nothing() {
    for (echo, time_out) in [(1, 4_000), (2, 4_000), (3, 200)] {
        let mut talk = Talk::listening(Options::default());
        talk.runs("< S 0 - 0 mss=1000 ts=500 | > SA 0 1 0 | < A 1 1 0 ts=501 | > | write 10 | > A 1 1 10");
        talk.runs("wait 1000 | > A 1 1 10 | wait 2000 | > A 1 1 10");
        talk.runs(&format!("< A 1 11 0 ts=502 echo={echo} | write 10 | > A 11 1 10"));
        talk.runs(&format!("wait {} | > | wait 1 | > A 11 1 10", time_out - 1));
    }
}

#[test]
fn rfc_7323_timestamps_and_paws() {
    let mut talk = Talk::listening(Options::default());
    talk.runs("< S 0 - 0 mss=1000 ts=500 shift=2 | > SA 0 1 0 | < A 1 1 0 ts=501 | >");
    talk.runs("< A 1 1 10 ts=502 | > A 1 11 0 | < A 11 1 10 ts=400 | > A 1 11 0 | < A 11 1 10 ts=502 | > A 1 21 0");
    // A reset needs no timestamp in order.
    talk.runs("< R 21 - 0 ts=1 | > | state Closed");
    // After 24 days an old timestamp says nothing.
    let mut talk = Talk::listening(Options::default());
    talk.runs("< S 0 - 0 ts=500 | > SA 0 1 0 | < A 1 1 0 ts=501 | > | wait 2073600001 | < A 1 1 5 ts=3 | > A 1 6 0");
}

#[test]
fn nagle_cork_and_no_delay() {
    established(&["write 10 | > A 1 1 10 | write 20 | > | write 30 | > | < A 1 11 0 | > A 11 1 50"]);
    established(&["write 10 | > A 1 1 10 | write 1000 | > A 11 1 1000 | write 5 | > | shut | > FA 1011 1 5"]);
    let options = Options { no_delay: true, ..plain() };
    Talk::established(options).runs("write 10 | > A 1 1 10 | write 20 | > A 11 1 20");
    let options = Options { cork: true, ..plain() };
    Talk::established(options)
        .runs("write 10 | > | write 1000 | > A 1 1 1000 | < A 1 1001 0 | > | wait 200 | > A 1001 1 10");
}

#[test]
fn acknowledgements_are_delayed_after_the_first_ones() {
    let mut talk = Talk::established(plain());
    for turn in 0..16 {
        talk.runs(&format!("< A {} 1 1000 | > A 1 {} 0", turn * 1000 + 1, turn * 1000 + 1001));
    }
    talk.runs("< A 16001 1 1000 | > | wait 39 | > | wait 1 | > A 1 17001 0");
    talk.runs("< A 17001 1 1000 | > | < A 18001 1 1000 | > A 1 19001 0");
    // Data that answers takes it along.
    talk.runs("< A 19001 1 1000 | > | write 5 | > A 1 20001 5 | wait 100 | >");
    // A duplicate is answered at once.
    talk.runs("< A 19001 1 1000 | > A 6 20001 0");
}

#[test]
fn closed_windows_are_probed() {
    established(&[
        "< A 1 1 0 win=0 | write 10 | > | wait 1000 | > A 0 1 0 | < A 1 1 0 win=0 | > | wait 2000 | > A 0 1 0 | \
         < A 1 1 0 win=100 | > A 1 1 10",
    ]);
    established(&[
        "< A 1 1 0 win=0 | write 10 | > | wait 1000 | > A 0 1 0 | wait 2000 | > A 0 1 0 | wait 4000 | > A 0 1 0",
    ]);
    // A peer that answers may keep its window closed for ever.
    let mut talk = Talk::established(plain());
    talk.runs("< A 1 1 0 win=0 | write 10 | >");
    for _ in 0..100 {
        talk.runs("wait 120000 | > A 0 1 0 | < A 1 1 0 win=0");
    }
    talk.runs("state Established");
    // One that is silent may not.
    for _ in 0..20 {
        talk.runs("wait 120000");
    }
    talk.runs("error Some(TimedOut)");
}

/// The owner has gone: the peer would hold the bytes, and the pages that they lie in, for ever.
#[test]
fn a_closed_window_does_not_hold_what_its_owner_gave_up() {
    let mut talk = Talk::established(plain());
    talk.runs("< A 1 1 0 win=0 | write 10 | > | close");
    for _ in 0..10 {
        talk.runs("wait 19000 | > A 0 1 0 | < A 1 1 0 win=0");
    }
    talk.runs("state FinWait1 | wait 20000 | state Gone | >");
    // It takes bytes no more, and says that it lives.
    let mut talk = Talk::established(plain());
    talk.runs("write 10 | > A 1 1 10 | close | > FA 11 1 0");
    for _ in 0..10 {
        talk.runs("wait 19000 | < A 1 1 0 win=0");
        talk.outgoing();
    }
    talk.runs("state FinWait1 | wait 20000 | state Gone | >");
    // The time runs anew with each byte that it takes.
    let mut talk = Talk::established(plain());
    talk.runs(
        "write 10 | > A 1 1 10 | close | > FA 11 1 0 | wait 190000 | < A 1 6 0 win=0 | wait 190000 | state FinWait1",
    );
    talk.runs("wait 20000 | state Gone");
}

#[test]
fn our_window_closes_and_opens() {
    let mut talk = Talk::established(Options { receive_limit: 3_000, ..plain() });
    talk.runs("< A 1 1 1000 | < A 1001 1 1000 | < A 2001 1 1000 | > A 1 3001 0 | < A 3001 1 1000 | > A 1 3001 0");
    assert_eq!(talk.outgoing(), []);
    // Reading announces the room at once, and the peer's probe is answered with it.
    talk.runs("read 3000 | > A 1 3001 0 | < A 3001 1 1000 | > A 1 4001 0");
}

#[test]
fn keep_alive_and_user_time_out() {
    let options =
        Options { keep_alive: true, keep_alive_idle: 60, keep_alive_interval: 10, keep_alive_count: 2, ..plain() };
    let mut talk = Talk::established(options);
    talk.runs("wait 59999 | > | wait 1 | > A 0 1 0 | < A 1 1 0 | wait 60000 | > A 0 1 0 | wait 10000 | > A 0 1 0");
    talk.runs("wait 10000 | > | state Closed | error Some(TimedOut)");
    let mut talk = Talk::established(Options { user_time_out: 5_000, ..plain() });
    talk.runs(
        "write 1 | > A 1 1 1 | wait 1000 | wait 2000 | wait 1999 | state Established | wait 1 | error Some(TimedOut)",
    );
    // Keep-alive that an idle connection gets later begins then.
    let mut talk = Talk::established(plain());
    let handle = talk.handle();
    talk.runs("wait 100000");
    talk.tcp.set_options(handle, options, talk.now);
    talk.runs("> | wait 59000 | > | wait 1000 | > A 0 1 0");
    // It bounds the probes in place of their number, and a SYN in addition to it.
    let mut talk = Talk::established(Options { user_time_out: 95_000, keep_alive_count: 9, ..options });
    talk.runs("wait 60000 | > A 0 1 0 | wait 10000 | wait 10000 | wait 10000 | state Established | wait 10000");
    talk.runs("error Some(TimedOut)");
    let opening = Options { syn_retries: 1, user_time_out: 60_000, ..plain() };
    Talk::connecting(opening).runs("> S 0 - 0 | wait 1000 | > S 0 - 0 | wait 2000 | > | error Some(TimedOut)");
    let opening = Options { user_time_out: 2_500, ..plain() };
    Talk::connecting(opening)
        .runs("> S 0 - 0 | wait 1000 | > S 0 - 0 | wait 1499 | state SynSent | wait 1 | error Some(TimedOut)");
}

#[test]
fn time_wait_answers_and_opens_anew() {
    let mut talk = Talk::established(plain());
    talk.runs("close | > FA 1 1 0 | < FA 1 2 0 | > A 2 2 0");
    assert_eq!(talk.tcp.census(), [0, 0, 1]);
    talk.runs("< FA 1 2 0 | > A 2 2 0 | < R 2 - 0 | > | wait 59000 | < FA 1 2 0 | > A 2 2 0 | wait 59000 | >");
    assert_eq!(talk.tcp.census(), [0, 0, 1]);
    talk.runs("< S 500 - 0 | > SA 0 501 0");
    assert_eq!(talk.tcp.census(), [0, 1, 0]);
}

#[test]
fn rfc_6093_urgent_bytes() {
    established(&[
        // The pointer names the byte behind the urgent one, in every segment that begins before it.
        "urgent 3 | > A 1 1 3 up=3 | < A 1 4 0 | write 1 | > A 4 1 1",
        "write 1 | > A 1 1 1 | urgent 1999 | > A 2 1 1000 up=1999, A 1002 1 999 up=999 | < A 1 1002 0 | < A 1 2001 0 | write 1 | > A 2001 1 1",
        // A time-out sends it again; so does a probe of a closed window.
        "urgent 1 | > A 1 1 1 up=1 | wait 1000 | > A 1 1 1 up=1",
        "< A 1 1 0 win=0 | urgent 10 | > | wait 1000 | > A 0 1 0 up=11",
        // Nagle's rule does not hold an urgent byte back.
        "write 5 | > A 1 1 5 | write 5 | > | urgent 1 | > A 6 1 6 up=6",
        // What comes: the byte is known once it is there, until it is read.
        "< A 1 1 10 up=10 | > A 1 11 0 | marked 9 | read 10 | marked none | < A 11 1 5 | > A 1 16 0 | marked none",
        "< A 1 1 10 up=15 | > A 1 11 0 | marked none | < A 11 1 5 up=5 | > A 1 16 0 | marked 14",
        "< A 1 1 10 up=0 | > A 1 11 0 | marked 0",
        // An earlier pointer, and one to bytes that were read, say nothing.
        "< A 1 1 10 up=10 | < A 11 1 10 up=10 | > A 1 21 0 | marked 19 | < A 21 1 1 up=65535 | marked none | read 21",
        "< A 1 1 10 | read 10 | > A 1 11 0 | < A 1 1 10 up=5 | > A 1 11 0 | marked none",
        // The last byte before FIN.
        "< FA 1 1 10 up=10 | > A 1 12 0 | marked 9 | read 10 | marked none",
    ]);
}
