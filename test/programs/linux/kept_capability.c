/*
 * A user who was user 0 and kept the capability for low ports binds them, as name servers do; until it gives the
 * capability up or executes a program. One that kept nothing binds none. The output is Linux's.
 *
 * Usage: kept_capability; with an argument it only binds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void bind_low(const char *who) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(53), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int kind = SOCK_STREAM; kind <= SOCK_DGRAM; kind++) {
        int made = socket(AF_INET, kind, 0);
        printf("%s, %s: %s\n", who, kind == SOCK_STREAM ? "stream" : "datagrams",
               bind(made, (struct sockaddr *)&to, sizeof to) ? strerrorname_np(errno) : "bound");
        close(made);
    }
    fflush(stdout);
}

static void have(unsigned capabilities) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2] = {{capabilities, capabilities, 0}};
    if (syscall(SYS_capset, &header, sets)) perror("capset");
}

static void become_user(int keeps, unsigned capabilities) {
    prctl(PR_SET_KEEPCAPS, keeps);
    have(capabilities | 1 << CAP_SETUID);
    if (setresuid(1000, 1000, 1000)) perror("setresuid");
    if (keeps) have(capabilities);
}

static void in_child(void (*what)(const char *), const char *argument) {
    fflush(stdout);
    if (fork() == 0) {
        what(argument);
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
}

static void keeps(const char *program) {
    become_user(1, 1 << CAP_NET_BIND_SERVICE);
    bind_low("it kept the capability");
    in_child(bind_low, "its child");
    have(0);
    bind_low("it gave it up");
    (void)program;
}

static void executes(const char *program) {
    become_user(1, 1 << CAP_NET_BIND_SERVICE);
    execl(program, program, "it executed a program", NULL);
}

static void keeps_another(const char *program) {
    become_user(1, 1 << CAP_CHOWN);
    bind_low("it kept another one");
    (void)program;
}

static void keeps_none(const char *program) {
    become_user(0, 1 << CAP_NET_BIND_SERVICE);
    bind_low("it kept none");
    (void)program;
}

int main(int count, char **arguments) {
    if (count > 1) {
        bind_low(arguments[1]);
        return 0;
    }
    in_child(keeps, arguments[0]);
    in_child(executes, arguments[0]);
    in_child(keeps_another, arguments[0]);
    in_child(keeps_none, arguments[0]);
    bind_low("user 0");
    return 0;
}
