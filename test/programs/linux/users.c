// Users and groups: who a process becomes, and what it may do then. One line for each part that works.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); _exit(1); } } while (0)

static int status_of(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static int is(uid_t real, uid_t effective, uid_t saved) {
    uid_t a, b, c;
    return !getresuid(&a, &b, &c) && a == real && b == effective && c == saved && getuid() == real && geteuid() == effective;
}

static int in_child(void (*function)(void)) {
    pid_t child = fork();
    if (!child) { function(); _exit(0); }
    return status_of(child);
}

static void there_and_back(void) {
    CHECK(is(0, 0, 0) && !seteuid(1000) && is(0, 1000, 0));
    CHECK(setuid(55) == -1 && errno == EPERM && !seteuid(0) && is(0, 0, 0));
    CHECK(!setresuid(1, 2, 3) && is(1, 2, 3));
    CHECK(setresuid(4, -1, -1) == -1 && errno == EPERM && !setresuid(-1, 3, 1) && is(1, 3, 1));
    CHECK(!setreuid(3, 1) && is(3, 1, 1) && setuid(0) == -1 && errno == EPERM);
}

static void for_ever(void) {
    CHECK(!setgroups(2, (gid_t[]){20, 30}) && !setgid(100) && !setuid(1000) && is(1000, 1000, 1000));
    gid_t groups[4];
    CHECK(getgroups(0, NULL) == 2 && getgroups(4, groups) == 2 && groups[1] == 30 && getegid() == 100);
    CHECK(getgroups(1, groups) == -1 && errno == EINVAL);
    CHECK(setuid(0) == -1 && errno == EPERM && seteuid(0) == -1 && setgid(0) == -1 && setgroups(0, NULL) == -1 && errno == EPERM);
    pid_t child = fork();
    if (!child) _exit(setuid(0) == -1 && is(1000, 1000, 1000) ? 3 : 4);
    CHECK(status_of(child) == 3 << 8);
    child = fork();
    if (!child) { execl("/proc/self/exe", "users", "again", NULL); _exit(1); }
    CHECK(status_of(child) == 0);
}

static int again(void) {
    CHECK(is(1000, 1000, 1000) && getauxval(AT_UID) == 1000 && getauxval(AT_EGID) == 100 && !getauxval(AT_SECURE));
    CHECK(setuid(0) == -1);
    return 0;
}

static void file(const char *path, mode_t mode, uid_t owner, gid_t group) {
    int made = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    CHECK(made >= 0 && write(made, "x", 1) == 1 && !close(made) && !chown(path, owner, group) && !chmod(path, mode));
}

static int opens(const char *path, int flags) {
    int descriptor = open(path, flags);
    if (descriptor >= 0) close(descriptor);
    return descriptor >= 0 ? 1 : errno == EACCES ? 0 : -1;
}

// What was open before somebody becomes another user stays open, for its children too: a file whose mode keeps it from that user,
// mapped or not, a FIFO and a pseudo-terminal.
static void with_open(void) {
    char folder[] = "/tmp/users-XXXXXX", byte;
    CHECK(mkdtemp(folder) && !chdir(folder) && !mkfifo("pipe", 0600));
    file("secret", 0600, 0, 0);
    int secret = open("secret", O_RDWR), pipe = open("pipe", O_RDWR), master = posix_openpt(O_RDWR | O_NOCTTY);
    CHECK(secret >= 0 && pipe >= 0 && master >= 0 && !grantpt(master) && !unlockpt(master));
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    volatile char *own = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, secret, 0);
    volatile char *common = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, secret, 0);
    CHECK(slave >= 0 && own != MAP_FAILED && common != MAP_FAILED && own[0] == 'x' && common[0] == 'x');
    pid_t child = fork();
    if (!child) {
        CHECK(!setuid(1000) && open("secret", O_RDONLY) == -1 && errno == EACCES && own[0] == 'x' && ++common[0] == 'y');
        for (int generation = 0; generation < 3; generation++) {
            pid_t next = fork();
            if (next) _exit(status_of(next) >> 8);
            CHECK(common[0]++ == 'y' + generation && pread(secret, &byte, 1, 0) == 1 && byte == 'z' + generation);
            CHECK(write(pipe, "p", 1) == 1 && write(slave, "t", 1) == 1);
        }
        own[0] = 'o';
        _exit(common[0] == 'y' + 3 ? 7 : 8);
    }
    CHECK(status_of(child) == 7 << 8 && own[0] == 'y' + 3 && common[0] == 'y' + 3);
    char bytes[4];
    CHECK(read(pipe, bytes, sizeof bytes) == 3 && !memcmp(bytes, "ppp", 3) && read(master, bytes, sizeof bytes) == 3);
    CHECK(!memcmp(bytes, "ttt", 3));
}

static void with_files(void) {
    char folder[] = "/tmp/users-XXXXXX";
    CHECK(mkdtemp(folder) && !chdir(folder) && !chmod(folder, 0755) && !mkdir("locked", 0700) && !mkdir("free", 0) && !chmod("free", 0777));
    file("secret", 0600, 0, 0);
    file("mine", 0600, 1000, 0);
    file("shared", 0660, 0, 30);
    file("readable", 0644, 0, 0);
    file("locked/inside", 0666, 0, 0);
    file("set-user", 0666, 0, 0);
    file("set-group", 0666, 0, 0);
    CHECK(!chmod("set-user", 04666) && !chmod("set-group", 02676) && !mkfifo("queue", 0666) && !chmod("queue", 0666));
    int secret = open("secret", O_RDONLY);
    CHECK(!setgroups(1, (gid_t[]){30}) && !setresgid(100, 100, 100) && !seteuid(1000));
    CHECK(opens("secret", O_RDONLY) == 0 && opens("mine", O_RDWR) == 1 && opens("shared", O_RDWR) == 1);
    CHECK(opens("readable", O_RDONLY) == 1 && opens("readable", O_WRONLY) == 0 && opens("locked/inside", O_RDONLY) == 0);
    CHECK(opens("new", O_CREAT | O_WRONLY) == 0 && opens("free/new", O_CREAT | O_WRONLY) == 1);
    struct stat status;
    CHECK(!stat("free/new", &status) && status.st_uid == 1000 && status.st_gid == 100);
    // The real user may, the effective one may not.
    CHECK(access("secret", R_OK) == 0 && faccessat(AT_FDCWD, "secret", R_OK, AT_EACCESS) == -1 && errno == EACCES);
    CHECK(chmod("readable", 0777) == -1 && errno == EPERM && chown("mine", 0, -1) == -1 && errno == EPERM && !chmod("mine", 0640));
    CHECK(unlink("readable") == -1 && errno == EACCES && !unlink("free/new"));
    CHECK(opens("readable", O_RDONLY | O_NOATIME) == -1 && errno == EPERM && opens("mine", O_RDONLY | O_NOATIME) == 1);
    // That a file was used just now may say who may write to it; any other time is its owner's to set.
    struct timespec times[2] = {{1000, 0}, {2000, 0}};
    CHECK(!utimensat(AT_FDCWD, "shared", NULL, 0) && utimensat(AT_FDCWD, "shared", times, 0) == -1 && errno == EPERM);
    CHECK(utimensat(AT_FDCWD, "readable", NULL, 0) == -1 && errno == EACCES && !utimensat(AT_FDCWD, "mine", times, 0));
    // Who could not write a file gives it no name that would keep it (protected_hardlinks), nor one that runs as somebody else.
    CHECK(!link("mine", "free/mine") && !link("shared", "free/shared") && !unlink("free/mine") && !unlink("free/shared"));
    const char *const others[] = {"readable", "secret", "set-user", "set-group", "queue"};
    for (int at = 0; at < 5; at++) CHECK(link(others[at], "free/linked") == -1 && errno == EPERM);
    // Devices are user 0's to make.
    CHECK(mknod("free/terminal", S_IFCHR | 0600, makedev(136, 0)) == -1 && errno == EPERM);
    CHECK(mknod("free/block", S_IFBLK | 0600, makedev(7, 0)) == -1 && errno == EPERM && mknod("null", S_IFCHR, 259) == -1 && errno == EACCES);
    CHECK(!mknod("free/fifo", S_IFIFO | 0600, 0) && !unlink("free/fifo"));
    // What was opened stays open.
    char byte;
    CHECK(read(secret, &byte, 1) == 1 && byte == 'x');
    int segment = shmget(IPC_PRIVATE, 100, 0600);
    CHECK(!seteuid(0) && !seteuid(1001) && shmat(segment, NULL, 0) == (void *)-1 && errno == EACCES);
    CHECK(shmctl(segment, IPC_RMID, NULL) == -1 && errno == EPERM && !seteuid(0) && !shmctl(segment, IPC_RMID, NULL));
}

static mode_t mode_of(const char *path, gid_t *group) {
    struct stat status;
    CHECK(!stat(path, &status));
    if (group) *group = status.st_gid;
    return status.st_mode & 07777;
}

static void with_groups(void) {
    char folder[] = "/tmp/groups-XXXXXX";
    gid_t group;
    umask(0);
    CHECK(mkdtemp(folder) && !chdir(folder) && !chmod(folder, 0755));
    CHECK(!mkdir("theirs", 0) && !chown("theirs", 0, 300) && !chmod("theirs", 02775));
    CHECK(!mkdir("all", 0) && !chown("all", 0, 300) && !chmod("all", 02777) && !mkdir("sticky", 0) && !chmod("sticky", 01777));
    file("rooted", 04757, 0, 0), file("grouped", 02757, 0, 300), file("locking", 02746, 0, 300), file("cut", 06777, 0, 0);
    file("sticky/roots", 0666, 0, 0), file("own", 06755, 1000, 30);
    // User 0 may do both.
    int kept = open("rooted", O_WRONLY);
    CHECK(write(kept, "x", 1) == 1 && !close(kept) && mode_of("rooted", NULL) == 04757);
    pid_t member = fork();
    if (!member) {
        CHECK(!setgroups(1, (gid_t[]){300}) && !setgid(100) && !setuid(1000));
        CHECK(opens("theirs/new", O_CREAT | O_WRONLY) == 1 && !mkdir("theirs/folder", 0750));
        CHECK((mode_of("theirs/folder", &group), group) == 300 && mode_of("theirs/folder", NULL) == 02750);
        CHECK(!chmod("theirs/new", 02755) && mode_of("theirs/new", &group) == 02755 && group == 300);
        CHECK(opens("all/members", O_CREAT | O_WRONLY) == 1 && !chown("all/members", -1, 100) && !chown("all/members", 1000, 300));
        CHECK(chown("all/members", -1, 30) == -1 && errno == EPERM && chown("all/members", 0, -1) == -1 && errno == EPERM);
        _exit(0);
    }
    CHECK(status_of(member) == 0);
    CHECK(!setgroups(1, (gid_t[]){20}) && !setgid(100) && !setuid(1000));
    CHECK(opens("theirs/other", O_CREAT | O_WRONLY) == 0 && opens("all/other", O_CREAT | O_WRONLY) == 1);
    // Who is not in a group makes no program that acts for it, nor changes one that acts for another.
    CHECK(!chmod("all/other", 02755) && mode_of("all/other", &group) == 0755 && group == 300);
    int made = open("all/made", O_CREAT | O_WRONLY, 06755);
    CHECK(made >= 0 && mode_of("all/made", &group) == 04755 && group == 300 && !fchmod(made, 06711) && mode_of("all/made", NULL) == 04711);
    CHECK(write(made, "x", 1) == 1 && mode_of("all/made", NULL) == 0711);
    int rooted = open("rooted", O_WRONLY), grouped = open("grouped", O_WRONLY), locking = open("locking", O_WRONLY);
    CHECK(write(rooted, "x", 1) == 1 && mode_of("rooted", NULL) == 0757 && write(grouped, "x", 1) == 1 && mode_of("grouped", NULL) == 0757);
    CHECK(!ftruncate(locking, 0) && opens("cut", O_WRONLY | O_TRUNC) == 1 && mode_of("cut", NULL) == 0777);
    CHECK(!chown("own", 1000, 20) && mode_of("own", &group) == 0755 && group == 20);
    CHECK(unlink("sticky/roots") == -1 && errno == EPERM && rename("sticky/roots", "sticky/mine") == -1 && errno == EPERM);
    CHECK(opens("sticky/mine", O_CREAT | O_WRONLY) == 1 && rename("sticky/mine", "sticky/roots") == -1 && errno == EPERM && !unlink("sticky/mine"));
}

static void with_signals(void) {
    pid_t root = getpid();
    pid_t other = fork();
    if (!other) { CHECK(!setuid(1001)); pause(); }
    pid_t own = fork();
    if (!own) { CHECK(!setuid(1000)); pause(); }
    usleep(50000);
    pid_t child = fork();
    if (!child) {
        CHECK(!setuid(1000));
        CHECK(kill(root, 0) == -1 && errno == EPERM && kill(other, SIGKILL) == -1 && errno == EPERM);
        CHECK(!kill(own, SIGTERM));
        struct rlimit limits = {10, 10};
        CHECK(!setrlimit(RLIMIT_NOFILE, &limits));
        limits.rlim_max = 11;
        CHECK(setrlimit(RLIMIT_NOFILE, &limits) == -1 && errno == EPERM);
        _exit(0);
    }
    CHECK(status_of(child) == 0 && status_of(own) == SIGTERM);
    CHECK(!kill(other, SIGKILL) && status_of(other) == SIGKILL);
}

static void with_roots(void) {
    char folder[] = "/tmp/root-XXXXXX", path[300];
    CHECK(mkdtemp(folder) && !chmod(folder, 0755) && !chdir(folder) && !mkdir("below", 0755));
    file("inside", 0644, 0, 0);
    struct stat root, above;
    CHECK(!stat("/", &root) && chroot("inside") == -1 && errno == ENOTDIR && chroot("nothing") == -1 && errno == ENOENT);
    CHECK(!chdir("/") && !chroot(folder) && syscall(SYS_getcwd, path, sizeof path) > 0 && !strcmp(path, "(unreachable)/"));
    CHECK(!access("/inside", R_OK) && access(folder, F_OK) == -1 && errno == ENOENT && !access("tmp", F_OK));
    CHECK(!stat("/", &above) && above.st_ino != root.st_ino && !chdir("/below") && getcwd(path, sizeof path) && !strcmp(path, "/below"));
    CHECK(!symlink("/../../inside", "link") && !access("link", R_OK) && !stat("../../..", &root) && root.st_ino == above.st_ino);
    pid_t child = fork();
    if (!child) _exit(access("/inside", R_OK) || open("/proc/self/stat", O_RDONLY) >= 0 ? 1 : 3);
    CHECK(status_of(child) == 3 << 8 && !setuid(1000) && chroot("/below") == -1 && errno == EPERM && !access("/inside", R_OK));
}

static void with_limits(void) {
    struct rlimit before, after, mine = {40, 50}, more = {60, 60};
    int ready[2];
    char byte;
    CHECK(!pipe(ready));
    pid_t own = fork();
    if (!own) { CHECK(!setgid(100) && !setuid(1000) && write(ready[1], "r", 1) == 1); for (;;) pause(); }
    CHECK(read(ready[0], &byte, 1) == 1);
    pid_t other = fork();
    if (!other) for (;;) pause();
    CHECK(!prlimit(other, RLIMIT_NOFILE, &mine, &before) && before.rlim_cur > 50 && !prlimit(other, RLIMIT_NOFILE, NULL, &after));
    CHECK(after.rlim_cur == 40 && after.rlim_max == 50 && !prlimit(other, RLIMIT_NOFILE, &more, NULL) && !prlimit(own, RLIMIT_NOFILE, &mine, NULL));
    CHECK(prlimit(other, 99, NULL, &after) == -1 && errno == EINVAL && prlimit(99999, RLIMIT_CPU, NULL, &after) == -1 && errno == ESRCH);
    CHECK(!setgid(100) && !setuid(1000) && prlimit(other, RLIMIT_NOFILE, NULL, &after) == -1 && errno == EPERM);
    CHECK(!prlimit(own, RLIMIT_NOFILE, NULL, &after) && after.rlim_cur == 40 && prlimit(own, RLIMIT_NOFILE, &more, NULL) == -1 && errno == EPERM);
    CHECK(!kill(own, SIGKILL) && status_of(own) == SIGKILL && kill(other, SIGKILL) == -1 && errno == EPERM);
}

// Sends a descriptor, or receives one where there is none.
static int pass(int socket, int file) {
    char byte = 'b', control[CMSG_SPACE(sizeof file)] = {0};
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (file < 0) {
        CHECK(recvmsg(socket, &message, 0) == 1 && CMSG_FIRSTHDR(&message));
        memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
        return file;
    }
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof file)};
    memcpy(CMSG_DATA(head), &file, sizeof file);
    return sendmsg(socket, &message, 0) == 1 ? 0 : -1;
}

// User 0 passes what it opened later to children that became another user, or become it while it is on its way, as servers
// with workers do.
static void with_descriptors_passed(int early) {
    int channel[2], passed[2], ends[2], pair[2];
    char byte;
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, channel) && !pipe(passed));
    pid_t child = fork();
    if (!child) {
        CHECK(!early || read(passed[0], &byte, 1) == 1);
        CHECK(!setgroups(0, NULL) && !setgid(100) && !setuid(1000) && write(channel[1], "r", 1) == 1);
        int got = pass(channel[1], -1), other = pass(channel[1], -1), secret = pass(channel[1], -1);
        CHECK(read(got, &byte, 1) == 1 && byte == 'p' && write(other, "o", 1) == 1 && read(other, &byte, 1) == 1 && byte == 'b');
        CHECK(read(secret, &byte, 1) == 1 && byte == 's' && open("kept", O_RDONLY) == -1 && errno == EACCES);
        pid_t below = fork();
        if (!below) _exit(write(other, "c", 1) == 1 ? 5 : 6);
        CHECK(status_of(below) == 5 << 8);
        _exit(7);
    }
    CHECK((early || read(channel[0], &byte, 1) == 1) && !pipe(ends) && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    file("kept", 0600, 0, 0);
    int kept = open("kept", O_RDWR);
    CHECK(pwrite(kept, "s", 1, 0) == 1 && write(ends[1], "p", 1) == 1 && write(pair[0], "b", 1) == 1);
    CHECK(!pass(channel[0], ends[0]) && !pass(channel[0], pair[1]) && !pass(channel[0], kept));
    CHECK(!close(ends[0]) && !close(pair[1]) && !close(kept));
    CHECK(!early || (write(passed[1], "p", 1) == 1 && read(channel[0], &byte, 1) == 1));
    CHECK(read(pair[0], &byte, 1) == 1 && byte == 'o' && read(pair[0], &byte, 1) == 1 && byte == 'c');
    CHECK(status_of(child) == 7 << 8 && read(pair[0], &byte, 1) == 0 && write(ends[1], "q", 1) == -1 && errno == EPIPE);
}

static void with_descriptors(void) { with_descriptors_passed(0); }
static void with_early_descriptors(void) { with_descriptors_passed(1); }

// Who shares a socket may connect it for all who have it, as long as all of them are one user: what another user has it joined to
// nobody else opens.
static void with_shared_socket(void) {
    struct sockaddr_un name = {AF_UNIX, "/tmp/listener-of-user"};
    for (int is_other = 0; is_other < 2; is_other++) {
        int all = socket(AF_UNIX, SOCK_STREAM, 0), ready[2], status;
        char byte;
        CHECK(all >= 0 && !pipe(ready));
        pid_t child = fork();
        if (!child) {
            if (is_other) CHECK(!setgid(1000) && !setuid(1000));
            int listener = socket(AF_UNIX, SOCK_STREAM, 0);
            CHECK(!bind(listener, (struct sockaddr *)&name, sizeof name) && !listen(listener, 1));
            CHECK(!connect(all, (struct sockaddr *)&name, sizeof name) && write(all, "c", 1) == 1 && !unlink(name.sun_path));
            CHECK(write(ready[1], "r", 1) == 1);
            pause();
        }
        CHECK(read(ready[0], &byte, 1) == 1);
        int sent = write(all, "p", 1);
        CHECK(is_other ? sent == -1 && errno == ENOTCONN : sent == 1);
        CHECK(!kill(child, SIGKILL) && waitpid(child, &status, 0) == child && status == SIGKILL && !close(all) && !close(ready[0]) && !close(ready[1]));
    }
}

static long set_effective(unsigned capability) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data)) return -1;
    data[capability / 32].effective |= 1u << capability % 32;
    return syscall(SYS_capset, &header, data);
}

static int takes_groups(gid_t group) {
    return !setresgid(group, group, group) && !setgroups(2, (gid_t[]){group + 1, group + 2}) && getgid() == group;
}

// What only those programs may that were user 0 and kept the capability: another program of theirs may not.
static int without_kept(void) {
    CHECK(getuid() == 1000 && getgid() == 200 && set_effective(CAP_SETGID) == -1 && errno == EPERM);
    CHECK(setgid(300) == -1 && errno == EPERM && setgroups(0, NULL) == -1 && errno == EPERM && getgid() == 200);
    return 0;
}

// As setpriv(1) does it: the user first, then the groups.
static void with_kept_capabilities(void) {
    CHECK(!prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) && !setresuid(1000, 1000, 1000));
    CHECK(setgid(200) == -1 && errno == EPERM && setgroups(0, NULL) == -1 && errno == EPERM);
    CHECK(!set_effective(CAP_SETGID) && takes_groups(200));
    CHECK(setresuid(0, 0, 0) == -1 && errno == EPERM && setuid(1001) == -1 && errno == EPERM);
    pid_t child = fork();
    int status;
    if (!child) _exit(takes_groups(300) ? 9 : 8);
    CHECK(waitpid(child, &status, 0) == child && status == 9 << 8);
    execl("/proc/self/exe", "users", "without-kept", NULL);
    _exit(1);
}

static void without_capabilities(void) {
    CHECK(!setresuid(1000, 1000, 1000) && set_effective(CAP_SETGID) == -1 && !takes_groups(200) && getgid() == 0);
    _exit(0);
}

// What is in every page: the process that wrote it last, and which page it is.
static char *memory;
static int pages;

static void fill(int from, int step, char who) {
    for (int i = from; i < pages; i += step) memset(memory + i * 4096L, who + i % 50, 4096);
}

static void check_filled(int from, int step, char who) {
    for (int i = from; i < pages; i += step)
        CHECK(memory[i * 4096L] == (char)(who + i % 50) && !memcmp(memory + i * 4096L, memory + i * 4096L + 1, 4095));
}

// Pages that were user 0's are copied by another user when it, its parent or its child writes them; nobody sees what
// another one wrote. `again`: it has become another user before, and the pages have been taken over.
static void write_after_change(int again) {
    memory = mmap(NULL, pages * 4096L, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    fill(0, 1, 'r');
    int ready[2], go[2];
    CHECK(!pipe(ready) && !pipe(go));
    pid_t child = fork();
    if (!child) {
        char byte;
        if (again) CHECK(!seteuid(1000) && (fill(3, 7, 'a'), !seteuid(0)));
        CHECK(!setgid(1000) && !setuid(1000) && is(1000, 1000, 1000));
        fill(0, 3, 'c');
        pid_t grandchild = fork();
        if (!grandchild) {
            fill(0, 2, 'g');
            pid_t last = fork();
            if (!last) { fill(1, 2, 'l'), check_filled(0, 2, 'g'), check_filled(1, 2, 'l'); _exit(0); }
            CHECK(status_of(last) == 0);
            check_filled(0, 2, 'g'), check_filled(3, 6, 'c');
            _exit(0);
        }
        CHECK(status_of(grandchild) == 0);
        check_filled(0, 3, 'c');
        CHECK(write(ready[1], "x", 1) == 1 && read(go[0], &byte, 1) == 1);
        if (!again) check_filled(1, 3, 'r'), check_filled(2, 3, 'r');
        fill(1, 3, 'd'), check_filled(0, 3, 'c'), check_filled(1, 3, 'd');
        CHECK(in_child(abort) == SIGABRT);
        _exit(0);
    }
    char byte;
    CHECK(read(ready[0], &byte, 1) == 1);
    check_filled(0, 1, 'r');
    fill(0, 1, 'p');
    CHECK(write(go[1], "x", 1) == 1 && status_of(child) == 0);
    check_filled(0, 1, 'p');
    CHECK(!munmap(memory, pages * 4096L) && !close(ready[0]) && !close(ready[1]) && !close(go[0]) && !close(go[1]));
}

static void with_memory(void) {
    for (int round = 0; round < 6; round++) pages = (int[]){12, 120, 1200}[round % 3], write_after_change(round / 3);
}

static void line_of_status(const char *name, const char *expected) {
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status) && strncmp(line, name, strlen(name))) {}
    CHECK(!strcmp(line + strlen(name), expected));
    fclose(status);
}

// Who acts on files as somebody else: by setfsuid and setfsgid.
static void on_files(void) {
    struct stat status;
    umask(0);
    CHECK(setfsuid(-1) == 0 && setfsuid(1000) == 0 && setfsuid(-1) == 1000 && geteuid() == 0 && is(0, 0, 0));
    line_of_status("Uid:", "\t0\t0\t0\t1000\n");
    CHECK(open("/etc/secret-of-0", O_RDONLY) == -1 && errno == EACCES && access("/etc/secret-of-0", R_OK) == 0);
    int made = open("/tmp/of-1000", O_CREAT | O_EXCL | O_RDWR, 0644);
    CHECK(made >= 0 && !fstat(made, &status) && status.st_uid == 1000 && status.st_gid == 0);
    CHECK(setfsgid(200) == 0 && setfsgid(-1) == 200 && !unlink("/tmp/of-1000"));
    CHECK((made = open("/tmp/of-1000", O_CREAT | O_EXCL | O_RDWR, 0644)) >= 0 && !fstat(made, &status) && status.st_gid == 200);
    CHECK(chown("/tmp/of-1000", 0, -1) == -1 && errno == EPERM && !unlink("/tmp/of-1000"));
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2];
    CHECK(!syscall(SYS_capget, &header, sets) && !(sets[0].effective & 1 << CAP_CHOWN) && sets[0].effective & 1 << CAP_SETUID);
    pid_t child = fork();
    if (!child) _exit(setfsuid(-1) == 1000 && open("/etc/secret-of-0", O_RDONLY) == -1 && !seteuid(0) && setfsuid(-1) == 0 ? 3 : 4);
    CHECK(status_of(child) == 3 << 8);
    CHECK(setfsuid(0) == 1000 && setfsgid(0) == 200 && open("/etc/secret-of-0", O_RDONLY) >= 0);
    CHECK(!syscall(SYS_capget, &header, sets) && sets[0].effective & 1 << CAP_CHOWN);
    CHECK(setfsuid(1000) == 0 && !setresuid(-1, -1, -1) && setfsuid(-1) == 1000 && !setresuid(-1, 0, -1) && setfsuid(-1) == 0);
    CHECK(!setresuid(1, 2, 3) && setfsuid(-1) == 2 && setfsuid(3) == 2 && setfsuid(0) == 3 && setfsuid(9) == 3 && setfsuid(1) == 3);
    line_of_status("Uid:", "\t1\t2\t3\t1\n");
    CHECK(!seteuid(3) && setfsuid(-1) == 3);
}

// As many groups as there may be, told in ascending order.
static void with_many_groups(void) {
    enum { MOST = 65536 };
    static gid_t groups[MOST + 1], told[MOST];
    for (int i = 0; i <= MOST; i++) groups[i] = (unsigned)i * 7919 % 65521 + 100000;
    for (int count = 1; count <= MOST; count = count * 5 + 3) CHECK(!setgroups(count, groups) && getgroups(0, NULL) == count);
    CHECK(setgroups(MOST + 1, groups) == -1 && errno == EINVAL);
    CHECK(!setgroups(MOST, groups) && getgroups(MOST - 1, told) == -1 && errno == EINVAL && getgroups(MOST, told) == MOST);
    for (int i = 1; i < MOST; i++) CHECK(told[i - 1] <= told[i]);
    int made = open("/tmp/of-a-group", O_CREAT | O_EXCL | O_RDWR, 0);
    CHECK(made >= 0 && !fchown(made, 0, groups[MOST - 1]) && !fchmod(made, 040));
    pid_t child = fork();
    if (!child) {
        CHECK(getgroups(0, NULL) == MOST && !setuid(1000) && open("/tmp/of-a-group", O_RDONLY) >= 0);
        CHECK(setgroups(1, groups) == -1 && errno == EPERM);
        _exit(0);
    }
    CHECK(status_of(child) == 0 && !setgroups(1, groups));
    child = fork();
    if (!child) { CHECK(!setuid(1000) && open("/tmp/of-a-group", O_RDONLY) == -1 && errno == EACCES); _exit(0); }
    CHECK(status_of(child) == 0 && !unlink("/tmp/of-a-group") && !setgroups(0, NULL) && getgroups(0, NULL) == 0);
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IONBF, 0);
    if (count > 1 && !strcmp(arguments[1], "without-kept")) return without_kept();
    if (count > 1 && !strcmp(arguments[1], "again")) return again();
    CHECK(in_child(there_and_back) == 0 && in_child(for_ever) == 0);
    puts("users and groups are changed as far as that is allowed");
    CHECK(in_child(with_memory) == 0);
    puts("memory is copied when it is written by who has become another user");
    CHECK(in_child(with_files) == 0);
    puts("files are refused to who may not");
    CHECK(in_child(with_open) == 0);
    puts("what was open stays open");
    CHECK(in_child(with_groups) == 0);
    puts("groups are handed on, and set-id bits kept from who may not");
    close(open("/etc/secret-of-0", O_CREAT | O_EXCL | O_RDWR, 0600));
    CHECK(in_child(on_files) == 0 && !unlink("/etc/secret-of-0"));
    puts("who acts on files is somebody else where that was asked for");
    CHECK(in_child(with_many_groups) == 0);
    puts("there are as many groups as on Linux");
    CHECK(in_child(with_signals) == 0);
    puts("signals too");
    CHECK(in_child(with_roots) == 0);
    puts("a root is a root");
    CHECK(in_child(with_limits) == 0);
    puts("limits of others are set by who may");
    CHECK(in_child(with_kept_capabilities) == 0 && in_child(without_capabilities) == 0);
    puts("who kept a capability changes its groups, and no program after it");
    signal(SIGPIPE, SIG_IGN);
    CHECK(in_child(with_descriptors) == 0 && in_child(with_early_descriptors) == 0);
    puts("descriptors are passed to workers that are another user");
    CHECK(in_child(with_shared_socket) == 0);
    puts("another user joins nobody's socket to anything");
}
