/* What there is in the whole machine: memory that is free, and processes. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static long free_kilobytes(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[200];
    long found = -1;
    while (found < 0 && fgets(line, sizeof line, file))
        sscanf(line, "MemFree: %ld", &found);
    fclose(file);
    return found;
}

/* How many processes are listed, without process 1. */
static inline int processes(void)
{
    DIR *directory = opendir("/proc");
    struct dirent *entry;
    int count = 0;
    while ((entry = readdir(directory)))
        count += entry->d_name[0] >= '0' && entry->d_name[0] <= '9' && strcmp(entry->d_name, "1") != 0;
    closedir(directory);
    return count;
}

/* How much is free once only the caller is left, and memory does not change any more: what the dead leave is buried by others,
 * a little later, and what those leave that they had made, later still. */
static inline long free_when_quiet(void)
{
    for (int tries = 0; processes() > 1 && tries < 200; tries++)
        usleep(50000);
    long before = -1, now = free_kilobytes();
    for (int tries = 0; now != before && tries < 20; tries++) {
        before = now;
        usleep(500000);
        now = free_kilobytes();
    }
    return now;
}
