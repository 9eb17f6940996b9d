// Callers of the server that cannot be entered by its answer: they call without the word that says that they are ready,
// or with an entry that does not exist. The server keeps such an answer and serves others at once: a victim of another
// user, which makes calls of the server, comes to at least a share of what it does while the attackers compute alone.
// One line for each kind of attack.
#define _GNU_SOURCE
#include "evil.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); _exit(1); } } while (0)

enum { USER = 1000, GROUP = 100, ATTACKERS = 2, COMPUTING = 2, SHARE = 20 };
enum { READY = 14, STAT = 200 };

static volatile long *calls;

static void become_user(void) { CHECK(!setgroups(0, 0) && !setgid(GROUP) && !setuid(USER)); }

static void compute(void) { for (;;) __asm__ volatile(""); }

// The answer enters nowhere: the word for it is 0. The call comes back when a slice of the attacker's own begins.
static void never_ready(uint64_t server) {
    for (;;) PRIVATE[READY] = 0, call_kernel(1ull << 62 | server, STAT, 0, 0, 0, 0, 0);
}

static void no_entry(uint64_t server) {
    PRIVATE[SYNCHRONOUS_ENTRY] = PRIVATE[ASYNCHRONOUS_ENTRY] = 0;
    for (;;) PRIVATE[READY] = 1, call_kernel(1ull << 62 | server, STAT, 0, 0, 0, 0, 0);
}

static void attack(void (*way)(uint64_t)) {
    become_user();
    if (!way) compute();
    uint64_t server = 0, own = getpid();
    CHECK(mkdir("/", 0700) == -1);
    PRIVATE[GATE_END] = 0;
    server = find_server(own, NULL);
    PRIVATE[CRITICAL_SECTION] = 1;
    way(server);
}

// What a victim comes to in a while during which so many attack this way.
static long pace(void (*way)(uint64_t)) {
    pid_t all[ATTACKERS + COMPUTING + 1];
    for (int i = 0; i < ATTACKERS + COMPUTING; i++)
        if (!(all[i] = fork())) attack(i < ATTACKERS ? way : NULL);
    *calls = 0;
    pid_t victim = fork();
    if (!victim) for (;; ++*calls) if (access("/nowhere", F_OK) != -1 || mkdir("/", 0700) != -1) _exit(1);
    usleep(300000);
    long before = *calls;
    usleep(700000);
    long came_to = *calls - before;
    all[ATTACKERS + COMPUTING] = victim;
    for (int i = 0; i <= ATTACKERS + COMPUTING; i++) kill(all[i], SIGKILL), waitpid(all[i], NULL, 0);
    return came_to;
}

static void compare(const char *name, void (*way)(uint64_t), long alone) {
    long came_to = pace(way);
    if (came_to < alone / SHARE) printf("%s: %ld calls of %ld\n", name, came_to, alone);
    else printf("%s\n", name);
    fflush(stdout);
}

int main(void) {
    calls = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    long alone = pace(NULL);
    compare("callers that are never ready", never_ready, alone);
    compare("callers without an entry", no_entry, alone);
}
