// A signal to a process group ends all of it, while its members do nothing but fork: on Linux a fork that a signal
// precedes is made again after it, so no child is made behind the sender's back.
#include "census.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

enum { ROUNDS = 60, LOOKS = 100 };

// Forks until it is killed, with a third of its children.
static void fork_for_ever(unsigned seed) {
    setpgid(0, 0);
    srand(seed);
    for (unsigned made = 0;; made++) {
        pid_t child = fork();
        if (child == 0) {
            if (rand() % 3) _exit(0);
            srand(seed * 7 + made);
        }
        while (child > 0 && waitpid(-1, NULL, WNOHANG) > 0);
        usleep(rand() % 500);
    }
}

int main(void) {
    int survived = 0;
    for (int round = 0; round < ROUNDS; round++) {
        pid_t group = fork();
        if (group == 0) fork_for_ever(round);
        setpgid(group, group);
        usleep(3000 + rand() % 9000);
        kill(-group, round % 2 ? SIGTERM : SIGKILL);
        waitpid(group, NULL, 0);
        // What ended waits for its next parent.
        int looks = 0;
        while (kill(-group, 0) == 0 && looks < LOOKS) usleep(20000), looks++;
        if (looks == LOOKS) survived++;
        for (int tries = 0; looks == LOOKS && kill(-group, SIGKILL) == 0 && tries < LOOKS; tries++) usleep(20000);
    }
    if (survived) printf("%d of %d groups went on\n", survived, ROUNDS);
    else puts("all groups ended");
    return 0;
}
