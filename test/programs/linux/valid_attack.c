// FAULTS.md row 14: a program of user 1000 opens its library's gate and calls the kernel with what its process really has.
// Pages, tables and lists come from the exposed list of its own pages, environments from the exposed records.
// Two victims of another user compute and carry meanwhile. It says whether they did so undisturbed, and whether calls
// were granted.
// Arguments: how many calls, and the seed.
#define _GNU_SOURCE
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "evil.h"

enum { CALLERS = 2, A_CHILD = 100, SECONDS_OF_A_CHILD = 2, RECORD = 64, RECORD_PAGES = 8, CREATOR = 3, KIND_TABLE = 4, KIND_LIST = 5 };
enum { OWN_NUMBER = 23, NO_PAGE = 0xffffffff, REACH = 200, ENVIRONMENTS = 128 };

// The arguments of rows: key, page, table, list, environment, structure, address, slot, small number.
static const char *const arguments[ROWS] = {
    [ROW_BATCH] = "sn", [ROW_KEY_DERIVE] = "kjnn", [ROW_KEY_COPY] = "knejk", [ROW_KEY_DROP] = "ejk", [ROW_PAGE_BECOME] = "kpnn",
    [ROW_ACCESS_LIST_SET] = "klnkn", [ROW_PAGE_ALLOCATE] = "klktsn", [ROW_PAGE_FREE] = "kp", [ROW_PAGE_CLAIM] = "kpkl",
    [ROW_PAGE_UNBIND] = "kpta", [ROW_PAGE_MAP] = "ktsn", [ROW_ADDRESS_SPACE_SWITCH] = "kt", [ROW_PAGE_TABLE_LINK] = "ktanpk",
    [ROW_PAGE_TABLE_UNLINK] = "ktan", [ROW_PAGE_TABLE_COPY] = "ktanpk", [ROW_ENVIRONMENT_CREATE] = "ks", [ROW_ENVIRONMENT_DESTROY] = "ke",
    [ROW_BUDGET_MOVE] = "keennn", [ROW_CONTEXT_SET] = "na", [ROW_EVENT_RAISE] = "ken", [ROW_TIME_SLICE_ALLOCATE] = "kenn",
    [ROW_TIME_SLICE_FREE] = "knn", [ROW_TIME_SLICE_YIELD] = "e", [ROW_CPU_KICK] = "n", [ROW_REGION_NAME] = "kpn",
    [ROW_REGION_COPY] = "kpnsnn", [ROW_REVOCATION_REQUEST] = "kennn", [ROW_REVOCATION_ENFORCE] = "ke", [ROW_ENTROPY_READ] = "sn",
    [ROW_DEVICE_BIND] = "knnen", [ROW_DEVICE_SUBMIT] = "knnsn", [ROW_FILTER_INSERT] = "knsnn",
    [ROW_PACKET_SEND] = "kpsn",
};

static uint64_t state, own;
static volatile uint64_t *record, *const pages = (void *)0xffffc00080000000;
static uint64_t structure[128];

static uint64_t next(void) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state * 0x2545f4914f6cdd1d;
}

static uint64_t below(uint64_t bound) { return (next() >> 16) % bound; }

// One of the own pages, mostly one that was charged lately.
static uint64_t own_page(void) {
    uint64_t page = record[RECORD_PAGES];
    for (uint64_t steps = below(below(4) ? 24 : REACH); steps && page < NO_PAGE; steps--) {
        uint64_t following = (uint32_t)pages[page * 8 + 4];
        if (following >= NO_PAGE) break;
        page = following;
    }
    return page;
}

static uint64_t page_of_kind(uint64_t kind, uint64_t otherwise) {
    for (int tries = 0; tries < 8; tries++) {
        uint64_t page = own_page();
        if (page < NO_PAGE && (pages[page * 8] & 0xff) == kind) return page;
    }
    return otherwise;
}

static uint64_t own_list(void) { return (uint32_t)pages[record[ROOT] * 8 + 2]; }

static uint64_t any_environment(void) {
    switch (below(4)) {
    case 0: return own;
    case 1: return record[CREATOR];
    default: return environments[below(ENVIRONMENTS) * RECORD + NUMBER];
    }
}

static uint64_t any_address(void) { return 0x20000000 + below(64) * PAGE; }

static void fill_structure(void) {
    for (int word = 0; word < 128; word += 2) {
        structure[word] = below(3) ? any_address() | below(8) : below(ROWS);
        structure[word + 1] = own_page() * PAGE | (below(3) ? 3 : 0);
    }
}

static uint64_t argument(char kind) {
    if (below(16) == 0) return below(2) ? next() : 1ul << below(64);
    switch (kind) {
    case 'k': return below(4) ? 1 + below(3) : below(9);
    case 'p': return own_page();
    case 't': return below(2) ? record[ROOT] : page_of_kind(KIND_TABLE, record[ROOT]);
    case 'l': return below(2) ? own_list() : page_of_kind(KIND_LIST, own_list());
    case 'e': return any_environment();
    case 's': return (uint64_t)structure;
    case 'a': return any_address();
    case 'j': return 9 + below(30);
    default: return below(14);
    }
}

// What it made and what was granted is counted where its parent sees it.
static void child_calls(uint64_t seed, volatile uint64_t *counts) {
    state = seed, own = PRIVATE[OWN_NUMBER], record = own_record(own);
    PRIVATE[GATE_END] = 0;
    for (int call = 0; call < A_CHILD; call++) {
        uint64_t given[6] = {0}, number = below(ROWS);
        const char *kinds = arguments[number];
        if (!kinds) continue;
        fill_structure();
        for (int index = 0; kinds[index]; index++) given[index] = argument(kinds[index]);
        counts[0]++;
        counts[1] += call_kernel(number, given[0], given[1], given[2], given[3], given[4], given[5]) == 0;
    }
    // The library may be damaged: it ends as a process that never comes back.
    for (;;) call_kernel(ROW_ENVIRONMENT_DESTROY, 1, own, 0, 0, 0, 0);
}

static int caller(uint64_t seed, uint64_t calls, volatile uint64_t *counts) {
    state = seed;
    while (counts[0] < calls) {
        uint64_t child_seed = next() | 1;
        pid_t child = fork();
        if (child < 0) {
            usleep(10000);
            continue;
        }
        if (child == 0) child_calls(child_seed, counts);
        for (time_t end = time(NULL) + SECONDS_OF_A_CHILD; waitpid(child, NULL, WNOHANG) == 0; usleep(500))
            if (time(NULL) >= end) kill(child, SIGKILL);
    }
    return 0;
}

static volatile int *stopped;

static void victim_computes(void) {
    static uint64_t data[8 * 512];
    for (uint64_t round = 1; !*stopped; round++) {
        for (uint64_t index = 0; index < 8 * 512; index++) data[index] = index * round;
        usleep(500);
        for (uint64_t index = 0; index < 8 * 512; index++)
            if (data[index] != index * round) _exit(1);
    }
    _exit(0);
}

static void victim_carries(void) {
    char out[300], in[300];
    int ends[2];
    if (pipe(ends)) _exit(2);
    for (int round = 0; !*stopped; round++) {
        memset(out, round, sizeof out);
        if (write(ends[1], out, sizeof out) != sizeof out || read(ends[0], in, sizeof in) != sizeof in || memcmp(out, in, sizeof out)) _exit(3);
        usleep(500);
    }
    _exit(0);
}

static void become(uid_t user) {
    if (setgroups(0, 0) || setgid(user) || setuid(user)) _exit(5);
}

int main(int count, char **given) {
    uint64_t calls = count > 1 ? strtoull(given[1], NULL, 0) : 10000, seed = count > 2 ? strtoull(given[2], NULL, 0) : 14;
    int status, wrong = 0;
    pid_t victims[2], callers[CALLERS];
    stopped = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    volatile uint64_t *counts = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int index = 0; index < 2; index++)
        if ((victims[index] = fork()) == 0) {
            become(1001);
            index ? victim_carries() : victim_computes();
        }
    for (int index = 0; index < CALLERS; index++)
        if ((callers[index] = fork()) == 0) {
            become(1000);
            munmap((void *)stopped, PAGE);
            _exit(caller(seed + index * 7919, calls / CALLERS, counts + index * 2));
        }
    for (int index = 0; index < CALLERS; index++)
        if (waitpid(callers[index], &status, 0) != callers[index] || status) wrong++, printf("caller %d: status %#x\n", index, status);
    *stopped = 1;
    for (int index = 0; index < 2; index++)
        if (waitpid(victims[index], &status, 0) != victims[index] || status) wrong++, printf("victim %d: status %#x\n", index, status);
    uint64_t made = counts[0] + counts[2], granted = counts[1] + counts[3];
    fprintf(stderr, "%lu calls, %lu granted\n", made, granted);
    puts(wrong ? "something is wrong" : "the victims noticed nothing");
    puts(made >= calls && granted > made / 50 ? "calls were made and granted" : "too few calls were granted");
    return wrong != 0;
}
