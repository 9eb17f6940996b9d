/* For ExOS to preload: one call does the wrong thing, the one whose name stands in /tmp/wrong. A test that cares for the call
 * then says something else. */

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "preload.h"

static const struct exos_interface *exos;

static int64_t perform(uint64_t number, const struct exos_call *like, uint64_t first, uint64_t second, uint64_t third)
{
    struct exos_call call = *like;
    call.number = number;
    call.arguments[0] = first;
    call.arguments[1] = second;
    call.arguments[2] = third;
    return exos->perform(&call);
}

/* A child's exit status is another one. */
static int64_t wrong_wait(struct exos_call *call)
{
    int64_t child = exos->perform(call);
    uint32_t *status = (uint32_t *)call->arguments[1];
    if (child > 0 && status && (*status & 0xff) == 0)
        *status ^= 0x100;
    return child;
}

/* Every folder is empty. */
static int64_t wrong_list(struct exos_call *call)
{
    (void)call;
    return 0;
}

/* A file is one byte longer than it is, and belongs to somebody else. */
static int64_t wrong_status(struct exos_call *call)
{
    int64_t done = exos->perform(call);
    struct stat *status = (struct stat *)call->arguments[call->number == SYS_newfstatat ? 2 : 1];
    if (done == 0 && S_ISREG(status->st_mode)) {
        status->st_size++;
        status->st_uid++;
    }
    return done;
}

/* The place in a file is another one. */
static int64_t wrong_seek(struct exos_call *call)
{
    call->arguments[1]++;
    return exos->perform(call);
}

/* It is said to be done, and is not. */
static int64_t wrong_silence(struct exos_call *call)
{
    return call->number == SYS_dup2 ? (int64_t)call->arguments[1] : 0;
}

/* The ends of a pipe are exchanged. */
static int64_t wrong_pipe(struct exos_call *call)
{
    int64_t done = exos->perform(call);
    int32_t *ends = (int32_t *)call->arguments[0];
    if (done == 0) {
        int32_t first = ends[0];
        ends[0] = ends[1];
        ends[1] = first;
    }
    return done;
}

static int64_t wrong_refusal(struct exos_call *call)
{
    (void)call;
    return -EAGAIN;
}

/* The first of several bytes is not written. */
static int64_t wrong_write(struct exos_call *call)
{
    if (call->arguments[2] < 2)
        return exos->perform(call);
    int64_t done = perform(SYS_write, call, call->arguments[0], call->arguments[1] + 1, call->arguments[2] - 1);
    return done < 0 ? done : done + 1;
}

static const struct {
    const char *name;
    uint64_t numbers[4];
    exos_operation *operation;
} wrongs[] = {
    { "wait4", { SYS_wait4 }, wrong_wait },
    { "getdents64", { SYS_getdents64 }, wrong_list },
    { "fstat", { SYS_stat, SYS_fstat, SYS_lstat, SYS_newfstatat }, wrong_status },
    { "lseek", { SYS_lseek }, wrong_seek },
    { "unlink", { SYS_unlink, SYS_unlinkat }, wrong_silence },
    { "dup2", { SYS_dup2 }, wrong_silence },
    { "pipe", { SYS_pipe, SYS_pipe2 }, wrong_pipe },
    { "clone", { SYS_clone, SYS_clone3, SYS_fork, SYS_vfork }, wrong_refusal },
    { "write", { SYS_write }, wrong_write },
};

#define COUNT ((int)(sizeof wrongs / sizeof *wrongs))

static int is(const char *name, const char *wanted)
{
    while (*name && *name == *wanted)
        name++, wanted++;
    return *name == 0 && *wanted == '\n';
}

/* Which of them, as the file says; found out at the first call, since there is none to make others from before. */
static int chosen = -1;

static void choose(const struct exos_call *like)
{
    static char wanted[32]; /* in the program's memory, as the path is: the stack is ExOS's */
    int64_t file = perform(SYS_openat, like, AT_FDCWD, (uint64_t) "/tmp/wrong", O_RDONLY);
    perform(SYS_read, like, file, (uint64_t)wanted, sizeof wanted - 1);
    perform(SYS_close, like, file, 0, 0);
    for (chosen = 0; chosen < COUNT && !is(wrongs[chosen].name, wanted); chosen++)
        ;
}

static int64_t perhaps_wrong(struct exos_call *call)
{
    if (chosen < 0)
        choose(call);
    for (int at = 0; chosen < COUNT && at < 4; at++)
        if (wrongs[chosen].numbers[at] && wrongs[chosen].numbers[at] == call->number)
            return wrongs[chosen].operation(call);
    return exos->perform(call);
}

int64_t exos_preload(const struct exos_interface *interface)
{
    exos = interface;
    for (int index = 0; index < COUNT; index++) {
        /* Call 0 is read: no number stands there. */
        for (int at = 0; at < 4 && wrongs[index].numbers[at]; at++) {
            int64_t refused = exos->replace(wrongs[index].numbers[at], perhaps_wrong);
            if (refused < 0)
                return refused;
        }
    }
    return 0;
}
