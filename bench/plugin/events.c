/*
 * A plugin for QEMU's emulator: what happens between two marks of a program that is measured (bench/peer/harness.h,
 * bench/guest/src/lib.rs). Counted are the events whose cost on silicon an instruction count does not show, and how often each
 * block of code runs, from which a profile by symbol is made. The machine is the same with and without the plugin.
 *
 * One line a stretch between marks, then one for each block that ran in it; and one when the samples of a figure are made:
 *
 *     window SYSCALLS EXCEPTIONS RETURNS ROOTS INVALIDATIONS
 *     block ADDRESS INSTRUCTIONS TIMES
 *     figure
 *
 * Exceptions are entries into the kernel half other than by SYSCALL, and those inside it that IRETQ ends; returns are
 * IRETQs, of the kernel and of user mode; roots are loads of CR3; invalidations are INVLPG.
 *
 * Servers are measured from outside: the file OUT.window has a number of eight bytes that others may write. Another odd
 * number begins a stretch, and ends the one before; an even one says that the samples of a figure are made.
 *
 * Written for version 1 of the plugin interface, which QEMU 7.2 has. Its header is not packaged: what is used of it is
 * declared here.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef uint64_t plugin_id;
typedef void vcpu_callback(unsigned int vcpu, void *data);
enum { NO_REGISTERS = 0 };

extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, vcpu_callback *, int flags, void *data);
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, vcpu_callback *, int flags, void *data);
extern void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void *), void *data);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;

/* What an instruction of interest is. */
enum event { NONE, SYSCALL, IRETQ, ROOT, INVALIDATION, BEGIN, END, FIGURE };

/* A translated block of code. It stays when QEMU forgets the translation. */
struct block {
	uint64_t address;
	uint64_t instructions;
	uint64_t times;
	struct block *next_touched;
};

static FILE *out;
/* The number of the stretch from outside that is wanted, and the one that is on. */
static volatile uint64_t *wanted;
static uint64_t current;
static bool open_window;
static struct block *touched;
static struct { uint64_t syscalls, exceptions, returns, roots, invalidations; } count;
/* The last event of the block that ran before, and whether that block was the kernel's. */
static enum event pending;
static bool in_kernel;

static void begin_window(void)
{
	memset(&count, 0, sizeof count);
	open_window = true;
}

static void end_window(void)
{
	if (!open_window)
		return;
	open_window = false;
	fprintf(out, "window %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", count.syscalls, count.exceptions,
		count.returns, count.roots, count.invalidations);
	while (touched) {
		struct block *block = touched;
		fprintf(out, "block %" PRIx64 " %" PRIu64 " %" PRIu64 "\n", block->address, block->instructions, block->times);
		touched = block->next_touched;
		block->times = 0;
	}
	fflush(out);
}

static void change_window(void)
{
	current = *wanted;
	end_window();
	if (current & 1) {
		begin_window();
	} else {
		fprintf(out, "figure\n");
		fflush(out);
	}
}

static void on_event(unsigned int vcpu, void *data)
{
	enum event event = (enum event)(uintptr_t)data;
	(void)vcpu;
	pending = event;
	switch (event) {
	case BEGIN: begin_window(); break;
	case END: end_window(); break;
	case FIGURE: fprintf(out, "figure\n"); break;
	case IRETQ: count.returns++; break;
	case ROOT: count.roots++; break;
	case INVALIDATION: count.invalidations++; break;
	default: break;
	}
}

static void on_block(unsigned int vcpu, void *data)
{
	struct block *block = data;
	bool kernel = block->address >> 63;
	(void)vcpu;
	if (*wanted != current)
		change_window();
	if (open_window) {
		if (kernel && !in_kernel && pending == SYSCALL)
			count.syscalls++;
		else if (kernel && (!in_kernel || pending == IRETQ))
			count.exceptions++;
		if (block->times++ == 0) {
			block->next_touched = touched;
			touched = block;
		}
	}
	pending = NONE;
	in_kernel = kernel;
}

/* The bytes of an instruction, without a REX prefix. */
static enum event event_of(const struct qemu_plugin_insn *instruction)
{
	static const uint8_t mark[] = {0x0f, 0x1f, 0x80};
	const uint8_t *bytes = qemu_plugin_insn_data(instruction);
	size_t size = qemu_plugin_insn_size(instruction);
	bool wide = size > 1 && (bytes[0] & 0xf8) == 0x48;
	if (size == 7 && !memcmp(bytes, mark, 3) && !memcmp(bytes + 4, "BHC", 3))
		return bytes[3] == 1 ? BEGIN : bytes[3] == 2 ? END : bytes[3] == 3 ? FIGURE : NONE;
	if (size == 2 && wide && bytes[1] == 0xcf)
		return IRETQ;
	if (size > 1 && (bytes[0] & 0xf0) == 0x40) {
		bytes++;
		size--;
	}
	if (size < 2 || bytes[0] != 0x0f)
		return NONE;
	if (size == 2 && bytes[1] == 0x05)
		return SYSCALL;
	if (size == 3 && bytes[1] == 0x22 && (bytes[2] >> 3 & 7) == 3)
		return ROOT;
	if (size > 2 && bytes[1] == 0x01 && (bytes[2] >> 3 & 7) == 7 && bytes[2] >> 6 != 3)
		return INVALIDATION;
	return NONE;
}

static void on_translation(plugin_id id, struct qemu_plugin_tb *translation)
{
	struct block *block = calloc(1, sizeof *block);
	size_t size = qemu_plugin_tb_n_insns(translation);
	(void)id;
	if (!block)
		return;
	block->address = qemu_plugin_tb_vaddr(translation);
	block->instructions = size;
	qemu_plugin_register_vcpu_tb_exec_cb(translation, on_block, NO_REGISTERS, block);
	for (size_t index = 0; index < size; index++) {
		struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(translation, index);
		enum event event = event_of(instruction);
		if (event != NONE)
			qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_event, NO_REGISTERS, (void *)(uintptr_t)event);
	}
}

static void at_exit(plugin_id id, void *data)
{
	(void)id;
	(void)data;
	fclose(out);
}

static bool share_wanted(const char *file)
{
	char name[4096];
	int shared;
	snprintf(name, sizeof name, "%s.window", file);
	shared = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
	if (shared < 0 || ftruncate(shared, sizeof *wanted) < 0)
		return false;
	wanted = mmap(NULL, sizeof *wanted, PROT_READ, MAP_SHARED, shared, 0);
	close(shared);
	return wanted != MAP_FAILED;
}

/* The one argument is out=FILE. */
EXPORT int qemu_plugin_install(plugin_id id, const void *information, int arguments, char **values)
{
	(void)information;
	if (arguments != 1 || strncmp(values[0], "out=", 4) != 0)
		return -1;
	out = fopen(values[0] + 4, "w");
	if (!out || !share_wanted(values[0] + 4))
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_atexit_cb(id, at_exit, NULL);
	return 0;
}
