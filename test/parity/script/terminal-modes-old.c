// A terminal's modes by the requests of older programs (struct termio), beside those of today's: what one sets the other tells, flags
// that the older form has no room for stay; the line discipline; wrong addresses.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static void tell(const char *what, long result) {
    printf("%s %ld %s\n", what, result, result < 0 ? strerrorname_np(errno) : "");
}
struct old_modes {
    unsigned short input, output, control, local;
    unsigned char line, characters[8];
};
static void show(const char *what, int terminal) {
    struct old_modes old;
    struct termios now;
    memset(&old, 0x55, sizeof old);
    long result = ioctl(terminal, TCGETA, &old);
    tcgetattr(terminal, &now);
    printf("%s %ld: %x %x %x %x %d", what, result, old.input, old.output, old.control, old.local, old.line);
    for (int i = 0; i < 8; i++) printf(" %d", old.characters[i]);
    printf(", now %x %x %x %x", now.c_iflag, now.c_oflag, now.c_cflag, now.c_lflag);
    for (int i = 0; i < 17; i++) printf(" %d", now.c_cc[i]);
    puts("");
}

int main(void) {
    int master, slave, line = 7;
    struct termios now;
    if (openpty(&master, &slave, NULL, NULL, NULL)) return 1;
    show("fresh", slave);
    tcgetattr(slave, &now);
    now.c_lflag |= EXTPROC, now.c_iflag |= IUTF8;
    tell("more", tcsetattr(slave, TCSANOW, &now));
    show("more", slave);
    struct old_modes old;
    ioctl(slave, TCGETA, &old);
    old.local &= ~(ICANON | ECHO), old.characters[VINTR] = 7, old.characters[VMIN] = 3, old.input ^= IXON;
    static const unsigned long requests[] = {TCSETA, TCSETAW, TCSETAF};
    for (int i = 0; i < 3; i++) {
        old.characters[VQUIT] = 10 + i;
        // What is typed arrives a while later.
        if (write(master, "typed", 5) != 5 || usleep(200000)) return 1;
        tell("set", ioctl(slave, requests[i], &old));
        show("set", slave);
        int waiting = -1;
        ioctl(slave, FIONREAD, &waiting);
        printf("%d bytes wait\n", waiting);
    }
    tell("line", ioctl(slave, TIOCGETD, &line));
    printf("%d\n", line);
    tell("set it", ioctl(slave, TIOCSETD, &line));
    line = 99;
    tell("to one that nobody knows", ioctl(slave, TIOCSETD, &line));
    tell("to nowhere", ioctl(slave, TCGETA, (void *)8));
    tell("from nowhere", ioctl(slave, TCSETA, (void *)8));
    tell("of a file", ioctl(open(".", O_RDONLY), TCGETA, &old));
    return 0;
}
