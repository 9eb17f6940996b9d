// A process that leaves to the server what it should not, and goes on living (lib/exos/src/server/orphaned_pages.rs): pages of all kinds
// that are not its own, its own twice, those that it gives up or takes back behind the server's back, and more than it may.
// Beside it others work, and come to what they come to in peace; it opens nothing of theirs, and afterwards all memory is there again.
// One line for each part.
#define _GNU_SOURCE
#include "census.h"
#include "evil.h"
#include "workers.h"
#include <stdlib.h>

enum { EVIL_USER = 1000, OTHER_USER = 2000, GROUP = 100, SLACK = 512 };
// Numbers of the kernel's calls, keys that a process has, and kinds of pages (doc/kernel-interface.md, abi/src).
enum { OWN_KEY = 1, CHANNEL_KEY = 2, ORDINARY = 3, READ = 5, WRITE = 7 };
// Words of the record of an environment.
// The server's operations.
enum { DRAW = 73, BURY_THE_DEAD = 90, BEQUEATH = 101, SHARE_BEQUESTS = 102 };
// Pages that a window has words for, of the first page that is mapped here; those of a file; and those that a user could leave at most.
enum { WORDS = PAGE / 8, FILE_PAGES = 256, ROOM = 16384 };

static volatile uint64_t *const kernel = (void *)0xffffc00000000000;
static volatile uint64_t (*const pages)[8] = (void *)0xffffc00080000000;
static volatile uint64_t window[WORDS] __attribute__((aligned(PAGE)));
static volatile char place[PAGE] __attribute__((aligned(PAGE)));

static uint64_t own, root, list, gate_end, server;

static uint64_t owner_of(uint64_t page) { return pages[page][1]; }
static int is_ordinary(uint64_t page) { return (uint8_t)pages[page][0] == ORDINARY; }

static void open_gate(void) {
    own = getpid();
    root = own_record(own)[ROOT];
    list = (uint32_t)pages[root][2];
    window[0] = place[0] = 1;
    // The server answers whom it knows.
    CHECK(mkdir("/", 0700) == -1);
    gate_end = PRIVATE[GATE_END];
    PRIVATE[GATE_END] = 0;
    if (!server) server = find_server(own, (volatile char *)window);
}

static void close_gate(void) {
    PRIVATE[GATE_END] = gate_end;
    CHECK(server);
}

static int map(volatile void *at, uint64_t key, uint64_t page, uint64_t rights) {
    uint64_t row[2] = {(uint64_t)at | key, page << 12 | rights};
    return !call_kernel(ROW_PAGE_MAP, 1, root, (uint64_t)row, 1, 0, 0);
}

static void unmap(volatile void *at) {
    uint64_t row[2] = {(uint64_t)at, 0};
    call_kernel(ROW_PAGE_MAP, 1, root, (uint64_t)row, 1, 0, 0);
}

// Asks the server with so many words of the window, and a list where it takes one: its error, or 0.
static uint64_t tell_of(uint64_t operation, uint64_t first, uint64_t second, uint64_t users_of) {
    uint64_t message[6] = {operation, first, second, users_of};
    return ask(server, message, 10000) ? ~0ul : message[0];
}

static uint64_t tell(uint64_t operation, uint64_t first, uint64_t second) {
    return tell_of(operation, first, second, 0);
}

// One call of the kernel: any page, whose number takes the place of "none" in the row; 0: there is none.
static uint64_t allocate(void) {
    const uint64_t NONE = 0xffffffff;
    volatile uint64_t row[2] = {0, NONE << 12};
    return call_kernel(ROW_PAGE_ALLOCATE, OWN_KEY, list, 0, NONE, (uint64_t)row, 1) ? 0 : row[1] >> 12 & NONE;
}

// A page of its own, with more budget where it is used up; 0: there is none.
static uint64_t take_page(void) {
    enum { SOME = 64 };
    uint64_t page = allocate(), message[6] = {DRAW, own, 0, SOME};
    return page || ask(server, message, 10000) || message[0] ? page : allocate();
}

// Leaves all pages of the machine but its own, and more than there are, with and without records, and shares them all with everybody.
static void leave_everything(uint64_t salt) {
    const uint64_t heirs[] = {EVIL_USER, OTHER_USER, 0, 1ul << 32, ~0ul};
    for (uint64_t page = 0; page < kernel[3] + WORDS;) {
        int count = 0;
        for (; count < WORDS && page < kernel[3] + WORDS; page++) {
            if (page < kernel[3] && owner_of(page) == own) continue;
            uint64_t record = salt ? ((page * salt) % kernel[3]) << 28 | page << 56 : 0;
            window[count++] = page | record;
        }
        tell(BEQUEATH, count, 0);
        for (int i = 0; i < 5; i++) tell(SHARE_BEQUESTS, heirs[i], count);
        const uint64_t lists[] = {list, 1, 0xffffffff, ~0ul};
        for (int i = 0; i < 4; i++) tell_of(SHARE_BEQUESTS, OTHER_USER, count, lists[i]);
    }
    const uint64_t counts[] = {0, 4096, 4097, 1ul << 32, 1ul << 63, ~0ul};
    for (int i = 0; i < 6; i++) tell(BEQUEATH, counts[i], 0), tell(SHARE_BEQUESTS, EVIL_USER, counts[i]);
}

// Pages of others that one of its keys opens for writing, as bits; how many that were not there before.
static int find_open(volatile uint8_t *before, int notes) {
    int found = 0;
    for (uint64_t page = 0; page < kernel[3]; page++) {
        if (owner_of(page) == own || !is_ordinary(page)) continue;
        int opens = 0;
        for (uint64_t key = 1; key < 8 && !opens; key++) opens = key != CHANNEL_KEY && map(place, key, page, WRITE);
        if (notes) before[page / 8] |= opens << page % 8;
        else found += opens && !(before[page / 8] >> page % 8 & 1) && owner_of(page) != own;
    }
    unmap(place);
    return found;
}

// Part one: what is others'. Tells how many pages it opens that it did not before.
static int leave_what_is_others(int drops) {
    static volatile uint8_t before[1 << 17];
    CHECK(kernel[3] <= sizeof before * 8);
    // Its library gets no memory any more once the keys are gone.
    for (size_t at = 0; at < sizeof before; at += PAGE) before[at] = 0;
    open_gate();
    if (drops) {
        call_kernel(ROW_KEY_DROP, own, USER_KEY, 1, 0, 0, 0);
        call_kernel(ROW_KEY_DROP, own, CHANNEL_KEY, 1, 0, 0, 0);
    }
    find_open(before, 1);
    for (uint64_t salt = 0; salt < 3; salt++) leave_everything(salt);
    int found = find_open(before, 0);
    close_gate();
    return found;
}

// Takes pages of its own, maps them in a row, and leaves them, each twice; how many the server took.
static int leave_own(volatile char *at, uint64_t *left, int most) {
    int all = 0, taken = 0;
    while (all < most && (left[all] = take_page()) && map(at + (long)all * PAGE, OWN_KEY, left[all], WRITE)) all++;
    for (int first = 0; first < all; first += WORDS / 2) {
        int count = all - first < WORDS / 2 ? all - first : WORDS / 2;
        for (int i = 0; i < count; i++) window[2 * i] = window[2 * i + 1] = left[first + i];
        tell(BEQUEATH, 2 * count, 0);
    }
    for (int i = 0; i < all; i++) {
        if (owner_of(left[i]) == server) left[taken++] = left[i];
        else call_kernel(ROW_PAGE_FREE, OWN_KEY, left[i], 0, 0, 0, 0);
    }
    return taken;
}

// Room for pages that are mapped by hand, with the tables for it; where they are noted is touched, too, before the gate is open.
static volatile char *make_room(volatile uint64_t *notes, int count) {
    for (int at = 0; at < count; at++) notes[at] = 0;
    volatile char *room = mmap(NULL, (long)count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(room != MAP_FAILED);
    for (long at = 0; at < count; at += 256) room[at * PAGE] = 1;
    room[(count - 1L) * PAGE] = 1;
    return room;
}

// Whether a page is one of the file: full of one letter. The first byte alone may be that of a number.
static int is_of_file(const volatile char *page) {
    int at = 1;
    while (at < PAGE && page[at] == 'x') at++;
    return at == PAGE && (page[0] == 'x' || page[0] == 'y');
}

// Part two: what it has left it gives up itself, or takes back; then the numbers are those of pages of a file that it may read only.
static int take_back(int report, int answer) {
    enum { LEFT = 400 };
    static uint64_t left[LEFT];
    static char told[PAGE];
    int opened = 0;
    volatile char *room = make_room(left, LEFT);
    open_gate();
    int taken = leave_own(room, left, LEFT);
    for (int i = 0; i < LEFT; i++) unmap(room + (long)i * PAGE);
    for (int i = 0; i < taken; i++) {
        if (i % 2) call_kernel(ROW_PAGE_CLAIM, USER_KEY, left[i], OWN_KEY, list, 0, 0);
        call_kernel(ROW_PAGE_FREE, USER_KEY, left[i], 0, 0, 0, 0);
    }
    close_gate();
    CHECK(taken > LEFT / 2 && write(report, "", 1) == 1 && read(answer, told, 1) == 1);
    int file = open("theirs", O_RDONLY);
    CHECK(file >= 0 && open("theirs", O_WRONLY) == -1 && errno == EACCES);
    const volatile char *theirs = mmap(NULL, FILE_PAGES * PAGE, PROT_READ, MAP_SHARED, file, 0);
    CHECK(theirs != MAP_FAILED);
    for (int i = 0; i < FILE_PAGES; i++) CHECK(theirs[i * PAGE] == 'x');
    open_gate();
    for (uint64_t page = 0; page < kernel[3]; page++) {
        if (owner_of(page) != server || !map(place, USER_KEY, page, READ) || !is_of_file(place)) continue;
        window[0] = page;
        tell(SHARE_BEQUESTS, EVIL_USER, 1);
        if (!map(place, USER_KEY, page, WRITE)) continue;
        opened++;
        place[0] = 'y';
    }
    for (int i = 0; i < 10; i++) tell(BURY_THE_DEAD, 0, 0);
    close_gate();
    return opened;
}

// Part three: as much as the server takes. Tells how much that is; then it waits.
static void leave_much(int report, int answer) {
    static uint64_t left[ROOM];
    char told;
    volatile char *room = make_room(left, ROOM);
    open_gate();
    int taken = leave_own(room, left, ROOM);
    close_gate();
    CHECK(write(report, &taken, sizeof taken) == sizeof taken && read(answer, &told, 1) == 1);
}

// Becomes another user, and goes on in a child, so that all that it has is this user's.
static void become_user(void) {
    int status;
    CHECK(!setgroups(0, 0) && !setgid(GROUP) && !setuid(EVIL_USER));
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) return;
    CHECK(waitpid(child, &status, 0) == child);
    _exit(status != 0);
}

static uint64_t expected[2];

// Others work, and come to what they should, while somebody does harm, who may end as it likes.
static void work_beside(pid_t evil) {
    const uid_t users[2] = {0, OTHER_USER};
    struct worker workers[2] = {begin_to_work(users[0]), begin_to_work(users[1])};
    for (int i = 0; i < 2; i++) CHECK(what_it_came_to(workers[i]) == expected[i]);
    CHECK(waitpid(evil, NULL, 0) == evil);
    for (int i = 0; i < 2; i++) CHECK(what_it_came_to(begin_to_work(users[i])) == expected[i]);
}

// What somebody tells at the end of its harm: pages that it opened.
static void tell_opened(int report, int opened) {
    CHECK(write(report, &opened, sizeof opened) == sizeof opened);
    _exit(0);
}

static void expect_none(int report) {
    int opened = 0;
    CHECK(read(report, &opened, sizeof opened) == sizeof opened);
    if (opened) printf("%d pages are open\n", opened);
}

static void others_pages(void) {
    for (int drops = 0; drops < 2; drops++) {
        int report[2];
        CHECK(!pipe(report));
        pid_t evil = fork();
        if (!evil) {
            if (!drops) become_user();
            tell_opened(report[1], leave_what_is_others(drops));
        }
        close(report[1]);
        work_beside(evil);
        expect_none(report[0]);
        close(report[0]);
    }
}

static void pages_that_were_left(void) {
    static char page[PAGE];
    int report[2], answer[2], file;
    CHECK(!pipe(report) && !pipe(answer));
    pid_t evil = fork();
    if (!evil) {
        become_user();
        tell_opened(report[1], take_back(report[1], answer[0]));
    }
    close(report[1]);
    memset(page, 'x', PAGE);
    CHECK(read(report[0], page, 1) == 1);
    page[0] = 'x';
    CHECK((file = open("theirs", O_RDWR | O_CREAT, 0640)) >= 0 && !fchown(file, 0, GROUP));
    for (int i = 0; i < FILE_PAGES; i++) CHECK(write(file, page, PAGE) == PAGE);
    CHECK(write(answer[1], "", 1) == 1);
    work_beside(evil);
    expect_none(report[0]);
    for (int i = 0; i < FILE_PAGES; i++) {
        CHECK(pread(file, page, PAGE, (long)i * PAGE) == PAGE);
        for (int j = 0; j < PAGE; j++) CHECK(page[j] == 'x');
    }
    CHECK(!close(report[0]) && !close(answer[0]) && !close(answer[1]) && !close(file) && !unlink("theirs"));
}

// A pipe of the same user, whose maker ends, and can leave nothing: its children have it all the same.
static void pass_beyond(void) {
    char byte = 0;
    int ends[2], report[2];
    CHECK(!pipe(report));
    pid_t maker = fork();
    if (!maker) {
        become_user();
        CHECK(!pipe(ends));
        if (!fork()) {
            CHECK(read(ends[0], &byte, 1) == 1 && write(report[1], &byte, 1) == 1);
            _exit(0);
        }
        if (!fork()) {
            usleep(200000);
            CHECK(write(ends[1], "z", 1) == 1);
        }
        _exit(0);
    }
    close(report[1]);
    CHECK(waitpid(maker, NULL, 0) == maker && read(report[0], &byte, 1) == 1 && byte == 'z');
    close(report[0]);
}

// Who leaves as much as it can leaves a part of the machine's pages; and as much again when that is gone.
static void too_many_pages(void) {
    int taken, report[2], answer[2];
    CHECK(!pipe(report) && !pipe(answer));
    pid_t evil = fork();
    if (!evil) {
        become_user();
        leave_much(report[1], answer[0]);
        _exit(0);
    }
    close(report[1]);
    CHECK(read(report[0], &taken, sizeof taken) == sizeof taken);
    long part = sysconf(_SC_PHYS_PAGES) / 16;
    if (taken > part || taken < part / 2) printf("%d pages were left, %ld may be\n", taken, part);
    pass_beyond();
    CHECK(write(answer[1], "", 1) == 1);
    work_beside(evil);
    CHECK(!close(report[0]) && !close(answer[0]) && !close(answer[1]));
}

int main(void) {
    const uid_t users[2] = {0, OTHER_USER};
    char folder[] = "/tmp/evil-XXXXXX";
    setvbuf(stdout, NULL, _IOLBF, 0);
    CHECK(mkdtemp(folder) && !chdir(folder) && !chmod(folder, 0755));
    for (int i = 0; i < 2; i++) make_folder(users[i]), expected[i] = what_it_came_to(begin_to_work(users[i]));
    long free[2];
    for (int round = 0; round < 2; round++) {
        others_pages();
        puts("who leaves what is others' opens nothing");
        pages_that_were_left();
        puts("who takes back what it left gets nothing else");
        too_many_pages();
        puts("who leaves too much keeps the rest");
        free[round] = free_when_quiet();
    }
    if (free[0] - free[1] > SLACK) printf("%ld KiB were free, %ld are\n", free[0], free[1]);
}
