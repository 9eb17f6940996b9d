// Sockets until there are no more: the error is one of the two that socket(2) names, by which memory is short.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST = 100000 };

static int open_all(int *last_error) {
    int count = 0;
    while (count < MOST && socket(AF_INET, SOCK_STREAM, 0) >= 0)
        count++;
    *last_error = errno;
    return count;
}

int main(void) {
    struct rlimit limit = {MOST + 10, MOST + 10};
    if (setrlimit(RLIMIT_NOFILE, &limit))
        perror("setrlimit");
    int error, first = open_all(&error);
    int is_shortage = error == ENOBUFS || error == ENOMEM;
    const char *why = first == MOST ? "no end" : is_shortage ? "ENOBUFS or ENOMEM" : strerrorname_np(error);
    printf("%s, %s\n", first > 2000 ? "more than 2000" : "too few", why);
    return 0;
}
