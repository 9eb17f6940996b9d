// Pseudo-terminals: names, lines, signals, sessions, hang-up, packets, and terminals in messages. One line for each part that works.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); exit(1); } } while (0)

static volatile int caught;

static void note(int signal) { caught = signal; }

static void handle(int signal, void (*function)(int)) {
    struct sigaction action = {.sa_handler = function};
    CHECK(!sigaction(signal, &action, NULL));
}

static void block_all(sigset_t *before) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, before);
}

// Waits for a signal that is blocked and handled.
static void wait_for(int signal, const sigset_t *mask) {
    while (caught != signal) sigsuspend(mask);
}

// Reads until `wanted` has come.
static void expect(int from, const char *wanted) {
    char got[4096];
    size_t length = 0;
    while (!(length >= strlen(wanted) && !memcmp(got, wanted, strlen(wanted)))) {
        struct pollfd one = {from, POLLIN, 0};
        int ready = poll(&one, 1, 20000);
        ssize_t count = ready == 1 ? read(from, got + length, sizeof got - length - 1) : 0;
        length += count > 0 ? count : 0;
        if (count <= 0 || (length >= strlen(wanted) && (length > strlen(wanted) || memcmp(got, wanted, length)))) {
            got[length] = 0;
            printf("expected \"%s\", got \"%s\", errno %d\n", wanted, got, errno);
            exit(1);
        }
    }
}

static void type(int to, const char *text) { CHECK(write(to, text, strlen(text)) == (ssize_t)strlen(text)); }

static void names(void) {
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(master >= 0 && isatty(master));
    char *name = ptsname(master);
    CHECK(name && !strncmp(name, "/dev/pts/", 9));
    name = strdup(name);
    CHECK(open(name, O_RDWR | O_NOCTTY) == -1 && errno == EIO);
    CHECK(!grantpt(master) && !unlockpt(master));
    int slave = open(name, O_RDWR | O_NOCTTY);
    struct stat by_name, by_number, of_master;
    CHECK(slave >= 0 && isatty(slave) && !strcmp(ttyname(slave), name));
    CHECK(!stat(name, &by_name) && !fstat(slave, &by_number) && !fstat(master, &of_master));
    CHECK(by_name.st_ino == by_number.st_ino && by_name.st_rdev == by_number.st_rdev && S_ISCHR(by_name.st_mode));
    CHECK(major(by_name.st_rdev) == 136 && (int)minor(by_name.st_rdev) == atoi(name + 9));
    CHECK(major(of_master.st_rdev) == 5 && minor(of_master.st_rdev) == 2);
    int again = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY);
    CHECK(again >= 0 && !strcmp(ttyname(again), name));
    int other = posix_openpt(O_RDWR | O_NOCTTY);
    CHECK(other >= 0 && strcmp(ptsname(other), name));
    CHECK(tcgetpgrp(slave) == -1 && errno == ENOTTY);
    int locked;
    CHECK(!ioctl(other, TIOCGPTLCK, &locked) && locked == 1 && !ioctl(master, TIOCGPTLCK, &locked) && locked == 0);
    CHECK(ioctl(slave, TIOCGPTN, &locked) == -1 && errno == ENOTTY);
    close(master);
    CHECK(stat(name, &by_name) == -1 && errno == ENOENT);
    close(slave);
    close(again);
    close(other);
    puts("names, numbers, locks");
}

static void lines(void) {
    int master, slave;
    char got[64];
    CHECK(!openpty(&master, &slave, NULL, NULL, NULL));
    type(master, "ab\x7f" "c\n");
    expect(slave, "ac\n");
    expect(master, "ab\b \bc\r\n");
    type(slave, "one\ntwo\n");
    expect(master, "one\r\ntwo\r\n");
    type(master, "x\x04");
    CHECK(read(slave, got, sizeof got) == 1 && got[0] == 'x');
    type(master, "\x04");
    CHECK(read(slave, got, sizeof got) == 0);
    expect(master, "x");
    struct termios modes;
    CHECK(!tcgetattr(slave, &modes) && modes.c_lflag & ICANON && !(modes.c_iflag & IUTF8));
    cfmakeraw(&modes);
    CHECK(!tcsetattr(master, TCSANOW, &modes));
    type(master, "\x03\r");
    expect(slave, "\x03\r");
    type(slave, "\n");
    expect(master, "\n");
    int count;
    type(slave, "12345");
    do CHECK(!ioctl(master, FIONREAD, &count)); while (count < 5);
    expect(master, "12345");
    CHECK(!fcntl(master, F_SETFL, O_NONBLOCK) && read(master, got, 1) == -1 && errno == EAGAIN);
    puts("lines, echo, raw mode");
    close(slave);
    struct pollfd one = {master, POLLIN, 0};
    CHECK(poll(&one, 1, 5000) == 1 && one.revents == POLLHUP);
    CHECK(read(master, got, 1) == -1 && errno == EIO);
    slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    CHECK(slave >= 0 && read(master, got, 1) == -1 && errno == EAGAIN);
    close(master);
    CHECK(read(slave, got, 1) == 0 && write(slave, "x", 1) == -1 && errno == EIO);
    one = (struct pollfd){slave, POLLIN | POLLOUT, 0};
    CHECK(poll(&one, 1, 5000) == 1 && one.revents & POLLHUP);
    close(slave);
    puts("either side goes first");
}

// Much more than the terminal holds, in both directions at once.
static void much(void) {
    int master, slave;
    struct termios modes;
    CHECK(!openpty(&master, &slave, NULL, NULL, NULL) && !tcgetattr(slave, &modes));
    cfmakeraw(&modes);
    CHECK(!tcsetattr(slave, TCSANOW, &modes));
    enum { ALL = 300000 };
    pid_t child = fork();
    if (!child) {
        close(master);
        char some[1000];
        for (size_t done = 0; done < ALL;) {
            ssize_t count = read(slave, some, sizeof some);
            CHECK(count > 0);
            for (ssize_t at = 0; at < count;) at += write(slave, some + at, count - at);
            done += count;
        }
        _exit(0);
    }
    close(slave);
    CHECK(!fcntl(master, F_SETFL, O_NONBLOCK));
    size_t sent = 0, received = 0;
    unsigned char some[777];
    while (received < ALL) {
        struct pollfd one = {master, POLLIN | (sent < ALL ? POLLOUT : 0), 0};
        CHECK(poll(&one, 1, 20000) == 1);
        if (one.revents & POLLIN) {
            ssize_t count = read(master, some, sizeof some);
            CHECK(count > 0);
            for (ssize_t at = 0; at < count; at++) CHECK(some[at] == (received + at) % 251);
            received += count;
        }
        if (one.revents & POLLOUT && sent < ALL) {
            size_t length = ALL - sent < sizeof some ? ALL - sent : sizeof some;
            for (size_t at = 0; at < length; at++) some[at] = (sent + at) % 251;
            ssize_t count = write(master, some, length);
            CHECK(count > 0 || errno == EAGAIN);
            if (count > 0) sent += count;
        }
    }
    int status;
    CHECK(wait(&status) == child && status == 0);
    close(master);
    puts("300,000 bytes there and back");
}

static void sessions(void) {
    int master, pipes[2];
    struct winsize size = {24, 80, 0, 0};
    CHECK(!pipe(pipes));
    pid_t child = forkpty(&master, NULL, NULL, &size);
    if (!child) {
        CHECK(getsid(0) == getpid() && tcgetpgrp(0) == getpid() && tcgetsid(0) == getpid());
        int own = open("/dev/tty", O_RDWR);
        CHECK(own >= 0 && isatty(own) && !strcmp(ttyname(0), ttyname(1)));
        handle(SIGWINCH, note);
        handle(SIGINT, note);
        sigset_t before;
        block_all(&before);
        type(own, "ready\n");
        wait_for(SIGWINCH, &before);
        CHECK(!ioctl(own, TIOCGWINSZ, &size));
        printf("%d %d\n", size.ws_row, size.ws_col), fflush(stdout);
        wait_for(SIGINT, &before);
        sigprocmask(SIG_SETMASK, &before, NULL);
        // Another group comes to the foreground; this one may not read.
        handle(SIGTTOU, SIG_IGN);
        pid_t other = fork();
        if (!other) {
            setpgid(0, 0);
            char c;
            read(0, &c, 1);
            _exit(c);
        }
        setpgid(other, other);
        int status;
        CHECK(waitpid(other, &status, WUNTRACED) == other && WIFSTOPPED(status) && WSTOPSIG(status) == SIGTTIN);
        CHECK(!tcsetpgrp(0, other) && tcgetpgrp(0) == other && !kill(other, SIGCONT));
        type(1, "stopped\n");
        CHECK(waitpid(other, &status, 0) == other && WIFEXITED(status) && WEXITSTATUS(status) == 'y');
        CHECK(!tcsetpgrp(0, getpid()));
        // Somebody keeps the slave open: it controls nobody any more, and is gone with the master only.
        pid_t leader = getpid();
        handle(SIGHUP, SIG_IGN);
        if (!fork()) {
            char c;
            while (getppid() == leader) usleep(1000);
            CHECK(open("/dev/tty", O_RDWR) == -1 && errno == ENXIO && write(1, "still\n", 6) == 6);
            // The end of the line with the "y" is there still.
            char line[4];
            CHECK(read(0, line, sizeof line) == 1 && read(0, line, sizeof line) == 2 && line[0] == 'x');
            CHECK(write(pipes[1], "x", 1) == 1);
            CHECK((read(0, &c, 1) == 0 || errno == EIO) && write(1, "never", 5) == -1 && errno == EIO);
            CHECK(write(pipes[1], "o", 1) == 1);
            _exit(0);
        }
        type(1, "end\n");
        _exit(7);
    }
    CHECK(child > 0);
    expect(master, "ready\r\n");
    size = (struct winsize){50, 132, 0, 0};
    CHECK(!ioctl(master, TIOCSWINSZ, &size));
    expect(master, "50 132\r\n");
    type(master, "\x03");
    expect(master, "^Cstopped\r\n");
    pid_t group;
    CHECK(!ioctl(master, TIOCGPGRP, &group) && group != child);
    type(master, "y\n");
    expect(master, "y\r\nend\r\nstill\r\n");
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    char c;
    type(master, "x\n");
    expect(master, "x\r\n");
    CHECK(read(pipes[0], &c, 1) == 1 && c == 'x');
    close(master);
    CHECK(read(pipes[0], &c, 1) == 1 && c == 'o');
    puts("sessions, job control, window sizes");
}

// A group is there as long as one of its members was not waited for, for everybody in the session, not for its parent only.
static void join_ended(pid_t ended) {
    char path[32], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", ended);
    int file = open(path, O_RDONLY);
    CHECK(file >= 0 && read(file, text, sizeof text - 1) > 0 && strstr(text, ") Z "));
    snprintf(path, sizeof path, "/proc/%d/cmdline", ended);
    file = open(path, O_RDONLY);
    CHECK(file >= 0 && read(file, text, sizeof text) == 0);
    CHECK(!kill(ended, SIGTERM) && !kill(-ended, 0) && getpgid(ended) == ended && getsid(ended) == getsid(0));
    CHECK(!setpgid(0, ended) && getpgrp() == ended);
    CHECK(!tcsetpgrp(0, ended) && tcgetpgrp(0) == ended);
}

static void join_gone(pid_t gone) {
    CHECK(kill(gone, 0) == -1 && errno == ESRCH && kill(-gone, 0) == -1 && errno == ESRCH);
    CHECK(getpgid(gone) == -1 && errno == ESRCH && setpgid(0, gone) == -1 && errno == EPERM);
    CHECK(tcsetpgrp(0, gone) == -1 && errno == ESRCH);
}

static void in_child(void (*body)(pid_t), pid_t other) {
    int status;
    pid_t child = fork();
    if (!child) body(other), _exit(0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void ended_groups(void) {
    int master, status;
    siginfo_t information;
    pid_t child = forkpty(&master, NULL, NULL, NULL);
    if (!child) {
        handle(SIGTTOU, SIG_IGN);
        pid_t first = fork();
        if (!first) setpgid(0, 0), _exit(3);
        CHECK(!waitid(P_PID, first, &information, WEXITED | WNOWAIT) && information.si_status == 3);
        in_child(join_ended, first);
        CHECK(waitpid(first, &status, 0) == first && WEXITSTATUS(status) == 3);
        in_child(join_gone, first);
        _exit(0);
    }
    CHECK(child > 0);
    char text[256];
    ssize_t count = read(master, text, sizeof text);
    if (count > 0) printf("%.*s", (int)count, text);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    close(master);
    puts("groups of ended processes");
}

// The leader of a session loses its terminal with the master.
static void hang_up(void) {
    int master;
    int pipes[2];
    CHECK(!pipe(pipes));
    pid_t child = forkpty(&master, NULL, NULL, NULL);
    if (!child) {
        sigset_t before;
        handle(SIGHUP, note);
        block_all(&before);
        CHECK(write(pipes[1], "r", 1) == 1);
        wait_for(SIGHUP, &before);
        CHECK(open("/dev/tty", O_RDWR) == -1 && errno == ENXIO);
        _exit(9);
    }
    char c;
    CHECK(read(pipes[0], &c, 1) == 1);
    close(master);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 9);
    // A session's leader takes a terminal by opening it, and gives it up.
    int slave;
    CHECK(!openpty(&master, &slave, NULL, NULL, NULL));
    if (!fork()) {
        setsid();
        CHECK(open("/dev/tty", O_RDWR) == -1 && errno == ENXIO);
        CHECK(ioctl(slave, TIOCSCTTY, 0) == 0 && tcgetsid(slave) == getpid());
        handle(SIGHUP, SIG_IGN);
        CHECK(!ioctl(slave, TIOCNOTTY) && tcgetsid(slave) == -1);
        int again = open(ttyname(slave), O_RDWR | O_NOCTTY);
        CHECK(again >= 0 && tcgetsid(again) == -1);
        again = open(ttyname(slave), O_RDWR);
        CHECK(again >= 0 && tcgetsid(again) == getpid());
        _exit(3);
    }
    CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 3);
    close(master);
    close(slave);
    puts("hang-up, controlling terminals");
}

// Who reads a line and writes at once, on whatever CPU, writes behind the line's echo.
static void answers(void) {
    int master, slave;
    CHECK(!openpty(&master, &slave, NULL, NULL, NULL));
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        char line[16];
        close(master);
        while (read(slave, line, sizeof line) > 1) type(slave, "!\n");
        _exit(0);
    }
    for (int round = 0; round < 500; round++) {
        type(master, "ab\n");
        expect(master, "ab\r\n!\r\n");
    }
    type(master, "\n");
    CHECK(waitpid(child, NULL, 0) == child && !close(master) && !close(slave));
    puts("echo before answers");
}

// A reader that goes to sleep has whatever line came since it looked. The moments sweep over its way from one line to
// its sleep; nothing else wakes it.
static void late_lines(void) {
    enum { ROUNDS = 5000, LONGEST = 4000, STEP = 7, PATIENCE = 10 };
    int master, slave, left;
    struct termios modes;
    CHECK(!openpty(&master, &slave, NULL, NULL, NULL) && !tcgetattr(slave, &modes));
    modes.c_lflag &= ~ECHO;
    CHECK(!tcsetattr(slave, TCSANOW, &modes));
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        char line[16];
        close(master);
        while (read(slave, line, sizeof line) > 1) {}
        _exit(0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (volatile int spin = round * STEP % LONGEST; spin > 0; spin--) {}
        type(master, "ab\n");
        time_t begin = time(NULL);
        while (!ioctl(slave, FIONREAD, &left) && left > 0) {
            CHECK(time(NULL) - begin < PATIENCE);
            sched_yield();
        }
    }
    type(master, "\n");
    CHECK(waitpid(child, NULL, 0) == child && !close(master) && !close(slave));
    puts("lines for readers about to sleep");
}

static void packets(void) {
    int master, slave, on = 1;
    char got[16];
    CHECK(!openpty(&master, &slave, NULL, NULL, NULL) && !ioctl(master, TIOCPKT, &on));
    CHECK(!ioctl(master, TIOCGPKT, &on) && on == 1);
    type(slave, "hi");
    CHECK(read(master, got, sizeof got) == 3 && got[0] == TIOCPKT_DATA && got[1] == 'h');
    CHECK(!tcflush(slave, TCIFLUSH));
    CHECK(read(master, got, sizeof got) == 1 && got[0] == TIOCPKT_FLUSHREAD);
    CHECK(!tcflow(slave, TCOOFF) && read(master, got, sizeof got) == 1 && got[0] == TIOCPKT_STOP);
    CHECK(!tcflow(slave, TCOON) && read(master, got, sizeof got) == 1 && got[0] == TIOCPKT_START);
    struct termios modes;
    CHECK(!tcgetattr(slave, &modes));
    modes.c_iflag &= ~IXON;
    CHECK(!tcsetattr(slave, TCSANOW, &modes) && read(master, got, sizeof got) == 1 && got[0] == TIOCPKT_NOSTOP);
    struct pollfd one = {master, POLLIN, 0};
    CHECK(poll(&one, 1, 0) == 0);
    close(slave);
    close(master);
    puts("packets");
}

static void send_number(int to, int number) {
    char control[CMSG_SPACE(sizeof number)] = {0};
    struct iovec piece = {"x", 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof number), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(head), &number, sizeof number);
    CHECK(sendmsg(to, &message, 0) == 1);
}

static int receive_number(int from) {
    char c, control[CMSG_SPACE(sizeof(int))];
    struct iovec piece = {&c, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CHECK(recvmsg(from, &message, 0) == 1);
    int number = -1;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    CHECK(head && head->cmsg_type == SCM_RIGHTS);
    memcpy(&number, CMSG_DATA(head), sizeof number);
    return number;
}

static void messages(void) {
    int pair[2];
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    pid_t child = fork();
    if (!child) {
        int master, slave;
        CHECK(!openpty(&master, &slave, NULL, NULL, NULL));
        send_number(pair[1], master);
        send_number(pair[1], slave);
        CHECK(!mkfifo("/tmp/terminals-fifo", 0600));
        int fifo = open("/tmp/terminals-fifo", O_RDWR);
        send_number(pair[1], fifo);
        CHECK(write(fifo, "through\n", 8) == 8);
        close(fifo);
        close(master);
        close(slave);
        _exit(0);
    }
    int master = receive_number(pair[0]), slave = receive_number(pair[0]), fifo = receive_number(pair[0]), status;
    CHECK(wait(&status) == child && status == 0);
    type(master, "line\n");
    expect(slave, "line\n");
    expect(master, "line\r\n");
    CHECK(ttyname(slave) != NULL);
    expect(fifo, "through\n");
    close(slave);
    char c;
    CHECK(read(master, &c, 1) == -1 && errno == EIO);
    close(master);
    close(fifo);
    unlink("/tmp/terminals-fifo");
    puts("terminals and FIFOs in messages");
}

// Edge-triggered interests are told of each new line.
static void edges(void) {
    int master, slave, set = epoll_create1(0);
    CHECK(!openpty(&master, &slave, NULL, NULL, NULL));
    struct epoll_event event = {EPOLLIN | EPOLLET, {.u32 = 1}}, got;
    CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, slave, &event));
    event.data.u32 = 2;
    CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, master, &event));
    CHECK(epoll_wait(set, &got, 1, 0) == 0);
    for (int round = 0; round < 2; round++) {
        type(slave, "x");
        CHECK(epoll_wait(set, &got, 1, 5000) == 1 && got.data.u32 == 2);
        CHECK(epoll_wait(set, &got, 1, 0) == 0);
    }
    close(slave);
    CHECK(epoll_wait(set, &got, 1, 5000) == 1 && got.data.u32 == 2 && got.events & EPOLLHUP);
    puts("edges");
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(200);
    names();
    lines();
    much();
    sessions();
    ended_groups();
    hang_up();
    answers();
    late_lines();
    packets();
    messages();
    edges();
    return 0;
}
