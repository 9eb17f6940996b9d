// Internet sockets over fork and exec: shared listeners and connections, close-on-exec, several acceptors, parents that leave.
#include "../internet.h"
#include <sys/epoll.h>

static void after_exec(int number, int kept, int closed) {
    char text[16];
    printf("after exec: kept %s", said(fcntl(kept, F_GETFD)));
    printf(", closed %s", said(fcntl(closed, F_GETFD)));
    printf(", type %d", number_of(kept, SOL_SOCKET, SO_TYPE));
    printf(", accepting %d", number_of(kept, SOL_SOCKET, SO_ACCEPTCONN));
    int one = accept(kept, 0, 0);
    printf(", read %s", said(read(one, text, 16)));
    printf(", write %s\n", said(write(one, "from exec", 9)));
    exit(number);
}

static void over_exec(const char *program) {
    int kept = listener(5), closed = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), status;
    pid_t child = fork();
    if (!child) {
        char numbers[3][16];
        sprintf(numbers[0], "%d", kept), sprintf(numbers[1], "%d", closed), sprintf(numbers[2], "%d", family);
        execl(program, program, numbers[0], numbers[1], numbers[2], (char *)0);
        _exit(99);
    }
    int near = connected_to(kept);
    char text[16] = {0};
    write(near, "hello", 5);
    long got = read(near, text, 15);
    waitpid(child, &status, 0);
    printf("answer %s", said(got));
    printf(" %s, status %d\n", text, WEXITSTATUS(status));
    close(near), close(kept), close(closed);
}

static void acceptors(int processes, int connections) {
    int listening = listener(connections), pipes[2], total = 0;
    pipe(pipes);
    for (int at = 0; at < processes; at++)
        if (!fork()) {
            for (;;) {
                int one = accept(listening, 0, 0);
                char text[8];
                long got = read(one, text, 8);
                if (got == 4) _exit(0);
                write(one, text, got), close(one), write(pipes[1], "x", 1);
            }
        }
    for (int at = 0; at < connections; at++) {
        char text[8];
        int one = connected_to(listening);
        write(one, "ab", 2);
        total += read(one, text, 8) == 2 && text[0] == 'a';
        close(one);
    }
    for (int at = 0; at < processes; at++) { int one = connected_to(listening); write(one, "stop", 4), close(one); }
    int ended = 0;
    while (wait(0) > 0) ended++;
    close(pipes[1]);
    char all[200];
    printf("%d acceptors: %d answered, %ld served, %d ended\n", processes, total, (long)read(pipes[0], all, 200), ended);
    close(pipes[0]), close(listening);
}

static void handed_to_the_child(void) {
    int listening = listener(5), near = connected_to(listening), far = accept(listening, 0, 0), status;
    char text[16] = {0};
    pid_t child = fork();
    if (!child) {
        close(near), close(listening);
        long got = read(far, text, 16);
        write(far, text, got), write(far, "!", 1);
        _exit(0);
    }
    close(far);
    usleep(10000);
    printf("parent left: %#x", events(near, ALL_EVENTS));
    write(near, "kept", 4);
    waitpid(child, &status, 0);
    printf(", read %s", said(recv(near, text, 5, MSG_WAITALL)));
    printf(" %s", text);
    printf(", end %s\n", said(read(near, text, 16)));
    close(near), close(listening);
}

static void both_write(void) {
    int ends[2], sum = 0;
    connection(ends);
    for (int at = 0; at < 4; at++)
        if (!fork()) {
            char block[100];
            memset(block, 1 << at, sizeof block);
            for (int turn = 0; turn < 50; turn++) write(ends[1], block, sizeof block);
            _exit(0);
        }
    close(ends[1]);
    char text[4096];
    long got, total = 0, broken = 0, at = 0;
    unsigned char last = 0;
    while ((got = read(ends[0], text, sizeof text)) > 0)
        for (long byte = 0; byte < got; byte++, at++, total++) {
            sum += text[byte];
            if (at % 100 && (unsigned char)text[byte] != last) broken++;
            last = text[byte];
        }
    while (wait(0) > 0) {}
    printf("four writers: %ld bytes, sum %d, torn %ld\n", total, sum, broken);
    close(ends[0]);
}

static void shared_set(void) {
    int listening = listener(5), set = epoll_create1(0), status;
    struct epoll_event wanted = {.events = EPOLLIN, .data.u32 = 9}, found;
    epoll_ctl(set, EPOLL_CTL_ADD, listening, &wanted);
    pid_t child = fork();
    if (!child) {
        int come = epoll_wait(set, &found, 1, 3000);
        _exit(come == 1 && found.data.u32 == 9 && accept(listening, 0, 0) >= 0 ? 7 : 1);
    }
    int near = connected_to(listening);
    waitpid(child, &status, 0);
    printf("inherited epoll: %d\n", WEXITSTATUS(status));
    close(near), close(listening), close(set);
}

int main(int count, char **arguments) {
    begin();
    if (count == 4) family = atoi(arguments[3]), after_exec(5, atoi(arguments[1]), atoi(arguments[2]));
    BOTH_FAMILIES over_exec(arguments[0]), acceptors(1, 5), acceptors(4, 40), handed_to_the_child(), both_write(), shared_set();
    return 0;
}
