/*
 * Files of a directory against a model in memory: random operations, as fsx has them, over four files. A ballast that
 * is larger than memory comes in between, so that pages of the files leave memory and come back.
 *
 * Usage: disk_files DIRECTORY OPERATIONS SEED BALLAST [DISK]: BALLAST in MiB; -1: one byte of a file is changed and not
 * in the model, which the program must find. The last store of a mapping is looked for on DISK.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 4, MOST = 300000, PIECE = 70000, PAGE = 4096 };

static struct model {
    int file;
    long size;
    unsigned char bytes[MOST];
} models[FILES];
static unsigned char buffer[MOST];
static uint64_t state;
static long step;

static uint64_t chance(uint64_t below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % below;
}

static void fail(const char *what, struct model *model, long at) {
    printf("step %ld, file %ld: %s at %ld: %s\n", step, (long)(model - models), what, at, strerror(errno));
    exit(1);
}

static void name_of(char *name, struct model *model) { sprintf(name, "file%ld", (long)(model - models)); }

static void fill(long length) {
    for (long at = 0; at < length; at++) buffer[at] = chance(255) + 1;
}

static void grow(struct model *model, long end) {
    if (end > model->size) model->size = end;
}

static void check_size(struct model *model) {
    struct stat status;
    if (fstat(model->file, &status) || status.st_size != model->size) fail("size", model, model->size);
}

static void compare(struct model *model, const unsigned char *found, long at, long length) {
    for (long index = 0; index < length; index++)
        if (found[index] != model->bytes[at + index]) fail("wrong byte", model, at + index);
}

static void read_some(struct model *model, long at, long length) {
    long wanted = at >= model->size ? 0 : at + length > model->size ? model->size - at : length;
    errno = 0;
    ssize_t got = pread(model->file, buffer, length, at);
    if (got != wanted) {
        printf("%zd bytes of %ld: ", got, (long)wanted);
        fail("pread", model, at);
    }
    compare(model, buffer, at, wanted);
}

static void write_some(struct model *model, long at, long length) {
    fill(length);
    if (pwrite(model->file, buffer, length, at) != length) fail("pwrite", model, at);
    memcpy(model->bytes + at, buffer, length);
    grow(model, at + length);
}

static void map_some(struct model *model, long at, long length, int writes) {
    long first = at / PAGE * PAGE;
    if (at >= model->size) return;
    if (at + length > model->size) length = model->size - at;
    int rights = writes ? PROT_READ | PROT_WRITE : PROT_READ, kind = writes || chance(2) ? MAP_SHARED : MAP_PRIVATE;
    unsigned char *place = mmap(NULL, at - first + length, rights, kind, model->file, first);
    if (place == MAP_FAILED) fail("mmap", model, at);
    if (writes) {
        fill(length);
        memcpy(place + (at - first), buffer, length);
        memcpy(model->bytes + at, buffer, length);
        if (chance(2) && msync(place, at - first + length, MS_SYNC)) fail("msync", model, at);
    }
    compare(model, place + (at - first), at, length);
    munmap(place, at - first + length);
}

static void cut(struct model *model, long size) {
    if (ftruncate(model->file, size)) fail("ftruncate", model, size);
    if (size < model->size) memset(model->bytes + size, 0, model->size - size);
    model->size = size;
}

static void clear(struct model *model, long at, long length) {
    if (fallocate(model->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, length)) fail("punch", model, at);
    if (at < model->size) memset(model->bytes + at, 0, at + length > model->size ? model->size - at : length);
}

static void allocate(struct model *model, long at, long length) {
    if (fallocate(model->file, 0, at, length)) fail("fallocate", model, at);
    grow(model, at + length);
}

static void open_again(struct model *model) {
    char name[32];
    name_of(name, model);
    close(model->file);
    if ((model->file = open(name, O_RDWR | O_CREAT, 0644)) < 0) fail("open", model, 0);
}

static void replace(struct model *model) {
    char name[32];
    name_of(name, model);
    int over = chance(2), made = open("fresh", O_RDWR | O_CREAT | O_TRUNC, 0644);
    /* The old file is read once more when it has lost its name. */
    if (over ? rename("fresh", name) : unlink(name) || rename("fresh", name)) fail("rename", model, 0);
    if (chance(3) == 0) sync();
    read_some(model, 0, MOST);
    close(model->file);
    model->file = made;
    memset(model->bytes, 0, MOST);
    model->size = 0;
}

/* Two files swap their names. */
static void exchange(struct model *model) {
    static struct model held;
    struct model *other = &models[chance(FILES)];
    char one[32], two[32];
    name_of(one, model), name_of(two, other);
    if (renameat2(AT_FDCWD, one, AT_FDCWD, two, RENAME_EXCHANGE)) fail("exchange", model, 0);
    held = *model, *model = *other, *other = held;
    if (chance(3) == 0) sync();
}

static void one(void) {
    struct model *model = &models[chance(FILES)];
    long length = chance(PIECE) + 1, at = chance(MOST - length);
    switch (chance(40)) {
    case 0 ... 9: write_some(model, at, length); break;
    case 10 ... 19: read_some(model, at, length); break;
    case 20 ... 22: map_some(model, at, length, 1); break;
    case 23 ... 25: map_some(model, at, length, 0); break;
    case 26 ... 28: cut(model, at); break;
    case 29 ... 31: clear(model, at, length); break;
    case 32: allocate(model, at, length); break;
    case 33 ... 34: open_again(model); break;
    case 35: if (chance(8) == 0) replace(model); break;
    case 36: if (chance(4) == 0 && fsync(model->file)) fail("fsync", model, 0); break;
    case 37: if (chance(8) == 0) exchange(model); break;
    default:
        at = at / PAGE * PAGE, length = chance(3) * PAGE + chance(100) + 1;
        write_some(model, at, at + length > MOST ? MOST - at : length);
    }
    check_size(model);
}

/* Changes a byte of a file and not of the model. */
static void spoil(void) {
    struct model *model = &models[chance(FILES)];
    write_some(model, 0, PIECE);
    long at = chance(PIECE);
    unsigned char byte = model->bytes[at] ^ 1;
    if (pwrite(model->file, &byte, 1, at) != 1) fail("pwrite", model, at);
}

/* Writes and reads more than memory holds. */
static void load(long mebibytes) {
    static uint64_t block[1 << 17];
    int file = open("ballast", O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (long number = 0; number < mebibytes; number++) {
        for (long word = 0; word < 1 << 17; word++) block[word] = number << 32 | word;
        if (write(file, block, sizeof block) != sizeof block) fail("ballast is not written", models, number);
    }
    lseek(file, 0, SEEK_SET);
    for (long number = 0; number < mebibytes; number++) {
        if (read(file, block, sizeof block) != sizeof block) fail("ballast is not read", models, number);
        for (long word = 0; word < 1 << 17; word++)
            if (block[word] != (uint64_t)(number << 32 | word)) fail("ballast has a wrong word", models, number);
    }
    close(file);
    unlink("ballast");
}

/* What was stored through a mapping after the last msync reaches the disk too, when the mapping is gone. */
static void find_on_disk(const char *disk) {
    static const char last[] = "stored after msync";
    int file = open("mapped", O_RDWR | O_CREAT, 0644), found = 0;
    if (ftruncate(file, PAGE)) fail("ftruncate", models, 0);
    char *place = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    strcpy(place, "stored before");
    if (msync(place, PAGE, MS_SYNC)) fail("msync", models, 0);
    strcpy(place, last);
    munmap(place, PAGE);
    close(file);
    file = open(".", O_RDONLY);
    if (syncfs(file)) fail("syncfs", models, 0);
    close(file);
    char *all = aligned_alloc(PAGE, 1 << 20);
    int raw = open(disk, O_RDONLY | O_DIRECT);
    for (long got; (got = read(raw, all, 1 << 20)) > 0;)
        for (long at = 0; at < got; at += PAGE) found += !strcmp(all + at, last);
    printf("on the disk: %d\n", found);
}

/* The first records of the kernel's registry, which all programs may read: 64 bytes each, the first word is a block's
 * number + 1. Whether the kernel holds the root catalogue, block 1, and many blocks of the volume, in any of the frames
 * of 96 MiB. */
static int is_in_registry(void) {
    const uint64_t *records = (const uint64_t *)0xffffc00038000000;
    int used = 0, catalogue = 0;
    for (int record = 0; record < 128; record++) {
        used += records[8 * record] > 258;
        catalogue += records[8 * record] == 2;
    }
    return catalogue == 1 && used >= 16;
}

int main(int count, char **arguments) {
    if (count < 5 || chdir(arguments[1])) return 2;
    long steps = atol(arguments[2]), ballast = atol(arguments[4]);
    state = atol(arguments[3]) + 88172645463325252u;
    for (int index = 0; index < FILES; index++) {
        models[index].file = -1;
        open_again(&models[index]);
        cut(&models[index], 0);
    }
    for (step = 1; step <= steps; step++) {
        one();
        if (ballast > 0 && step % (steps / 3) == steps / 6) load(ballast);
    }
    if (ballast < 0) spoil();
    for (int index = 0; index < FILES; index++) {
        open_again(&models[index]);
        read_some(&models[index], 0, MOST);
    }
    printf("%ld operations\n", steps);
    if (count > 5) find_on_disk(arguments[5]);
    if (count > 5) printf("in the kernel's registry: %d\n", is_in_registry());
    return 0;
}
