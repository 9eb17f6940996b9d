// Files below /sys and /dev that programs read. A number is printed as N, spaces as one, choices without brackets.
// The output is that of Linux 6.18 on two CPUs.
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void shape(const char *path)
{
    char bytes[512] = "", shown[512];
    int file = open(path, O_RDONLY | O_NONBLOCK);
    if (file < 0) {
        printf("%s: %s\n", path, strerror(errno));
        return;
    }
    ssize_t count = read(file, bytes, sizeof bytes - 1);
    struct stat status;
    fstat(file, &status);
    close(file);
    char *to = shown;
    for (char *from = bytes; *from && *from != '\n';) {
        if (isdigit((unsigned char)*from)) {
            *to++ = 'N';
            while (isxdigit((unsigned char)*from)) from++;
        } else if (*from == '[' || *from == ']' || (*from == ' ' && from[1] == ' ')) {
            from++;
        } else {
            *to++ = *from++;
        }
    }
    *to = 0;
    printf("%s: %o [%s]%s\n", path, status.st_mode & S_IFMT, count < 0 ? strerror(errno) : shown, strchr(bytes, '\n') ? "" : " (no line)");
}

int main(void)
{
    static const char *const files[] = {
        "/sys/devices/system/cpu/online", "/sys/devices/system/cpu/possible", "/sys/devices/system/cpu/present",
        "/sys/devices/system/cpu/offline", "/sys/devices/system/cpu/isolated", "/sys/devices/system/cpu/kernel_max",
        "/sys/devices/system/cpu/cpu0/topology/core_id", "/sys/devices/system/cpu/cpu0/topology/physical_package_id",
        "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "/sys/devices/system/cpu/cpu0/topology/core_siblings",
        "/sys/devices/system/cpu/cpu7/topology/core_id",
        "/sys/devices/system/node/online", "/sys/devices/system/node/possible", "/sys/devices/system/node/has_cpu",
        "/sys/devices/system/node/has_memory", "/sys/devices/system/node/has_normal_memory",
        "/sys/devices/system/node/node0/cpulist", "/sys/devices/system/node/node0/cpumap", "/sys/devices/system/node/node0/distance",
        "/sys/devices/system/node/node0/meminfo", "/sys/devices/system/node/node0/vmstat",
        "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/mm/transparent_hugepage/defrag",
        "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "/sys/kernel/mm/transparent_hugepage/use_zero_page",
        "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages",
        "/sys/power/state", "/sys/nowhere", "/dev/null", "/dev/zero",
    };
    for (unsigned index = 0; index < sizeof files / sizeof *files; index++) shape(files[index]);
    return 0;
}
