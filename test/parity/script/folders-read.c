// Folders that are read: the time of that, where it is kept and where not; mounts whose symbolic links lead nowhere (MS_NOSYMFOLLOW).
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

static void tell(const char *what, long result) {
    printf("%s: %ld %s\n", what, result, result < 0 ? strerrorname_np(errno) : "");
    fflush(stdout);
}
// Whether reading a folder changes the time of the last read, which was set to a time before the last change.
static void read_it(const char *path, int flags) {
    struct stat status;
    struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 2000}};
    char bytes[4096];
    tell("times", utimensat(AT_FDCWD, path, times, 0));
    int folder = open(path, O_RDONLY | O_DIRECTORY | flags);
    tell("opened", (stat(path, &status), status.st_atim.tv_sec == 1000));
    tell("read", getdents64(folder, bytes, sizeof bytes) > 0);
    tell("noted", (stat(path, &status), status.st_atim.tv_sec > 2000));
    lseek(folder, 0, SEEK_SET), getdents64(folder, bytes, sizeof bytes), close(folder);
    struct timespec before = status.st_atim;
    stat(path, &status);
    tell("and once", !memcmp(&before, &status.st_atim, sizeof before));
}

int main(void) {
    struct statfs space;
    mkdir("folder", 0755), read_it("folder", 0), read_it("folder", O_NOATIME);
    mkdir("mount", 0755), tell("mount", mount("none", "mount", "tmpfs", MS_NODIRATIME, NULL)), read_it("mount", 0);
    tell("file", close(open("mount/file", O_CREAT | O_WRONLY, 0600))), tell("link", symlink("file", "mount/link"));
    tell("folder", mkdir("mount/folder", 0755)), tell("its link", symlink("folder", "mount/to"));
    tell("outer link", symlink("mount/file", "outer")), tell("follows", close(open("mount/link", O_RDONLY)));
    tell("remount", mount("none", "mount", NULL, MS_REMOUNT | MS_NOSYMFOLLOW, NULL));
    tell("a file", open("mount/link", O_RDONLY)), tell("through a folder", open("mount/to/none", O_RDONLY | O_CREAT, 0600));
    tell("stat", access("mount/link", F_OK)), tell("from outside", close(open("outer", O_RDONLY)));
    char bytes[100] = "";
    tell("readlink", readlink("mount/link", bytes, 99)), puts(bytes);
    struct stat status;
    tell("lstat", lstat("mount/link", &status)), tell("a place", close(open("mount/link", O_PATH | O_NOFOLLOW)));
    tell("statfs", (statfs("mount", &space), (space.f_flags & 0x2000) != 0));
    tell("remount", mount("none", "mount", NULL, MS_REMOUNT, NULL)), tell("follows", close(open("mount/link", O_RDONLY)));
    tell("unmount", umount("mount"));
    return 0;
}
