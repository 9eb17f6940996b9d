// Who logged in (/proc/PID/loginuid), as sshd, cron and login note it by pam_loginuid: noted once, and inherited by
// children, programs and users. One line for each step.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *told(const char *path) {
    static char text[64];
    int file = open(path, O_RDONLY);
    ssize_t bytes = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    if (bytes < 0) return strerrorname_np(errno);
    text[bytes] = 0;
    return text;
}

/* As pam_loginuid does it: the file is read, cut and written. */
static const char *note(const char *user) {
    int file = open("/proc/self/loginuid", O_RDWR | O_NOFOLLOW);
    if (file < 0) return strerrorname_np(errno);
    char before[32];
    const char *outcome = read(file, before, sizeof before) > 0 && !lseek(file, 0, SEEK_SET) && !ftruncate(file, 0)
            && write(file, user, strlen(user)) == (ssize_t)strlen(user) ? "done" : strerrorname_np(errno);
    close(file);
    return outcome;
}

static void in_child(void (*work)(const char *), const char *own) {
    fflush(stdout);
    if (!fork()) {
        work(own);
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
}

static void executes(const char *own) {
    execl(own, own, "asked", NULL);
}

static void becomes_another(const char *own) {
    (void)own;
    if (setresuid(1000, 1000, 1000) || prctl(PR_SET_DUMPABLE, 1)) printf("to another user: %s\n", strerrorname_np(errno));
    printf("as another user: %s", told("/proc/self/loginuid"));
    printf(", noted again: %s\n", note("7"));
}

int main(int count, char **arguments) {
    if (count > 1) {
        printf("a program: %s\n", told("/proc/self/loginuid"));
        return 0;
    }
    printf("at first: %s", told("/proc/self/loginuid"));
    printf(", session %s\n", told("/proc/self/sessionid"));
    printf("nonsense: %s", note("x"));
    printf(", %s", note("-1"));
    printf(", %s\n", note("4294967296"));
    char session[64];
    printf("noted: %s\n", note("1000"));
    strcpy(session, told("/proc/self/sessionid"));
    printf("then: %s, session %s\n", told("/proc/self/loginuid"), strcmp(session, "4294967295") ? "there" : "none");
    in_child(executes, arguments[0]);
    in_child(becomes_another, arguments[0]);
    printf("noted again: %s", note("5"));
    printf(", %s\n", told("/proc/self/loginuid"));
    printf("taken back: %s", note("4294967295"));
    printf(", %s\n", told("/proc/self/loginuid"));
    printf("process 1: %s", told("/proc/1/loginuid"));
    printf(", its limits: %.17s\n", told("/proc/1/limits"));
}
