// The names of the host and of its domain: who sets them, how long they are, and where they are told.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *said(long value) { return value < 0 ? strerrorname_np(errno) : "fine"; }

static void line_of(const char *path) {
    char line[80];
    int file = open(path, O_RDONLY);
    long bytes = read(file, line, sizeof line);
    printf(" %.*s", bytes > 0 ? (int)bytes - 1 : 0, line);
    close(file);
}

static void told(const char *when) {
    struct utsname names;
    uname(&names);
    printf("%s: '%s' '%s',", when, names.nodename, names.domainname);
    line_of("/proc/sys/kernel/hostname"), line_of("/proc/sys/kernel/domainname");
    printf("\n");
}

int main(void) {
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-0123456789";
    struct utsname before;
    setvbuf(stdout, 0, _IONBF, 0);
    uname(&before);
    printf("host %s", said(sethostname("one", 3)));
    printf(", domain %s\n", said(setdomainname("two.three", 9)));
    told("short");
    printf("host %s", said(sethostname(letters, 64)));
    printf(", too long %s", said(sethostname(letters, 65)));
    printf(", less %s", said(syscall(SYS_sethostname, letters, -1)));
    printf(", nowhere %s", said(syscall(SYS_sethostname, (void *)16, 3)));
    printf(", domain too long %s\n", said(setdomainname(letters, 65)));
    told("long");
    printf("a part %s\n", said(sethostname(letters + 10, 2)));
    if (!fork()) {
        told("a child");
        printf("it says %s\n", said(sethostname("child", 5)));
        _exit(0);
    }
    wait(0);
    told("then");
    printf("none %s\n", said(sethostname("", 0)));
    told("none");
    sethostname(before.nodename, strlen(before.nodename)), setdomainname(before.domainname, strlen(before.domainname));
    struct utsname after;
    uname(&after);
    printf("as before: %s\n", memcmp(&before, &after, sizeof before) ? "no" : "yes");
    unsigned head[2] = {_LINUX_CAPABILITY_VERSION_3, 0}, none[6] = {0};
    if (syscall(SYS_capset, head, none)) return 1;
    printf("without rights: host %s", said(sethostname("x", 1)));
    printf(", domain %s\n", said(setdomainname("x", 1)));
    return 0;
}
