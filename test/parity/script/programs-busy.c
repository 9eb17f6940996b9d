// Programs that are open to be written do not run, and those that run are not written to (ETXTBSY); scripts and
// other files among them, and programs of odd modes.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void tell(const char *what, long result) {
    printf("%s: %ld %s\n", what, result, result < 0 ? strerrorname_np(errno) : "");
    fflush(stdout);
}
static int finish(const char *what, pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    printf("%s: status %x\n", what, status);
    fflush(stdout);
    return status;
}
static void run(const char *what, int file, const char *path, const char *word) {
    pid_t child = fork();
    if (child == 0) {
        char *arguments[] = {(char *)path, (char *)word, NULL}, *environment[] = {"PATH=/usr/bin:/bin", NULL};
        if (file >= 0) fexecve(file, arguments, environment);
        else execve(path, arguments, environment);
        tell(what, -1), exit(9);
    }
    finish(what, child);
}
static void copy_to(const char *from, const char *to, int mode) {
    static char bytes[65536];
    int in = open(from, O_RDONLY), out = open(to, O_CREAT | O_TRUNC | O_WRONLY, 0700);
    for (ssize_t got; (got = read(in, bytes, sizeof bytes)) > 0;) if (write(out, bytes, got) != got) exit(1);
    fchmod(out, mode), close(in), close(out);
}
static void text_to(const char *to, const char *text, int mode) {
    int out = open(to, O_CREAT | O_TRUNC | O_WRONLY, 0700);
    if (write(out, text, strlen(text)) < 0) exit(1);
    fchmod(out, mode), close(out);
}

static void writers(void) {
    copy_to("/bin/echo", "echo", 0755);
    int writer = open("echo", O_WRONLY);
    run("open to be written", -1, "./echo", "hello"), close(writer), run("closed", -1, "./echo", "hello");
    writer = open("echo", O_RDWR);
    void *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, writer, 0);
    close(writer), run("mapped", -1, "./echo", "hello"), munmap(mapped, 4096);
    run("not mapped any more", -1, "./echo", "hello");
    pid_t child = fork();
    int ends[2];
    if (child == 0) open("echo", O_WRONLY | O_APPEND), pause();
    for (usleep(100000), writer = 0; writer < 1; writer++) run("open in another process", -1, "./echo", "hello");
    kill(child, SIGKILL), finish("that one", child), run("ended", -1, "./echo", "hello");
    text_to("script", "#!/bin/sh\necho script $1\n", 0755), writer = open("script", O_WRONLY);
    run("script", -1, "./script", "one"), close(writer), run("script closed", -1, "./script", "two");
    copy_to("/bin/echo", "other", 0755), writer = open("other", O_RDONLY);
    run("by a descriptor", writer, "other", "hello"), close(writer);
    if (pipe(ends)) exit(1);
    int nameless = memfd_create("program", 0);
    static char bytes[65536];
    writer = open("/bin/echo", O_RDONLY);
    for (ssize_t got; (got = read(writer, bytes, sizeof bytes)) > 0;) if (write(nameless, bytes, got) != got) exit(1);
    run("without a name", nameless, "nameless", "hello"), close(nameless), close(writer);
}

static void running(void) {
    int ends[2];
    if (pipe(ends)) exit(1);
    copy_to("/bin/cat", "cat", 0755);
    pid_t child = fork();
    if (child == 0) close(ends[1]), dup2(ends[0], 0), execl("./cat", "cat", NULL), exit(1);
    char path[64], link[256];
    for (snprintf(path, sizeof path, "/proc/%d/exe", child); readlink(path, link, sizeof link) < 4 || !memmem(link, 256, "/cat", 4);) usleep(10000);
    tell("to be written", open("cat", O_WRONLY)), tell("both", open("cat", O_RDWR)), tell("append", open("cat", O_WRONLY | O_APPEND));
    tell("truncate", truncate("cat", 10)), tell("cut when opened", open("cat", O_RDONLY | O_TRUNC));
    tell("read", close(open("cat", O_RDONLY))), tell("chmod", chmod("cat", 0700));
    copy_to("/bin/cat", "new", 0755), tell("replaced", rename("new", "cat")), tell("now", close(open("cat", O_WRONLY)));
    close(ends[0]), close(ends[1]), finish("cat", child), tell("ended", truncate("cat", 10));
    text_to("script", "#!/bin/sh\necho first; echo 'echo last' >> script\n", 0755), run("a script changes itself", -1, "./script", "");
}

// What user 0 may do with programs of some modes; for others see the test of set-id programs.
static void modes(void) {
    copy_to("/bin/echo", "own", 0111), run("0111", -1, "./own", "0111");
    copy_to("/bin/echo", "own", 04111), run("04111", -1, "./own", "04111");
    text_to("script", "#!/bin/echo the line\n", 0111), run("script", -1, "./script", "");
    text_to("junk", "junk\n", 0111), run("junk", -1, "./junk", ""), text_to("nobody's", "#!/bin/echo\n", 0444);
    run("not to be executed", -1, "./nobody's", "");
}

int main(void) {
    umask(022);
    writers(), running(), modes();
    return 0;
}
