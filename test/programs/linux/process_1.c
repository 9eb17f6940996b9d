// Process 1 takes signal 0, has a group, stands in /proc, and adopts a process whose parent ends.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    int ends[2];
    pid_t parent = 0;
    if (pipe(ends)) return 1;
    const char *shown = access("/proc/1/stat", R_OK) ? "not there" : "there";
    printf("kill %d, getpgid %d, /proc/1/stat %s, ", kill(1, 0) ? errno : 0, getpgid(1), shown);
    fflush(stdout);
    pid_t middle = fork();
    if (middle == 0) {
        pid_t self = getpid();
        if (fork()) _exit(0);
        while (getppid() == self) usleep(1000);
        parent = getppid();
        _exit(write(ends[1], &parent, sizeof parent) < 0);
    }
    waitpid(middle, 0, 0);
    if (read(ends[0], &parent, sizeof parent) < 0) return 1;
    printf("orphan's parent %d\n", parent);
    return 0;
}
