/* Many children at once: what the last ones take is about what the first ones took. Each gets a copy of what ExOS notes in
 * its parent, so that notes of every child that grow with what is noted make that grow without end. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "census.h"

enum { CHILDREN = 140, SOME = 20, TIMES = 3 };

static int begun[2], go[2];

static void begin_one(void)
{
    char byte = 0;
    pid_t child = fork();
    if (child == 0) {
        close(go[1]);
        _exit(write(begun[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 0);
    }
    if (child < 0 || read(begun[0], &byte, 1) != 1) {
        perror("child");
        exit(1);
    }
}

/* How many kilobytes some further children take. */
static long begin_some(void)
{
    long before = free_kilobytes();
    for (int i = 0; i < SOME; i++)
        begin_one();
    return before - free_kilobytes();
}

int main(void)
{
    if (pipe(begun) || pipe(go))
        return 1;
    long first = begin_some(), last = 0;
    for (int i = SOME; i < CHILDREN; i += SOME)
        last = begin_some();
    close(go[1]);
    for (int i = 0, status; i < CHILDREN; i++)
        if (wait(&status) < 0 || status != 0)
            printf("child %d ended with %d\n", i, status);
    if (first <= 0 || last > TIMES * first)
        printf("%d children took %ld KiB, the last ones %ld\n", SOME, first, last);
    puts("done");
    return 0;
}
