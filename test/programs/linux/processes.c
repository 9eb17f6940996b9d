// Children that borrow their parent's memory, and what is told of them. One line for each part that works.
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); exit(1); } } while (0)

extern char **environ;

static char *const no_arguments[] = {"program", NULL};

static int status_of(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static void spawned_programs(void) {
    pid_t child = 0;
    CHECK(posix_spawn(&child, "/nowhere", NULL, NULL, no_arguments, environ) == ENOENT);
    CHECK(posix_spawn(&child, "/tmp", NULL, NULL, no_arguments, environ) == EACCES);
    CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, 77, 1);
    CHECK(posix_spawnp(&child, "true", &actions, NULL, no_arguments, environ) == EBADF);
    posix_spawn_file_actions_destroy(&actions);
    char *const arguments[] = {"sh", "-c", "exit 9", NULL};
    CHECK(!posix_spawnp(&child, "sh", NULL, NULL, arguments, environ));
    CHECK(status_of(child) == 9 << 8);
    CHECK(system("exit 5") == 5 << 8);
    puts("posix_spawn tells why a program cannot run");
}

static volatile int counter = 1;
static volatile char large[300000];

// A copy of borrowed memory is a copy: neither sees what the other writes afterwards.
static void grandchild_of_borrower(void) {
    static volatile int told;
    int pipes[2];
    CHECK(!pipe(pipes));
    counter = 20;
    pid_t child = vfork();
    if (!child) {
        char byte = 0;
        pid_t grandchild = syscall(SYS_fork);
        if (!grandchild) {
            int seen = read(pipes[0], &byte, 1) == 1 ? counter : 99;
            counter = 77;
            large[200000] = 'y';
            _exit(seen);
        }
        counter = 21;
        if (write(pipes[1], &byte, 1) == 1) told = status_of(grandchild) >> 8;
        _exit(0);
    }
    CHECK(status_of(child) == 0 && told == 20 && counter == 21 && large[200000] == 'x');
    close(pipes[0]);
    close(pipes[1]);
}

static void borrowed_memory(void) {
    volatile int on_the_stack = 1;
    volatile char *anywhere = malloc(100);
    anywhere[7] = 'b';
    volatile char *fresh = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pid_t child = vfork();
    if (!child) {
        counter = 2;
        on_the_stack = 3;
        anywhere[7] = 'a';
        fresh[5000] = 7;
        for (size_t i = 0; i < sizeof large; i++) large[i] = 'x';
        _exit(4);
    }
    CHECK(counter == 2 && on_the_stack == 3 && anywhere[7] == 'a' && fresh[5000] == 7 && fresh[0] == 0);
    for (size_t i = 0; i < sizeof large; i++) CHECK(large[i] == 'x');
    CHECK(status_of(child) == 4 << 8);
    child = vfork();
    if (!child) {
        execv("/nowhere", no_arguments);
        counter = errno;
        abort();
    }
    CHECK(counter == ENOENT && status_of(child) == SIGABRT);
    child = fork();
    if (!child) {
        counter = 99;
        pid_t grandchild = vfork();
        if (!grandchild) { counter = 98; _exit(0); }
        status_of(grandchild);
        _exit(counter);
    }
    CHECK(status_of(child) == 98 << 8 && counter == ENOENT);
    // The parent waits for a program, not for its end.
    int ends[2];
    CHECK(!pipe(ends));
    char *const cat[] = {"cat", NULL};
    child = vfork();
    if (!child) { dup2(ends[0], 0); close(ends[1]); execvp("cat", cat); _exit(127); }
    CHECK(waitpid(child, NULL, WNOHANG) == 0);
    CHECK(write(ends[1], "from cat\n", 9) == 9);
    close(ends[1]);
    close(ends[0]);
    CHECK(status_of(child) == 0);
    grandchild_of_borrower();
    puts("vfork: the parent finds what its child wrote");
}

static volatile int ticks, stop;

static void *tick(void *unused) {
    (void)unused;
    while (!stop) { ticks++; sched_yield(); }
    return NULL;
}

static int run(void *argument) {
    *(int *)argument = getpid();
    usleep(20000);
    return 6;
}

static void among_threads(void) {
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, tick, NULL));
    while (ticks < 10) sched_yield();
    static char stack[65536] __attribute__((aligned(16)));
    int number = 0, before = ticks;
    pid_t child = clone(run, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &number);
    CHECK(child > 0 && number == child);
    CHECK(ticks > before);
    int after = ticks;
    while (ticks < after + 10) sched_yield();
    CHECK(status_of(child) == 6 << 8);
    stop = 1;
    pthread_join(thread, NULL);
    puts("the other threads run on meanwhile");
}

static void limit(int resource, rlim_t soft) {
    struct rlimit limits;
    CHECK(!getrlimit(resource, &limits));
    limits.rlim_cur = soft;
    CHECK(!setrlimit(resource, &limits));
}

static void too_large(int signal) { (void)signal; counter = SIGXFSZ; }

static void limits_of_memory_and_files(void) {
    struct rlimit limits;
    CHECK(getrlimit(99, &limits) == -1 && errno == EINVAL);
    limits = (struct rlimit){2, 1};
    CHECK(setrlimit(RLIMIT_CORE, &limits) == -1 && errno == EINVAL);
    pid_t child = fork();
    if (!child) {
        limit(RLIMIT_AS, 64 << 20);
        CHECK(mmap(NULL, 80 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == ENOMEM);
        CHECK(!malloc(70 << 20) && errno == ENOMEM);
        void *some = malloc(5 << 20);
        CHECK(some);
        limit(RLIMIT_AS, RLIM_INFINITY);
        limit(RLIMIT_DATA, 30 << 20);
        CHECK(mmap(NULL, 40 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
        CHECK(mmap(NULL, 40 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
        CHECK(sbrk(40 << 20) == (void *)-1 && errno == ENOMEM);
        limit(RLIMIT_NOFILE, 5);
        CHECK(dup(0) == 3 && dup(0) == 4 && dup(0) == -1 && errno == EMFILE && dup2(0, 5) == -1 && errno == EBADF);
        _exit(0);
    }
    CHECK(status_of(child) == 0);
    char name[] = "/tmp/limited-XXXXXX";
    int file = mkstemp(name);
    CHECK(file >= 0 && !unlink(name));
    signal(SIGXFSZ, too_large);
    limit(RLIMIT_FSIZE, 1000);
    CHECK(write(file, (const void *)large, 600) == 600 && write(file, (const void *)large, 600) == 400);
    counter = 0;
    CHECK(write(file, (const void *)large, 600) == -1 && errno == EFBIG && counter == SIGXFSZ);
    counter = 0;
    CHECK(ftruncate(file, 1001) == -1 && errno == EFBIG && counter == SIGXFSZ);
    CHECK(!ftruncate(file, 1000) && pwrite(file, "x", 1, 999) == 1);
    limit(RLIMIT_FSIZE, RLIM_INFINITY);
    CHECK(!ftruncate(file, 100000));
    close(file);
    puts("limits of memory, descriptors and files");
}

static void on_time(int signal) { (void)signal; write(1, "a second\n", 9); }

static void limits_of_time(void) {
    pid_t child = fork();
    if (!child) {
        signal(SIGXCPU, on_time);
        struct rlimit limits = {1, 2};
        CHECK(!setrlimit(RLIMIT_CPU, &limits));
        for (;;) counter++;
    }
    struct rusage usage;
    int status;
    CHECK(wait4(child, &status, 0, &usage) == child && status == SIGKILL);
    CHECK(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec >= 1 && usage.ru_maxrss > 0);
    struct rusage children;
    CHECK(!getrusage(RUSAGE_CHILDREN, &children) && children.ru_utime.tv_sec >= usage.ru_utime.tv_sec);
    for (int i = 0; i < 200000; i++) lseek(0, 0, SEEK_CUR);
    CHECK(!getrusage(RUSAGE_SELF, &usage) && usage.ru_stime.tv_sec * 1000000 + usage.ru_stime.tv_usec > 0);
    CHECK(usage.ru_minflt > 0 && usage.ru_maxrss > 100);
    struct tms times_now;
    CHECK(times(&times_now) != -1 && times_now.tms_cutime + times_now.tms_cstime >= 100);
    puts("limits of time, and what was used");
}

static void attributes(void) {
    CHECK(getpriority(PRIO_PROCESS, 0) == 0 && nice(5) == 5 && getpriority(PRIO_PROCESS, getpid()) == 5);
    errno = 0;
    CHECK(getpriority(PRIO_PROCESS, 999999) == -1 && errno == ESRCH);
    struct sched_param parameter;
    CHECK(sched_getscheduler(0) == SCHED_OTHER && !sched_getparam(0, &parameter) && !parameter.sched_priority);
    CHECK(sched_get_priority_max(SCHED_FIFO) == 99 && sched_get_priority_min(SCHED_RR) == 1);
    cpu_set_t cpus;
    CHECK(!sched_getaffinity(0, sizeof cpus, &cpus) && CPU_COUNT(&cpus) >= 1 && CPU_ISSET(sched_getcpu(), &cpus));
    char name[16] = "";
    CHECK(!prctl(PR_SET_NAME, "a name") && !prctl(PR_GET_NAME, name) && !strcmp(name, "a name"));
    CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0) == -1 && errno == EINVAL);
    CHECK(prctl(PR_GET_DUMPABLE) == 1 && !prctl(PR_SET_DUMPABLE, 0) && prctl(PR_GET_DUMPABLE) == 0);
    int ends[2], wish = 0;
    CHECK(!pipe(ends));
    pid_t child = fork();
    if (!child) {
        CHECK(getpriority(PRIO_PROCESS, 0) == 5 && prctl(PR_GET_DUMPABLE) == 0);
        pid_t grandchild = fork();
        if (!grandchild) {
            CHECK(!prctl(PR_SET_PDEATHSIG, SIGUSR1) && !prctl(PR_GET_PDEATHSIG, &wish) && wish == SIGUSR1);
            close(ends[0]);
            sigset_t set;
            sigemptyset(&set);
            sigaddset(&set, SIGUSR1);
            sigprocmask(SIG_BLOCK, &set, NULL);
            CHECK(write(ends[1], "r", 1) == 1);
            int came;
            CHECK(!sigwait(&set, &came) && write(ends[1], "e", 1) == 1);
            _exit(0);
        }
        char ready;
        CHECK(read(ends[0], &ready, 1) == 1);
        _exit(0);
    }
    char end;
    close(ends[1]);
    CHECK(status_of(child) == 0 && read(ends[0], &end, 1) == 1 && end == 'e');
    CHECK(read(ends[0], &end, 1) == 0);
    close(ends[0]);
    puts("priorities, names and wishes");
}

// A function of the object that AT_SYSINFO_EHDR leads to, found as a linker finds it.
static void *in_vdso(const char *name) {
    const char *base = (const char *)getauxval(AT_SYSINFO_EHDR);
    const Elf64_Ehdr *header = (const void *)base;
    CHECK(base && !memcmp(header->e_ident, ELFMAG, SELFMAG) && header->e_type == ET_DYN);
    const Elf64_Phdr *program = (const void *)(base + header->e_phoff);
    const Elf64_Dyn *dynamic = NULL;
    for (int i = 0; i < header->e_phnum; i++)
        if (program[i].p_type == PT_DYNAMIC) dynamic = (const void *)(base + program[i].p_vaddr);
    const Elf64_Sym *symbols = NULL;
    const char *strings = NULL;
    const uint32_t *hash = NULL;
    for (; dynamic->d_tag; dynamic++) {
        if (dynamic->d_tag == DT_SYMTAB) symbols = (const void *)(base + dynamic->d_un.d_ptr);
        if (dynamic->d_tag == DT_STRTAB) strings = base + dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_HASH) hash = (const void *)(base + dynamic->d_un.d_ptr);
    }
    CHECK(symbols && strings && hash);
    for (uint32_t i = 1; i < hash[1]; i++)
        if (!strcmp(strings + symbols[i].st_name, name)) return (void *)(base + symbols[i].st_value);
    return NULL;
}

static sigjmp_buf way_back;
static void at_fault(int signal) { siglongjmp(way_back, signal); }

static long nanoseconds(struct timespec time) { return time.tv_sec * 1000000000l + time.tv_nsec; }

static void clocks(void) {
    int (*gettime)(clockid_t, struct timespec *) = in_vdso("__vdso_clock_gettime");
    int (*gettimeofday_)(struct timeval *, void *) = in_vdso("__vdso_gettimeofday");
    time_t (*time_)(time_t *) = in_vdso("__vdso_time");
    CHECK(gettime && gettimeofday_ && time_ && in_vdso("__vdso_getcpu") && !in_vdso("nothing"));
    static const clockid_t all[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_MONOTONIC_RAW, CLOCK_TAI};
    for (int i = 0; i < 5; i++) {
        struct timespec before, between, after;
        CHECK(!syscall(SYS_clock_gettime, all[i], &before));
        if (gettime(all[i], &between)) syscall(SYS_clock_gettime, all[i], &between);
        CHECK(!syscall(SYS_clock_gettime, all[i], &after));
        CHECK(nanoseconds(before) <= nanoseconds(between) && nanoseconds(between) <= nanoseconds(after));
    }
    struct timespec then;
    CHECK(clock_gettime(77, &then) == -1 && errno == EINVAL && !clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &then));
    struct timeval day;
    time_t second;
    CHECK(!gettimeofday_(&day, NULL) && time_(&second) == second && second - day.tv_sec <= 1 && day.tv_usec < 1000000);
    // A page that is not there yet comes, one that never will is the program's fault.
    struct timespec *fresh = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(!gettime(CLOCK_MONOTONIC, fresh) && nanoseconds(*fresh) > 0);
    signal(SIGSEGV, at_fault);
    if (!sigsetjmp(way_back, 1)) CHECK(gettime(CLOCK_MONOTONIC, (void *)16) == 77);
    signal(SIGSEGV, SIG_DFL);
    // Signals come while the clock is read all the time.
    signal(SIGALRM, too_large);
    struct itimerval soon = {{0, 0}, {0, 30000}};
    counter = 0;
    CHECK(!setitimer(ITIMER_REAL, &soon, NULL));
    while (!counter) gettime(CLOCK_MONOTONIC, fresh);
    puts("the vDSO");
}

enum { ROW = 14, FILE_BYTES = 400 << 10 };

// What a child in a row finds in `pages` after so many rounds of its parent's, and what it then leaves there.
static int finds_its_parents(char *pages, int round) {
    int wrong = 0;
    for (int page = 0; page < ROW; page++)
        for (int at = 0; at < 4096; at++)
            wrong += pages[page * 4096 + at] != (at <= round ? (char)(at + page) : 0);
    // Each another number of them, so that what is kept for the next one is too much, or too little.
    memset(pages, 0xee, (1 + round * 5 % ROW) * 4096);
    char *fresh = mmap(NULL, ROW * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED) return 1;
    for (int at = 0; at < ROW * 4096; at++) wrong += fresh[at] != 0;
    memset(fresh, 0xdd, ROW * 4096);
    return wrong != 0;
}

static long sum_of(const char *bytes) {
    long sum = 0;
    for (int at = 0; at < FILE_BYTES; at += 4096) sum += bytes[at];
    return sum;
}

// Each child in a row finds what its parent has, whatever those before it wrote in the same places.
static void children_in_a_row(void) {
    char *pages = mmap(NULL, ROW * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int file = open("/bin/busybox", O_RDONLY);
    const char *bytes = mmap(NULL, FILE_BYTES, PROT_READ, MAP_PRIVATE, file, 0);
    CHECK(pages != MAP_FAILED && bytes != MAP_FAILED);
    long sum = sum_of(bytes);
    for (int round = 0; round < 24; round++) {
        for (int page = 0; page < ROW; page++) pages[page * 4096 + round] = (char)(round + page);
        pid_t child = fork();
        if (!child) {
            int wrong = finds_its_parents(pages, round) || sum_of(bytes) != sum;
            counter = -round;
            if (round % 3 == 1 && !wrong) execl("/bin/true", "true", NULL);
            if (round % 3 == 2 && !wrong) raise(SIGKILL);
            _exit(wrong);
        }
        CHECK(status_of(child) == (round % 3 == 2 ? SIGKILL : 0));
        CHECK(pages[round] == (char)round && !pages[round + 1] && counter > 0);
    }
    CHECK(!munmap(pages, ROW * 4096) && !munmap((void *)bytes, FILE_BYTES) && !close(file));
    puts("a child finds nothing of the one before it");
}

// Processes that do nothing but make more of themselves, until there may be no more.
static void fork_bomb(void) {
    int ends[2];
    CHECK(!pipe(ends));
    pid_t first = fork();
    if (!first) {
        setpgid(0, 0);
        limit(RLIMIT_NPROC, 12);
        while (fork() != -1) {}
        CHECK(errno == EAGAIN);
        write(ends[1], "x", 1);
        pause();
    }
    close(ends[1]);
    char full;
    for (int i = 0; i < 10; i++) CHECK(read(ends[0], &full, 1) == 1);
    pid_t child = fork();
    if (!child) _exit(8);
    CHECK(status_of(child) == 8 << 8);
    CHECK(!kill(-first, SIGKILL) && status_of(first) == SIGKILL);
    CHECK(read(ends[0], &full, 1) == 0 || full == 'x');
    puts("a fork bomb meets its limit, others work on");
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    spawned_programs();
    borrowed_memory();
    among_threads();
    limits_of_memory_and_files();
    limits_of_time();
    attributes();
    clocks();
    children_in_a_row();
    fork_bomb();
}
