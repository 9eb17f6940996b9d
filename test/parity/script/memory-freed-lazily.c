// A program in C, compiled by the host's compiler, and the same on both sides.
// What is written after MADV_FREE stays, also over fork, mprotect and mremap. Where the advice has no meaning.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 40 };

static char *memory;

static char *at(int page) { return memory + page * PAGE; }

static void say(const char *what, int outcome) { printf("%s: %s\n", what, outcome ? strerror(errno) : "done"); }

// How many pages, every second of them, hold a byte.
static int holding(char byte) {
    int found = 0;
    for (int page = 0; page < PAGES; page += 2) found += *at(page) == byte && at(page)[PAGE - 1] == byte;
    return found;
}

static void fill(int step, char byte) {
    for (int page = 0; page < PAGES; page += step) memset(at(page), byte, PAGE);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    memory = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fill(1, 'a');
    say("given up", madvise(memory, PAGES * PAGE, MADV_FREE));
    fill(2, 'b');
    printf("%d pages were written since\n", holding('b'));
    say("given up again", madvise(memory, PAGES * PAGE, MADV_FREE));
    fill(2, 'c');
    if (fork() == 0) {
        printf("the child finds %d\n", holding('c')), fill(2, 'd'), printf("and writes %d\n", holding('d')), fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    printf("the parent finds %d\n", holding('c'));
    say("given up and read only", madvise(memory, PAGES * PAGE, MADV_FREE) || mprotect(memory, PAGES * PAGE, PROT_READ));
    say("to be written again", mprotect(memory, PAGES * PAGE, PROT_READ | PROT_WRITE));
    fill(2, 'e');
    printf("%d pages were written since\n", holding('e'));
    say("given up and moved", madvise(memory, PAGES * PAGE, MADV_FREE));
    fill(2, 'f');
    char *moved = mremap(memory, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, memory + 64 * PAGES * PAGE);
    if (moved == MAP_FAILED) return 1;
    memory = moved;
    printf("%d pages were moved\n", holding('f'));
    say("locked", mlock(memory, PAGE));
    say("locked memory is given up", madvise(memory, PAGE, MADV_FREE));
    munmap(memory, PAGES * PAGE);
    say("what is not mapped is given up", madvise(memory, PAGES * PAGE, MADV_FREE));
    memory = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    say("shared memory is given up", madvise(memory, PAGE, MADV_FREE));
    say("at an odd address", madvise(memory + 1, PAGE, MADV_FREE));
    return 0;
}
