// What renameat2 refuses, and in which order: `.` and `..`, directories that the caller may not write, names of one file.
// Whose set-id bits chown takes away. What watchers of a file system learn when it is unmounted, and who keeps it busy.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void tell(const char *what, long result) {
    printf("%s: %s\n", what, result < 0 ? strerrorname_np(errno) : "ok");
}
static void file(const char *path) {
    tell(path, close(open(path, O_CREAT | O_WRONLY, 0644)));
}
static void folder(const char *path, mode_t mode) {
    tell(path, mkdir(path, mode));
}
static void move(const char *from, const char *to, int flags) {
    printf("%s -> %s, %d: %s\n", from, to, flags, renameat2(AT_FDCWD, from, AT_FDCWD, to, flags) ? strerrorname_np(errno) : "ok");
}
static void owner_and_mode(const char *path) {
    struct stat status;
    tell(path, lstat(path, &status));
    printf("%o %d %d\n", status.st_mode, status.st_uid, status.st_gid);
}

static void dots(void) {
    static const char *const paths[] = {"file", "folder", "folder/.", "folder/..", ".", "..", "none", "folder/none", "file/"};
    for (int i = 0; i < 9; i++)
        for (int j = 0; j < 9; j++)
            // Only what is refused.
            if (i > 1 || (j > 1 && j < 6)) {
                move(paths[i], paths[j], RENAME_EXCHANGE);
                move(paths[i], paths[j], RENAME_NOREPLACE);
                move(paths[i], paths[j], 0);
            }
    move("file", "folder/inside", RENAME_EXCHANGE);
    tell("file is a file", access("folder/inside/", F_OK));
    move("folder", "folder/inside", RENAME_EXCHANGE);
    move("folder/inside", "folder", RENAME_EXCHANGE);
    move("folder", "file/", RENAME_EXCHANGE);
    move("file", "folder/", RENAME_EXCHANGE);
    struct stat before, after;
    stat("file", &before);
    usleep(20000);
    move("folder", "file", RENAME_EXCHANGE);
    stat("folder", &after);
    printf("changed %d\n", before.st_ctim.tv_sec != after.st_ctim.tv_sec || before.st_ctim.tv_nsec != after.st_ctim.tv_nsec);
}

static void without_capabilities(void) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0}};
    tell("capabilities", syscall(SYS_capset, &head, none));
    move("mine/closed", "own/moved", 0);
    move("mine/closed", "own/folder", 0);
    move("own/folder", "mine/closed", RENAME_EXCHANGE);
    move("mine/closed", "own/folder", RENAME_EXCHANGE);
    move("mine/closed", "mine/other", 0);
    move("mine/file", "own/file", 0);
    move("closed/file", "closed/file", 0);
    move("closed/file", "closed/name", 0);
    move("closed/file", "closed/more", 0);
    move("closed/none", "closed/more", 0);
    move("closed/file", "closed/name", RENAME_NOREPLACE);
    move("closed/.", "closed/more", 0);
    tell("nothing", chown("closed/file", -1, -1));
}

static void unmounting(const char *path) {
    char bytes[4096];
    int watcher = inotify_init1(IN_NONBLOCK);
    tell("mount", mount("none", "folder", "tmpfs", 0, 0));
    mkdir("folder/below", 0755);
    close(open("folder/file", O_CREAT | O_WRONLY, 0644));
    tell("watch", inotify_add_watch(watcher, path, IN_MODIFY));
    tell("unmount", umount("folder"));
    ssize_t got = read(watcher, bytes, sizeof bytes);
    for (ssize_t at = 0; at < got;) {
        struct inotify_event *event = (struct inotify_event *)(bytes + at);
        printf("%d %x %u\n", event->wd, event->mask, event->len);
        at += sizeof *event + event->len;
    }
    close(watcher);
}

int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    umask(0);
    // A disk of Chitin exchanges no names.
    mkdir("memory", 0755);
    tell("mount", mount("none", "memory", "tmpfs", 0, 0) | chdir("memory"));
    folder("folder", 0755);
    file("file");
    file("folder/inside");
    dots();
    folder("mine", 0755);
    folder("mine/closed", 0555);
    file("mine/file");
    folder("own", 0755);
    folder("own/folder", 0755);
    folder("closed", 0755);
    file("closed/file");
    tell("link", link("closed/file", "closed/name"));
    tell("chmod", chmod("closed", 0555));
    if (!fork()) {
        without_capabilities();
        exit(0);
    }
    wait(0);
    file("set");
    tell("fifo", mkfifo("fifo", 0600));
    static const char *const set[] = {"set", "fifo", "own"};
    for (int i = 0; i < 3; i++) {
        tell("chmod", chmod(set[i], 06755));
        tell("chown", chown(set[i], 0, i == 1 ? -1 : 0));
        owner_and_mode(set[i]);
    }
    unlink("folder");
    mkdir("folder", 0755);
    unmounting("folder");
    unmounting("folder/below");
    unmounting("folder/file");
    // The last holder but this one is a child that has ended.
    if (!fork()) exit(0);
    wait(0);
    tell("out", chdir(".."));
    tell("unmount", umount("memory"));
}
