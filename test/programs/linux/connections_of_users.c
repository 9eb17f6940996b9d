// Connections between processes of different users. One line for each part. Then a process writes into the pages of its
// own connection what names pages of the process that listens: that one opens none of them.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "census.h"

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); _exit(1); } } while (0)

enum { USER = 1000, OTHER = 2000, MANY = 50 };

static struct sockaddr_un place;
static socklen_t place_bytes;

static void at(const char *path) {
    memset(&place, 0, sizeof place);
    place.sun_family = AF_UNIX;
    size_t bytes = *path == '@' ? strlen(path) : strlen(path) + 1;
    memcpy(place.sun_path, path, bytes);
    if (*path == '@') place.sun_path[0] = 0;
    place_bytes = offsetof(struct sockaddr_un, sun_path) + bytes;
}

static int listener(const char *path, int kind, mode_t mode, int backlog) {
    int made = socket(AF_UNIX, kind, 0);
    at(path);
    if (*path != '@') unlink(path);
    CHECK(made >= 0 && !bind(made, (void *)&place, place_bytes) && !listen(made, backlog));
    CHECK(*path == '@' || !chmod(path, mode));
    return made;
}

static pid_t as_user(uid_t user) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) CHECK(!setgroups(0, NULL) && !setgid(100) && !setuid(user));
    return child;
}

static void ends_well(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static int connected(int kind) {
    int made = socket(AF_UNIX, kind, 0);
    CHECK(made >= 0 && !connect(made, (void *)&place, place_bytes));
    return made;
}

static int is_peer(int of, pid_t process, uid_t user, gid_t group) {
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    CHECK(!getsockopt(of, SOL_SOCKET, SO_PEERCRED, &peer, &bytes));
    return peer.pid == process && peer.uid == user && peer.gid == group;
}

static void send_one(int to, int descriptor) {
    char room[CMSG_SPACE(sizeof(int))] = {0}, byte = 'd';
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET, control->cmsg_type = SCM_RIGHTS, control->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(control), &descriptor, sizeof descriptor);
    CHECK(sendmsg(to, &message, 0) == 1);
}

// The descriptor that comes with a byte, or -1.
static int receive_one(int from) {
    char room[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    CHECK(recvmsg(from, &message, 0) == 1 && byte == 'd');
    struct cmsghdr *control = CMSG_FIRSTHDR(&message);
    int descriptor = -1;
    if (control && control->cmsg_type == SCM_RIGHTS) memcpy(&descriptor, CMSG_DATA(control), sizeof descriptor);
    return descriptor;
}

static void bytes_both_ways(const char *path, int kind) {
    char bytes[8] = "";
    int made = listener(path, kind, 0666, 5);
    pid_t parent = getpid(), child = as_user(USER);
    if (!child) {
        int own = connected(kind);
        CHECK(is_peer(own, parent, 0, 0) && write(own, "hello", 5) == 5);
        CHECK(read(own, bytes, sizeof bytes) == 5 && !memcmp(bytes, "world", 5) && read(own, bytes, 1) == 0);
        _exit(0);
    }
    int other = accept(made, NULL, NULL);
    CHECK(other >= 0 && is_peer(other, child, USER, 100));
    CHECK(read(other, bytes, sizeof bytes) == 5 && !memcmp(bytes, "hello", 5) && write(other, "world", 5) == 5);
    CHECK(!close(other) && !close(made));
    ends_well(child);
}

static void larger_than_a_pipe(void) {
    enum { BYTES = 300000 };
    static char bytes[BYTES];
    int made = listener("/tmp/listener", SOCK_STREAM, 0666, 5);
    pid_t child = as_user(USER);
    if (!child) {
        int own = connected(SOCK_STREAM);
        for (int i = 0; i < BYTES; i++) bytes[i] = (char)(i * 7 >> 3);
        CHECK(write(own, bytes, BYTES) == BYTES);
        for (int done = 0, some; done < BYTES; done += some) CHECK((some = read(own, bytes, BYTES)) > 0);
        _exit(0);
    }
    int other = accept(made, NULL, NULL), done = 0;
    for (int some; done < BYTES; done += some) CHECK((some = read(other, bytes + done, BYTES - done)) > 0);
    for (int i = 0; i < BYTES; i++) CHECK(bytes[i] == (char)(i * 7 >> 3));
    CHECK(write(other, bytes, BYTES) == BYTES);
    ends_well(child);
    CHECK(!close(other) && !close(made));
}

static void descriptors(void) {
    char bytes[8] = "";
    int made = listener("/tmp/listener", SOCK_STREAM, 0666, 5);
    pid_t child = as_user(USER);
    if (!child) {
        int own = connected(SOCK_STREAM), ends[2], pair[2];
        int file = open("/tmp/of-a-user", O_CREAT | O_RDWR | O_TRUNC, 0600);
        CHECK(file >= 0 && pwrite(file, "file", 4, 0) == 4 && !pipe(ends) && write(ends[1], "pipe", 4) == 4);
        CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair) && write(pair[1], "pair", 4) == 4);
        send_one(own, file), send_one(own, ends[0]), send_one(own, pair[0]);
        CHECK(read(own, bytes, 1) == 1);
        _exit(0);
    }
    int other = accept(made, NULL, NULL), file = receive_one(other), end = receive_one(other), pair = receive_one(other);
    CHECK(file >= 0); CHECK(pread(file, bytes, 4, 0) == 4 && !memcmp(bytes, "file", 4));
    CHECK(end >= 0 && read(end, bytes, 4) == 4 && !memcmp(bytes, "pipe", 4));
    CHECK(pair >= 0 && read(pair, bytes, 4) == 4 && !memcmp(bytes, "pair", 4));
    CHECK(write(other, "!", 1) == 1 && !close(file) && !close(end) && !close(pair) && !close(other) && !close(made));
    ends_well(child);
    CHECK(!unlink("/tmp/of-a-user"));
}

static void many(void) {
    char byte;
    int made = listener("/tmp/listener", SOCK_STREAM, 0666, 5);
    pid_t child = as_user(USER);
    if (!child) {
        for (int i = 0; i < MANY; i++) {
            int own = connected(SOCK_STREAM);
            CHECK(write(own, "x", 1) == 1 && read(own, &byte, 1) == 1 && byte == 'y' && !close(own));
        }
        _exit(0);
    }
    for (int i = 0; i < MANY; i++) {
        int other = accept(made, NULL, NULL);
        CHECK(other == made + 1 && read(other, &byte, 1) == 1 && write(other, "y", 1) == 1);
        CHECK(read(other, &byte, 1) == 0 && !close(other));
    }
    ends_well(child);
    CHECK(!close(made));
}

static void refused(void) {
    int made = listener("/tmp/listener", SOCK_STREAM, 0600, 5);
    pid_t child = as_user(USER);
    if (!child) {
        int own = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK(connect(own, (void *)&place, place_bytes) == -1 && errno == EACCES);
        _exit(0);
    }
    ends_well(child);
    CHECK(!chmod("/tmp/listener", 0666) && !close(made));
    child = as_user(USER);
    if (!child) {
        int own = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK(connect(own, (void *)&place, place_bytes) == -1 && errno == ECONNREFUSED);
        _exit(0);
    }
    ends_well(child);
}

// A client that has closed its socket, or ended, before user 0 accepts, and one that finds the queue full.
static void before_accept(void) {
    char bytes[8];
    int made = listener("/tmp/listener", SOCK_STREAM, 0666, 1);
    pid_t child = as_user(USER);
    if (!child) {
        int own = connected(SOCK_STREAM);
        CHECK(write(own, "left", 4) == 4 && !close(own));
        own = connected(SOCK_STREAM);
        CHECK(write(own, "ends", 4) == 4);
        int full = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        CHECK(connect(full, (void *)&place, place_bytes) == -1 && errno == EAGAIN);
        _exit(0);
    }
    ends_well(child);
    for (int i = 0; i < 2; i++) {
        int other = accept(made, NULL, NULL);
        CHECK(other >= 0 && read(other, bytes, sizeof bytes) == 4 && !memcmp(bytes, i ? "ends" : "left", 4));
        CHECK(read(other, bytes, sizeof bytes) == 0 && !close(other));
    }
    CHECK(!close(made));
}

static void sleepers(void) {
    char byte;
    int made = listener("/tmp/listener", SOCK_STREAM, 0666, 5), events = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = made};
    CHECK(!epoll_ctl(events, EPOLL_CTL_ADD, made, &event));
    for (int i = 0; i < 3; i++) {
        pid_t child = as_user(USER);
        if (!child) {
            usleep(50000);
            int own = connected(SOCK_STREAM);
            CHECK(read(own, &byte, 1) == 0);
            _exit(0);
        }
        struct pollfd wanted = {.fd = made, .events = POLLIN};
        if (i == 0) CHECK(epoll_wait(events, &event, 1, 20000) == 1);
        if (i == 1) CHECK(poll(&wanted, 1, 20000) == 1);
        int other = accept(made, NULL, NULL);
        CHECK(other >= 0 && !close(other));
        ends_well(child);
    }
    CHECK(!close(events) && !close(made));
}

// A listener that a worker accepts from, which has become the user that connects.
static void workers(void) {
    char byte;
    int made = listener("/tmp/listener", SOCK_STREAM, 0666, 5), ready[2];
    CHECK(!pipe(ready));
    pid_t worker = as_user(USER);
    if (!worker) {
        CHECK(write(ready[1], "r", 1) == 1);
        int other = accept(made, NULL, NULL);
        CHECK(other >= 0 && read(other, &byte, 1) == 1 && write(other, &byte, 1) == 1);
        _exit(0);
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    pid_t child = as_user(USER);
    if (!child) {
        int own = connected(SOCK_STREAM);
        CHECK(write(own, "w", 1) == 1 && read(own, &byte, 1) == 1 && byte == 'w');
        _exit(0);
    }
    ends_well(child), ends_well(worker);
    CHECK(!close(made) && !close(ready[0]) && !close(ready[1]));
}

// The places below are those of lib/linux-abi/src/address_map.rs, abi/src and lib/exos/src/pipe.
static char *const windows = (char *)0x7d8000080000;
static volatile uint64_t *const pages = (void *)0xffffc00080000000;
enum { WINDOW_BYTES = 512 << 10, STATE = 0, OWNER = 1, ACCESS = 2, PAGE_WORDS = 8, ORDINARY = 3 };
enum { GROWN_BY = 15, OWN_PAGES = 16, NAME = 64, PIPE_PAGES = 17 };
static const char own_name[] = "/tmp/evil";

static sigjmp_buf way_back;
static void at_fault(int signal) { (void)signal, siglongjmp(way_back, 1); }

// The first page of the pipe that carries what the socket with this name sends.
static volatile uint64_t *own_pipe(void) {
    volatile uint64_t *volatile found = NULL;
    signal(SIGSEGV, at_fault);
    for (char *volatile page = windows; page < windows + WINDOW_BYTES && !found; page += 4096) {
        if (sigsetjmp(way_back, 1)) continue;
        if (!memcmp(page + NAME * 8, own_name, sizeof own_name - 1)) found = (void *)page;
    }
    signal(SIGSEGV, SIG_DFL);
    return found;
}

// The stamp of a page of a process under another list.
static uint64_t page_of(uint64_t process, uint64_t own) {
    uint64_t list = (uint32_t)pages[own % (1ull << 32) * PAGE_WORDS + ACCESS];
    for (uint64_t page = 1; page < 1 << 16; page++) {
        volatile uint64_t *info = pages + page * PAGE_WORDS;
        uint64_t state = info[STATE];
        if (info[OWNER] == process && (state & 255) == ORDINARY && (uint32_t)info[ACCESS] != list)
            return state >> 32 << 32 | page;
    }
    return 0;
}

static int named(void) {
    int made = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un own = {.sun_family = AF_UNIX};
    memcpy(own.sun_path, own_name, sizeof own_name);
    unlink(own_name);
    CHECK(made >= 0 && !bind(made, (void *)&own, sizeof own) && !connect(made, (void *)&place, place_bytes));
    return made;
}

// Rounds: its pipe names a page of the listener's in each place; then what it has grown by; then a descriptor in a message
// names one as the page of its offset.
static void names_others(pid_t parent, const int *turns) {
    for (int round = 1; round <= PIPE_PAGES + 1; round++) {
        char byte;
        int own = named();
        volatile uint64_t *first = own_pipe();
        CHECK(first && (uint32_t)first[OWN_PAGES]);
        uint64_t victim = page_of(parent, first[OWN_PAGES]);
        CHECK(victim);
        if (round < PIPE_PAGES) first[OWN_PAGES + round] = victim;
        else if (round == PIPE_PAGES) first[GROWN_BY] = victim;
        else {
            send_one(own, own);
            volatile uint64_t *word = first + 512;
            // A record's stamp, its index, and the kind of a socket.
            while (word < first + 1024 && !(word[2] == 4 && word[1] < 512 && (uint32_t)word[0] && word[0] >> 32)) word++;
            CHECK(word < first + 1024);
            word[0] = victim;
        }
        CHECK(write(turns[1], "c", 1) == 1 && read(turns[0], &byte, 1) == 1 && !close(own));
    }
}

static void accepts_from_evil(const int *turns) {
    int made = listener("/tmp/listener", SOCK_STREAM | SOCK_NONBLOCK, 0666, 5);
    CHECK(write(turns[1], "r", 1) == 1);
    for (int round = 1; round <= PIPE_PAGES + 1; round++) {
        char byte;
        CHECK(read(turns[0], &byte, 1) == 1);
        int other = accept(made, NULL, NULL);
        if (round <= PIPE_PAGES) CHECK(other == -1 && errno == EAGAIN);
        else CHECK(other >= 0 && receive_one(other) == -1 && !close(other));
        CHECK(write(turns[1], "d", 1) == 1);
    }
}

static void evil(uid_t listens) {
    int to_evil[2], from_evil[2];
    char byte;
    CHECK(!pipe(to_evil) && !pipe(from_evil) && !unlink("/tmp/listener"));
    pid_t good = as_user(listens);
    if (!good) { accepts_from_evil((int[]){from_evil[0], to_evil[1]}); _exit(0); }
    at("/tmp/listener");
    CHECK(read(to_evil[0], &byte, 1) == 1);
    pid_t child = as_user(USER);
    if (!child) { names_others(good, (int[]){to_evil[0], from_evil[1]}); _exit(0); }
    ends_well(child), ends_well(good);
    for (int i = 0; i < 2; i++) CHECK(!close(to_evil[i]) && !close(from_evil[i]));
}

// Sends so many bytes one way, and as many back.
static void sends(int own, int bytes) {
    char some[4096];
    for (int i = 0; i < (int)sizeof some; i++) some[i] = (char)(i * 7 >> 3);
    for (int done = 0; done < bytes; done += sizeof some) CHECK(write(own, some, sizeof some) == sizeof some);
    for (int done = 0, got; done < bytes; done += got) {
        int left = bytes - done;
        CHECK((got = read(own, some, left < (int)sizeof some ? left : (int)sizeof some)) > 0);
    }
}

static void sends_back(int other, int bytes) {
    static char all[300 << 10];
    for (int done = 0, got; done < bytes; done += got) CHECK((got = read(other, all + done, bytes - done)) > 0);
    for (int i = 0; i < bytes; i++) CHECK(all[i] == (char)(i % 4096 * 7 >> 3));
    for (int done = 0, put; done < bytes; done += put) CHECK((put = write(other, all + done, bytes - done)) > 0);
}

// One user listens and another one connects: neither of them is user 0, or only who connects.
static void between(uid_t connects, const char *path, int kind) {
    enum { BYTES = 200 << 10 };
    int ready[2];
    char byte;
    CHECK(!pipe(ready));
    pid_t first = as_user(OTHER);
    if (!first) {
        int made = listener(path, kind, 0666, 5);
        CHECK(write(ready[1], "r", 1) == 1);
        int other = accept(made, NULL, NULL);
        struct ucred peer;
        socklen_t bytes = sizeof peer;
        CHECK(!getsockopt(other, SOL_SOCKET, SO_PEERCRED, &peer, &bytes));
        CHECK(other >= 0 && peer.uid == connects && peer.gid == 100);
        if (kind == SOCK_STREAM) sends_back(other, BYTES);
        // Another user's descriptors do not come.
        if (connects) CHECK(receive_one(other) == -1);
        CHECK(write(other, "e", 1) == 1 && read(other, &byte, 1) == 0 && !close(other));
        for (int i = 0; i < MANY; i++) {
            CHECK((other = accept(made, NULL, NULL)) >= 0 && read(other, &byte, 1) == 1 && write(other, "y", 1) == 1);
            CHECK(read(other, &byte, 1) == 0 && !close(other));
        }
        // Who has ended before it is accepted.
        CHECK(read(ready[0], &byte, 1) == 1 && (other = accept(made, NULL, NULL)) >= 0);
        CHECK(read(other, &byte, 1) == 1 && byte == 'l' && read(other, &byte, 1) == 0);
        _exit(0);
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    at(path);
    pid_t second = as_user(connects);
    if (!second) {
        int own = connected(kind), ends[2];
        CHECK(is_peer(own, first, OTHER, 100));
        if (kind == SOCK_STREAM) sends(own, BYTES);
        CHECK(!pipe(ends));
        if (connects) send_one(own, ends[0]);
        CHECK(read(own, &byte, 1) == 1 && byte == 'e' && !close(own));
        long before = 0;
        for (int i = 0; i < MANY; i++) {
            if (i == MANY / 2) before = free_kilobytes();
            own = connected(kind);
            CHECK(write(own, "x", 1) == 1 && read(own, &byte, 1) == 1 && byte == 'y' && !close(own));
        }
        long kept = before - free_kilobytes();
        if (kept > 800) printf("%d connections keep %ld KiB\n", MANY / 2, kept);
        own = connected(kind);
        CHECK(write(own, "l", 1) == 1);
        _exit(0);
    }
    ends_well(second);
    CHECK(write(ready[1], "e", 1) == 1);
    ends_well(first);
    CHECK(!close(ready[0]) && !close(ready[1]));
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    umask(0);
    bytes_both_ways("/tmp/listener", SOCK_STREAM);
    bytes_both_ways("/tmp/listener", SOCK_SEQPACKET);
    bytes_both_ways("@listener", SOCK_STREAM);
    puts("another user connects to user 0, and each side knows the other");
    larger_than_a_pipe();
    puts("more than a pipe holds");
    descriptors();
    puts("its descriptors");
    many();
    puts("one after the other");
    refused();
    puts("none where it may not write the name, or no process listens");
    before_accept();
    puts("what was sent before it was accepted");
    sleepers();
    puts("who sleeps wakes up");
    workers();
    puts("workers accept");
    evil(0);
    puts("what another user names in its own pages user 0 does not open");
    between(USER, "/tmp/of-other", SOCK_STREAM), between(USER, "/tmp/of-other", SOCK_SEQPACKET);
    between(USER, "@of-other", SOCK_STREAM), between(0, "/tmp/of-other", SOCK_STREAM);
    puts("users that are not user 0 reach each other, and user 0 reaches them");
    evil(OTHER);
    puts("nor does another user");
    return 0;
}
