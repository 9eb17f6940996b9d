/* Orphans that end shortly before those end that the kernel has charged for what they are made of. The session takes that back, and looks
   through all pages for it: what it has found in one moment is free in the next, with the heir, and in the third it is what somebody
   else is making a process of. Nobody's pages may go with an orphan's. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 12, HEIRS = 8, WORKERS = 6, PAGES = 6 };

/* What children write. */
static volatile int pages[PAGES][1024] __attribute__((aligned(4096)));

/* An heir and its orphan end when they may read. */
static struct heir {
    pid_t number;
    int own[2], orphans[2];
} heirs[HEIRS];

static void fail(const char *what)
{
    printf("%s: %s\n", what, strerror(errno));
    exit(1);
}

static void sleep_for(long milliseconds)
{
    struct timespec time = { 0, milliseconds * 1000000 };
    nanosleep(&time, NULL);
}

static void end_at(const int *gate)
{
    char byte;
    _exit(read(gate[0], &byte, 1) == 1 ? 0 : 1);
}

static void open_gate(const int *gate)
{
    if (write(gate[1], "", 1) != 1)
        fail("a gate cannot be opened");
}

/* Makes an orphan whose maker has ended, so that the kernel has charged the maker's maker: this process. */
static void inherit(const struct heir *heir)
{
    pid_t maker = fork();
    if (maker == 0) {
        if (fork() == 0)
            end_at(heir->orphans);
        _exit(0);
    }
    if (maker < 0 || waitpid(maker, NULL, 0) != maker)
        fail("an orphan cannot be made");
    end_at(heir->own);
}

static void make_heir(struct heir *heir)
{
    if (pipe(heir->own) != 0 || pipe(heir->orphans) != 0)
        fail("pipe");
    heir->number = fork();
    if (heir->number == 0)
        inherit(heir);
    if (heir->number < 0)
        fail("an heir cannot be made");
}

static void bury(struct heir *heir)
{
    int status = 0;
    open_gate(heir->own);
    if (waitpid(heir->number, &status, 0) != heir->number || status != 0)
        fail("an heir ended badly");
    close(heir->own[0]);
    close(heir->own[1]);
    close(heir->orphans[0]);
    close(heir->orphans[1]);
}

/* Waits for a child that was made, which must end as it should. */
static void expect(pid_t child, int expected)
{
    int status = 0;
    if (child < 0)
        fail("a child cannot be made");
    if (waitpid(child, &status, 0) != child || status != expected) {
        printf("a child ended as %x\n", status);
        exit(1);
    }
}

/* Makes a child that begins with copies of what children wrote before it, and writes it too; then it may execute a program. */
static void make_writer(int executes)
{
    pid_t child = fork();
    if (child == 0) {
        for (int page = 0; page < PAGES; page++)
            pages[page][0] += 1;
        for (int page = 0; page < PAGES; page++)
            if (pages[page][0] != page + 1)
                _exit(2);
        if (executes)
            execl("/bin/true", "true", NULL);
        _exit(executes ? 3 : 0);
    }
    expect(child, 0);
}

/* Makes a process that makes children of fresh pages, and keeps pages for the next one a while. */
static void make_parent(void)
{
    pid_t parent = fork();
    if (parent == 0) {
        pid_t child = vfork();
        if (child == 0)
            _exit(3);
        expect(child, 3 << 8);
        for (int page = 0; page < PAGES; page++)
            pages[page][0] = page;
        make_writer(0);
        make_writer(1);
        sleep_for(20);
        make_writer(0);
        exit(0);
    }
    expect(parent, 0);
}

/* Makes parents until it may read. */
static pid_t make_worker(const int *gate)
{
    pid_t worker = fork();
    if (worker < 0)
        fail("a worker cannot be made");
    if (worker == 0) {
        struct pollfd end = { gate[0], POLLIN, 0 };
        while (poll(&end, 1, 0) == 0)
            make_parent();
        exit(0);
    }
    return worker;
}

/* Orphans end, and after this time their heirs. */
static void end_all(long milliseconds)
{
    for (int heir = 0; heir < HEIRS; heir++)
        make_heir(&heirs[heir]);
    /* The session has seen the orphans when it has looked once. */
    sleep_for(300);
    for (int heir = 0; heir < HEIRS; heir++)
        open_gate(heirs[heir].orphans);
    sleep_for(milliseconds);
    for (int heir = 0; heir < HEIRS; heir++)
        bury(&heirs[heir]);
    sleep_for(200);
}

int main(void)
{
    /* How long the session looks depends on how large the memory is. */
    static const long times[] = { 3, 8, 150, 220 };
    int gate[2], failed = 0;
    pid_t workers[WORKERS];
    setbuf(stdout, NULL);
    if (pipe(gate) != 0)
        fail("pipe");
    for (int worker = 0; worker < WORKERS; worker++)
        workers[worker] = make_worker(gate);
    for (int round = 0; round < ROUNDS; round++)
        end_all(times[round % 4]);
    open_gate(gate);
    for (int worker = 0; worker < WORKERS; worker++) {
        int status = 0;
        failed |= waitpid(workers[worker], &status, 0) != workers[worker] || status != 0;
    }
    puts(failed ? "a worker failed" : "nobody's pages went with an orphan's");
    return failed;
}
