/* What programs share that talk to the peer of a wire. */
#include <arpa/inet.h>
#include <time.h>

static const char *peer_address = "10.0.2.2";

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static struct sockaddr_in end_of(const char *address, int port) {
    struct sockaddr_in end = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, address, &end.sin_addr);
    return end;
}
