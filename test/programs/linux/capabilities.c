// Capabilities that user 0 gives up, one or a few at a time, and the calls that need them: files, names, owners,
// signals, ports, users, groups, queues, priorities. Then threads, children and programs. Each line names the calls
// that fail.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(what) do { if ((what) < 0) { perror(#what); exit(1); } } while (0)
#define BIT(capability) (1ULL << (capability))
typedef unsigned long long set;
static pid_t other;
static int queue;
static const char *program;

static void sets(set *effective, set *permitted)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2];
	MUST(syscall(SYS_capget, &head, data));
	*effective = data[0].effective | (set)data[1].effective << 32;
	*permitted = data[0].permitted | (set)data[1].permitted << 32;
}
static int set_sets(set effective, set permitted)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2] = {{effective, permitted, 0}, {effective >> 32, permitted >> 32, 0}};
	return syscall(SYS_capset, &head, data);
}
static void lack(set some)
{
	set effective, permitted;
	sets(&effective, &permitted);
	MUST(set_sets(effective & ~some, permitted));
}

static const char *how(long result) { return result < 0 ? strerrorname_np(errno) : "0"; }
/* How far the line is written. */
static int column;
static void note(const char *call, const char *result, int error)
{
	if (error == 0) return;
	char text[128];
	int length = snprintf(text, sizeof text, " %s %s;", call, result);
	if (column + length > 110) column = printf("\n") - 1;
	column += printf("%s", text);
}
#define TELL(call) do { long result_ = (call); const char *text_ = how(result_); note(#call, text_, result_ < 0 ? errno : 0); } while (0)
static int opens(const char *path, int flags)
{
	int file = open(path, flags, 0600);
	if (file >= 0) close(file);
	return file;
}
static int enters(const char *path)
{
	int result = chdir(path);
	if (result == 0) MUST(chdir(".."));
	return result;
}
static int binds(int port)
{
	int number = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	struct sockaddr_in at = {AF_INET, htons(port), {htonl(INADDR_LOOPBACK)}, {0}};
	setsockopt(number, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	int result = bind(number, (void *)&at, sizeof at), error = errno;
	close(number);
	errno = error;
	return result;
}
static int by_child(int (*action)(void))
{
	pid_t child = fork();
	if (child == 0) _exit(action() < 0 ? errno : 0);
	int status;
	waitpid(child, &status, 0);
	errno = WEXITSTATUS(status);
	return errno ? -1 : 0;
}
static int becomes_user(void) { return setuid(5); }
static int changes_users(void) { return setresuid(7, 7, 7); }
static int becomes_group(void) { return setgid(5); }
static int joins_groups(void) { gid_t some = 9; return setgroups(1, &some); }
static int enters_root(void) { return chroot("."); }
static int hurries(void) { return setpriority(PRIO_PROCESS, 0, -3); }
static int is_first(void) { struct sched_param one = {1}; return sched_setscheduler(0, SCHED_FIFO, &one); }
static int joins_raw(void) { return socket(AF_INET, SOCK_RAW, 1); }
static int touches(const char *path, long seconds)
{
	struct timespec times[2] = {{seconds, 0}, {seconds, 0}};
	return utimensat(AT_FDCWD, path, seconds ? times : NULL, 0);
}
static int writes_program(void)
{
	int file = open("program", O_WRONLY);
	if (file < 0) return -1;
	int result = write(file, "x", 1);
	close(file);
	struct stat status;
	MUST(stat("program", &status));
	errno = EALREADY;
	return status.st_mode & 04000 ? result : -1;
}
static int receives(void)
{
	char room[64];
	return msgrcv(queue, room, 8, 0, IPC_NOWAIT);
}
static int asks_queue(void) { struct msqid_ds state; return msgctl(queue, IPC_STAT, &state); }
static int sets_queue(void)
{
	struct msqid_ds state = {.msg_perm = {.uid = 1000, .gid = 1000, .mode = 0}, .msg_qbytes = 16384};
	return msgctl(queue, IPC_SET, &state);
}
static int opens_named_queue(void)
{
	mqd_t number = mq_open("/chitin-closed", O_RDONLY);
	if (number != (mqd_t)-1) mq_close(number);
	return number == (mqd_t)-1 ? -1 : 0;
}

static void try_all(void)
{
	TELL(opens("closed", O_RDONLY));
	TELL(opens("closed", O_WRONLY));
	TELL(opens("closed", O_RDWR | O_TRUNC));
	TELL(opens("open", O_RDWR));
	TELL(access("closed", R_OK | W_OK));
	TELL(eaccess("closed", R_OK));
	TELL(eaccess("closed", W_OK));
	TELL(eaccess("closed", X_OK));
	TELL(opens("folder", O_RDONLY | O_DIRECTORY));
	TELL(access("folder/inner", F_OK));
	TELL(opens("folder/inner", O_RDONLY));
	TELL(opens("folder/fresh", O_WRONLY | O_CREAT));
	TELL(mkdir("folder/deep", 0755));
	TELL(rename("folder/inner", "folder/moved"));
	TELL(rename("folder/moved", "folder/inner"));
	TELL(rmdir("folder/deep"));
	TELL(unlink("folder/fresh"));
	TELL(enters("folder"));
	TELL(rename("common/theirs", "common/mine"));
	TELL(unlink("common/theirs"));
	TELL(unlink("common/mine"));
	TELL(chmod("open", 0666));
	TELL(chown("open", 1001, -1));
	TELL(chown("open", -1, 1001));
	TELL(chown("open", 1000, 1000));
	TELL(chown("own", 1001, -1));
	TELL(chown("own", -1, 1001));
	TELL(chown("own", 0, 0));
	TELL(touches("open", 0));
	TELL(touches("open", 1000000000));
	TELL(touches("readable", 0));
	TELL(touches("readable", 1000000000));
	TELL(opens("readable", O_RDONLY | O_NOATIME));
	TELL(mknod("device", S_IFCHR | 0600, makedev(1, 3)));
	unlink("device");
	TELL(truncate("closed", 3));
	TELL(writes_program());
	TELL(umount2("folder", 0));
	TELL(kill(other, 0));
	TELL(sigqueue(other, SIGCONT, (union sigval){0}));
	TELL(opens_named_queue());
	TELL(asks_queue());
	TELL(receives());
	TELL(sets_queue());
	TELL(binds(7));
	TELL(by_child(becomes_user));
	TELL(by_child(changes_users));
	TELL(by_child(becomes_group));
	TELL(by_child(joins_groups));
	TELL(by_child(enters_root));
	TELL(by_child(hurries));
	TELL(by_child(is_first));
	TELL(by_child(joins_raw));
}

static void make(const char *path, mode_t mode, uid_t user)
{
	int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	MUST(file);
	MUST(write(file, "text", 4));
	MUST(fchown(file, user, user));
	MUST(fchmod(file, mode));
	close(file);
}
static void prepare(void)
{
	make("closed", 0, 1000);
	make("open", 0666, 1000);
	make("readable", 0444, 1000);
	make("own", 0600, 0);
	make("program", 04755, 1000);
	mkdir("common", 0700);
	MUST(chmod("common", 01777));
	MUST(chown("common", 1000, 1000));
	unlink("common/mine"), make("common/theirs", 0644, 1001);
	mkdir("folder", 0700), make("folder/inner", 0644, 1000);
	MUST(chmod("folder", 0700));
	MUST(chown("folder", 1000, 1000));
	rmdir("folder/deep"), unlink("folder/fresh");
}

static void without(const char *name, set some)
{
	prepare();
	fflush(stdout);
	pid_t child = fork();
	MUST(child);
	if (child == 0) {
		column = printf("without %s:", name);
		/* What was open before is looked at again. */
		opens("closed", O_RDWR);
		lack(some);
		try_all();
		printf("\n");
		exit(0);
	}
	waitpid(child, NULL, 0);
}

static void *in_thread(void *unused)
{
	lack(BIT(CAP_DAC_OVERRIDE) | BIT(CAP_DAC_READ_SEARCH));
	printf(" in the thread: %s", how(opens("closed", O_RDONLY)));
	printf(", then %s\n", how(opens("folder/inner", O_RDONLY)));
	return unused;
}
static void threads_and_children(void)
{
	printf("threads and children\n");
	prepare();
	pthread_t thread;
	pthread_create(&thread, NULL, in_thread, NULL);
	pthread_join(thread, NULL);
	printf(" in the first one: %s\n", how(opens("closed", O_RDONLY)));
	fflush(stdout);
	if (fork() == 0) {
		lack(BIT(CAP_DAC_OVERRIDE) | BIT(CAP_DAC_READ_SEARCH));
		pid_t child = fork();
		if (child == 0) {
			printf(" in a child: %s\n", how(opens("closed", O_RDONLY)));
			exit(0);
		}
		waitpid(child, NULL, 0);
		set effective, permitted;
		sets(&effective, &permitted);
		MUST(set_sets(permitted, permitted));
		printf(" once it counts again: %s\n", how(opens("closed", O_RDONLY)));
		MUST(setresuid(-1, 1000, -1));
		printf(" as its owner, without rights: %s\n", how(opens("closed", O_RDONLY)));
		MUST(set_sets(BIT(CAP_DAC_OVERRIDE), permitted));
		printf(" as its owner, with the capability: %s\n", how(opens("closed", O_RDWR)));
		MUST(setresuid(-1, 0, -1));
		printf(" as user 0 again: %s\n", how(opens("closed", O_RDWR)));
		setfsuid(1001);
		printf(" with files as another user: %s\n", how(opens("closed", O_RDONLY)));
		setfsuid(0);
		printf(" with files as user 0: %s\n", how(opens("closed", O_RDONLY)));
		exit(0);
	}
	wait(NULL);
}

static void program_after(const char *what, set dropped, set bound, int no_new)
{
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		for (int one = 0; one <= 40; one++)
			if (bound & BIT(one)) MUST(prctl(PR_CAPBSET_DROP, one, 0, 0, 0));
		set effective, permitted;
		sets(&effective, &permitted);
		MUST(set_sets(effective & ~dropped, permitted & ~dropped));
		if (no_new) MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
		execl(program, program, what, NULL);
		exit(1);
	}
	waitpid(child, NULL, 0);
}

int main(int count, char **arguments)
{
	if (count > 1) {
		printf(" %s: %s,", arguments[1], how(opens("closed", O_RDONLY)));
		printf(" %s,", how(opens("folder/inner", O_RDONLY)));
		printf(" %s\n", how(chown("open", 1000, 1000)));
		return 0;
	}
	program = realpath("/proc/self/exe", NULL);
	mkdir("/tmp/capabilities", 0755);
	MUST(chdir("/tmp/capabilities"));
	other = fork();
	if (other == 0) {
		MUST(setresuid(1000, 1000, 1000));
		for (;;) pause();
	}
	mq_unlink("/chitin-closed");
	struct mq_attr room = {.mq_maxmsg = 1, .mq_msgsize = 8};
	mqd_t named = mq_open("/chitin-closed", O_RDWR | O_CREAT, 0, &room);
	MUST(named);
	MUST(fchown(named, 1000, 1000));
	MUST(seteuid(1000));
	queue = msgget(IPC_PRIVATE, 0);
	MUST(queue);
	MUST(seteuid(0));
	while (access("/proc/self/status", F_OK) == 0 && kill(other, 0) == 0) {
		char path[64], line[256];
		snprintf(path, sizeof path, "/proc/%d/status", other);
		FILE *status = fopen(path, "r");
		int user = 0;
		while (status && fgets(line, sizeof line, status)) sscanf(line, "Uid: %d", &user);
		if (status) fclose(status);
		if (user == 1000) break;
		usleep(10000);
	}
	without("nothing", 0);
	without("CAP_CHOWN", BIT(CAP_CHOWN));
	without("CAP_DAC_OVERRIDE", BIT(CAP_DAC_OVERRIDE));
	without("CAP_DAC_READ_SEARCH", BIT(CAP_DAC_READ_SEARCH));
	without("both", BIT(CAP_DAC_OVERRIDE) | BIT(CAP_DAC_READ_SEARCH));
	without("CAP_FOWNER", BIT(CAP_FOWNER));
	without("CAP_FSETID", BIT(CAP_FSETID));
	without("CAP_KILL", BIT(CAP_KILL));
	without("CAP_SETGID", BIT(CAP_SETGID));
	without("CAP_SETUID", BIT(CAP_SETUID));
	without("CAP_NET_BIND_SERVICE", BIT(CAP_NET_BIND_SERVICE));
	without("CAP_NET_RAW", BIT(CAP_NET_RAW));
	without("CAP_IPC_OWNER", BIT(CAP_IPC_OWNER));
	without("CAP_SYS_ADMIN", BIT(CAP_SYS_ADMIN));
	without("CAP_SYS_CHROOT", BIT(CAP_SYS_CHROOT));
	without("CAP_SYS_NICE", BIT(CAP_SYS_NICE));
	without("CAP_MKNOD", BIT(CAP_MKNOD));
	without("all", ~0ULL);
	threads_and_children();
	printf("programs\n");
	prepare();
	set files = BIT(CAP_DAC_OVERRIDE) | BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_CHOWN);
	program_after("given up", files, 0, 0);
	program_after("bounded", 0, files, 0);
	program_after("given up and bounded", files, files & ~BIT(CAP_CHOWN), 0);
	program_after("no new ones", files & ~BIT(CAP_CHOWN), 0, 1);
	kill(other, SIGKILL);
	mq_unlink("/chitin-closed");
	msgctl(queue, IPC_RMID, NULL);
	return 0;
}
