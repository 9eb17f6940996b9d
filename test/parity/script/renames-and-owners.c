// What renameat2 refuses, and in which order: `.` and `..`, directories that the caller may not write, names of one file. Whose
// set-id bits chown takes away, and which chown changes nothing. What watchers of a file system learn when it is unmounted.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void tell(const char *what, long result) {
    printf("%s: %s\n", what, result < 0 ? strerrorname_np(errno) : "ok");
}
static void file(const char *path, int owner) {
    close(open(path, O_CREAT | O_WRONLY, 0644));
    tell(path, chown(path, owner, owner));
}
static void folder(const char *path, mode_t mode, int owner) {
    mkdir(path, 0700);
    tell(path, chown(path, owner, owner) | chmod(path, mode));
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

static void stranger(void) {
    tell("group", setresgid(1000, 1000, 1000));
    tell("user", setresuid(1000, 1000, 1000));
    move("mine/theirs", "own/moved", 0);
    move("mine/theirs", "own/folder", 0);
    move("own/folder", "mine/theirs", RENAME_EXCHANGE);
    move("mine/theirs", "own/folder", RENAME_EXCHANGE);
    move("mine/theirs", "mine/other", 0);
    move("mine/file", "own/file", 0);
    move("closed/file", "closed/file", 0);
    move("closed/file", "closed/name", 0);
    move("closed/file", "closed/more", 0);
    move("closed/none", "closed/more", 0);
    move("closed/file", "closed/name", RENAME_NOREPLACE);
    move("closed/.", "closed/more", 0);
    tell("nothing of a plain file", chown("closed/file", -1, -1));
    tell("nothing of a folder", chown("closed", -1, -1));
    tell("nothing of a set-id file", chown("set", -1, -1));
    tell("the group that it has", chown("closed/file", -1, 0));
    tell("the user that it has", chown("closed/file", 0, -1));
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
    folder("folder", 0755, 1000);
    file("file", 1000);
    file("folder/inside", 1000);
    dots();
    folder("mine", 01777, 1000);
    folder("mine/theirs", 0755, 0);
    file("mine/file", 0);
    folder("own", 0755, 1000);
    folder("own/folder", 0755, 1000);
    folder("closed", 0755, 0);
    file("closed/file", 0);
    tell("link", link("closed/file", "closed/name"));
    file("set", 0);
    tell("chmod", chmod("set", 06755));
    if (!fork()) {
        stranger();
        exit(0);
    }
    wait(0);
    tell("fifo", mkfifo("fifo", 0600) | chmod("fifo", 06755));
    tell("chown", chown("fifo", 1000, -1));
    owner_and_mode("fifo");
    tell("chown", chown("set", -1, -1));
    owner_and_mode("set");
    tell("chown", chmod("own", 06755) | chown("own", 0, 0));
    owner_and_mode("own");
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
