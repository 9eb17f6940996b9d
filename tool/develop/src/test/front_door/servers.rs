//! Servers of other projects with their clients in one machine, over 127.0.0.1 and ::1, and what they must say.

use super::{Visit, packages, well};

/// Those of every run.
pub(super) const SERVERS: [Visit; 4] = [
    well(
        "busybox_servers",
        "$chitin run -- sh -c 'mkdir /tmp/w; cd /tmp/w; echo hello > index.html; seq 20000 > big
            httpd -p 127.0.0.1:80 -h /tmp/w; httpd -p [::1]:81 -h /tmp/w; telnetd -p 23 -l /bin/cat; nc -ll -p 9000 -e /bin/cat & sleep 1
            wget -qO - http://127.0.0.1/index.html; wget -qO - \"http://[::1]:81/big\" | cmp - big && echo same
            echo through | nc -w 2 localhost 9000; (sleep 1; echo typed; sleep 1) | nc -w 3 127.0.0.1 23 | grep -q typed && echo telnet
            for address in 127.0.0.1 ::1; do ping -c 1 -W 5 $address | grep -c \"1 packets received\"; done; kill $!'",
        "hello\nsame\nthrough\ntelnet\n1\n1\n",
    ),
    packages("python_s_servers", PYTHON, "b'HELLO\\n'\nb'HELLO\\n'\nb'UDP'\n300000\nasyncio\n20 ::ffff:127.0.0.1\n"),
    packages(
        "redis_with_its_benchmark",
        "$chitin run --packages redis-server,redis-tools -- sh -c 'redis-server --save \"\" > /tmp/log & sleep 2
            redis-cli ping; redis-cli -h ::1 set a b; redis-cli get a; redis-benchmark -q -n 2000 -t set,get,lpush | tr \"\\r\" \"\\n\" | grep -c \"requests per second\"
            redis-cli shutdown; wait $!; echo $?' 2> said || cat said >&2",
        "PONG\nOK\nb\n3\n0\n",
    ),
    packages("nginx_with_two_workers", NGINX, "page\npage\nsame\nsame\n100\nFailed requests: 0\n2 workers\npage\n0\n"),
];

/// Lines of a shell that run modules of Python's own tests. The clock counts instructions: some want a handshake of TLS
/// within 30 seconds, whatever the host does.
macro_rules! python_s_tests {
    ($modules:literal) => {
        concat!(
            "$chitin run --icount -m 2G --packages python3,libpython3.11-testsuite,netbase -- sh -c 'cd /tmp
            python3 -m test ",
            $modules,
            " > all 2>&1; tail -n 1 all | grep SUCCESS || cat all' 2> said || cat said >&2"
        )
    };
}

/// Those of full runs.
pub(super) const LARGE_SERVERS: [Visit; 13] = [
    packages(
        "python_s_own_tests_of_sockets",
        python_s_tests!("test_socket test_httpservers"),
        "Tests result: SUCCESS\n",
    ),
    packages("python_s_own_tests_of_ssl", python_s_tests!("test_ssl"), "Tests result: SUCCESS\n"),
    packages("python_s_own_tests_of_subprocess", python_s_tests!("test_subprocess"), "Tests result: SUCCESS\n"),
    packages("python_s_own_tests_of_asyncio", python_s_tests!("test_asyncio"), "Tests result: SUCCESS\n"),
    packages(
        "python_s_own_tests_of_concurrent_futures",
        python_s_tests!("test_concurrent_futures"),
        "Tests result: SUCCESS\n",
    ),
    packages("postgresql_with_pgbench", POSTGRESQL, "42\n::1\n1\nnumber of failed transactions: 0 (0.000%)\ndone\n"),
    packages("node_with_two_workers", NODE, "2 workers, lo\n"),
    packages("go_server_and_client", GO, "127.0.0.1 served\n::1 served\nlo\n"),
    packages(
        "debian_s_nodejs",
        "$chitin run --packages nodejs -- node -p 'JSON.stringify([6 * 7])' 2> said || cat said >&2",
        "[42]\n",
    ),
    packages(
        "debian_s_ruby",
        "$chitin run --packages ruby -- ruby -rjson -e 'puts [6 * 7].to_json' 2> said || cat said >&2",
        "[42]\n",
    ),
    packages(
        "debian_s_php",
        "$chitin run --packages php-cli -- php -r 'echo json_encode([6 * 7]), \"\\n\";' 2> said || cat said >&2",
        "[42]\n",
    ),
    packages("debian_s_sshd", SSHD, "uid=0(root) gid=0(root) groups=0(root)\nsame\ntunnel\nsame\n/dev/pts/0\n"),
    packages("debian_s_java", JAVA, "java.specification.version = 17\n"),
];

/// Sessions by PAM, with and without a terminal, files, and a tunnel through the server to itself.
const SSHD: &str = r#"$chitin run -m 1G --packages openssh-server,openssh-client -- sh -c '
    mkdir -p /run/sshd ~/.ssh; ssh-keygen -q -t ed25519 -N "" -f ~/.ssh/id_ed25519
    cp ~/.ssh/id_ed25519.pub ~/.ssh/authorized_keys
    echo "StrictHostKeyChecking no" > ~/.ssh/config; echo "LogLevel error" >> ~/.ssh/config
    /usr/sbin/sshd -p 2222; sleep 2
    ssh -p 2222 localhost id; scp -q -P 2222 localhost:/etc/passwd /tmp/copy; cmp /etc/passwd /tmp/copy && echo same
    ssh -p 2222 -f -N -L 3333:localhost:2222 localhost; ssh -p 3333 localhost echo tunnel
    [ "$(seq 100000 | ssh -p 2222 localhost md5sum)" = "$(seq 100000 | md5sum)" ] && echo same
    ssh -q -tt -p 2222 localhost "touch ~/.hushlogin; tty" | tr -d "\r" | tail -n 1' 2> said || cat said >&2"#;
const PYTHON: &str = r#"$chitin run --packages python3 -- python3 -c '
import socketserver, http.server, urllib.request, threading, asyncio, selectors, socket, os
class Stream(socketserver.StreamRequestHandler):
    def handle(self): self.wfile.write(self.rfile.readline().upper())
class Datagram(socketserver.DatagramRequestHandler):
    def handle(self): self.wfile.write(self.rfile.read().upper())
def served(kind, address, handler, family=socket.AF_INET):
    server = type("Server", (kind,), {"address_family": family})((address, 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
for kind, family, address in ((socketserver.ThreadingTCPServer, socket.AF_INET, "127.0.0.1"), (socketserver.ForkingTCPServer, socket.AF_INET6, "::1")):
    server = served(kind, address, Stream, family); client = socket.create_connection(server.server_address[:2])
    client.sendall(b"hello\n"); print(client.recv(100)); server.shutdown()
server = served(socketserver.ThreadingUDPServer, "127.0.0.1", Datagram); client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.sendto(b"udp", server.server_address); print(client.recv(100)); os.chdir("/tmp"); open("page", "w").write("x" * 300000)
server = served(http.server.ThreadingHTTPServer, "127.0.0.1", type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *all: None}))
print(len(urllib.request.urlopen("http://localhost:%d/page" % server.server_port).read()))
async def everything():
    async def serve(reader, writer):
        while line := await reader.readline(): writer.write(line[::-1]); await writer.drain()
        writer.close()
    server = await asyncio.start_server(serve, ["127.0.0.1", "::1"], 0); places = [one.getsockname()[:2] for one in server.sockets]
    async def ask(number):
        reader, writer = await asyncio.open_connection(*places[number % 2])
        for turn in range(5): writer.write(b"%d-%d\n" % (number, turn)); assert await reader.readexactly(len(b"%d-%d\n" % (number, turn))) == (b"%d-%d\n" % (number, turn))[::-1]
        writer.close(); await writer.wait_closed()
    await asyncio.gather(*(ask(number) for number in range(20))); print("asyncio"); server.close()
asyncio.run(everything())
chosen = selectors.DefaultSelector(); both = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True); both.setblocking(False); chosen.register(both, 1)
clients = [socket.create_connection(("127.0.0.1", both.getsockname()[1])) for _ in range(20)]; came = []
while len(came) < 20: came += [key.fileobj.accept() for key, _ in chosen.select(5)]
print(len(came), came[0][1][0])' 2> said || cat said >&2"#;

const NGINX: &str = r#"$chitin run --packages nginx-light,curl,apache2-utils -- sh -c '
mkdir /tmp/w; cd /tmp/w; echo page > index.html; head -c 3000000 /dev/urandom > big
cat > conf <<END
worker_processes 2; error_log /tmp/w/log; pid /tmp/w/pid; daemon off; events { worker_connections 64; }
http { access_log off; sendfile on; tcp_nopush on;
server { listen 127.0.0.1:8080; listen [::1]:8080; location / { root /tmp/w; } location /who { return 200 "\$pid\n"; } }
server { listen 8090; location / { proxy_pass http://127.0.0.1:8080; } } }
END
nginx -c /tmp/w/conf & server=$!; sleep 2; curl -sS http://127.0.0.1:8080/; curl -sS -g "http://[::1]:8080/"
curl -sS http://127.0.0.1:8080/big | cmp - big && echo same; curl -sS http://localhost:8090/big | cmp - big && echo same
curl -sS -r 100-199 http://127.0.0.1:8080/big | wc -c; ab -q -n 200 -c 8 http://127.0.0.1:8080/index.html | grep Failed | tr -s " "
echo $(($(grep -lx nginx /proc/[0-9]*/comm | wc -l) - 1)) workers
nginx -c /tmp/w/conf -s reload; sleep 1; curl -sS http://127.0.0.1:8080/; nginx -c /tmp/w/conf -s quit; wait $server; echo $?' 2> said || cat said >&2"#;

const JAVA: &str = r#"$chitin run --packages openjdk-17-jre-headless -- sh -c '
java -XshowSettings:properties -version 2>&1 | grep -o "java.specification.version = 17"' 2> said || cat said >&2"#;

const POSTGRESQL: &str = r#"$chitin run --packages postgresql -- sh -c '
mkdir -p /run/postgresql /tmp/pg; chown postgres /run/postgresql /tmp/pg; cat > /tmp/run <<END
cd /tmp/pg; PATH=$(ls -d /usr/lib/postgresql/*/bin):$PATH
initdb -D data -A trust --no-sync > init.log; pg_ctl -D data -o "-c fsync=off -c shared_buffers=16MB -c max_connections=20" -w -t 200 -l log start > /dev/null
psql -h 127.0.0.1 -Atc "select 6*7"; psql -h ::1 -Atc "select host(inet_client_addr())"; psql -h /run/postgresql -Atc "select 1"
pgbench -h 127.0.0.1 -i -s 1 -q postgres 2> /dev/null; pgbench -h 127.0.0.1 -c 4 -j 2 -t 20 postgres 2> /dev/null | grep failed
pg_ctl -D data -w -t 100 stop > /dev/null && echo done
END
su postgres -s /bin/sh /tmp/run' 2> said || cat said >&2"#;

const NODE: &str = r#"$chitin run -m 1G --packages nodejs -- sh -c 'cat > /tmp/a.js <<END
const cluster = require("cluster"), http = require("http"), os = require("os");
if (!cluster.isPrimary) http.createServer((_, answer) => answer.end("" + process.pid)).listen(8000);
else {
  let up = 0;
  cluster.fork(), cluster.fork();
  cluster.on("listening", async () => {
    if (++up < 2) return;
    const seen = new Set();
    const get = () => new Promise((done, fail) => http.get({ port: 8000, host: "127.0.0.1", agent: false }, r => { let all = ""; r.on("data", d => all += d); r.on("end", () => done(all)); }).on("error", fail));
    for (let turn = 0; turn < 12; turn++) seen.add(await get());
    console.log(seen.size + " workers, " + Object.keys(os.networkInterfaces()));
    process.exit(0);
  });
}
END
node /tmp/a.js' 2> said || cat said >&2"#;

const GO: &str = r#"$chitin run -m 2G --packages golang-go -- sh -c 'cd /tmp; cat > a.go <<END
package main
import ("fmt"; "io"; "net"; "net/http"; "sync")
func main() {
	for _, address := range []string{"127.0.0.1", "::1"} {
		listener, trouble := net.Listen("tcp", net.JoinHostPort(address, "0"))
		if trouble != nil { panic(trouble) }
		go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello %s", r.URL.Path) }))
		var all sync.WaitGroup
		for i := 0; i < 20; i++ {
			all.Add(1)
			go func(i int) {
				defer all.Done()
				answer, trouble := http.Get(fmt.Sprintf("http://%s/%d", listener.Addr(), i))
				if trouble != nil { panic(trouble) }
				text, _ := io.ReadAll(answer.Body)
				if string(text) != fmt.Sprintf("hello /%d", i) { panic(string(text)) }
			}(i)
		}
		all.Wait()
		fmt.Println(address, "served")
	}
	devices, _ := net.Interfaces()
	fmt.Println(devices[0].Name)
}
END
HOME=/tmp GOCACHE=/tmp/cache go build -p 1 -o a a.go && ./a' 2> said || cat said >&2"#;
