// Tables of libraries, which many processes have in common (lib/exos/src/vm/shared_text.rs): who links them, edits them, or asks the
// server for them has only what it may read, and changes nothing for others.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "evil.h"

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); _exit(1); } } while (0)

enum { PAGES = 128, USER = 1000, SPAN = 2 << 20, SPAN_PAGES = 512, WORDS = PAGE / 8 };
enum kind { PRIVATE_LIBRARY, PUBLIC_LIBRARY, CLOSED_LIBRARY, KINDS };
static const char *const names[KINDS] = {"private-library", "public-library", "closed-library"};
static const uint64_t MARK = 0x71b5c3d9e2f4a806;

static uint64_t word_of(enum kind kind, int page) { return MARK + kind * 4096 + page; }

// Writes a library, or something else into the pages that another one has.
static void make(const char *path, enum kind kind, mode_t mode, int count) {
    uint64_t words[WORDS];
    int file = open(path, O_CREAT | O_RDWR, 0600);
    for (int page = 0; page < count; page++) {
        for (int i = 0; i < WORDS; i++) words[i] = word_of(kind, page);
        CHECK(write(file, words, PAGE) == PAGE);
    }
    CHECK(!fchmod(file, mode) && !close(file));
}

// A place for two spans, in which nothing is.
static char *spans(void) {
    char *place = mmap(NULL, 4 * SPAN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(place != MAP_FAILED && !munmap(place, 4 * SPAN));
    return (char *)(((uint64_t)place + SPAN - 1) & -(uint64_t)SPAN);
}

// Maps it as a linker maps the text of a library, and looks at all of it.
static volatile uint64_t *map_library(enum kind kind) {
    int file = open(names[kind], O_RDONLY), half = PAGES / 2 * PAGE;
    char *place = spans();
    CHECK(mmap(place, half, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) == place);
    CHECK(mmap(place + half, half, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file, half) == place + half);
    CHECK(!close(file));
    return (volatile uint64_t *)place;
}

static int is_whole(volatile uint64_t *library, enum kind kind) {
    for (int page = 0; page < PAGES; page++)
        for (int i = 0; i < WORDS; i++) if (library[page * WORDS + i] != word_of(kind, page)) return 0;
    return 1;
}

static int status_of(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static sigjmp_buf nothing_there;
static void fault(int signal) { (void)signal; siglongjmp(nothing_there, 1); }

// What stands at an address, if anything does.
static uint64_t peek(volatile uint64_t *at) {
    return sigsetjmp(nothing_there, 0) ? 0 : *at;
}

enum { LINK = 16, UNLINK = 17, COPY = 18, TABLE = 4, KEYS = 8, RECORD_WORDS = 8, ALLOCATE = 9, EXOS_OPEN = 2, WORKING_SET = 48,
       LIBRARY_TABLE = 39, OPEN_PROGRAM = 100, FILES_ROOT = 2 };
static volatile uint64_t *const pages = (void *)0xffffc00080000000, *const kernel = (void *)0xffffc00000000000;

static uint64_t open_gate(void) {
    uint64_t end = PRIVATE[GATE_END];
    PRIVATE[GATE_END] = 0;
    return end;
}

// Links every table of the lowest level that many have and that opens: how many pages of each library are behind them. A second link to
// its own tables would keep it from writing there.
static void spy(int found[KINDS]) {
    struct sigaction action = {.sa_handler = fault, .sa_flags = SA_NODEFER};
    volatile char *place = spans();
    // The tables above are there, and nothing in the first span.
    CHECK(mmap((char *)place + SPAN, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0) == place + SPAN);
    CHECK(!sigaction(SIGSEGV, &action, NULL));
    place[SPAN] = 1;
    uint64_t root = own_record(getpid())[ROOT], count = kernel[3];
    for (uint64_t page = 0; page < count; page++) {
        uint64_t state = pages[page * RECORD_WORDS];
        uint64_t links = pages[page * RECORD_WORDS + 3] >> 32;
        if ((state & 0xff) != TABLE || (state >> 16 & 0xff) != 1 || links < 2) continue;
        for (uint64_t key = 0; key < KEYS; key++) {
            uint64_t end = open_gate();
            uint64_t error = call_kernel(LINK, 1, root, (uint64_t)place, 1, page, key);
            PRIVATE[GATE_END] = end;
            if (error) continue;
            for (int i = 0; i < SPAN_PAGES; i++) {
                uint64_t word = peek((volatile uint64_t *)(place + i * PAGE)) - MARK;
                if (word < KINDS * 4096) found[word / 4096]++;
            }
            end = open_gate();
            while (call_kernel(UNLINK, 1, root, (uint64_t)place, 1, 0, 0) == 11) {}
            PRIVATE[GATE_END] = end;
            break;
        }
    }
}

// A program of its own: a fork has the libraries of its parent, and looks for no others.
enum { IN = 50, OUT = 51 };
static pid_t begin(const char *role, const char *argument) {
    pid_t child = fork();
    if (!child) { execl("/proc/self/exe", "evil_library", role, argument, NULL); _exit(1); }
    return child;
}

static void spy_as(uid_t user, int found[KINDS]) {
    int ends[2], there[KINDS] = {0};
    CHECK(!pipe(ends));
    pid_t child = fork();
    if (!child) {
        CHECK(!setuid(user));
        spy(there);
        _exit(write(ends[1], there, sizeof there) != sizeof there);
    }
    CHECK(status_of(child) == 0 && read(ends[0], found, sizeof there) == sizeof there && !close(ends[0]) && !close(ends[1]));
}

// Keeps both until it is killed, and says then and now whether they are what they were.
static void keep(void) {
    volatile uint64_t *libraries[KINDS];
    char byte;
    for (int kind = 0; kind < KINDS; kind++) libraries[kind] = map_library(kind);
    CHECK(is_whole(libraries[CLOSED_LIBRARY], CLOSED_LIBRARY));
    do {
        char whole = 'y';
        for (int kind = 0; kind < CLOSED_LIBRARY; kind++) if (!is_whole(libraries[kind], kind)) whole = 'n';
        CHECK(write(OUT, &whole, 1) == 1);
    } while (read(IN, &byte, 1) == 1);
    _exit(0);
}

static int is_kept(int ends[2]) {
    char byte = 'n';
    return write(ends[1], "?", 1) == 1 && read(ends[0], &byte, 1) == 1 && byte == 'y';
}

// Does what it can to a table that it has in common with others, and to the pages behind it.
static void scribble(void) {
    volatile uint64_t *library = map_library(PUBLIC_LIBRARY);
    CHECK(is_whole(library, PUBLIC_LIBRARY));
    uint64_t root = own_record(getpid())[ROOT], refused = 0, tried = 0, end = open_gate();
    for (uint64_t key = 0; key < KEYS; key++)
        for (uint64_t page = 0; page < kernel[3]; page += 97)
            for (int write = 0; write < 2; write++) {
                uint64_t row[2] = {(uint64_t)library | key, write ? page << 12 | 7 : 0};
                tried++;
                refused += call_kernel(PAGE_MAP, 1, root, (uint64_t)row, 1, 0, 0) != 0;
            }
    PRIVATE[GATE_END] = end;
    CHECK(tried && refused == tried && is_whole(library, PUBLIC_LIBRARY));
    // What it may have is a copy of its own.
    CHECK(!mprotect((void *)library, PAGES * PAGE, PROT_READ | PROT_WRITE));
    for (int i = 0; i < PAGES * WORDS; i++) library[i] = 0;
    CHECK(!library[PAGES * WORDS - 1] && !munmap((void *)library, PAGES * PAGE / 4));
    _exit(0);
}

static char window[PAGE] __attribute__((aligned(4096)));

static uint64_t ask_about(uint64_t server, const char *folder, enum kind kind, uint64_t message[6], int length_at) {
    CHECK(snprintf(window, sizeof window, "%s/%s", folder, names[kind]) > 0);
    message[length_at] = strlen(window);
    return ask(server, message, 1000) ? 1000 : message[0];
}

// Asks the server for tables of what it may not read, and for more than there are.
static void beg(const char *folder) {
    uint64_t state = 0x853c49e6748fea9b, made = 0, refused = 0;
    window[0] = 1;
    uint64_t own = getpid(), end = open_gate(), server = find_server(own, window);
    PRIVATE[GATE_END] = end;
    CHECK(server && !setuid(USER));
    end = open_gate();
    // A handle without the right to read: O_PATH.
    uint64_t named[6] = {EXOS_OPEN, FILES_ROOT, O_PATH};
    uint64_t opened = ask_about(server, folder, PRIVATE_LIBRARY, named, 4), handle = named[1];
    uint64_t table[6] = {LIBRARY_TABLE, handle, (uint64_t)PAGES << 9}, set[6] = {WORKING_SET, handle, 0, PAGES};
    uint64_t asked = ask(server, table, 1000), asked_set = ask(server, set, 1000);
    uint64_t program[6] = {OPEN_PROGRAM, FILES_ROOT, 0, 1};
    uint64_t run = ask_about(server, folder, PUBLIC_LIBRARY, program, 2), readable = program[1];
    for (int i = 0; i < 1500; i++) {
        uint64_t message[6] = {LIBRARY_TABLE, readable};
        for (int part = 0; part < 4; part++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            message[2 + part] = i % 3 ? state >> 8 >> state % 56 : part ? 0 : (state >> 40) % 400 | (1 + state % 100) << 9;
        }
        if (ask(server, message, 1000)) break;
        made += !message[0], refused += !!message[0];
    }
    PRIVATE[GATE_END] = end;
    CHECK(!opened && !asked && table[0] == EBADF && !asked_set && set[0] == EBADF);
    CHECK(!run && made + refused == 1500 && made >= 500 && refused >= 500);
    _exit(0);
}

// A user has what everybody may read, and only then there is a table that users open.
static void use(void) {
    CHECK(!setuid(USER));
    _exit(!is_whole(map_library(PUBLIC_LIBRARY), PUBLIC_LIBRARY) || !is_whole(map_library(CLOSED_LIBRARY), CLOSED_LIBRARY));
}

// A user who has a library goes on having it, whoever may read it now: its child copies page tables that it shares with its parent.
static void stay(void) {
    enum { BYTES = 6 << 20 };
    CHECK(!setuid(USER));
    volatile uint64_t *library = map_library(CLOSED_LIBRARY);
    CHECK(is_whole(library, CLOSED_LIBRARY));
    volatile char *own = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(own != MAP_FAILED);
    for (int i = 0; i < BYTES; i += PAGE) own[i] = 1;
    // Page by page, amid its own ones.
    int file = open(names[CLOSED_LIBRARY], O_RDONLY), flags = MAP_PRIVATE | MAP_FIXED;
    volatile uint64_t *plain = mmap((void *)(own + BYTES / 2), PAGES * PAGE, PROT_READ | PROT_WRITE, flags, file, 0);
    CHECK(plain != MAP_FAILED && !close(file) && is_whole(plain, CLOSED_LIBRARY));
    pid_t child = fork();
    if (!child) {
        CHECK(write(OUT, "s", 1) == 1);
        while (access("closed", F_OK)) usleep(10000);
        for (int i = 0; i < BYTES / 2; i += PAGE) own[i] = own[BYTES / 2 + PAGES * PAGE] = 2;
        CHECK(library[0] && plain[0] && !mprotect((void *)library, PAGE, PROT_READ | PROT_WRITE));
        library[0] = 5;
        _exit(library[0] != 5);
    }
    _exit(status_of(child));
}

// A library that fewer may read than before, and one that is written and becomes shorter, while others have it.
static void change(void) {
    struct sigaction action = {.sa_handler = fault, .sa_flags = SA_NODEFER};
    int file = open(names[PUBLIC_LIBRARY], O_RDWR);
    volatile uint64_t *mine = map_library(PUBLIC_LIBRARY);
    uint64_t changed = 77;
    CHECK(file >= 0 && is_whole(mine, PUBLIC_LIBRARY) && pwrite(file, &changed, 8, PAGE) == 8 && mine[WORDS] == 77);
    CHECK(!ftruncate(file, 64 * PAGE) && mine[63 * WORDS] == word_of(PUBLIC_LIBRARY, 63));
    CHECK(!sigaction(SIGBUS, &action, NULL));
    _exit(peek(mine + 64 * WORDS) != 0);
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IONBF, 0);
    if (count > 2) {
        const char *role = arguments[1];
        if (!strcmp(role, "keep")) keep();
        if (!strcmp(role, "use")) use();
        if (!strcmp(role, "stay")) stay();
        if (!strcmp(role, "scribble")) scribble();
        if (!strcmp(role, "beg")) beg(arguments[2]);
        if (!strcmp(role, "change")) change();
    }
    char folder[] = "/tmp/evil-library-XXXXXX", byte;
    int to[2], from[2];
    CHECK(mkdtemp(folder) && !chdir(folder) && !chmod(folder, 0755) && !pipe(to) && !pipe(from));
    CHECK(dup2(to[0], IN) == IN && dup2(from[1], OUT) == OUT && !close(to[0]) && !close(from[1]));
    make(names[PRIVATE_LIBRARY], PRIVATE_LIBRARY, 0600, PAGES);
    make(names[PUBLIC_LIBRARY], PUBLIC_LIBRARY, 0755, PAGES);
    make(names[CLOSED_LIBRARY], CLOSED_LIBRARY, 0644, PAGES);
    pid_t keeper = begin("keep", folder);
    CHECK(read(from[0], &byte, 1) == 1 && byte == 'y');
    int ends[2] = {from[0], to[1]};
    CHECK(status_of(begin("use", folder)) == 0);

    int found[KINDS] = {0};
    spy_as(0, found);
    printf("user 0 finds both: %s\n", found[0] >= PAGES && found[1] >= PAGES ? "yes" : "no");
    spy_as(USER, found);
    printf("another user finds what it may read: %s, and nothing else: %s\n", found[1] >= PAGES ? "yes" : "no", found[0] ? "no" : "yes");

    CHECK(status_of(begin("scribble", folder)) == 0);
    printf("who scribbles over a library has its own: %s\n", is_kept(ends) ? "yes" : "no");

    for (int round = 0; round < 3; round++) CHECK(status_of(begin("beg", folder)) == 0);
    CHECK(is_kept(ends));
    spy_as(USER, found);
    printf("who asks for what it may not read gets nothing: %s\n", found[0] ? "no" : "yes");

    // A table of what it was that somebody has, and then what is in the pages that stay becomes a secret.
    pid_t user = begin("stay", folder);
    CHECK(read(from[0], &byte, 1) == 1 && byte == 's');
    CHECK(!truncate(names[CLOSED_LIBRARY], 100 * PAGE) && !chmod(names[CLOSED_LIBRARY], 0600));
    CHECK(!mkdir("closed", 0755));
    printf("who has it goes on: %s\n", status_of(user) ? "no" : "yes");
    make(names[CLOSED_LIBRARY], PRIVATE_LIBRARY, 0600, 100);
    spy_as(USER, found);
    printf("what is secret later it does not find: %s\n", found[0] || found[2] ? "no" : "yes");
    CHECK(!chmod(names[PUBLIC_LIBRARY], 0600) && is_kept(ends));
    spy_as(USER, found);
    printf("what it may not read any more it does not find: %s\n", found[1] ? "no" : "yes");
    printf("past the end there is nothing: %s\n", status_of(begin("change", folder)) ? "no" : "yes");
    CHECK(!kill(keeper, SIGKILL) && status_of(keeper) == SIGKILL);
    return 0;
}
