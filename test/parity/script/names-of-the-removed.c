// What descriptors, mappings and the working directory are called below /proc when the name is gone: removed, replaced, in a folder that was removed
// or moved, made without a name, or memory.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void link_of(const char *what, const char *path) {
    char target[600];
    long length = readlink(path, target, sizeof target - 1);
    if (length < 0) {
        printf("%s: %s\n", what, strerrorname_np(errno));
        return;
    }
    target[length] = 0;
    // The number of a node is another one each time.
    char *number = strstr(target, "/#");
    if (number) strcpy(number + 1, strchr(number, ' '));
    printf("%s: %s\n", what, target);
}

static void descriptor(const char *what, int fd) {
    char path[50];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    link_of(what, path);
}

static void mapping(const char *what, const void *at) {
    char line[700];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        if (strtoul(line, NULL, 16) == (unsigned long)at) printf("%s: %s", what, strchr(line, '/'));
    fclose(maps);
}

static int make(const char *path) { return open(path, O_CREAT | O_RDWR, 0644); }

int main(void) {
    struct stat status;
    char path[50];
    int file = make("file");
    descriptor("named", file);
    rename("file", "other");
    descriptor("renamed", file);
    if (write(file, "bytes", 5) != 5) return 1;
    const void *mapped = mmap(NULL, 5, PROT_READ, MAP_PRIVATE, file, 0);
    unlink("other");
    descriptor("removed", file);
    mapping("mapped", mapped);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    int again = open(path, O_RDONLY);
    printf("opened again: %d, names %d\n", again >= 0, fstat(again, &status) ? -1 : (int)status.st_nlink);

    int before = make("before"), after = make("after");
    rename("after", "before");
    descriptor("replaced", before);
    descriptor("by", after);

    mkdir("above", 0755);
    mkdir("above/folder", 0755);
    int inside = make("above/folder/inside"), folder = open("above/folder", O_RDONLY);
    unlink("above/folder/inside");
    descriptor("removed from a folder", inside);
    rmdir("above/folder");
    descriptor("removed with its folder", inside);
    descriptor("the folder", folder);
    rename("above", "below");
    descriptor("the folder in one that moved", folder);

    descriptor("never named", open(".", O_TMPFILE | O_RDWR, 0600));
    int memory = memfd_create("some memory", 0);
    descriptor("memory", memory);
    descriptor("memory without a name", memfd_create("", 0));
    if (write(memory, "bytes", 5) != 5) return 1;
    mapping("memory mapped", mmap(NULL, 5, PROT_READ, MAP_SHARED, memory, 0));

    mkdir("here", 0755);
    if (chdir("here")) return 1;
    link_of("working directory", "/proc/self/cwd");
    rmdir("../here");
    link_of("working directory that is gone", "/proc/self/cwd");
    printf("getcwd: %s\n", getcwd(path, sizeof path) ? path : strerrorname_np(errno));
    return 0;
}
