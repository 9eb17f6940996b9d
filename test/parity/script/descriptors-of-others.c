// Descriptors of another process below /proc: pipes, sockets, memory files and removed files, as lsof finds them.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int child;

static const char *path_of(int fd) {
    static char path[50];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", child, fd);
    return path;
}

// The link with its number checked, and whether stat through it says what fstat says of the same file here.
static void compare(const char *what, int fd) {
    struct stat here, there;
    char target[200] = "";
    unsigned long number;
    long length = readlink(path_of(fd), target, sizeof target - 1);
    if (length < 0 || fstat(fd, &here)) {
        printf("%s: %s\n", what, strerrorname_np(errno));
        return;
    }
    char *bracket = strstr(target, ":[");
    if (bracket && sscanf(bracket, ":[%lu]", &number) == 1 && number == here.st_ino) strcpy(bracket, ":[its number]");
    int outcome = stat(path_of(fd), &there);
    int is_same = !outcome && here.st_ino == there.st_ino && here.st_dev == there.st_dev;
    printf("%s: %s, stat %s, type %o, same %d, names %d\n", what, target, outcome ? strerrorname_np(errno) : "0",
           there.st_mode & S_IFMT, is_same, (int)there.st_nlink);
}

// Opens what the child has open: what it has is moved to where the child alone has it.
static void reopen(const char *what, int fd, int flags) {
    int again = open(path_of(fd), flags | O_NONBLOCK);
    printf("%s: %s", what, again < 0 ? strerrorname_np(errno) : "opened");
    char bytes[10] = "";
    if (again >= 0 && (flags & O_ACCMODE) == O_RDONLY) printf(", read %zd %s", read(again, bytes, 9), bytes);
    if (again >= 0 && (flags & O_ACCMODE) != O_RDONLY) printf(", written %zd", write(again, "more", 4));
    printf("\n");
    if (again >= 0) close(again);
}

int main(void) {
    int pipes[2], sockets[2], ready[2];
    char byte;
    if (pipe(pipes) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) || pipe(ready)) return 1;
    int memory = memfd_create("words", 0), file = open("removed", O_CREAT | O_RDWR, 0600);
    int kept = open("kept", O_CREAT | O_RDWR, 0600), event = eventfd(0, 0), set = epoll_create1(0);
    if (write(memory, "memory", 6) != 6 || write(file, "file", 4) != 4 || write(kept, "kept", 4) != 4) return 1;
    unlink("removed");
    child = fork();
    if (child == 0) {
        close(ready[1]);
        if (read(ready[0], &byte, 1) < 0) _exit(1);
        char said[10] = "";
        fcntl(pipes[0], F_SETFL, O_NONBLOCK);
        long length = read(pipes[0], said, 9);
        printf("the child reads %ld %s, removed file %zd %s\n", length, said, pread(file, said, 9, 0), said);
        fflush(stdout);
        _exit(0);
    }
    close(ready[0]);
    compare("pipe", pipes[0]);
    compare("other end", pipes[1]);
    compare("socket", sockets[0]);
    compare("memory", memory);
    compare("removed", file);
    compare("event", event);
    compare("set", set);
    close(pipes[0]), close(pipes[1]), close(memory), close(file);
    reopen("memory", memory, O_RDONLY);
    reopen("removed", file, O_RDONLY);
    reopen("kept", kept, O_RDONLY);
    reopen("removed, written", file, O_WRONLY);
    reopen("pipe", pipes[1], O_WRONLY);
    reopen("socket", sockets[0], O_RDWR);
    reopen("below a pipe", pipes[1], O_RDONLY | O_DIRECTORY);
    reopen("closed", 900, O_RDONLY);
    printf("access %d, below %d %s\n", access(path_of(file), R_OK), access(strcat(strcpy((char[99]){0}, path_of(file)), "/x"), R_OK),
           strerrorname_np(errno));
    close(ready[1]);
    wait(NULL);
    return 0;
}
