// A process that speaks for others: it edits what its library keeps, writes into the memory that it shares with those it
// talks to, and asks the server itself. It appears as nobody else, and takes nothing that was meant for others. One line
// for each part.
#define _GNU_SOURCE
#include "evil.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); _exit(1); } } while (0)

enum { USER = 1000, GROUP = 100, NOBODY = 65534, HEAP_PAGES = 4096 };
// The server's operations (lib/unix-core/src/server/protocol.rs).
enum { ACCEPT_OFFER = 41, BIND_ABSTRACT = 46, PEER_ABSTRACT = 47, VOUCH = 68, REDEEM = 69 };

static sigjmp_buf way_back;
static void at_fault(int signal) { siglongjmp(way_back, signal); }

static int is_there(volatile char *page) {
    if (sigsetjmp(way_back, 1)) return 0;
    *page = *page;
    return 1;
}

// The record of who this process is, found in its library's heap and made that of user 0.
static void edit_identity(void) {
    const uint32_t own[6] = {USER, USER, USER, GROUP, GROUP, GROUP};
    int pages = 0, found = 0;
    signal(SIGSEGV, at_fault);
    while (pages < HEAP_PAGES && is_there(heap + (long)pages * 4096)) pages++;
    signal(SIGSEGV, SIG_DFL);
    for (char *at = heap; at + sizeof own <= heap + (long)pages * 4096; at += 4)
        if (!memcmp(at, own, sizeof own)) { memset(at, 0, sizeof own); found++; }
    CHECK(found > 0 && geteuid() == 0);
}

// The word before a text in the windows that this process shares with others, made another one: there stands who sent it.
static int edit_windows(const char *text, uint64_t word) {
    volatile int found = 0;
    size_t length = strlen(text);
    signal(SIGSEGV, at_fault);
    for (char *volatile page = windows; page < windows + WINDOW_BYTES; page += 4096) {
        if (sigsetjmp(way_back, 1)) continue;
        for (char *at = page + 8; at + length <= page + 4096; at++)
            if (!memcmp(at, text, length)) { memcpy(at - 8, &word, 8); found++; }
    }
    signal(SIGSEGV, SIG_DFL);
    return found;
}

static ssize_t send_as(int to, const char *text, const struct ucred *claimed) {
    char control[CMSG_SPACE(sizeof *claimed)] = {0};
    struct iovec piece = {(void *)text, strlen(text)};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    *CMSG_FIRSTHDR(&message) = (struct cmsghdr){CMSG_LEN(sizeof *claimed), SOL_SOCKET, SCM_CREDENTIALS};
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), claimed, sizeof *claimed);
    return sendmsg(to, &message, 0);
}

static struct ucred sender_of_next(int from, const char *expected) {
    char text[64] = {0}, control[256];
    struct iovec piece = {text, sizeof text - 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CHECK(recvmsg(from, &message, 0) == (ssize_t)strlen(expected) && !strcmp(text, expected));
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    struct ucred who = {-1, -1, -1};
    CHECK(head && head->cmsg_type == SCM_CREDENTIALS);
    memcpy(&who, CMSG_DATA(head), sizeof who);
    return who;
}

static void is_over(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void become_user(void) { CHECK(!setgroups(0, 0) && !setgid(GROUP) && !setuid(USER)); }

static void senders(void) {
    int pair[2], on = 1;
    CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) && !setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on));
    CHECK(send_as(pair[1], "root", &(struct ucred){getpid(), 0, 0}) == 4);
    pid_t child = fork();
    if (!child) {
        become_user();
        CHECK(send(pair[1], "plain", 5, 0) == 5);
        CHECK(send_as(pair[1], "lie", &(struct ucred){getpid(), 0, 0}) == -1 && errno == EPERM);
        CHECK(send_as(pair[1], "lie", &(struct ucred){getppid(), USER, GROUP}) == -1 && errno == EPERM);
        edit_identity();
        CHECK(send(pair[1], "edited", 6, 0) == 6);
        CHECK(send_as(pair[1], "claimed", &(struct ucred){getpid(), 0, 0}) == -1 && errno == EPERM);
        CHECK(send(pair[1], "a number of my parent's", 23, 0) == 23 && edit_windows("a number of my parent's", getppid()));
        CHECK(send(pair[1], "no number", 9, 0) == 9 && edit_windows("no number", 0));
        CHECK(send(pair[1], "some number", 11, 0) == 11 && edit_windows("some number", 0x123456789abcdef));
        _exit(0);
    }
    struct ucred who = sender_of_next(pair[0], "root");
    CHECK(who.pid == getpid() && who.uid == 0 && who.gid == 0);
    for (int i = 0; i < 2; i++) {
        who = sender_of_next(pair[0], i ? "edited" : "plain");
        CHECK(who.pid == child && who.uid == USER && who.gid == GROUP);
    }
    is_over(child);
    for (int i = 0; i < 3; i++) {
        who = sender_of_next(pair[0], (const char *[]){"a number of my parent's", "no number", "some number"}[i]);
        CHECK(who.pid == 0 && who.uid == NOBODY && who.gid == NOBODY);
    }
    close(pair[0]);
    close(pair[1]);
    puts("who edits its library, or what it sent, is no other sender");
}

static struct ucred peer_of(int number) {
    struct ucred who;
    socklen_t bytes = sizeof who;
    CHECK(!getsockopt(number, SOL_SOCKET, SO_PEERCRED, &who, &bytes));
    return who;
}

static void pass(int to, int number) {
    char control[CMSG_SPACE(sizeof number)] = {0};
    struct iovec piece = {"", 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    *CMSG_FIRSTHDR(&message) = (struct cmsghdr){CMSG_LEN(sizeof number), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &number, sizeof number);
    CHECK(sendmsg(to, &message, 0) == 1);
}

static int take(int from) {
    char byte, control[256];
    int number = -1;
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CHECK(recvmsg(from, &message, 0) == 1 && CMSG_FIRSTHDR(&message));
    memcpy(&number, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof number);
    return number;
}

// A listener that is user 1000 and says otherwise; user 0 connects, and is passed a pair that says it is user 0's.
static void peers(void) {
    struct sockaddr_un name = {AF_UNIX, "peer"};
    int ready[2], pair[2];
    CHECK(!pipe(ready) && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    pid_t child = fork();
    if (!child) {
        become_user();
        int forged[2], listener = socket(AF_UNIX, SOCK_STREAM, 0);
        edit_identity();
        CHECK(!bind(listener, (void *)&name, sizeof name) && !listen(listener, 1) && !socketpair(AF_UNIX, SOCK_STREAM, 0, forged));
        CHECK(peer_of(forged[0]).uid == 0);
        pass(pair[1], forged[0]);
        CHECK(write(ready[1], "", 1) == 1);
        int one = accept(listener, 0, 0);
        struct ucred who = peer_of(one);
        CHECK(who.pid == getppid() && who.uid == 0 && who.gid == 0);
        pass(pair[1], one);
        CHECK(read(one, &who, 1) == 0);
        _exit(0);
    }
    char byte;
    CHECK(read(ready[0], &byte, 1) == 1);
    int number = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(!connect(number, (void *)&name, sizeof name));
    struct ucred who = peer_of(number);
    CHECK(who.pid == child && who.uid == USER && who.gid == GROUP);
    for (int i = 0; i < 2; i++) {
        who = peer_of(take(pair[0]));
        CHECK(who.pid == 0 && who.uid == NOBODY && who.gid == NOBODY);
    }
    CHECK(peer_of(pair[0]).pid == getpid() && peer_of(pair[0]).uid == 0);
    close(number);
    is_over(child);
    close(pair[0]);
    close(pair[1]);
    puts("who edits its library is nobody else at the other end");
}

// What is on its way from one to another is asked for by a third, who knows all but the number that travels.
static void thief(uint64_t node, int report) {
    volatile uint64_t *gate = PRIVATE + GATE_END;
    uint64_t end = *gate, taken = 0, own = getpid();
    *gate = 0;
    uint64_t server = find_server(own, NULL);
    for (uint64_t rights = 0; server && rights < 16; rights++) {
        for (uint64_t mount = 0; mount < 3; mount++) {
            uint64_t word = node | mount << 40 | rights << 56, message[6] = {ACCEPT_OFFER, word};
            taken += !ask(server, message, 10000) && !message[0];
        }
    }
    for (uint64_t number = 0; number < 2000; number++) {
        uint64_t message[6] = {number % 2 ? ACCEPT_OFFER : REDEEM, number / 2};
        taken += !ask(server, message, 10000) && !message[0];
    }
    uint64_t lie[6] = {VOUCH, 1, getppid(), 0}, truth[6] = {VOUCH, 0};
    taken += !ask(server, lie, 10000) && !lie[0];
    int works = !ask(server, truth, 10000) && !truth[0] && truth[1];
    *gate = end;
    CHECK(server && works && !taken);
    CHECK(write(report, "", 1) == 1);
}

static void theft(void) {
    int pair[2], report[2], secret = open("secret", O_CREAT | O_RDWR, 0600);
    struct stat status;
    CHECK(write(secret, "secret", 6) == 6 && !fstat(secret, &status));
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair) && !pipe(report));
    // The thief has neither the file nor an end of the pair.
    pid_t child = fork();
    if (!child) {
        close(pair[0]);
        close(pair[1]);
        close(secret);
        char byte;
        CHECK(read(report[0], &byte, 1) == 1);
        become_user();
        thief(status.st_ino, report[1]);
        _exit(0);
    }
    pass(pair[0], secret);
    close(secret);
    CHECK(write(report[1], "", 1) == 1);
    is_over(child);
    char text[8] = {0};
    int taken = take(pair[1]);
    CHECK(pread(taken, text, 6, 0) == 6 && !strcmp(text, "secret"));
    puts("what is on its way comes to whom it was sent");
}

static void listens(const char *name) {
    struct sockaddr_un place = {AF_UNIX, ""};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    strcpy(place.sun_path + 1, name);
    CHECK(!bind(listener, (void *)&place, sizeof(sa_family_t) + 1 + strlen(name)) && !listen(listener, 1));
}

// The first page of the own window, where the server finds names. An abstract name has the number of its kind before it,
// and begins with a NUL.
static volatile char paths[4096] __attribute__((aligned(4096)));

static size_t write_name(const char *name) {
    size_t length = strlen(name);
    paths[0] = SOCK_STREAM, paths[1] = 0;
    for (size_t at = 0; at < length; at++) paths[2 + at] = name[at];
    return 2 + length;
}

// The page that an abstract name of another process leads to; 0: there is none.
static uint64_t page_behind(uint64_t server, const char *name) {
    uint64_t message[6] = {PEER_ABSTRACT, write_name(name)};
    return ask(server, message, 10000) || message[0] ? 0 : message[1];
}

// What the server says to a new name for a page.
static uint64_t names_page(uint64_t server, const char *name, uint64_t page) {
    uint64_t message[6] = {BIND_ABSTRACT, page, write_name(name)};
    return ask(server, message, 10000) ? ~0ull : message[0];
}

// Gives a name of its own to a page of user 0, which others would write into. To its own page it may.
static void names_others(void) {
    listens("names: user");
    paths[0] = 1;
    uint64_t own = getpid(), end = PRIVATE[GATE_END], found[2] = {0}, answers[2] = {0};
    PRIVATE[GATE_END] = 0;
    uint64_t server = find_server(own, paths);
    for (int i = 0; server && i < 2; i++) {
        found[i] = page_behind(server, i ? "names: user" : "names: user 0");
        answers[i] = names_page(server, i ? "names: second" : "names: of another", (uint32_t)found[i]);
    }
    PRIVATE[GATE_END] = end;
    CHECK(server && found[0] && found[1] && found[0] != found[1]);
    CHECK(answers[0] == EPERM && answers[1] == 0);
}

static void names(void) {
    int ready[2];
    CHECK(!pipe(ready));
    pid_t child = fork();
    if (!child) {
        // A child of its own does it, so that all that it has is this user's.
        char byte;
        become_user();
        CHECK(read(ready[0], &byte, 1) == 1);
        if (!(child = fork())) names_others(), _exit(0);
        is_over(child);
        _exit(0);
    }
    // Its page is one that the child did not inherit.
    listens("names: user 0");
    CHECK(write(ready[1], "", 1) == 1);
    is_over(child);
    puts("nobody gives a name to a page of another user");
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    char folder[] = "/tmp/evil-XXXXXX";
    CHECK(mkdtemp(folder) && !chdir(folder) && !chmod(folder, 0777));
    senders();
    peers();
    theft();
    names();
}
