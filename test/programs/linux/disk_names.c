/*
 * Many new names on a disk, without a sync between them: the log of names is longer than what is kept of it between
 * two write-backs. Then the directories are made durable, counted, and half of the names are removed.
 *
 * Usage: disk_names DIRECTORY DIRECTORIES NAMES: NAMES in each directory.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void fail(const char *what, const char *name) {
    printf("%s %s: %s\n", what, name, strerror(errno));
    exit(1);
}

static void make_durable(const char *directory) {
    int file = open(directory, O_RDONLY | O_DIRECTORY);
    sync();
    /* sync tells of no error, fsync does. */
    if (file < 0 || fsync(file) != 0)
        fail("fsync", directory);
    close(file);
}

static long count(const char *directory) {
    long found = 0;
    DIR *list = opendir(directory);
    if (!list)
        fail("opendir", directory);
    for (struct dirent *entry; (entry = readdir(list)) != NULL;)
        found += entry->d_name[0] != '.';
    closedir(list);
    return found;
}

static long count_all(const char *base, long directories) {
    char name[256];
    long found = 0;
    for (long directory = 0; directory < directories; directory++) {
        snprintf(name, sizeof name, "%s/d%ld", base, directory);
        found += count(name);
    }
    return found;
}

int main(int count_of_arguments, char **arguments) {
    if (count_of_arguments != 4)
        return 2;
    const char *base = arguments[1];
    long directories = atol(arguments[2]), names = atol(arguments[3]);
    char name[256];
    for (long directory = 0; directory < directories; directory++) {
        snprintf(name, sizeof name, "%s/d%ld", base, directory);
        if (mkdir(name, 0755) != 0)
            fail("mkdir", name);
        for (long file = 0; file < names; file++) {
            snprintf(name, sizeof name, "%s/d%ld/%ld", base, directory, file);
            if (mknod(name, S_IFREG | 0644, 0) != 0)
                fail("mknod", name);
        }
    }
    make_durable(base);
    printf("%ld names\n", count_all(base, directories));
    for (long directory = 0; directory < directories; directory++)
        for (long file = 0; file < names; file += 2) {
            snprintf(name, sizeof name, "%s/d%ld/%ld", base, directory, file);
            if (unlink(name) != 0)
                fail("unlink", name);
        }
    make_durable(base);
    printf("%ld names\n", count_all(base, directories));
    return 0;
}
