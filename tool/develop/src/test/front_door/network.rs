//! Network cards at the front door: ports that are taken, networks that are not there, packets on record.

use super::{Visit, plain, well};

/// Those of every run.
pub(super) const NETWORK: [Visit; 12] = [
    plain(
        "a_port_that_is_in_use",
        "perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1\")
            or die; open F, \">port\"; print F $s->sockport; close F; sleep 100' & holder=$!
            until test -s port; do sleep 0.1; done; $chitin run -p $(cat port):80 -- true; status=$?; kill $holder
            wait; exit $status",
        125,
        "cannot be bound: Address already in use",
    ),
    plain("a_port_that_is_none", "$chitin run -p 0:80 -- true", 2, "ports are 1 to 65535"),
    plain("a_port_given_twice", "$chitin run -p 9:80 -p 9:81 -- true", 125, "-p 9:81: port 9 of this host is given twice"),
    plain("a_port_without_its_network", "$chitin run --network none -p 9:80 -- true", 125, "only the network user has ports"),
    plain("a_tap_that_is_not_there", "$chitin run --network tap:chitin-none -- true", 125, "no such device; make it with: ip tuntap"),
    plain("a_wire_that_is_not_there", "$chitin run --network wire:none -- true", 125, "nothing listens there: No such file"),
    plain(
        "a_wire_that_has_been_left",
        "$develop wire w & wire=$!; until test -S w; do sleep 0.1; done; kill -KILL $wire; wait 2> /dev/null
            $chitin run --network wire:w -- true",
        125,
        "nothing listens there any more",
    ),
    plain("packets_into_no_folder", "$chitin run --network user --packets none/a.pcap -- true", 125, "--packets none/a.pcap: No such file"),
    plain("a_wire_at_a_file", "echo kept > f; $develop wire f; status=$?; grep -q kept f || exit 1; exit $status", 125, "f: a file is there already"),
    plain("a_wire_with_a_chance_that_is_none", "$develop wire w --loss 101%", 2, "chances are 0% to 100%"),
    well(
        "three_cards_and_their_packets",
        "$develop wire w --peer --once 2> said & until test -S w; do sleep 0.1; done
            $chitin run --network wire:w --network user --network wire:w --packets a.pcap -- true; wait
            for file in *.pcap; do echo $file; od -An -tx4 -N4 $file; done; cut -d : -f 1 said | sort -u; test ! -e w",
        "a-2.pcap\n a1b2c3d4\na-3.pcap\n a1b2c3d4\na.pcap\n a1b2c3d4\nchitin\n",
    ),
    well(
        "a_peer_over_a_wire_with_faults",
        "$develop wire w --peer --once --loss 1% --duplicate 1% --reorder 1% --corrupt 0.5% --delay 1ms --seed 3 2> said &
            until test -S w; do sleep 0.1; done
            $chitin run --network wire:w -- sh -c 'cd /tmp; ping -c 3 -W 5 10.0.2.2 | grep -c \" [1-3] packets received\"
            head -c 300000 /dev/urandom > a; sum=$(sha256sum < a | cut -c 1-64); nc 10.0.2.2 9 < a | grep -c $sum
            echo 200000 | nc 10.0.2.2 19 > b; head -c 200000 b | sha256sum | cut -c 1-64 > c; tail -c 65 b | cmp - c && echo source
            nc 10.0.2.2 7 < a | cmp - a && echo echo; nslookup peer.test 10.0.2.2 | grep -c \"Address.*: 10.0.2.2$\"'
            wait; grep -c ' lost, ' said",
        "1\n1\nsource\necho\n1\n1\n",
    ),
];
