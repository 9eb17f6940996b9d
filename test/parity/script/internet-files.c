// sendfile, splice, vmsplice and tee with Internet streams: files out, pipes in, nothing waiting, the other side gone.
#include "../internet.h"
#include <sys/sendfile.h>
#include <sys/uio.h>

enum { BYTES = 500000 };
static char block[BYTES], found[BYTES];

static int file_of_block(void) {
    int file = open("block", O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int at = 0; at < BYTES; at++) block[at] = at * 31 + at / 4096;
    write(file, block, BYTES);
    return file;
}

static long drain(int from) {
    long total = 0, got;
    while (total < BYTES && (got = read(from, found + total, BYTES - total)) > 0) total += got;
    return total;
}

static void whole_file(int file) {
    int ends[2], status;
    connection(ends);
    pid_t child = fork();
    if (!child) {
        close(ends[1]);
        long done = 0, now;
        off_t at = 0;
        while (done < BYTES && (now = sendfile(ends[0], file, &at, BYTES - done)) > 0) done += now;
        _exit(done == BYTES && at == BYTES ? 0 : 1);
    }
    close(ends[0]);
    long total = drain(ends[1]);
    waitpid(child, &status, 0);
    printf("sendfile: %ld, same %d, status %d, place of the file %ld\n", total, !memcmp(block, found, BYTES), WEXITSTATUS(status), (long)lseek(file, 0, SEEK_CUR));
    close(ends[1]);
}

static void through_pipes(int file) {
    int ends[2], in[2], out[2], status;
    connection(ends), pipe(in), pipe(out);
    pid_t child = fork();
    if (!child) {
        loff_t at = 0;
        long now, moved;
        while ((now = splice(file, &at, in[1], 0, 30000, 0)) > 0)
            while (now > 0 && (moved = splice(in[0], 0, ends[0], 0, now, SPLICE_F_MORE)) > 0) now -= moved;
        _exit(at == BYTES ? 0 : 1);
    }
    close(ends[0]);
    int copy = open("copy", O_RDWR | O_CREAT | O_TRUNC, 0600);
    long total = 0, now, moved;
    while ((now = splice(ends[1], 0, out[1], 0, 30000, 0)) > 0)
        for (total += now; now > 0 && (moved = splice(out[0], 0, copy, 0, now, 0)) > 0;) now -= moved;
    waitpid(child, &status, 0);
    pread(copy, found, BYTES, 0);
    printf("splice: %ld, same %d, status %d, end %s\n", total, !memcmp(block, found, BYTES), WEXITSTATUS(status), said(now));
    close(ends[1]), close(copy), close(in[0]), close(in[1]), close(out[0]), close(out[1]);
}

static void edges(int file) {
    int ends[2], both[2];
    char text[16];
    connection(ends), pipe(both);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    printf("nothing there %s", said(splice(ends[1], 0, both[1], 0, 10, 0)));
    write(ends[0], "hello", 5);
    printf(", five %s", said(splice(ends[1], 0, both[1], 0, 10, 0)));
    printf(", read %s", said(read(both[0], text, 16)));
    loff_t at = 0;
    printf(", with a place %s", said(splice(ends[1], &at, both[1], 0, 10, 0)));
    printf(", socket to file %s", said(splice(ends[1], 0, file, 0, 10, 0)));
    struct iovec piece = {"vm", 2};
    printf(", vmsplice %s", said(vmsplice(both[1], &piece, 1, 0)));
    printf(", on %s", said(splice(both[0], 0, ends[0], 0, 10, 0)));
    printf(", read %s\n", said(read(ends[1], text, 16)));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    off_t from = 0;
    long now, sent = 0;
    while ((now = sendfile(ends[0], file, &from, BYTES)) > 0) { sent += now; if (from == BYTES) from = 0; }
    printf("full %s, some sent %d", said(now), sent > 0);
    close(ends[1]);
    usleep(1000);
    printf(", gone %s", said(sendfile(ends[0], file, &from, 10)));
    printf(", again %s", said(sendfile(ends[0], file, &from, 10)));
    write(both[1], "x", 1);
    printf(", splice %s\n", said(splice(both[0], 0, ends[0], 0, 10, 0)));
    close(ends[0]), close(both[0]), close(both[1]);
    connection(ends);
    shutdown(ends[0], SHUT_WR);
    printf("shut %s", said(sendfile(ends[0], file, &from, 10)));
    pipe(both), write(both[1], "x", 1);
    printf(", splice %s", said(splice(both[0], 0, ends[0], 0, 10, 0)));
    printf(", end %s\n", said(splice(ends[1], 0, both[1], 0, 10, 0)));
    close(ends[0]), close(ends[1]), close(both[0]), close(both[1]);
}

static void datagrams(int file) {
    int receiver = bound(SOCK_DGRAM), sender = socket(family, SOCK_DGRAM, 0), both[2];
    off_t from = 0;
    pipe(both), connect_to(sender, port_of(receiver));
    printf("datagram of a file %s", said(sendfile(sender, file, &from, 1000)));
    printf(", came %s", said(recv(receiver, found, 2000, MSG_DONTWAIT)));
    write(both[1], "four", 4);
    printf(", of a pipe %s", said(splice(both[0], 0, sender, 0, 4, 0)));
    printf(", came %s\n", said(recv(receiver, found, 2000, MSG_DONTWAIT)));
    close(receiver), close(sender), close(both[0]), close(both[1]);
}

int main(void) {
    begin();
    int file = file_of_block();
    BOTH_FAMILIES whole_file(file), through_pipes(file), edges(file), datagrams(file);
    return 0;
}
