// What a process keeps for its next child is made of what the last one left.
// Children in a row, while memory and what is open stay or change in between: each sees what its parent has then, which keeps what it had.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 12 };
static unsigned char *area, data[3 * PAGE];
static int open_pipe[2] = {-1, -1};

static unsigned sum(void) {
    unsigned all = 0;
    for (int page = 0; page < PAGES; page++) all = all * 31 + area[page * PAGE];
    for (size_t at = 0; at < sizeof data; at += 512) all = all * 31 + data[at];
    return all;
}

// What a child does with what it has.
static void use(int what) {
    switch (what) {
    case 1:
        for (int page = 0; page < PAGES; page++) area[page * PAGE] += 7;
        memset(data, 9, sizeof data);
        break;
    case 2:
        munmap(area + 3 * PAGE, 2 * PAGE);
        mprotect(area + 6 * PAGE, PAGE, PROT_NONE);
        close(open_pipe[0]);
        close(open_pipe[1]);
        break;
    case 3: {
        unsigned char *more = mmap(area + 2 * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        more[PAGE] = 200;
        break;
    }
    case 4:
        area[5 * PAGE] = 77;
        raise(SIGKILL);
    }
}

static void child(int what) {
    fflush(stdout);
    pid_t number = fork();
    if (!number) {
        char byte = '-';
        if (open_pipe[0] >= 0 && read(open_pipe[0], &byte, 1) != 1) byte = '?';
        printf(" [%u %c", sum(), byte);
        fflush(stdout);
        use(what);
        printf(" %d]", what);
        fflush(stdout);
        _exit(what);
    }
    int status;
    waitpid(number, &status, 0);
    if (WIFSIGNALED(status)) printf(" killed by %d]", WTERMSIG(status));
}

// Children that do different things, twice, so that each comes behind each.
static void children(const char *when) {
    printf("%s: %u,", when, sum());
    for (int turn = 0; turn < 10; turn++) {
        if (open_pipe[1] >= 0) dprintf(open_pipe[1], "%c", 'a' + turn);
        child(turn * 3 % 5);
    }
    printf(" then %u\n", sum());
}

static void all(void) {
    children("first");
    children("as before");
    area[4 * PAGE] = 1;
    data[PAGE] = 2;
    children("two pages written");
    munmap(area + 8 * PAGE, PAGE);
    mmap(area + 8 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    children("one page is another");
    pipe(open_pipe);
    children("with a pipe");
    int first[2] = {open_pipe[0], open_pipe[1]};
    pipe(open_pipe);
    children("with another one");
    close(first[0]);
    close(first[1]);
    children("without the first");
    close(open_pipe[0]);
    close(open_pipe[1]);
    open_pipe[0] = open_pipe[1] = -1;
    mprotect(area + 5 * PAGE, PAGE, PROT_READ);
    fflush(stdout);
    pid_t number = fork();
    if (!number) {
        area[5 * PAGE] = 1;
        _exit(0);
    }
    int status;
    waitpid(number, &status, 0);
    printf("written where it may not be: signal %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    mprotect(area + 5 * PAGE, PAGE, PROT_READ | PROT_WRITE);
    children("as it was");
    free(memset(malloc(40 * PAGE), 5, 40 * PAGE));
    children("after more was there for a while");
}

int main(int count, char **arguments) {
    area = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int page = 0; page < PAGES; page += 2) area[page * PAGE] = page + 1;
    if (count > 1) {
        // A child of the program before is still there, and ends now.
        close(atoi(arguments[1]));
        int status, found = wait(&status) > 0;
        printf("executed: a child from before %d, status %d\n", found, WEXITSTATUS(status));
        all();
        return 0;
    }
    all();
    int until[2];
    pipe(until);
    fflush(stdout);
    if (!fork()) {
        char byte;
        close(until[1]);
        read(until[0], &byte, 1);
        _exit(sum() % 100);
    }
    close(until[0]);
    char number[12];
    snprintf(number, sizeof number, "%d", until[1]);
    execl("/proc/self/exe", arguments[0], number, NULL);
    return 1;
}
