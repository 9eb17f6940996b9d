// Extended attributes of files, right and wrong:
// set, get, list and remove by path, by link and by descriptor; flags, lengths, kinds of files, links and renames.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static void tell(const char *what, long result) {
    printf("%s: %ld %s\n", what, result, result < 0 ? strerrorname_np(errno) : "");
    fflush(stdout);
}
static void show(const char *path, const char *name) {
    char value[100] = "";
    ssize_t got = getxattr(path, name, value, sizeof value);
    printf("%s %s: %zd \"%.*s\" %s\n", path, name, got, got > 0 ? (int)got : 0, value, got < 0 ? strerrorname_np(errno) : "");
}
static int later(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }
static void list(const char *path) {
    char names[1000], *each[50];
    ssize_t got = listxattr(path, names, sizeof names);
    int count = 0;
    for (char *name = names; name < names + got; name += strlen(name) + 1)
        if (strncmp(name, "security.", 9)) each[count++] = name;
    qsort(each, count, sizeof *each, later);
    printf("%s has %d:", path, count);
    for (int i = 0; i < count; i++) printf(" %s", each[i]);
    puts("");
}

int main(void) {
    char folder[] = "/tmp/attributes-XXXXXX";
    if (!mkdtemp(folder) || chdir(folder)) return 1;
    int file = open("file", O_RDWR | O_CREAT, 0644);
    mkdir("folder", 0755), symlink("file", "link"), mkfifo("fifo", 0644);
    list("file");
    tell("set", setxattr("file", "user.one", "first", 5, 0));
    tell("set anew", setxattr("file", "user.one", "again", 5, XATTR_CREATE));
    tell("replace what is not there", setxattr("file", "user.two", "2", 1, XATTR_REPLACE));
    tell("replace", setxattr("file", "user.one", "1st", 3, XATTR_REPLACE));
    tell("create", setxattr("file", "user.two", "", 0, XATTR_CREATE));
    tell("wrong flags", setxattr("file", "user.three", "", 0, 4));
    show("file", "user.one"), show("file", "user.two"), show("file", "user.three"), show("link", "user.one");
    list("file");
    char small[2], long_name[300];
    tell("length", getxattr("file", "user.one", NULL, 0));
    tell("too little room", getxattr("file", "user.one", small, 2));
    tell("too little room for names", listxattr("file", small, 2));
    tell("by descriptor", fsetxattr(file, "user.open", "o", 1, 0));
    tell("of a descriptor", fgetxattr(file, "user.open", small, 2));
    tell("removed by it", fremovexattr(file, "user.open"));
    tell("removed again", removexattr("file", "user.open"));
    memset(long_name, 'n', sizeof long_name), memcpy(long_name, "user.", 5), long_name[299] = 0;
    tell("a long name", setxattr("file", long_name, "", 0, 0));
    long_name[255] = 0;
    tell("the longest name", setxattr("file", long_name, "v", 1, 0));
    tell("no name", setxattr("file", "", "v", 1, 0));
    tell("nothing behind the dot", setxattr("file", "user.", "v", 1, 0));
    tell("no such kind", setxattr("file", "odd.name", "v", 1, 0));
    tell("no such kind to get", getxattr("file", "odd.name", small, 2));
    static char large[70000];
    volatile long nowhere = 8;
    tell("a value beyond all", setxattr("file", "user.large", large, sizeof large, 0));
    tell("no such file", setxattr("none", "user.a", "v", 1, 0));
    tell("below a file", getxattr("file/x", "user.a", small, 1));
    tell("not open", fgetxattr(99, "user.a", small, 1));
    tell("wrong memory", setxattr("file", "user.a", (void *)nowhere, 1, 0));
    tell("of a link itself", lsetxattr("link", "user.a", "v", 1, 0));
    tell("of a link itself to get", lgetxattr("link", "user.a", small, 1));
    tell("of a FIFO", setxattr("fifo", "user.a", "v", 1, 0));
    tell("of a FIFO to get", getxattr("fifo", "user.a", small, 1));
    tell("of a folder", setxattr("folder", "user.a", "v", 1, 0));
    list("folder");
    struct stat before, after;
    stat("file", &before);
    usleep(20000);
    setxattr("file", "user.one", "more", 4, 0);
    stat("file", &after);
    printf("changed %d, modified %d\n", before.st_ctim.tv_nsec != after.st_ctim.tv_nsec, before.st_mtim.tv_nsec != after.st_mtim.tv_nsec);
    rename("file", "renamed"), link("renamed", "other");
    show("renamed", "user.one"), show("other", "user.one");
    int place = open("renamed", O_PATH);
    tell("of a place", fgetxattr(place, "user.one", small, 1));
    int ends[2];
    if (pipe(ends)) return 1;
    tell("of a pipe", fsetxattr(ends[0], "user.a", "v", 1, 0));
    tell("of a pipe to get", fgetxattr(ends[0], "user.a", small, 1));
    tell("of a pipe to remove", fremovexattr(ends[0], "user.a"));
    tell("of a pipe, no such kind", fsetxattr(ends[0], "odd.a", "v", 1, 0));
    tell("of a pipe to list", flistxattr(ends[0], NULL, 0));
    int text = open("/proc/self/maps", O_RDONLY);
    tell("of what is made when it is read", fsetxattr(text, "user.a", "v", 1, 0));
    tell("of its path", getxattr("/proc/self/maps", "user.a", small, 1));
    tell("of a link below it", getxattr("/proc/self/exe", "user.a", small, 1));
    for (int i = 0; i < 2; i++) removexattr("renamed", (const char *[]){"user.one", "user.two"}[i]);
    removexattr("renamed", long_name);
    list("renamed");
}
