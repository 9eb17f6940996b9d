// Children that have a child each, one after the other.
// Whatever child and grandchild do to it, and however they end, the next grandchild begins as its program says, or as a
// copy of its parent. Those that outlive their parents, and theirs, continue. Afterwards all memory is there again.
// One line for each part; with arguments: a grandchild.
#define _GNU_SOURCE
#include "census.h"
#include "evil.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); exit(1); } } while (0)

enum { WORDS = PAGE / 8, DATA = 4, ZEROS = 4 };
// KiB that a process may keep for the next child, and of what it was allowed; one page for each child would be more.
enum { SLACK = 1024 };
// Numbers of the kernel's calls; words of the record of an environment; keys.
enum { CREATOR = 3, RECORD = 64, RECORDS = 512 * RECORD };
#define MARK 0x5ca1ab1e0ddba115u
#define PAGE_DATA(index) [(index) * WORDS ... (index) * WORDS + WORDS - 1] = 11 + (index)

static volatile uint64_t data[DATA * WORDS] __attribute__((aligned(PAGE))) = {PAGE_DATA(0), PAGE_DATA(1), PAGE_DATA(2), PAGE_DATA(3)};
static volatile uint64_t zeros[ZEROS * WORDS] __attribute__((aligned(PAGE)));
static char self[64];

static int is_as_it_was(void) {
    for (int word = 0; word < DATA * WORDS; word++)
        if (data[word] != 11u + word / WORDS) return 1;
    for (int word = 0; word < ZEROS * WORDS; word++)
        if (zeros[word]) return 2;
    return 0;
}

static void spoil(void) {
    for (int word = 0; word < DATA * WORDS; word++) data[word] = MARK;
    for (int word = 0; word < ZEROS * WORDS; word++) zeros[word] = MARK;
}

static int map_far_and_near(void) {
    char *far = mmap((void *)0x200000000000, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *near = mmap(NULL, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (far == MAP_FAILED || near == MAP_FAILED) return 1;
    for (int at = 0; at < 4 << 20; at += 1 << 20) far[at] = near[at] = 1;
    return munmap((void *)&data[WORDS], PAGE) || mprotect((void *)zeros, PAGE, PROT_READ);
}

// Goes on, sleeping, when nobody is left who made it, until it is told: then it says how it is.
static int outlive(int until, int answers) {
    struct pollfd one = {until, POLLIN, 0};
    char byte;
    while (poll(&one, 1, 3) == 0) continue;
    if (read(until, &byte, 1) < 0) return 1;
    pid_t child = fork();
    if (child == 0) _exit(is_as_it_was());
    int status, state = is_as_it_was();
    if (waitpid(child, &status, 0) != child || status) state = 3;
    byte = state;
    return write(answers, &byte, 1) != 1;
}

static int do_something(char **arguments) {
    const char *what = arguments[1];
    int before = is_as_it_was();
    if (before) return 100 + before;
    if (!strcmp(what, "outlive")) return outlive(atoi(arguments[2]), atoi(arguments[3]));
    spoil();
    if (!strcmp(what, "map")) return map_far_and_near();
    if (!strcmp(what, "die")) kill(getpid(), SIGKILL);
    if (!strcmp(what, "sleep")) return usleep(3000);
    if (!strcmp(what, "orphaned")) {
        for (pid_t parent = getppid(); getppid() == parent;) usleep(1000);
        kill(getpid(), SIGUSR2);
    }
    if (!strcmp(what, "again")) {
        char *other[] = {self, "map", NULL};
        execv(self, other);
    }
    return strcmp(what, "write") != 0;
}

static int until[2], answers[2];

static void execute(const char *what) {
    char first[12], second[12], *arguments[] = {self, (char *)what, first, second, NULL};
    snprintf(first, sizeof first, "%d", until[0]);
    snprintf(second, sizeof second, "%d", answers[1]);
    execv(self, arguments);
    _exit(99);
}

static int status_of(pid_t child) {
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

static int by_vfork(const char *what) {
    pid_t child = vfork();
    if (!child) execute(what);
    return status_of(child);
}

static int by_fork(const char *what) {
    pid_t child = fork();
    if (!child) execute(what);
    return status_of(child);
}

// A copy of who makes it, which writes to what both had.
static int a_copy(void) {
    data[0] = 4711;
    pid_t child = fork();
    if (!child) {
        int is_copy = data[0] == 4711 && data[WORDS] == 12;
        spoil();
        _exit(!is_copy);
    }
    int status = status_of(child), is_here = data[0] == 4711 && data[WORDS] == 12 && !zeros[0];
    data[0] = 11;
    return status || !is_here;
}

static void *make_one(void *status) {
    *(int *)status = by_vfork("write");
    return NULL;
}

static int by_thread(void) {
    pthread_t thread;
    int status = 1;
    return pthread_create(&thread, NULL, make_one, &status) || pthread_join(thread, NULL) || status || by_vfork("write");
}

static int several(void) {
    pid_t one = vfork(), another;
    if (!one) execute("sleep");
    another = fork();
    if (!another) execute("write");
    return status_of(another) | status_of(one);
}

// Destroys what came along, and whatever else its maker made, before it has a child.
static int destroy_what_came_along(void) {
    uint64_t own = getpid(), gate_end = PRIVATE[GATE_END], maker = getppid();
    PRIVATE[GATE_END] = 0;
    for (volatile uint64_t *record = environments; record < environments + RECORDS; record += RECORD) {
        if (record[CREATOR] == maker && record[NUMBER] != own)
            call_kernel(ROW_ENVIRONMENT_DESTROY, USER_KEY, record[NUMBER], 0, 0, 0, 0);
    }
    PRIVATE[GATE_END] = gate_end;
    return by_vfork("write");
}

static int child(unsigned way) {
    switch (way) {
    case 0: return by_vfork("write");
    case 1: return by_vfork("map");
    case 2: return by_fork("write");
    case 3: return by_vfork("die") != SIGKILL;
    case 4: return a_copy();
    case 5: return by_vfork("again");
    case 6: return by_vfork("write") || by_vfork("map") || a_copy() || by_fork("write");
    case 7: return several();
    case 8: return by_thread();
    case 9: return setgid(1000) || setuid(1000) || by_vfork("write");
    case 10: return 0;
    case 11: return vfork() ? 0 : (execute("sleep"), 0);
    case 12: return fork() ? 0 : (usleep(2000), _exit(is_as_it_was()), 0);
    case 13: return by_vfork("write") || kill(getpid(), SIGKILL);
    case 14: return vfork() ? kill(getpid(), SIGKILL) : (execute("sleep"), 0);
    case 15: return by_vfork("/none") != 1 << 8;
    default: return destroy_what_came_along();
    }
}

enum { WAYS = 17, KILLED = 13 };

static int begin(unsigned way) {
    pid_t one = fork();
    if (!one) _exit(child(way) != 0);
    int status = status_of(one);
    return status == (way == KILLED || way == KILLED + 1 ? SIGKILL : 0);
}

// After some that all do the same, so that there is something for the next one, one that does something else, and one that looks.
static void all_ways(void) {
    for (unsigned way = 0; way < WAYS; way++) {
        for (int usual = 0; usual < 6; usual++) CHECK(begin(0));
        if (!begin(way) || !begin(way) || !begin(0)) {
            printf("way %u\n", way);
            exit(1);
        }
    }
    puts("one after the other");
}

// Pages of its file that a process has not written itself, but its children, who have copies of them from then on: with their own children
// they share none of these to be written.
static int copies_of_copies(void) {
    static const unsigned ways[] = {0, 2, 0, 6, 0, 6, 4, 4, 6, 4};
    for (unsigned round = 0; round < sizeof ways / sizeof *ways; round++) CHECK(begin(ways[round]));
    return 0;
}

static void in_turns(void) {
    unsigned seed = 815;
    for (int round = 0; round < 120; round++) {
        seed = seed * 1103515245 + 12345;
        unsigned way = (seed >> 16) % (2 * WAYS);
        CHECK(begin(way < WAYS ? way : 0));
    }
    puts("in turns");
}

// Grandchildren that live longer than their parents, and some than those who made these, who are gone before some of them begin.
enum { CLANS = 4, EACH = 6 };

static void leave_one(int number) {
    struct pollfd told = {until[0], POLLIN, 0};
    if (number == EACH - 1)
        for (pid_t maker = getppid(); getppid() == maker;) usleep(1000);
    pid_t grandchild = number & 1 ? fork() : vfork();
    if (!grandchild) execute("outlive");
    // The last two are there still when who made it all ends.
    if (number >= EACH - 2) CHECK(poll(&told, 1, 30000) == 1);
    _exit(grandchild < 0);
}

static void found_clan(int is_killed) {
    for (int usual = 0; usual < 5; usual++) CHECK(begin(0));
    for (int one = 0; one < EACH; one++) {
        pid_t parent = fork();
        if (!parent) leave_one(one);
        if (one < EACH - 2) CHECK(!status_of(parent) && begin(0));
    }
    usleep(20000);
    if (is_killed) kill(getpid(), SIGKILL);
    _exit(0);
}

static void outliving(void) {
    CHECK(!pipe(until) && !pipe(answers));
    for (int clan = 0; clan < CLANS; clan++) {
        pid_t maker = fork();
        if (!maker) found_clan(clan & 1);
        CHECK(status_of(maker) == (clan & 1 ? SIGKILL : 0));
    }
    // Pages of whoever is gone are others' by now.
    for (int usual = 0; usual < 8; usual++) CHECK(begin(0));
    usleep(50000);
    // One more than are read: parents only look.
    char bytes[CLANS * EACH + 1] = "";
    CHECK(write(until[1], bytes, sizeof bytes) == sizeof bytes);
    for (int one = 0; one < CLANS * EACH; one++) {
        struct pollfd answer = {answers[0], POLLIN, 0};
        char state = 9;
        CHECK(poll(&answer, 1, 20000) == 1 && read(answers[0], &state, 1) == 1 && !state);
    }
    CHECK(!close(until[0]) && !close(until[1]) && !close(answers[0]) && !close(answers[1]));
    puts("longer than their makers");
}

// Who adopts a grandchild that ends before its parent is waited for is told how it ended.
static void adopted(void) {
    CHECK(!prctl(PR_SET_CHILD_SUBREAPER, 1));
    for (int round = 0; round < 4; round++) {
        for (int usual = 0; usual < 6; usual++) CHECK(begin(0));
        pid_t parent = fork();
        if (!parent) {
            if (!vfork()) execute("orphaned");
            usleep(10000);
            _exit(0);
        }
        usleep(60000);
        CHECK(!status_of(parent) && begin(0));
        int status;
        CHECK(waitpid(-1, &status, 0) > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR2);
    }
    CHECK(waitpid(-1, NULL, 0) == -1 && errno == ECHILD && !prctl(PR_SET_CHILD_SUBREAPER, 0));
    puts("adopted");
}

int main(int count, char **arguments) {
    snprintf(self, sizeof self, "%s", arguments[0]);
    if (count > 1) return strcmp(arguments[1], "copies") ? do_something(arguments) : copies_of_copies();
    setvbuf(stdout, NULL, _IONBF, 0);
    CHECK(begin(0));
    long before = free_when_quiet();
    adopted();
    CHECK(!by_fork("copies"));
    puts("copies of copies");
    all_ways();
    outliving();
    in_turns();
    long lost = before - free_when_quiet();
    if (lost > SLACK) printf("%ld KiB are lost\n", lost);
    puts("all of it is there again");
    return 0;
}
