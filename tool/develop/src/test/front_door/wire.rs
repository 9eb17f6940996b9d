//! Programs that reach other machines, and are reached, over the network card: the host is the other machine.
//!
//! The system chooses the ports of each visit.

use super::Visit;

/// Those of every run.
pub(super) const WIRE: [Visit; 8] = [
    visit("clients_on_the_wire", CLIENTS, &["python3"]),
    visit("servers_on_the_wire", SERVERS, &["python3"]),
    visit("a_machine_that_others_reach_answers_at_once", IDLE, &["python3"]),
    visit("a_native_server_answers_curl", NATIVE, &["python3", "curl"]),
    visit("fault_81_requests_that_no_browser_sends", ODD_REQUESTS, &["python3"]),
    visit("a_native_server_on_a_wire", NATIVE_ON_A_WIRE, &[]),
    visit("transfers_with_losses", LOSSES, &[]),
    visit("a_tap_of_the_host_joins_a_wire", TAP, &["unshare", TAPS, "python3"]),
];

/// A visit that needs this makes taps of the host, in a name space of its own.
pub(super) const TAPS: &str = "ip";

/// Those of full runs.
pub(super) const LARGE_WIRE: [Visit; 1] =
    [visit("nginx_and_dropbear_by_ports_of_the_host", PORTS, &["python3", "curl", "dpkg-deb"])];

const fn visit(
    name: &'static str,
    (lines, output): (&'static str, &'static str),
    needs: &'static [&'static str],
) -> Visit {
    Visit { name, lines, status: 0, output, told: "", needs }
}

/// A file of 4 MB and its sum, a refused connection, and names by a server of the test's own. A killed program leaves a
/// connection with bytes on their way.
const CLIENTS: (&str, &str) = (
    r#"head -c 4000000 /dev/urandom > big; cat > peer.py <<'END'
import http.server, os, socket, struct, threading
def bound(kind):
    one = socket.socket(socket.AF_INET, kind); one.bind(("127.0.0.1", 0)); return one
class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *all): pass
web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet); threading.Thread(target=web.serve_forever, daemon=True).start()
names, left = bound(socket.SOCK_DGRAM), bound(socket.SOCK_STREAM); left.listen(); closed = bound(socket.SOCK_STREAM)
def resolve():
    while True:
        asked, source = names.recvfrom(512); found = asked[-4:-2] == b"\0\1"
        names.sendto(asked[:2] + b"\x81\x80\0\1" + (b"\0\1" if found else b"\0\0") + b"\0\0\0\0" + asked[12:]
            + (b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x0a\1\2\3" if found else b""), source)
threading.Thread(target=resolve, daemon=True).start()
open("made", "w").write(" ".join(str(one.getsockname()[1]) for one in (web.socket, names, left, closed))); os.rename("made", "ports")
connection, _ = left.accept(); total = 0
while some := connection.recv(65536): total += len(some)
open("counted", "w").write("%d\n" % total); os.rename("counted", "count"); threading.Event().wait(60)
END
python3 peer.py & peer=$!; until [ -e ports ]; do sleep 0.1; done; read web names left closed < ports
$chitin run --network user -- sh -c "wget -qO - http://10.0.2.2:$web/big | sha256sum; wget -qO - http://10.0.2.2:$closed/ 2>&1 | tail -n 1
    nslookup one.example 10.0.2.2:$names | grep -c 10.1.2.3; cat /etc/resolv.conf; ip -4 addr show eth0 | grep -o 'inet [0-9.]*'
    (head -c 100000 /dev/zero; sleep 60) | nc 10.0.2.2 $left & sleep 1; kill -9 \$!; wait 2> /dev/null & sleep 1" > said 2> told
sha256sum < big > sum; head -n 1 said | cmp - sum && echo same; tail -n +2 said
for turn in 1 2 3 4 5 6 7 8 9; do [ -e count ] || sleep 0.2; done; cat count; kill $peer; cat told >&2"#,
    "same\nwget: can't connect to remote host (10.0.2.2): Connection refused\n1\n#PROTO: DHCP\nnameserver 10.0.2.3\ninet 10.0.2.15\n100000\n",
);

/// A server that the host reaches by a published port, many times and at once, also from within the machine.
const SERVERS: (&str, &str) = (
    r#"cat > ports.py <<'END'
import socket
taken = [socket.socket() for _ in range(2)]
for one in taken: one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in taken))
END
read web stop <<END
$(python3 ports.py)
END
$chitin run -p $web:80 -p $stop:81 -- sh -c 'mkdir /tmp/w; cd /tmp/w; echo hello > index.html; seq 200000 > big; httpd -p 80
    wget -qO - http://10.0.2.15/; wget -qO - http://127.0.0.1/; nc -l -p 81; echo over' > said 2> told & machine=$!
get() { $busybox wget -qO - http://127.0.0.1:$web/$1; }
until get index.html > got 2> /dev/null; do kill -0 $machine || break; sleep 0.2; done; cat got
seq 200000 > big; get big | cmp - big && echo same
for turn in 1 2 3 4 5 6 7 8; do get index.html > got$turn & all="$all $!"; done; wait $all; cat got? | sort | uniq -c | tr -s " "
echo enough | $busybox nc 127.0.0.1 $stop; wait $machine; cat said; cat told >&2"#,
    "hello\nsame\n 8 hello\nhello\nhello\nenough\nover\n",
);

/// A machine whose programs use no network refuses what comes by a published port, and answers pings.
const IDLE: (&str, &str) = (
    r#"web=$(python3 -c 'import socket; one = socket.socket(); one.bind(("127.0.0.1", 0)); print(one.getsockname()[1])')
$chitin run -p $web:80 -- sh -c 'echo up; exec sleep 1000' > said 2> told & machine=$!
until grep -qs up said; do kill -0 $machine || exit 1; sleep 0.2; done
timeout 20 $busybox wget -qO - http://127.0.0.1:$web/ 2> refusal; echo $?; kill $machine; wait $machine
$develop wire w --peer --once 2> log & until test -S w; do sleep 0.1; done
$chitin run --network wire:w -- sh -c 'echo up; exec sleep 1000' > idle 2>> told & machine=$!
until grep -qs up idle; do kill -0 $machine || exit 1; sleep 0.2; done
$chitin run --network wire:w -- ping -c 3 -W 10 10.0.2.15 2>> told | grep -o ' 0% packet loss'; kill $machine; wait $machine; cat told >&2"#,
    "1\n 0% packet loss\n",
);

/// The host reaches a machine on the wire through a tap, and the machine reaches the host. A tap that is gone is named.
const TAP: (&str, &str) = (
    r#"cat > host.py <<'END'
import socket, sys, time
def reached(port):
    while True:
        try: return socket.create_connection(("10.0.2.15", port), 5)
        except OSError: time.sleep(0.2)
server = socket.create_server(("10.0.2.77", 7)); one = reached(80); one.sendall(b"GET /a HTTP/1.0\r\n\r\n")
print(one.makefile("rb").read().count(b"line")); back = server.accept()[0]; print(back.makefile().readline(), end=""); back.close()
END
cat > inside <<'END'
ip link set lo up; ip tuntap add dev tap0 mode tap; ip addr add 10.0.2.77/24 dev tap0; ip link set tap0 up
$develop wire w --peer --tap tap0 --once 2> log & until test -S w; do sleep 0.1; done
$chitin run --network wire:w -- sh -c 'mkdir /tmp/w; cd /tmp/w; yes line | head -n 3000 > a; httpd -p 80
    until ip addr show eth0 | grep -q "inet "; do sleep 0.2; done; until echo from the machine | nc 10.0.2.77 7; do sleep 0.2; done' 2> told &
timeout 100 python3 host.py; wait; cat told >&2; grep -c ' lost, ' log
END
export develop chitin; unshare -rn sh ./inside
$develop wire w --tap chitin-none 2>&1 | grep -o "chitin-none: no such device; make it with"; test ! -e w && echo gone"#,
    "3000
from the machine
1
chitin-none: no such device; make it with
gone
",
);

/// Servers of other projects behind published ports. The host's curl asks 2,000 times, half of them with connections of
/// their own. A second machine reaches both servers by the host's loopback.
const PORTS: (&str, &str) = (
    r#"free() { python3 -c 'import socket; one = socket.socket(); one.bind(("127.0.0.1", 0)); print(one.getsockname()[1])'; }
web=$(free); shell=$(free)
$chitin run -p $web:80 -p $shell:22 --packages nginx-light,dropbear-bin -- sh -c '
    mkdir -p /tmp/w /etc/dropbear /root; cd /tmp/w; seq 300 > index.html; sed -i "s/^root:[^:]*:/root::/" /etc/passwd /etc/shadow
    cat > conf <<END
worker_processes 2; error_log /tmp/w/log; pid /tmp/w/pid; events { worker_connections 64; }
http { access_log off; server { listen 80; location / { root /tmp/w; } } }
END
    nginx -c /tmp/w/conf; dropbear -R -F -B -p 22 2> /tmp/w/dropbear & echo up; wait' > said 2> told & machine=$!
until grep -qs up said; do kill -0 $machine || break; sleep 0.2; done
until curl -s http://127.0.0.1:$web/ > page; do kill -0 $machine || break; sleep 0.2; done; seq 300 | cmp - page && echo same
ask() { curl -sS --no-progress-meter -Z --parallel-max 8 -o gone -w '%{http_code} %{size_download}
' "$@" | sort | uniq -c | tr -s " "; }
ask "http://127.0.0.1:$web/?[1-1000]"; ask -H "Connection: close" "http://127.0.0.1:$web/?[1-1000]"
$chitin run --network user --packages openssh-client,curl,wget -- sh -c "cd /tmp; seq 300 > page; curl -sS http://10.0.2.2:$web/ | cmp - page && echo curl
    wget -qO - http://10.0.2.2:$web/ | cmp - page && echo wget; head -c 300000 /dev/zero > big
    ssh -q -p $shell -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null root@10.0.2.2 'echo \$USER; wc -c; exit 7' < big; echo \$?" 2> client
kill $machine; wait $machine; grep -v ': \(fetching\|unpacking\|configuring\|building\)' told client >&2; :"#,
    "same
 1000 200 1092
 1000 200 1092
curl
wget
root
300000
7
",
);

/// The server of `app/http`, with a TCP of its own: connections that stay, pages that are not there, other methods.
const NATIVE: (&str, &str) = (
    r#"web=$(python3 -c 'import socket; one = socket.socket(); one.bind(("127.0.0.1", 0)); print(one.getsockname()[1])')
$chitin run --native http -p $web:80 > said 2> told & machine=$!
until grep -qs http: said; do kill -0 $machine || exit 1; sleep 0.2; done
page() { curl -s -m 20 -w '%{http_code} %{size_download} %{num_connects}\n' "$@"; }; at=http://127.0.0.1:$web
page -o a -o b -o c $at/ $at/none $at/; cmp a c && head -n 1 a | grep -c Chitin; page -o d --http1.0 $at/; page -I -o d $at/; page -d x -o d $at/
for turn in 1 2 3 4 5 6 7 8; do page -o g$turn $at/ & all="$all $!"; done > many; wait $all; sort many | uniq -c | tr -s " "
kill $machine; wait $machine; cat said; cat told >&2"#,
    "200 1024 1\n404 13 0\n200 1024 0\n1\n200 1024 1\n200 0 1\n400 0 1\n 8 200 1024 1\nhttp: http://10.0.2.15/\n",
);

/// The same server and requests that are wrong (row 81): each gets its answer, or the connection is reset. Slow clients
/// with a part of a head hold up no other. The server answers a good request afterwards.
const ODD_REQUESTS: (&str, &str) = (
    r#"web=$(python3 -c 'import socket; one = socket.socket(); one.bind(("127.0.0.1", 0)); print(one.getsockname()[1])')
cat > odd.py <<'END'
import socket, sys
N = chr(13) + chr(10); E = N.encode()
def ask(request):
    one = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 20); got = b""
    try:
        one.sendall(request); one.shutdown(socket.SHUT_WR)
        while some := one.recv(65536): got += some
    except OSError: pass
    lines = [line.split()[1].decode() for line in got.replace(b"HTTP/1.1 ", E + b"HTTP/1.1 ").split(E) if line.startswith(b"HTTP/1.1 ")]
    return " ".join(sorted(set(lines))) + " x%d" % len(lines) if lines else "reset"
def get(target, more=""): return f"GET {target} HTTP/1.1{N}Host: a{N}{more}{N}".encode()
slow = [socket.create_connection(("127.0.0.1", int(sys.argv[1])), 20) for _ in range(20)]
for one in slow: one.sendall(b"GET / HTTP/1.1" + E + b"Ho")
print("outside", ask(get("/../../etc/passwd")), ask(get("/%2e%2e/%2e%2e/etc/passwd")), ask(get("/%00")), ask(get("//")))
print("long", ask(get("/", "A: " + "b" * 1000000 + N)) in ("400 x1", "reset"), ask(get("/" + "c" * 4000)))
print("bodies", *(ask(get("/", field + N)) for field in ("Transfer-Encoding: chunked", "Content-Length: -1", "Content-Length: 99999999999999999999")))
print("ranges", ask(get("/", "Range: bytes=" + ",".join("%d-" % at for at in range(900)) + N)))
print("many", ask(get("/") * 500))
print("garbage", ask(bytes(range(256)) * 64) in ("400 x1", "reset"), ask(E + E), ask(b"GET / HTTP/9.9" + E + E), ask(b"GET  / HTTP/1.1" + E + b"Host: a" + E + E), ask(b""))
print("good", ask(get("/")))
END
$chitin run --native http -p $web:80 > said 2> told & machine=$!
until grep -qs http: said; do kill -0 $machine || exit 1; sleep 0.2; done
python3 odd.py $web; kill $machine; wait $machine; cat told >&2"#,
    "outside 404 x1 404 x1 404 x1 404 x1\nlong True 404 x1\nbodies 400 x1 400 x1 400 x1\nranges 200 x1\nmany 200 x500\ngarbage True 400 x1 400 x1 400 x1 reset\ngood 200 x1\n",
);

/// The same over a wire with a peer and with a Linux program as client, which no other port answers. A router's prefix
/// makes an address, and a neighbour that is not there ends a connection.
const NATIVE_ON_A_WIRE: (&str, &str) = (
    r#"$develop wire w --peer --once 2> log & until test -S w; do sleep 0.1; done
$chitin run --native http --network wire:w > said 2> told & machine=$!
until grep -qs http: said; do kill -0 $machine || exit 1; sleep 0.2; done
$chitin run --network wire:w -- sh -c 'cd /tmp; wget -qO - http://10.0.2.15/ | wc -c; wget -qO - http://10.0.2.15/none 2>&1 | tail -n 1
    for turn in 1 2 3 4 5 6 7 8 9; do printf "GET / HTTP/1.1\r\nHost: a\r\n\r\n"; done > many
    printf "GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" >> many; nc 10.0.2.15 80 < many | grep -o "HTTP/1.1 [24]*" | sort | uniq -c | tr -s " "
    printf "GET / HTTP/1.1\r\n\r\n" | nc 10.0.2.15 80 | head -n 1 | tr -d "\r"; nc -w 1 10.0.2.15 81 < /dev/null 2> /dev/null; echo $?
    wget -qO - http://10.0.2.15/ | grep -c Chitin; for turn in 1 2 3 4 5 6 7 8 9; do ip -6 addr show eth0 | grep -o "inet6 fd00:2" && break; sleep 1; done
    ping -c 1 -W 5 fd00:2::2 | grep -c "1 packets received"; begun=$(date +%s); wget -qO - http://10.0.2.77/ 2>&1 | tail -n 1
    test $(($(date +%s) - begun)) -lt 30 && echo soon; nc 10.0.2.2 22 < /dev/null 2>&1'
kill $machine; wait $machine; cat said; cat told >&2"#,
    "1024\nwget: server returned error: HTTP/1.1 404 Not Found\n 9 HTTP/1.1 2\n 1 HTTP/1.1 4\nHTTP/1.1 400 Bad Request\n1\n1\ninet6 fd00:2\n1
wget: can't connect to remote host (10.0.2.77): No route to host\nsoon\nnc: can't connect to remote host (10.0.2.2): Connection refused\nhttp: http://10.0.2.15/\n",
);

/// Both directions, with sums of the bytes, over wires that lose frames. They lose questions by DHCP, too: an address
/// may come after the first 3 s, of which a line then tells.
const LOSSES: (&str, &str) = (
    r#"transfer() {
    $develop wire w --peer --once --loss $1 --seed 7 2> log & until test -S w; do sleep 0.1; done
    $chitin run --network wire:w -- sh -c "cd /tmp; until ip addr show eth0 | grep -q 'inet '; do sleep 0.2; done; head -c $2 /dev/urandom > a; sum=\$(sha256sum < a | cut -c 1-64)
        nc 10.0.2.2 9 < a | grep -c \$sum; echo $2 | nc 10.0.2.2 19 > b; head -c $2 b | sha256sum | cut -c 1-64 > c; tail -c 65 b | cmp - c && echo $1"
    wait
} 2> told
transfer 0% 16777216; transfer 0.1% 16777216; transfer 1% 1048576; transfer 5% 262144; transfer 20% 65536"#,
    "1\n0%\n1\n0.1%\n1\n1%\n1\n5%\n1\n20%\n",
);
