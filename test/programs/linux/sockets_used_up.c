// Sockets until there are no more: the error is Linux's.
#include <errno.h>
#include <stdio.h>
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
    printf("%s, %s\n", first > 2000 ? "more than 2000" : "too few", error == ENOBUFS ? "ENOBUFS" : "another error");
    return 0;
}
