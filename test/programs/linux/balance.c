// Idle CPUs take work. Who computes and shares its CPU goes to one that has nothing to do, stays there, and leaves the CPUs that it may
// run on for none. What is counted is work: no clock is looked at.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); _exit(1); } } while (0)
// A stretch of work is much shorter than a slice, and all of a worker's far longer than what it takes to spread.
enum { STRETCH = 20000, STRETCHES = 12000, MOST = 8, NOWHERE = -1 };

// What workers tell each other: where each was when it last looked, whether it is to end, how many stretches it has worked, after how
// many of the second half it was where a crowd was, so many of them, and after how many where it may not be.
static struct shared {
    atomic_int begin, crowd, place[MOST], ends[MOST], stretches[MOST], crowded[MOST], outside[MOST];
} *shared;

static cpu_set_t cpus(int first, int count) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu = first; cpu < first + count; cpu++) CPU_SET(cpu, &set);
    return set;
}

static void work(void) {
    for (volatile int i = 0; i < STRETCH; i++) {}
}

static int is_crowded(int here) {
    int count = 0;
    for (int worker = 0; worker < MOST; worker++) count += atomic_load(&shared->place[worker]) == here;
    return count >= shared->crowd;
}

// Begins on one CPU; then it may run on these, and works when all begin, until it is told to end or has done enough.
static void be_worker(int own, int cpu, cpu_set_t may) {
    cpu_set_t one = cpus(cpu, 1);
    CHECK(!sched_setaffinity(0, sizeof one, &one));
    atomic_store(&shared->place[own], sched_getcpu());
    while (!atomic_load(&shared->begin)) usleep(1000);
    CHECK(!sched_setaffinity(0, sizeof may, &may));
    for (int stretch = 0; stretch < STRETCHES && !atomic_load(&shared->ends[own]); stretch++) {
        work();
        int here = sched_getcpu();
        atomic_store(&shared->place[own], here);
        shared->stretches[own]++;
        shared->outside[own] += !CPU_ISSET(here, &may);
        shared->crowded[own] += stretch > STRETCHES / 2 && is_crowded(here);
    }
    atomic_store(&shared->place[own], NOWHERE);
}

static void begin_anew(void) {
    memset(shared, 0, sizeof *shared);
    shared->crowd = 2;
    for (int worker = 0; worker < MOST; worker++) shared->place[worker] = NOWHERE;
}

static pid_t make(int own, int cpu, cpu_set_t may) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) be_worker(own, cpu, may), _exit(0);
    return child;
}

static void begin_all(int count) {
    for (int worker = 0; worker < count; worker++)
        while (atomic_load(&shared->place[worker]) == NOWHERE) usleep(1000);
    atomic_store(&shared->begin, 1);
}

static void bury(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static int sum(atomic_int *counts) {
    int all = 0;
    for (int worker = 0; worker < MOST; worker++) all += counts[worker];
    return all;
}

static char state_of(pid_t process) {
    char path[32], state = 0;
    sprintf(path, "/proc/%d/stat", process);
    FILE *file = fopen(path, "r");
    CHECK(file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
    fclose(file);
    return state;
}

// Two on one CPU, of which one at a time has it.
static void be_seen(void) {
    pid_t children[2];
    begin_anew();
    for (int worker = 0; worker < 2; worker++) children[worker] = make(worker, 0, cpus(0, 1));
    begin_all(2);
    for (int worker = 0; worker < 2; worker++)
        while (shared->stretches[worker] == 0) usleep(1000);
    CHECK(state_of(children[0]) == 'R' && state_of(children[1]) == 'R');
    for (int worker = 0; worker < 2; worker++) {
        atomic_store(&shared->ends[worker], 1);
        bury(children[worker]);
    }
    puts("who waits for nothing is told to run");
}

// Two of four on two CPUs end, and leave the others on one.
static void two_end(void) {
    pid_t children[4];
    begin_anew();
    for (int worker = 0; worker < 4; worker++) children[worker] = make(worker, worker / 2, cpus(0, 2));
    begin_all(4);
    for (int worker = 2; worker < 4; worker++) {
        atomic_store(&shared->ends[worker], 1);
        bury(children[worker]);
    }
    for (int worker = 0; worker < 2; worker++) bury(children[worker]);
    CHECK(sum(shared->crowded) == 0 && sum(shared->outside) == 0);
    puts("who is left has a CPU each");
}

// Three that may run on fewer CPUs than there are.
static void keep_inside(int all) {
    pid_t children[3];
    begin_anew();
    for (int worker = 0; worker < 3; worker++) children[worker] = make(worker, 0, cpus(0, all / 2));
    begin_all(3);
    for (int worker = 0; worker < 3; worker++) bury(children[worker]);
    CHECK(sum(shared->outside) == 0);
    puts("nobody goes where it may not be");
}

// Four on two CPUs, three of which begin on the first one.
static void level_out(void) {
    pid_t children[4];
    begin_anew();
    shared->crowd = 3;
    for (int worker = 0; worker < 4; worker++) children[worker] = make(worker, worker / 3, cpus(0, 2));
    begin_all(4);
    for (int worker = 0; worker < 4; worker++) bury(children[worker]);
    CHECK(sum(shared->crowded) == 0 && sum(shared->outside) == 0);
    puts("none has more to do than it need have");
}

static void sleep_shortly(int writes, int reads) {
    (void)writes, (void)reads;
    usleep(1000);
}

static void sleep_long(int writes, int reads) {
    (void)writes, (void)reads;
    usleep(20000);
}

// Until a process that sleeps writes a byte.
static void be_woken(int writes, int reads) {
    char byte;
    CHECK(write(writes, "", 1) == 1 && read(reads, &byte, 1) == 1);
}

// One that waits, over and over, on the CPU of one that computes there, and may go elsewhere.
static void wake_beside(void (*wait_so)(int, int)) {
    begin_anew();
    pid_t hog = make(0, 0, cpus(0, 1));
    cpu_set_t one = cpus(0, 1), all = cpus(0, 2);
    CHECK(!sched_setaffinity(0, sizeof one, &one));
    begin_all(1);
    while (shared->stretches[0] == 0) usleep(1000);
    CHECK(sched_getcpu() == 0 && !sched_setaffinity(0, sizeof all, &all));
    int there[2], back[2];
    char byte;
    CHECK(!pipe(there) && !pipe(back));
    pid_t waker = fork();
    CHECK(waker >= 0);
    if (!waker) {
        close(there[1]);
        while (read(there[0], &byte, 1) == 1) {
            usleep(20000);
            CHECK(write(back[1], &byte, 1) == 1);
        }
        _exit(0);
    }
    for (int times = 0; times < 20; times++) wait_so(there[1], back[0]);
    CHECK(sched_getcpu() == 1);
    atomic_store(&shared->ends[0], 1);
    for (int end = 0; end < 2; end++) close(there[end]), close(back[end]);
    bury(hog), bury(waker);
}

static void *be_thread(void *own) {
    be_worker((long)own, 0, cpus(0, CPU_SETSIZE));
    return NULL;
}

// As many threads as there are CPUs, all of which begin on the first one.
static void spread_threads(int all) {
    pthread_t threads[MOST];
    begin_anew();
    for (long worker = 0; worker < all; worker++) CHECK(!pthread_create(&threads[worker], NULL, be_thread, (void *)worker));
    begin_all(all);
    for (int worker = 0; worker < all; worker++) CHECK(!pthread_join(threads[worker], NULL));
    CHECK(sum(shared->crowded) == 0 && sum(shared->outside) == 0);
    puts("threads have a CPU each");
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    int all = sysconf(_SC_NPROCESSORS_ONLN);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED && all >= 2 && all <= MOST);
    be_seen();
    two_end();
    keep_inside(all);
    level_out();
    wake_beside(sleep_shortly), wake_beside(sleep_long), wake_beside(be_woken);
    puts("who wakes up beside others goes where they are not");
    spread_threads(all);
}
