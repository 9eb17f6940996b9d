/* A file-offset policy of its own, for ExOS to preload: what is written to a file goes to its end, wherever the offset is. */

#include <stdio.h>
#include <sys/syscall.h>

#include "preload.h"

static const struct exos_interface *exos;

/* What has no end, such as a pipe, refuses to be sent there and is written to as always. */
static int64_t write_at_end(struct exos_call *call)
{
    struct exos_call seek = *call;
    seek.number = SYS_lseek;
    seek.arguments[1] = 0;
    seek.arguments[2] = SEEK_END;
    exos->perform(&seek);
    return exos->perform(call);
}

/* A table with an address in it, so that there is something to relocate. */
static const struct {
    uint64_t number;
    exos_operation *operation;
} replaced[] = { { SYS_write, write_at_end }, { SYS_writev, write_at_end } };

int64_t exos_preload(const struct exos_interface *interface)
{
    exos = interface;
    for (unsigned index = 0; index < sizeof replaced / sizeof *replaced; index++) {
        int64_t refused = exos->replace(replaced[index].number, replaced[index].operation);
        if (refused < 0)
            return refused;
    }
    return 0;
}
