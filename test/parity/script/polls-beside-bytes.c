// A process waits for urgent data or for an end, by poll, select and epoll, beside bytes that it does not read: the wait
// takes no time of the CPU, and ends when that comes.
#include "../internet.h"
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <termios.h>

enum { WAIT = 500 };

static int by_poll(int fd, int wanted, int limit) {
    struct pollfd one = {fd, wanted, 0};
    return poll(&one, 1, limit) > 0 ? one.revents : 0;
}

static int by_epoll(int fd, int wanted, int limit) {
    struct epoll_event one = {wanted, {0}}, come = {0};
    int set = epoll_create1(0);
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &one);
    int found = epoll_wait(set, &come, 1, limit);
    close(set);
    return found > 0 ? (int)come.events : 0;
}

static int by_select(int fd, int wanted, int limit) {
    struct timeval time = {limit / 1000, limit % 1000 * 1000};
    fd_set set;
    (void)wanted;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    return select(fd + 1, 0, 0, &set, &time) > 0 ? POLLPRI : 0;
}

static long used(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

// A wait that nothing ends, then one that `event` ends.
static void look(const char *name, int (*wait_for)(int, int, int), int ends[2], int wanted, void (*event)(int)) {
    long before = used();
    int come = wait_for(ends[0], wanted, WAIT);
    printf("%s, %#x: %#x%s", name, wanted, come, used() - before > WAIT / 4 ? " busy" : "");
    pid_t child = fork();
    if (!child) {
        usleep(50000), event(ends[1]);
        _exit(0);
    }
    printf(", then %#x\n", wait_for(ends[0], wanted, 10000));
    waitpid(child, 0, 0);
}

static void send_urgent(int fd) { send(fd, "!", 1, MSG_OOB); }
static void end_half(int fd) { shutdown(fd, SHUT_WR); }
static void write_more(int fd) { (void)!write(fd, "more", 4); }

int main(void) {
    static const struct { const char *name; int (*call)(int, int, int); } ways[] = {{"poll", by_poll}, {"epoll", by_epoll}, {"select", by_select}};
    begin();
    for (unsigned way = 0; way < 3; way++) {
        int ends[2];
        connection(ends);
        write_more(ends[1]);
        look(ways[way].name, ways[way].call, ends, POLLPRI, send_urgent);
        if (way == 2) continue;
        look(ways[way].name, ways[way].call, ends, POLLRDHUP, end_half);
        socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
        write_more(ends[1]);
        look(ways[way].name, ways[way].call, ends, POLLRDHUP, end_half);
    }
    int ends[2];
    long before = used();
    if (pipe(ends)) return 1;
    write_more(ends[1]);
    printf("pipe: %#x", by_poll(ends[0], POLLPRI, WAIT));
    printf("%s\n", used() - before > WAIT / 4 ? " busy" : "");
    // The events of packet mode are exceptional, the bytes of a pseudo-terminal are not.
    int master = posix_openpt(O_RDWR | O_NOCTTY), on = 1;
    grantpt(master), unlockpt(master);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    ioctl(master, TIOCPKT, &on), write_more(slave);
    printf("terminal: written %#x", by_poll(master, POLLPRI, 0));
    tcflush(slave, TCIOFLUSH);
    printf(", flushed %#x", by_poll(master, POLLIN | POLLPRI, 1000));
    printf(" %#x %#x\n", by_poll(master, POLLPRI, 0), by_select(master, 0, 0));
    return 0;
}
