/*
 * Programs that make and remove symbolic links in several directories in turn, more than the cache of the disk's file
 * system holds: the disk has few requests for each, counted in /proc/diskstats. Links that come and go between two
 * write-backs have none. The links that stay are those that were not removed.
 *
 * Usage: disk_turns DIRECTORY DIRECTORIES LINKS: LINKS in each directory.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *base;
static long directories, links;

static void check(int outcome, const char *what) {
    if (outcome != 0) {
        printf("%s: %s\n", what, strerror(errno));
        exit(1);
    }
}

/* Reads and writes of the first disk. */
static long requests(void) {
    FILE *file = fopen("/proc/diskstats", "r");
    long reads, writes;
    check(fscanf(file, "%*d %*d %*s %ld %*d %*d %*d %ld", &reads, &writes) != 2, "diskstats");
    fclose(file);
    return reads + writes;
}

enum { MAKE = 1, REMOVE = 2 };

/* Every `step`th link is made, removed, or both, in each directory in turn; the requests up to the end of the sync. */
static long change(long step, int how) {
    char name[256];
    long before = requests();
    for (long at = 0; at < links; at += step) {
        for (long directory = 0; directory < directories; directory++) {
            snprintf(name, sizeof name, "%s/d%ld/link-%ld", base, directory, at);
            if (how & MAKE)
                check(symlink("/some/where/else", name), name);
            if (how & REMOVE)
                check(unlink(name), name);
        }
    }
    sync();
    return requests() - before;
}

static void expect(const char *what, long found, long most) {
    if (found > most)
        printf("%s: %ld requests, more than %ld\n", what, found, most);
}

static long count(void) {
    char name[256];
    long found = 0;
    for (long directory = 0; directory < directories; directory++) {
        snprintf(name, sizeof name, "%s/d%ld", base, directory);
        DIR *list = opendir(name);
        check(list == NULL, name);
        for (struct dirent *entry; (entry = readdir(list)) != NULL;)
            found += entry->d_name[0] != '.';
        closedir(list);
    }
    return found;
}

int main(int arguments, char **argument) {
    if (arguments != 4)
        return 2;
    base = argument[1];
    directories = atol(argument[2]);
    links = atol(argument[3]);
    for (long directory = 0; directory < directories; directory++) {
        char name[256];
        snprintf(name, sizeof name, "%s/d%ld", base, directory);
        check(mkdir(name, 0755), name);
    }
    sync();
    expect("come and go", change(4, MAKE | REMOVE), 64);
    expect("made", change(1, MAKE), directories * links / 4);
    printf("%ld links\n", count());
    expect("removed", change(2, REMOVE), directories * links / 4);
    printf("%ld links\n", count());
    return 0;
}
