// What opening and making refuses, and what it leaves alone: times of reads stay where that is asked for, a folder that was
// removed has no names any more, flags of renames that nobody knows, what is sealed is not cut by opening it, copies beyond the end
// of all files, kinds of sockets, requests to files and devices.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/random.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void tell(const char *what, long result) {
    printf("%s %ld %s\n", what, result, result < 0 ? strerrorname_np(errno) : "");
}
static void make_all(void) {
    static const struct { const char *name; mode_t mode; } nodes[] = {
        {"cover", S_IFCHR}, {"fifo", S_IFIFO | 0600}, {"socket", S_IFSOCK | 0600}, {"file", 0600}, {"folder", S_IFDIR}, {"odd", 0170000},
    };
    for (int i = 0; i < 6; i++) tell(nodes[i].name, mknod(nodes[i].name, nodes[i].mode, 0));
    for (int i = 0; i < 6; i++) unlink(nodes[i].name);
}
static int is_kept(const char *path, int flags) {
    struct stat before, after;
    int file = open(path, O_RDONLY | flags);
    char bytes[5000];
    // So that the next read would be noted.
    futimens(file, (struct timespec[]){{.tv_sec = 1000}, {.tv_sec = 2000}});
    stat(path, &before);
    ssize_t got = read(file, bytes, sizeof bytes) + pread(file, bytes, 10, 0);
    close(file);
    file = open(path, O_RDONLY | flags);
    got += read(file, bytes, 10);
    close(file);
    stat(path, &after);
    printf("%zd ", got);
    return before.st_atim.tv_sec == after.st_atim.tv_sec;
}

int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    char folder[] = "/tmp/made-XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) || chmod(".", 0777)) return 1;
    make_all();
    int file = open("bytes", O_CREAT | O_RDWR, 0644);
    for (int i = 0; i < 1000; i++) dprintf(file, "line %d\n", i);
    printf("%d with, %d without\n", is_kept("bytes", O_NOATIME), is_kept("bytes", 0));
    char names[1000];
    tell("make a folder", mkdir("gone", 0700));
    int gone = open("gone", O_RDONLY | O_DIRECTORY);
    close(openat(gone, "a-file-with-a-name", O_CREAT | O_RDWR, 0600)), symlinkat("to", gone, "link");
    char old[1000];
    long got = syscall(SYS_getdents, gone, old, sizeof old), same = 0;
    tell("old names with little room", syscall(SYS_getdents, open("gone", O_RDONLY), names, 20));
    lseek(gone, 0, SEEK_SET);
    printf("%ld bytes, as many as now %d\n", got, got == syscall(SYS_getdents64, gone, names, sizeof names));
    for (long at = 0; at < got; at += *(unsigned short *)(old + at + 16), same++) {
        char *record = old + at, *now = names + at;
        unsigned short length = *(unsigned short *)(record + 16);
        if (memcmp(record, now, 18) || strcmp(record + 18, now + 19) || record[length - 1] != now[18]) puts("another one");
    }
    printf("%ld names\n", same);
    unlinkat(gone, "a-file-with-a-name", 0), unlinkat(gone, "link", 0);
    lseek(gone, 0, SEEK_SET);
    tell("names", syscall(SYS_getdents64, gone, names, sizeof names) > 0);
    tell("remove it", rmdir("gone"));
    lseek(gone, 0, SEEK_SET);
    tell("names of what is gone", syscall(SYS_getdents64, gone, names, sizeof names));
    tell("a name in what is gone", openat(gone, "x", O_CREAT | O_RDWR, 0600));
    for (int flags = 0; flags < 20; flags++) {
        printf("%d ", flags);
        tell("rename of nothing", syscall(SYS_renameat2, AT_FDCWD, "nothing", AT_FDCWD, "other", flags));
    }
    int memory = memfd_create("memory", MFD_ALLOW_SEALING);
    char path[40];
    sprintf(path, "/proc/self/fd/%d", memory);
    tell("fill", write(memory, path, 10));
    tell("cut by opening", open(path, O_RDWR | O_TRUNC) < 0 ? -1 : lseek(memory, 0, SEEK_END));
    tell("fill again", write(memory, path, 10));
    tell("seal", fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK));
    tell("cut by opening", open(path, O_RDWR | O_TRUNC));
    tell("cut", ftruncate(memory, 0));
    tell("longer", ftruncate(memory, 20));
    loff_t start = 0x7fffffffffffffff, none = 0;
    int copy = open("copy", O_CREAT | O_RDWR, 0600);
    tell("copy beyond what a file can be", copy_file_range(file, &none, copy, &start, 65537, 0));
    tell("copy too much", copy_file_range(file, &none, copy, &start, -1, 0));
    start = 0;
    tell("copy much", copy_file_range(file, &none, copy, &start, 0x7fffffffffffffff, 0));
    start = -1;
    tell("copy to before the beginning", copy_file_range(file, &none, copy, &start, 10, 0));
    for (int kind = 0; kind < 18; kind++) {
        int made = socket(AF_UNIX, kind, 0), type = 0;
        socklen_t length = sizeof type;
        printf("%d ", kind);
        tell("socket", made < 0 ? -1 : getsockopt(made, SOL_SOCKET, SO_TYPE, &type, &length));
        printf("%d ", type);
        tell("of no family", socket(99, kind, 0));
    }
    int null = open("/dev/null", O_RDWR), random = open("/dev/urandom", O_RDONLY), bits = 0;
    tell("entropy", ioctl(random, RNDGETENTCNT, &bits));
    printf("%d\n", bits);
    tell("entropy of null", ioctl(null, RNDGETENTCNT, &bits));
    tell("request that nobody knows", ioctl(file, 0x12345678, &bits));
    return 0;
}
