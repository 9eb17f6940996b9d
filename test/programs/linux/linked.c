// A program that is linked with ExOS: its calls are the library's procedures, and do what those of other programs do.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "linked.h"

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed\n", __LINE__, #what); return 1; } } while (0)

int main(void) {
    char read[8] = "";
    int ends[2];
    CHECK(exos_call(SYS_getpid, 0, 0, 0, 0, 0, 0) == getpid());
    CHECK(exos_call(SYS_pipe2, (long)ends, O_CLOEXEC, 0, 0, 0, 0) == 0);
    CHECK(exos_call(SYS_write, ends[1], (long)"linked", 6, 0, 0, 0) == 6);
    CHECK(exos_call(SYS_read, ends[0], (long)read, sizeof read, 0, 0, 0) == 6 && !strcmp(read, "linked"));
    CHECK(exos_call(SYS_read, 99, (long)read, sizeof read, 0, 0, 0) == -EBADF);
    long child = exos_call(SYS_fork, 0, 0, 0, 0, 0, 0);
    if (child == 0) exos_call(SYS_exit_group, 7, 0, 0, 0, 0, 0);
    int status;
    CHECK(exos_call(SYS_wait4, child, (long)&status, 0, 0, 0, 0) == child && WEXITSTATUS(status) == 7);
    puts("a program is linked with ExOS");
}
