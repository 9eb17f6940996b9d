// shutdown of Internet sockets in every order: what each side reads, writes and polls afterwards.
#include "../internet.h"

static const char *hows[] = {"RD", "WR", "RDWR"};

static void look(const char *side, int socket) {
    char text[16];
    printf("  %s %#x", side, events(socket, ALL_EVENTS));
    printf(", send %s", said(send(socket, "y", 1, MSG_NOSIGNAL | MSG_DONTWAIT)));
    printf(", recv %s", said(recv(socket, text, 16, MSG_DONTWAIT)));
    printf(", recv %s", said(recv(socket, text, 16, MSG_DONTWAIT)));
    printf(", error %s\n", error_of(socket));
}

static void pairs(void) {
    for (int first = 0; first < 3; first++)
        for (int second = 0; second < 4; second++)
            for (int other = 0; other < 2; other++) {
                int ends[2];
                connection(ends);
                printf("%s then %s of the %s", hows[first], second < 3 ? hows[second] : "nothing", other ? "other" : "same");
                send(ends[1], "data", 4, 0);
                printf(": %s", said(shutdown(ends[0], first)));
                if (second < 3) printf(" %s", said(shutdown(ends[other], second)));
                printf("\n");
                usleep(1000);
                look("near", ends[0]), look("far", ends[1]);
                usleep(1000);
                look("near", ends[0]), look("far", ends[1]);
                close(ends[0]), close(ends[1]);
            }
}

static void others(void) {
    int one = socket(family, SOCK_STREAM, 0);
    for (int how = -1; how < 4; how++) printf("unconnected %d: %s\n", how, said(shutdown(one, how)));
    close(one);
    for (int how = 0; how < 3; how++) {
        int listening = listener(5), waits = connected_to(listening);
        printf("listening %s: %s", hows[how], said(shutdown(listening, how)));
        printf(", %#x", events(listening, ALL_EVENTS));
        fcntl(listening, F_SETFL, O_NONBLOCK);
        printf(", accept %s", said(accept(listening, 0, 0) < 0 ? -1 : 0));
        printf(", waiting %#x", events(waits, ALL_EVENTS));
        printf(", error %s", error_of(waits));
        printf(", listen %s\n", said(listen(listening, 5)));
        close(waits), close(listening);
    }
    for (int how = 0; how < 3; how++) {
        int receiver = bound(SOCK_DGRAM), sender = socket(family, SOCK_DGRAM, 0);
        printf("datagrams %s: unconnected %s", hows[how], said(shutdown(receiver, how)));
        connect_to(sender, port_of(receiver));
        printf(", connected %s", said(shutdown(sender, how)));
        printf(", %#x", events(sender, ALL_EVENTS));
        printf(", send %s", said(send(sender, "x", 1, MSG_NOSIGNAL)));
        char text[4];
        printf(", recv %s", said(recv(sender, text, 4, MSG_DONTWAIT)));
        printf(", arrived %s\n", said(recv(receiver, text, 4, MSG_DONTWAIT)));
        close(receiver), close(sender);
    }
}

static void names(void) {
    struct sockaddr_storage name;
    socklen_t bytes = sizeof name;
    int ends[2];
    connection(ends);
    shutdown(ends[0], SHUT_WR);
    usleep(1000);
    printf("one half: %s", said(getpeername(ends[0], (void *)&name, &bytes)));
    printf(" %s", said(getpeername(ends[1], (void *)&name, &bytes)));
    shutdown(ends[1], SHUT_WR);
    usleep(1000);
    printf(", both: %s", said(getpeername(ends[0], (void *)&name, &bytes)));
    printf(" %s", said(getpeername(ends[1], (void *)&name, &bytes)));
    printf(", own %s", said(getsockname(ends[0], (void *)&name, &bytes)));
    printf(", shutdown %s", said(shutdown(ends[0], SHUT_RDWR)));
    printf(" %s\n", said(shutdown(ends[1], SHUT_RDWR)));
    close(ends[0]), close(ends[1]);
}

static void waiting_readers(void) {
    int ends[2], status;
    connection(ends);
    pid_t child = fork();
    if (!child) {
        char text[4];
        long got = recv(ends[0], text, 4, 0);
        _exit(got < 0 ? 100 : (int)got);
    }
    usleep(30000);
    printf("a reader waits: %s", said(shutdown(ends[0], SHUT_RD)));
    waitpid(child, &status, 0);
    printf(", got %d\n", WEXITSTATUS(status));
    close(ends[0]), close(ends[1]);
    int listening = listener(1);
    if (!(child = fork())) _exit(accept(listening, 0, 0) < 0 ? errno : 0);
    usleep(30000);
    printf("an acceptor waits: %s", said(shutdown(listening, SHUT_RD)));
    waitpid(child, &status, 0);
    printf(", got %s\n", strerrorname_np(WEXITSTATUS(status)));
    close(listening);
}

int main(void) {
    begin();
    BOTH_FAMILIES pairs(), others(), names(), waiting_readers();
    return 0;
}
