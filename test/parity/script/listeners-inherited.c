// Listeners that were made before a fork and go on when their maker has ended, as every daemon's do; nobody connects when the last one is gone:
// by path and by abstract name, with one worker and several, in accept, poll, select and epoll, after makers that ended, were killed or executed a program.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ACCEPT, POLL, SELECT, EPOLL, EPOLL_BEFORE };
static const char *const MANNERS[] = {"accept", "poll", "select", "epoll", "epoll of before"};

static struct sockaddr_un name;
static socklen_t length;
static int ready[2];

static void be_named(const char *path) {
    memset(&name, 0, sizeof name);
    name.sun_family = AF_UNIX;
    strcpy(name.sun_path + (*path == '@'), path + (*path == '@'));
    length = offsetof(struct sockaddr_un, sun_path) + strlen(path) + (*path != '@');
    if (*path != '@') unlink(path);
}
static int listener(int kind) {
    int fresh = socket(AF_UNIX, kind, 0);
    if (bind(fresh, (void *)&name, length) || listen(fresh, 20)) perror("listener"), exit(1);
    return fresh;
}
static int joined(int kind) {
    int fresh = socket(AF_UNIX, kind, 0);
    if (connect(fresh, (void *)&name, length) == 0) return fresh;
    int error = errno;
    close(fresh);
    errno = error;
    return -1;
}

// Says hello to whoever connects, for so many of them.
static void serve(int listening, int many, int manner, int set) {
    if (manner == EPOLL) {
        struct epoll_event wanted = {.events = EPOLLIN};
        set = epoll_create1(0);
        epoll_ctl(set, EPOLL_CTL_ADD, listening, &wanted);
    }
    if (manner != ACCEPT) fcntl(listening, F_SETFL, O_NONBLOCK);
    while (many > 0) {
        struct pollfd one = {listening, POLLIN, 0};
        struct epoll_event event;
        fd_set some;
        FD_ZERO(&some);
        FD_SET(listening, &some);
        if (manner == POLL) poll(&one, 1, -1);
        if (manner == SELECT) select(listening + 1, &some, NULL, NULL, NULL);
        if (manner >= EPOLL) epoll_wait(set, &event, 1, -1);
        int open = accept(listening, NULL, NULL);
        if (open < 0) continue;
        char question[20] = {0}, text[60];
        ssize_t got = read(open, question, sizeof question - 1);
        int size = sprintf(text, "%zd bytes: %s, hello", got, question);
        if (write(open, text, size) != size) _exit(9);
        close(open), many--;
    }
}
static void ask(int kind, const char *question) {
    int open = joined(kind);
    if (open < 0) {
        printf("connect: %s\n", strerrorname_np(errno));
        return;
    }
    char answer[100] = {0};
    if (write(open, question, strlen(question)) < 0) puts("not written");
    ssize_t got = read(open, answer, sizeof answer - 1);
    printf("%zd bytes: %s\n", got, answer);
    close(open);
}
static void wait_for_end(int kind) {
    // Who has just ended may not be gone yet.
    for (int i = 0; i < 400; i++) {
        int open = joined(kind);
        if (open < 0) break;
        close(open), usleep(5000);
    }
    int open = joined(kind);
    printf("in the end: %s\n", open < 0 ? strerrorname_np(errno) : "somebody is there");
}

// A process that makes a listener and workers, and ends; the workers serve so many each.
static void daemon_of(int kind, int workers, int each, int manner, int how) {
    fflush(stdout);
    if (pipe(ready)) exit(1);
    pid_t maker = fork();
    if (maker == 0) {
        close(ready[0]);
        int listening = listener(kind), set = epoll_create1(0), gone[2];
        struct epoll_event wanted = {.events = EPOLLIN};
        epoll_ctl(set, EPOLL_CTL_ADD, listening, &wanted);
        if (pipe(gone)) _exit(1);
        for (int i = 0; i < workers; i++)
            if (fork() == 0) {
                char byte;
                close(gone[1]);
                // The maker is gone when this is at its end.
                if (read(gone[0], &byte, 1) != 0 || write(ready[1], "", 1) != 1) _exit(1);
                close(ready[1]), close(gone[0]);
                serve(listening, each, manner, set);
                _exit(0);
            }
        if (how == 1) kill(getpid(), SIGKILL);
        if (how == 2) execl("/bin/true", "true", NULL);
        _exit(0);
    }
    close(ready[1]);
    waitpid(maker, NULL, 0);
    char bytes[20];
    int all = 0;
    for (ssize_t got; all < workers && (got = read(ready[0], bytes, sizeof bytes)) > 0;) all += got;
    close(ready[0]);
}

static void trial(int kind, const char *path, int workers, int each, int manner, int how) {
    static const char *const HOWS[] = {"ended", "was killed", "executed another program"};
    be_named(path);
    printf("%s, %s, %d workers by %s, their maker %s\n", kind == SOCK_STREAM ? "stream" : "packets", *path == '@' ? "abstract" : "path", workers, MANNERS[manner], HOWS[how]);
    daemon_of(kind, workers, each, manner, how);
    for (int i = 0; i < workers * each; i++) {
        char question[20];
        sprintf(question, "question %d", i);
        ask(kind, question);
    }
    while (wait(NULL) > 0) {}
    wait_for_end(kind);
}

// A child of a child of a child: each of them ends when the next one is there.
static void generations(void) {
    be_named("generations");
    fflush(stdout);
    if (pipe(ready)) exit(1);
    pid_t first = fork();
    if (first == 0) {
        int listening = listener(SOCK_STREAM);
        for (int i = 0; i < 4; i++) {
            int gone[2];
            char byte;
            if (pipe(gone)) _exit(1);
            if (fork() > 0) _exit(0);
            close(gone[1]);
            if (read(gone[0], &byte, 1) != 0) _exit(1);
            close(gone[0]);
        }
        if (write(ready[1], "", 1) != 1) _exit(1);
        serve(listening, 3, ACCEPT, -1);
        _exit(0);
    }
    char byte;
    close(ready[1]);
    waitpid(first, NULL, 0);
    if (read(ready[0], &byte, 1) != 1) puts("nobody is ready");
    close(ready[0]);
    for (int i = 0; i < 3; i++) ask(SOCK_STREAM, "generations");
    while (wait(NULL) > 0) {}
    wait_for_end(SOCK_STREAM);
}

// Who waits in the queue when the maker ends is served; who comes while all workers are killed is not.
static void queued(void) {
    be_named("queued");
    fflush(stdout);
    int go[2], made[2];
    if (pipe(go) || pipe(made)) exit(1);
    pid_t maker = fork();
    if (maker == 0) {
        int listening = listener(SOCK_STREAM);
        pid_t worker = fork();
        if (worker == 0) {
            char byte;
            close(go[1]);
            if (read(go[0], &byte, 1) != 1) _exit(1);
            serve(listening, 3, ACCEPT, -1);
            pause();
        }
        if (write(made[1], &worker, sizeof worker) != sizeof worker) _exit(1);
        pause();
    }
    pid_t worker;
    if (read(made[0], &worker, sizeof worker) != sizeof worker) exit(1);
    int early[3];
    for (int i = 0; i < 3; i++) {
        early[i] = joined(SOCK_STREAM);
        if (write(early[i], "early", 5) != 5) puts("not written");
        if (i == 1) kill(maker, SIGKILL), waitpid(maker, NULL, 0);
    }
    if (write(go[1], "", 1) != 1) exit(1);
    for (int i = 0; i < 3; i++) {
        char answer[100] = {0};
        ssize_t got = read(early[i], answer, sizeof answer - 1);
        printf("%zd bytes: %s\n", got, answer);
    }
    int late = joined(SOCK_STREAM);
    printf("late: %d\n", late >= 0);
    kill(worker, SIGKILL);
    while (wait(NULL) > 0) {}
    wait_for_end(SOCK_STREAM);
    for (int i = 0; i < 3; i++) close(early[i]);
    close(late), close(go[0]), close(go[1]), close(made[0]), close(made[1]);
}

// The child listens, where its parent has bound; the parent closes, and accepts nothing.
static void closed_by_maker(void) {
    be_named("closed");
    fflush(stdout);
    int listening = listener(SOCK_STREAM);
    pid_t child = fork();
    if (child == 0) serve(listening, 2, POLL, -1), _exit(0);
    close(listening);
    ask(SOCK_STREAM, "closed"), ask(SOCK_STREAM, "closed again");
    waitpid(child, NULL, 0);
    wait_for_end(SOCK_STREAM);
}

int main(void) {
    char folder[] = "/tmp/listeners-XXXXXX", abstract[60];
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (!mkdtemp(folder) || chdir(folder)) return 1;
    sprintf(abstract, "@chitin-listeners-%d", getpid());
    for (int how = 0; how < 3; how++) {
        trial(SOCK_STREAM, "stream", 1, 3, ACCEPT, how);
        trial(SOCK_STREAM, abstract, 1, 3, ACCEPT, how);
    }
    trial(SOCK_SEQPACKET, "packets", 1, 2, ACCEPT, 0);
    for (int manner = ACCEPT; manner <= EPOLL_BEFORE; manner++) {
        trial(SOCK_STREAM, "many", 3, 1, manner, 0);
        trial(SOCK_STREAM, abstract, 2, 1, manner, 1);
    }
    generations();
    queued();
    closed_by_maker();
    unlink("stream"), unlink("packets"), unlink("many"), unlink("generations"), unlink("queued"), unlink("closed");
    return chdir("/") | rmdir(folder);
}
