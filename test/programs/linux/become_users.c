// Relatives become other users all at once: each of them can still use what they share, and make children, who have it, too.
#include <errno.h>
#include <grp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); _exit(1); } } while (0)
enum { ROUNDS = 40, USERS = 4, FIRST_USER = 1000 };

static atomic_int *ready;

static void become(int index, const int *ends) {
    int status;
    atomic_fetch_add(ready, 1);
    while (atomic_load(ready) < USERS) {}
    CHECK(!setgroups(0, 0) && !setgid(FIRST_USER + index) && !setuid(FIRST_USER + index));
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) _exit(write(ends[1], "x", 1) != 1);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(void) {
    char bytes[USERS];
    setvbuf(stdout, NULL, _IONBF, 0);
    ready = mmap(0, sizeof *ready, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(ready != MAP_FAILED);
    for (int round = 0; round < ROUNDS; round++) {
        // Pages that nobody has taken over before.
        int ends[2], status;
        CHECK(!pipe(ends));
        atomic_store(ready, 0);
        for (int index = 0; index < USERS; index++) {
            pid_t child = fork();
            CHECK(child >= 0);
            if (!child) become(index, ends), _exit(0);
        }
        for (int index = 0; index < USERS; index++) CHECK(wait(&status) > 0 && status == 0);
        CHECK(read(ends[0], bytes, USERS) == USERS && !close(ends[0]) && !close(ends[1]));
    }
    puts("all of them go on sharing");
}
