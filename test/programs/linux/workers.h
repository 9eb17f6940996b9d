// Processes of several users that work beside one that does harm: each comes to what it comes to in peace.
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); _exit(1); } } while (0)

static uint64_t mixed(uint64_t sum, const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) sum = (sum ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3;
    return sum;
}

// What a process of some user comes to: files, pipes, sockets, memory and children, in a folder of its own.
static uint64_t work(uid_t user) {
    uint64_t sum = user;
    char folder[32], text[256] = {0};
    sprintf(folder, "work-%u", user);
    CHECK(!chdir(folder));
    for (int round = 0; round < 12; round++) {
        int ends[2], pair[2], status, file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
        for (int i = 0; i < 40; i++) {
            int length = sprintf(text, "%d %d %lu\n", round, i, (unsigned long)sum);
            CHECK(write(file, text, length) == length);
            sum = mixed(sum, text, length);
        }
        struct stat found;
        CHECK(!rename("file", "other") && !stat("other", &found) && !link("other", "third") && !unlink("other") && !unlink("third"));
        char *bytes = mmap(0, found.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
        CHECK(bytes != MAP_FAILED);
        sum = mixed(sum, bytes, found.st_size);
        memset(bytes, round, found.st_size);
        munmap(bytes, found.st_size);
        close(file);
        CHECK(!pipe(ends) && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child) {
            CHECK(read(ends[0], text, 100) == 100 && write(pair[1], text, 100) == 100);
            _exit(round);
        }
        CHECK(write(ends[1], text, 100) == 100 && read(pair[0], text, 100) == 100);
        CHECK(waitpid(child, &status, 0) == child && status == round << 8);
        sum = mixed(sum, text, 100);
        for (int i = 0; i < 2; i++) close(ends[i]), close(pair[i]);
    }
    return sum;
}

// The child that comes to something, and the pipe that tells what.
struct worker { pid_t process; int from; };

static struct worker begin_to_work(uid_t user) {
    int ends[2];
    CHECK(!pipe(ends));
    pid_t child = fork();
    if (!child) {
        if (user) CHECK(!setgroups(0, 0) && !setgid(user) && !setuid(user));
        uint64_t sum = work(user);
        _exit(write(ends[1], &sum, sizeof sum) == sizeof sum ? 0 : 2);
    }
    close(ends[1]);
    return (struct worker){child, ends[0]};
}

static uint64_t what_it_came_to(struct worker worker) {
    uint64_t sum = 0;
    int status;
    CHECK(read(worker.from, &sum, sizeof sum) == sizeof sum);
    CHECK(waitpid(worker.process, &status, 0) == worker.process && status == 0);
    close(worker.from);
    return sum;
}

// The folder that processes of a user work in.
static void make_folder(uid_t user) {
    char name[32];
    sprintf(name, "work-%u", user);
    CHECK(!mkdir(name, 0700) && !chown(name, user, user));
}
