// A program in C, compiled by the host's compiler, and the same on both sides.
// Calls on processes at their edges: slack of timers, timers by the time that was used, waits beside signals, stacks of clone3, schedules that children do not get, copied messages, locked segments.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <mqueue.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void tell(const char *what, long result)
{
	if (result < 0) printf("%s: %s\n", what, strerrorname_np(errno));
	else printf("%s: fine\n", what);
}

static int child_of(int (*action)(void))
{
	int status;
	pid_t child = fork();
	if (!child) _exit(action());
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void settings(void)
{
	printf("== settings\n");
	prctl(PR_SET_TIMERSLACK, 70000);
	if (!fork()) {
		prctl(PR_SET_TIMERSLACK, 90000);
		prctl(PR_SET_TIMERSLACK, 0);
		printf("slack of a child %d\n", prctl(PR_GET_TIMERSLACK)), fflush(stdout), _exit(0);
	}
	waitpid(-1, 0, 0);
	prctl(PR_SET_TIMERSLACK, 0);
	printf("slack %d\n", prctl(PR_GET_TIMERSLACK));
}

static volatile sig_atomic_t times, with;
static void count(int number, siginfo_t *info, void *context) { times++, with = info->si_value.sival_int; }

static void work_until(int wanted, clockid_t clock)
{
	struct timespec now;
	do clock_gettime(clock, &now); while (times < wanted && now.tv_sec < 20);
}

static void timers(void)
{
	printf("== timers\n");
	struct sigaction action = {.sa_sigaction = count, .sa_flags = SA_SIGINFO};
	sigaction(SIGUSR1, &action, 0);
	clockid_t clocks[] = {CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, CLOCK_TAI};
	for (int i = 0; i < 3; i++) {
		struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 7 + i};
		struct itimerspec time = {.it_value = {0, 20000000}, .it_interval = {0, 10000000}}, rest;
		timer_t timer;
		times = 0;
		tell("create", timer_create(clocks[i], &event, &timer));
		timer_gettime(timer, &rest);
		printf("rest %ld", rest.it_value.tv_nsec);
		timer_settime(timer, 0, &time, 0);
		work_until(3, CLOCK_PROCESS_CPUTIME_ID);
		printf(", times %d with %d", times >= 3, with);
		time.it_value.tv_nsec = time.it_interval.tv_nsec = 0, time.it_value.tv_sec = 100;
		timer_settime(timer, 0, &time, &rest);
		timer_gettime(timer, &rest);
		printf(", rest %d\n", rest.it_value.tv_sec >= 98 && rest.it_value.tv_sec <= 100);
		tell("delete", timer_delete(timer));
	}
	struct sigevent odd = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
	odd._sigev_un._tid = 1;
	timer_t timer;
	tell("another's thread", syscall(SYS_timer_create, CLOCK_MONOTONIC, &odd, &timer));
	tell("raw clock", syscall(SYS_timer_create, CLOCK_MONOTONIC_RAW, 0, &timer));
	struct timespec little = {0, 1000};
	clockid_t sleeps[] = {CLOCK_REALTIME, CLOCK_TAI, CLOCK_BOOTTIME, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE, CLOCK_THREAD_CPUTIME_ID};
	for (int i = 0; i < 7; i++) printf("%s ", syscall(SYS_clock_nanosleep, sleeps[i], 0, &little, 0) ? strerrorname_np(errno) : "slept");
	clockid_t first;
	printf("\nclock of the first process: %d\n", clock_getcpuclockid(1, &first));
}

static void ignore(int number) { (void)number; }

static void waits(void)
{
	printf("== waits\n");
	struct sigaction action = {.sa_handler = ignore};
	sigaction(SIGUSR2, &action, 0);
	int found = 0;
	for (int i = 0; i < 40; i++) {
		struct clone_args how = {.exit_signal = SIGUSR2};
		pid_t child = syscall(SYS_clone3, &how, sizeof how);
		if (!child) _exit(3);
		int status, again = 0;
		while (waitpid(child, &status, __WALL) < 0 && errno == EINTR) again++;
		found += !again && WEXITSTATUS(status) == 3;
	}
	printf("found though their signals have handlers: %d\n", found);
	sigset_t set;
	sigemptyset(&set), sigaddset(&set, SIGUSR2);
	for (int i = 0; i < 2; i++) {
		if (i) sigprocmask(SIG_BLOCK, &set, 0);
		pid_t own = getpid(), child = fork();
		if (!child) usleep(100000), kill(own, SIGUSR2), _exit(0);
		siginfo_t info;
		int got = sigwaitinfo(&set, &info);
		if (got < 0) tell("waited", got);
		else printf("waited for what has a handler: %d %d\n", got == SIGUSR2, info.si_pid == child);
		waitpid(child, 0, 0);
	}
	sigprocmask(SIG_UNBLOCK, &set, 0);
	struct sigaction once = {.sa_handler = ignore, .sa_flags = SA_RESETHAND | SA_RESTART}, after;
	sigaction(SIGUSR2, &once, 0), raise(SIGUSR2), sigaction(SIGUSR2, 0, &after);
	printf("handled once: %d %d\n", after.sa_handler == SIG_DFL, (after.sa_flags & SA_RESTART) != 0);
	tell("thread 0", syscall(SYS_tkill, 0, 0));
	tell("negative thread", syscall(SYS_tkill, -5, 0));
	tell("pending of too many", syscall(SYS_rt_sigpending, &set, 16));
}

static void clones(void)
{
	printf("== clones\n");
	char *stack = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct { struct clone_args known; uint64_t unknown; } how = {.known = {.exit_signal = SIGCHLD, .stack = (uintptr_t)stack}};
	tell("stack without size", syscall(SYS_clone3, &how, sizeof how.known));
	how.known.stack = 0, how.known.stack_size = 4096;
	tell("size without stack", syscall(SYS_clone3, &how, sizeof how.known));
	how.known.stack_size = 0, how.unknown = 1;
	tell("more than is known", syscall(SYS_clone3, &how, sizeof how));
	tell("much more", syscall(SYS_clone3, &how, 8192));
	how.unknown = 0;
	pid_t child = syscall(SYS_clone3, &how, sizeof how);
	if (!child) _exit(0);
	tell("more that is 0", child);
	waitpid(child, 0, 0);
	char byte;
	struct iovec here = {&byte, 1}, there = {(void *)-1, 1};
	tell("memory nowhere", process_vm_readv(getpid(), &here, 1, &there, 1, 0));
	tell("pieces nowhere", process_vm_writev(getpid(), &here, 1, (void *)-1, 2, 0));
	void *page = mmap((void *)0, 4096, PROT_READ, 0xf | MAP_ANONYMOUS, -1, 0);
	tell("odd type of mapping", page == MAP_FAILED ? -1 : 0);
	page = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | 63u << 26, -1, 0);
	tell("odd size of pages", page == MAP_FAILED ? -1 : 0);
}

static int group_of_executed(void)
{
	int ready[2];
	char byte;
	if (pipe(ready)) return 1;
	pid_t child = fork();
	if (!child) {
		dup2(ready[1], 1);
		execl("/bin/sh", "sh", "-c", "echo x; exec sleep 20", (char *)0);
		_exit(1);
	}
	if (read(ready[0], &byte, 1) != 1) return 2;
	int outcome = setpgid(child, child) ? errno : 0;
	kill(child, SIGKILL);
	waitpid(child, 0, 0);
	return outcome;
}

static int policy_of_child(void)
{
	struct sched_param parameter;
	sched_getparam(0, &parameter);
	return sched_getscheduler(0) * 10 + parameter.sched_priority;
}

/* A child that has ended is asked as one that lives, and told, too. */
static void of_child(const char *what)
{
	struct sched_param parameter = {77};
	pid_t child = fork();
	if (!child) _exit(0);
	siginfo_t ended;
	waitid(P_PID, child, &ended, WEXITED | WNOWAIT);
	printf("%s: policy %d", what, sched_getscheduler(child));
	sched_getparam(child, &parameter);
	printf(", parameter %d", parameter.sched_priority);
	printf(", nice %d", getpriority(PRIO_PROCESS, child));
	printf(", set %d", setpriority(PRIO_PROCESS, child, 7));
	parameter.sched_priority = 0;
	printf(" %d\n", sched_setscheduler(child, SCHED_BATCH, &parameter));
	waitpid(child, 0, 0);
}

static void schedules_of_children(void)
{
	of_child("batch, reset");
	setpriority(PRIO_PROCESS, 0, 5), of_child("batch, reset, nice");
}

static void schedules(void)
{
	printf("== schedules\n");
	printf("group of who executed: %s\n", strerrorname_np(child_of(group_of_executed)));
	struct sched_param parameter = {0};
	tell("reset on fork", sched_setscheduler(0, SCHED_BATCH | SCHED_RESET_ON_FORK, &parameter));
	printf("own %x, child's %d\n", sched_getscheduler(0), child_of(policy_of_child));
	schedules_of_children();
	tell("no parameter", syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, 0));
	tell("none to set", syscall(SYS_sched_setparam, 0, 0));
	tell("none to get", syscall(SYS_sched_getparam, 0, 0));
	tell("no attributes", syscall(SYS_sched_setattr, 0, 0, 0));
	tell("no room for them", syscall(SYS_sched_getattr, 0, 0, 48, 0));
	printf("deadlines %d %d\n", sched_get_priority_min(6), sched_get_priority_max(6));
}

static void objects(void)
{
	printf("== objects\n");
	struct { long kind; char text[16]; } one = {3, "one"}, two = {4, "second"}, got;
	int queue = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
	msgsnd(queue, &one, 4, 0), msgsnd(queue, &two, 7, 0);
	tell("copy that waits", msgrcv(queue, &got, 16, 0, MSG_COPY));
	tell("copy of all but one", msgrcv(queue, &got, 16, 0, MSG_COPY | IPC_NOWAIT | MSG_EXCEPT));
	struct msqid_ds left;
	msgctl(queue, IPC_RMID, &left);
	int segment = shmget(0x5e61, 4096, IPC_CREAT | 0644);
	struct shmid_ds status;
	shmctl(segment, IPC_STAT, &status);
	printf("mode %o", status.shm_perm.mode);
	tell(", lock", shmctl(segment, SHM_LOCK, 0));
	shmctl(segment, IPC_STAT, &status);
	printf("mode %o", status.shm_perm.mode);
	shmctl(segment, IPC_SET, &status), shmctl(segment, IPC_STAT, &status);
	printf(" %o", status.shm_perm.mode);
	tell(", unlock", shmctl(segment, SHM_UNLOCK, 0));
	shmctl(segment, IPC_STAT, &status);
	printf("mode %o\n", status.shm_perm.mode);
	shmctl(segment, IPC_RMID, 0);
	struct sigevent event = {.sigev_notify = 77};
	tell("odd notice", syscall(SYS_mq_notify, 0, &event));
	event.sigev_notify = SIGEV_SIGNAL, event.sigev_signo = 65;
	tell("notice by no signal", syscall(SYS_mq_notify, 0, &event));
	struct rlimit before, none;
	getrlimit(RLIMIT_NOFILE, &before);
	none = before, none.rlim_cur = 0;
	setrlimit(RLIMIT_NOFILE, &none);
	tell("no descriptors", open("/dev/null", O_RDONLY));
	tell("none to copy to", fcntl(1, F_DUPFD, 5));
	setrlimit(RLIMIT_NOFILE, &before);
	void *head;
	size_t bytes;
	tell("list of nobody", syscall(SYS_get_robust_list, 999999, &head, &bytes));
}

int main(void)
{
	setvbuf(stdout, 0, _IONBF, 0);
	settings();
	timers();
	waits();
	clones();
	schedules();
	objects();
	return 0;
}
