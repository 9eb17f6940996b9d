// Sockets that have names in /proc/net/unix: kinds, who listens, abstract names, and the number that a descriptor of one shows.
#define _GNU_SOURCE
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

// The line of a name: all but its address and number, and whether the number is that of a descriptor.
static void show(const char *what, const char *name, int socket) {
    char line[512], shown[128] = "", address[64], references[16], protocol[16], flags[16], kind[16], state[16], path[256];
    unsigned long number, own = 0;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", socket);
    if (readlink(link, shown, sizeof shown - 1) > 0) sscanf(shown, "socket:[%lu]", &own);
    FILE *list = fopen("/proc/net/unix", "r");
    int found = 0;
    while (fgets(line, sizeof line, list)) {
        if (sscanf(line, "%s %s %s %s %s %s %lu %255s", address, references, protocol, flags, kind, state, &number, path) != 8) continue;
        if (strcmp(path, name)) continue;
        found++, printf("%s: %s %s %s %s %s, its own number: %d\n", what, protocol, flags, kind, state, path, number == own);
    }
    if (!found) printf("%s: none\n", what);
    fclose(list);
}

static int named(int kind, const char *name, int abstract) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int made = socket(AF_UNIX, kind, 0);
    strcpy(address.sun_path + abstract, name);
    return bind(made, (struct sockaddr *)&address, offsetof(struct sockaddr_un, sun_path) + abstract + strlen(name) + !abstract) ? -1 : made;
}

int main(void) {
    int stream = named(SOCK_STREAM, "/tmp/work/stream", 0), packets = named(SOCK_SEQPACKET, "/tmp/work/packets", 0);
    int datagrams = named(SOCK_DGRAM, "/tmp/work/datagrams", 0), abstract = named(SOCK_STREAM, "listed-by-name", 1);
    show("not yet", "/tmp/work/none", stream);
    listen(stream, 5), listen(packets, 5), listen(abstract, 5);
    show("stream", "/tmp/work/stream", stream), show("packets", "/tmp/work/packets", packets);
    show("datagrams", "/tmp/work/datagrams", datagrams), show("abstract", "@listed-by-name", abstract);
    close(abstract);
    show("closed", "@listed-by-name", -1);
    return 0;
}
