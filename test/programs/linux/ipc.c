// System V semaphores, messages and shared memory, and POSIX queues, semaphores and memory. One line for each part that works.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s failed, errno %d\n", __LINE__, #what, errno); exit(1); } } while (0)

union semun { int val; struct semid_ds *buf; unsigned short *array; struct seminfo *info; };

static int status_of(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static int change(int set, int number, int by, int flags) {
    struct sembuf one = {number, by, flags};
    return semop(set, &one, 1);
}

static int value(int set, int number) { return semctl(set, number, GETVAL); }

static int file_has(const char *path, const char *text) {
    char all[20000];
    FILE *file = fopen(path, "r");
    CHECK(file);
    all[fread(all, 1, sizeof all - 1, file)] = 0;
    fclose(file);
    return strstr(all, text) != NULL;
}

static void semaphores(void) {
    key_t key = 0x12345;
    CHECK(semget(key, 1, 0600) == -1 && errno == ENOENT);
    int set = semget(key, 3, IPC_CREAT | IPC_EXCL | 0640);
    CHECK(set >= 0 && semget(key, 0, 0) == set && semget(key, 3, IPC_CREAT | IPC_EXCL) == -1 && errno == EEXIST);
    CHECK(semget(key, 4, 0) == -1 && errno == EINVAL && semget(IPC_PRIVATE, 0, 0600) == -1 && errno == EINVAL);
    CHECK(file_has("/proc/sysvipc/sem", "\n     74565 ") && file_has("/proc/sysvipc/sem", "  640          3"));
    unsigned short values[3] = {1, 2, 3}, got[3];
    CHECK(!semctl(set, 0, SETALL, (union semun){.array = values}) && !semctl(set, 0, GETALL, (union semun){.array = got}));
    CHECK(!memcmp(values, got, sizeof got) && value(set, 2) == 3 && value(set, 3) == -1 && errno == EINVAL);
    CHECK(semctl(set, 0, GETPID) == getpid());
    struct semid_ds status;
    CHECK(!semctl(set, 0, IPC_STAT, (union semun){.buf = &status}) && status.sem_nsems == 3);
    CHECK((status.sem_perm.mode & 0777) == 0640 && status.sem_perm.__key == key && status.sem_otime == 0);
    // All or nothing.
    struct sembuf both[2] = {{0, -1, IPC_NOWAIT}, {1, -5, IPC_NOWAIT}};
    CHECK(semop(set, both, 2) == -1 && errno == EAGAIN && value(set, 0) == 1 && value(set, 1) == 2);
    both[1].sem_op = -2;
    CHECK(!semop(set, both, 2) && value(set, 0) == 0 && value(set, 1) == 0);
    CHECK(change(set, 0, 0, 0) == 0 && change(set, 7, 1, 0) == -1 && errno == EFBIG);
    CHECK(semctl(set, 0, SETVAL, (union semun){.val = 40000}) == -1 && errno == ERANGE);
    struct timespec soon = {0, 20000000};
    CHECK(semtimedop(set, both, 1, &soon) == -1 && errno == EAGAIN);
    // One waits, another lets it go on.
    pid_t child = fork();
    if (!child) {
        CHECK(change(set, 0, -2, 0) == 0);
        _exit(7);
    }
    while (semctl(set, 0, GETNCNT) != 1) usleep(1000);
    CHECK(!change(set, 0, 1, 0) && !change(set, 0, 1, 0) && status_of(child) == 7 << 8 && value(set, 0) == 0);
    // Who dies puts back what it took.
    CHECK(!semctl(set, 0, SETVAL, (union semun){.val = 1}));
    child = fork();
    if (!child) {
        CHECK(!change(set, 0, -1, SEM_UNDO));
        pause();
    }
    while (value(set, 0)) usleep(1000);
    pid_t waiter = fork();
    if (!waiter) _exit(change(set, 0, -1, 0) == 0 ? 9 : 1);
    while (semctl(set, 0, GETNCNT) != 1) usleep(1000);
    kill(child, SIGKILL);
    CHECK(status_of(child) == SIGKILL && status_of(waiter) == 9 << 8);
    // Who waits for what is removed is told so.
    child = fork();
    if (!child) _exit(change(set, 2, 0, 0) == -1 && errno == EIDRM ? 3 : 4);
    while (semctl(set, 2, GETZCNT) != 1) usleep(1000);
    CHECK(!semctl(set, 0, IPC_RMID) && status_of(child) == 3 << 8);
    CHECK(value(set, 0) == -1 && errno == EINVAL);
    puts("System V semaphores");
}

struct text { long type; char text[100]; };

static void messages(void) {
    int queue = msgget(IPC_PRIVATE, 0600);
    CHECK(queue >= 0 && msgget(0x777, 0) == -1 && errno == ENOENT);
    struct text text = {2, "two"};
    CHECK(!msgsnd(queue, &text, 4, 0));
    text = (struct text){5, "five"};
    CHECK(!msgsnd(queue, &text, 5, 0));
    text = (struct text){1, "one"};
    CHECK(!msgsnd(queue, &text, 4, 0) && !msgsnd(queue, &text, 4, 0));
    text.type = 0;
    CHECK(msgsnd(queue, &text, 4, 0) == -1 && errno == EINVAL);
    struct msqid_ds status;
    CHECK(!msgctl(queue, IPC_STAT, &status) && status.msg_qnum == 4 && status.__msg_cbytes == 17);
    CHECK(status.msg_lspid == getpid() && status.msg_qbytes == 16384);
    CHECK(msgrcv(queue, &text, 100, -3, 0) == 4 && text.type == 1 && !strcmp(text.text, "one"));
    CHECK(msgrcv(queue, &text, 100, 5, 0) == 5 && !strcmp(text.text, "five"));
    CHECK(msgrcv(queue, &text, 2, 0, 0) == -1 && errno == E2BIG);
    CHECK(msgrcv(queue, &text, 2, 0, MSG_NOERROR) == 2 && text.type == 2);
    CHECK(msgrcv(queue, &text, 100, 1, MSG_EXCEPT | IPC_NOWAIT) == -1 && errno == ENOMSG);
    CHECK(msgrcv(queue, &text, 100, 0, 0) == 4);
    pid_t child = fork();
    if (!child) {
        for (int i = 1; i <= 50; i++) {
            static struct { long type; char text[8000]; } large;
            large.type = i;
            memset(large.text, i, sizeof large.text);
            CHECK(!msgsnd(queue, &large, sizeof large.text, 0));
        }
        _exit(0);
    }
    for (int i = 1; i <= 50; i++) {
        static struct { long type; char text[8000]; } large;
        CHECK(msgrcv(queue, &large, sizeof large.text, 0, 0) == 8000 && large.type == i && large.text[7999] == i);
    }
    CHECK(status_of(child) == 0);
    // A handler interrupts who waits.
    signal(SIGALRM, SIG_DFL);
    child = fork();
    if (!child) _exit(msgrcv(queue, &text, 100, 0, 0) == -1 && errno == EIDRM ? 3 : 4);
    usleep(20000);
    CHECK(file_has("/proc/sysvipc/msg", "  600"));
    CHECK(!msgctl(queue, IPC_RMID, NULL) && status_of(child) == 3 << 8);
    puts("System V messages");
}

static void shared_memory(void) {
    int segment = shmget(0x4242, 10000, IPC_CREAT | 0666);
    CHECK(segment >= 0 && shmget(0x4242, 20000, 0) == -1 && errno == EINVAL);
    volatile int *words = shmat(segment, NULL, 0);
    CHECK(words != (void *)-1 && words[0] == 0);
    struct shmid_ds status;
    CHECK(!shmctl(segment, IPC_STAT, &status) && status.shm_segsz == 10000 && status.shm_nattch == 1);
    CHECK(status.shm_cpid == getpid() && status.shm_lpid == getpid());
    const volatile int *again = shmat(segment, NULL, SHM_RDONLY);
    words[2] = 9;
    CHECK(again != words && again[2] == 9 && !shmctl(segment, IPC_STAT, &status) && status.shm_nattch == 2);
    pid_t child = fork();
    if (!child) {
        CHECK(!shmctl(segment, IPC_STAT, &status) && status.shm_nattch == 4);
        words[1] = 77;
        CHECK(!shmdt((void *)words) && shmdt((void *)words) == -1 && errno == EINVAL);
        char *mine = shmat(shmget(0x4242, 0, 0), (void *)0x200000000, 0);
        CHECK(mine == (void *)0x200000000 && shmat(segment, mine + 1, 0) == (void *)-1 && errno == EINVAL);
        mine[9999] = 'e';
        // Somebody who forgot the key still has the number.
        execl("/proc/self/exe", "ipc", "attach", NULL);
        _exit(1);
    }
    CHECK(status_of(child) == 0 && words[1] == 78 && ((char *)words)[9999] == 'e');
    CHECK(!shmctl(segment, IPC_STAT, &status) && status.shm_nattch == 2);
    CHECK(file_has("/proc/sysvipc/shm", "                 10000"));
    CHECK(!shmctl(segment, IPC_RMID, NULL) && words[1] == 78);
    CHECK(!shmdt((void *)words) && !shmdt((void *)again) && shmget(0x4242, 0, 0) == -1 && errno == ENOENT);
    CHECK(shmat(segment, NULL, 0) == (void *)-1 && errno == EINVAL);
    puts("System V shared memory");
}

static unsigned long attached(int segment) {
    struct shmid_ds status;
    CHECK(!shmctl(segment, IPC_STAT, &status));
    return status.shm_nattch;
}

// A segment counts as attached as long as it is mapped, whatever took it away or put it elsewhere.
static void shared_memory_mapped(void) {
    enum { BYTES = 4 * 4096 };
    int segment = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600), other = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600);
    char *place = shmat(segment, NULL, 0);
    CHECK(place != (void *)-1 && shmat(segment, place, SHM_REMAP) == place && attached(segment) == 1);
    CHECK(shmat(segment, place, SHM_REMAP) == place && attached(segment) == 1);
    CHECK(shmat(other, place, SHM_REMAP) == place && attached(segment) == 0 && attached(other) == 1);
    CHECK(!munmap(place, BYTES) && attached(other) == 0 && shmdt(place) == -1 && errno == EINVAL);
    place = shmat(segment, NULL, 0);
    place[0] = 'm';
    char *moved = mremap(place, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, (char *)0x210000000);
    CHECK(moved == (char *)0x210000000 && attached(segment) == 1 && moved[0] == 'm');
    CHECK(shmdt(place) == -1 && errno == EINVAL && !shmdt(moved) && attached(segment) == 0);
    place = shmat(segment, NULL, 0);
    CHECK(!munmap(place, 4096) && attached(segment) == 1 && !munmap(place + 4096, BYTES - 4096) && attached(segment) == 0);
    place = shmat(segment, NULL, 0);
    int fixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    CHECK(mmap(place, BYTES, PROT_READ, fixed, -1, 0) == place && attached(segment) == 0 && !munmap(place, BYTES));
    CHECK(!shmctl(segment, IPC_RMID, NULL) && !shmctl(other, IPC_RMID, NULL));
    CHECK(shmctl(segment, IPC_STAT, &(struct shmid_ds){0}) == -1 && errno == EINVAL);
    // Whoever removes what it has attached has it until it is gone: then it takes no memory.
    for (int round = 0; round < 500; round++) {
        segment = shmget(IPC_PRIVATE, 1 << 20, IPC_CREAT | 0600);
        place = shmat(segment, NULL, 0);
        CHECK(segment >= 0 && place != (void *)-1);
        memset(place, round, 1 << 20);
        CHECK(shmat(segment, place, SHM_REMAP) == place && !shmctl(segment, IPC_RMID, NULL) && place[4096] == (char)round);
        CHECK(!(round % 2 ? munmap(place, 1 << 20) : shmdt(place)));
    }
    puts("System V shared memory that is mapped otherwise");
}

static int attach(void) {
    volatile int *words = shmat(shmget(0x4242, 0, 0), NULL, 0);
    CHECK(words != (void *)-1);
    words[1]++;
    return 0;
}

static volatile int noticed;
static void notice(int signal, siginfo_t *information, void *context) {
    (void)signal; (void)context;
    noticed = information->si_code == SI_MESGQ ? information->si_value.sival_int : -1;
}

static void queues(void) {
    struct mq_attr attributes = {.mq_maxmsg = 3, .mq_msgsize = 20}, told;
    mq_unlink("/queue");
    mqd_t queue = mq_open("/queue", O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
    CHECK(queue != -1 && mq_open("/queue", O_RDWR | O_CREAT | O_EXCL, 0600, &attributes) == -1 && errno == EEXIST);
    CHECK(mq_open("/none", O_RDONLY) == -1 && errno == ENOENT && mq_open("/a/b", O_RDONLY) == -1 && errno == EACCES);
    CHECK(!mq_getattr(queue, &told) && told.mq_maxmsg == 3 && told.mq_msgsize == 20 && told.mq_curmsgs == 0);
    char message[100];
    unsigned priority;
    struct pollfd wanted = {queue, POLLIN | POLLOUT, 0};
    CHECK(poll(&wanted, 1, 0) == 1 && wanted.revents == POLLOUT);
    CHECK(!mq_send(queue, "low", 4, 1) && !mq_send(queue, "high", 5, 9) && !mq_send(queue, "too", 4, 1));
    CHECK(poll(&wanted, 1, 0) == 1 && wanted.revents == POLLIN);
    struct timespec then;
    clock_gettime(CLOCK_REALTIME, &then);
    CHECK(mq_timedsend(queue, "x", 1, 0, &then) == -1 && errno == ETIMEDOUT);
    CHECK(mq_send(queue, message, 21, 0) == -1 && errno == EMSGSIZE && mq_receive(queue, message, 19, 0) == -1 && errno == EMSGSIZE);
    CHECK(mq_receive(queue, message, 100, &priority) == 5 && priority == 9 && !strcmp(message, "high"));
    CHECK(mq_receive(queue, message, 100, &priority) == 4 && priority == 1 && !strcmp(message, "low"));
    CHECK(mq_receive(queue, message, 100, NULL) == 4 && !strcmp(message, "too"));
    mqd_t other = mq_open("/queue", O_RDONLY | O_NONBLOCK);
    CHECK(other != -1 && mq_receive(other, message, 100, NULL) == -1 && errno == EAGAIN);
    CHECK(mq_send(other, "x", 1, 0) == -1 && errno == EBADF);
    CHECK(!mq_setattr(other, &(struct mq_attr){.mq_flags = 0}, &told) && told.mq_flags == O_NONBLOCK);
    struct sigaction action = {.sa_sigaction = notice, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 55};
    CHECK(!mq_notify(queue, &event) && mq_notify(queue, &event) == -1 && errno == EBUSY);
    pid_t child = fork();
    if (!child) _exit(mq_send(queue, "from child", 11, 0) ? 1 : 0);
    CHECK(status_of(child) == 0);
    while (!noticed) usleep(1000);
    CHECK(noticed == 55 && mq_receive(other, message, 100, NULL) == 11);
    child = fork();
    if (!child) _exit(mq_receive(queue, message, 100, NULL) == 5 ? 6 : 7);
    usleep(20000);
    CHECK(!mq_send(queue, "later", 5, 0) && status_of(child) == 6 << 8);
    CHECK(!mq_unlink("/queue") && mq_unlink("/queue") == -1 && errno == ENOENT);
    CHECK(!mq_send(queue, "still", 6, 0) && mq_receive(queue, message, 100, NULL) == 6);
    CHECK(!mq_close(queue) && !mq_close(other) && mq_close(other) == -1 && errno == EBADF);
    puts("POSIX message queues");
}

static void names(void) {
    sem_unlink("/semaphore");
    sem_t *semaphore = sem_open("/semaphore", O_CREAT | O_EXCL, 0600, 0);
    CHECK(semaphore != SEM_FAILED);
    int memory = shm_open("/memory", O_CREAT | O_RDWR, 0600);
    CHECK(memory >= 0 && !ftruncate(memory, 4096));
    volatile int *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    pid_t child = fork();
    if (!child) {
        sem_t *again = sem_open("/semaphore", 0);
        CHECK(again != SEM_FAILED && !sem_wait(again));
        _exit(*word);
    }
    *word = 12;
    CHECK(!sem_post(semaphore) && status_of(child) == 12 << 8);
    CHECK(!sem_unlink("/semaphore") && !shm_unlink("/memory") && sem_open("/semaphore", 0) == SEM_FAILED && errno == ENOENT);
    puts("semaphores and memory with names");
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IONBF, 0);
    if (count > 1 && !strcmp(arguments[1], "attach")) return attach();
    semaphores();
    messages();
    shared_memory();
    shared_memory_mapped();
    queues();
    names();
}
