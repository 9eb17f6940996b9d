// Descriptors: as many as the limit allows, above the number that a process may have at first.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    struct rlimit limit;
    int file, status, count = 0;
    close_range(3, ~0u, 0);
    file = open("/dev/null", O_RDONLY);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 10000;
    if (limit.rlim_max < 10000) limit.rlim_max = 10000;
    printf("limit %d\n", setrlimit(RLIMIT_NOFILE, &limit));
    while (dup(file) >= 0) count++;
    printf("full %d, error %d\n", count + file + 1, errno);
    printf("at the limit %d, below %d\n", dup2(file, 10000), dup2(file, 9999));
    close(5000);
    printf("lowest free %d\n", dup(file));
    if (fork() == 0) _exit(fcntl(9998, F_GETFD) != 0);
    wait(&status);
    printf("the child has them too %d\n", status);
    limit.rlim_cur = limit.rlim_max = (1 << 20) + 1;
    printf("beyond all %d\n", setrlimit(RLIMIT_NOFILE, &limit));
    return 0;
}
