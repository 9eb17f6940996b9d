// Requests that take the server long: to seal a memory file it looks at all open files of all processes, which takes
// several slices here. Each end of a slice in a request counts as an excess of the server, and the kernel destroys an
// environment after 256.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOLDERS = 150, FILES = 1000, CALLS = 300 };

int main(void) {
    int hold[2], done = 0, status, ended = 0;
    char byte;
    if (pipe(hold)) return 2;
    for (int i = 0; i < FILES; i++) {
        char name[24];
        sprintf(name, "/tmp/held-%d", i);
        if (open(name, O_CREAT | O_RDWR, 0600) < 0) return 3;
    }
    for (int i = 0; i < HOLDERS; i++)
        if (!fork()) {
            close(hold[1]);
            _exit(read(hold[0], &byte, 1) != 0);
        }
    int file = memfd_create("sealed", MFD_ALLOW_SEALING);
    for (int i = 0; i < CALLS; i++)
        done += fcntl(file, F_ADD_SEALS, i % 2 ? F_SEAL_GROW : F_SEAL_SHRINK) == 0;
    printf("%d calls, seals %d\n", done, fcntl(file, F_GET_SEALS));
    close(hold[1]);
    while (wait(&status) > 0)
        ended += status == 0;
    printf("%d processes ended\n", ended);
    return 0;
}
