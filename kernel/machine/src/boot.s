# The first instructions: PVH 32-bit entry (Xen PVH boot ABI, used by QEMU and the
# rust-vmm loaders), to long mode with NX, to Rust in the higher half.
#
# Holds on entry: protected mode, paging off, flat segments, ebx = hvm_start_info.
# Everything here is linked where it is loaded (low), with a temporary map of the
# first 4 GiB: at zero, at the direct map, and the first GiB at the kernel image.
# Nothing of this section is used once the processors have started.

.section .note.pvh, "a", @note
.align 4
    .long 4, 4, 18                  # name size, descriptor size, XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .long boot_entry

.section .boot.text, "ax"
.code32
.global boot_entry
boot_entry:
    cli
    cld
    mov esp, offset boot_stack_top
    mov esi, ebx                    # cpuid clobbers ebx

    mov eax, 0x80000000
    cpuid
    cmp eax, 0x80000001
    jb boot_refuse
    mov eax, 0x80000001
    cpuid
    and edx, (1 << 29) | (1 << 20)  # long mode, NX
    cmp edx, (1 << 29) | (1 << 20)
    jne boot_refuse

    mov edi, offset boot_page_directories
    mov eax, 0x83                   # present, writable, 2 MiB
    mov ecx, 2048
1:  mov [edi], eax
    add edi, 8
    add eax, 0x200000
    dec ecx
    jnz 1b

    mov eax, offset boot_page_directories + 3
    mov dword ptr [boot_low_table], eax
    mov dword ptr [boot_image_table + 510 * 8], eax
    add eax, 0x1000
    mov dword ptr [boot_low_table + 8], eax
    add eax, 0x1000
    mov dword ptr [boot_low_table + 16], eax
    add eax, 0x1000
    mov dword ptr [boot_low_table + 24], eax
    mov eax, offset boot_low_table + 3
    mov dword ptr [boot_root_table], eax
    mov dword ptr [boot_root_table + 256 * 8], eax
    mov eax, offset boot_image_table + 3
    mov dword ptr [boot_root_table + 511 * 8], eax

    call enter_long_mode
.code64
    mov edi, esi
    movabs rsp, offset boot_stack_top + {direct_map}
    xor ebp, ebp
    movabs rax, offset bootstrap
    call rax
    ud2

# Turns on long mode over boot_root_table and returns to its 32-bit caller's next
# instruction in 64-bit mode. Clobbers eax, ecx, edx. The other processors share it.
.code32
.global enter_long_mode
enter_long_mode:
    mov eax, cr4
    or eax, 1 << 5                  # PAE
    mov cr4, eax
    mov eax, offset boot_root_table
    mov cr3, eax
    mov ecx, 0xc0000080             # EFER
    rdmsr
    or eax, (1 << 8) | (1 << 11)    # LME, NXE
    wrmsr
    mov eax, 0x80010033             # PG, WP, NE, ET, MP, PE; caches on
    mov cr0, eax
    mov eax, offset boot_descriptors_pointer
    lgdt [eax]
    pop edx
    push 0x08
    mov eax, offset long_mode_entered
    push eax
    retf
.code64
long_mode_entered:
    mov eax, 0x10
    mov ds, eax
    mov es, eax
    mov ss, eax
    xor eax, eax
    mov fs, eax
    mov gs, eax
    mov edx, edx
    jmp rdx

# Where every other processor begins: real mode, copied to a page below 1 MiB, cs = that page.
.global trampoline_start
.global trampoline_end
.code16
trampoline_start:
    cli
    cld
    mov ax, cs
    mov ds, ax
    .byte 0x66, 0x0f, 0x01, 0x16    # lgdt with a 32-bit base, address of 16 bits
    .word trampoline_descriptors - trampoline_start
    mov eax, cr0
    or al, 1
    mov cr0, eax
    .byte 0x66, 0xea                # far jump with a 32-bit offset
    .long processor_entry
    .word 0x18
trampoline_descriptors:
    .word 31
    .long boot_descriptors
trampoline_end:

# One at a time, on the boot stack, which the bootstrap processor has left.
.code32
processor_entry:
    mov eax, 0x10
    mov ds, eax
    mov es, eax
    mov ss, eax
    mov esp, offset boot_stack_top
    call enter_long_mode
.code64
    movabs rax, offset processor_start
    jmp rax

# A CPU that cannot run Chitin: say so on the serial line, stop as a boot failure.
.code32
boot_refuse:
    mov esi, offset boot_refusal
    mov edx, {serial_port}
3:  lodsb
    test al, al
    jz 4f
    out dx, al
    jmp 3b
4:  mov edx, {exit_port}
    mov eax, {exit_boot_failure}
    out dx, eax
5:  hlt
    jmp 5b
.code64

.section .boot.data, "aw"
boot_refusal:
    .asciz "chitin: boot failure: this CPU has no long mode or no NX bit; use a 64-bit CPU model\r\n"
.align 8
boot_descriptors:
    .quad 0
    .quad 0x00af9a000000ffff        # 0x08: 64-bit code
    .quad 0x00cf92000000ffff        # 0x10: data
    .quad 0x00cf9a000000ffff        # 0x18: 32-bit code
boot_descriptors_pointer:
    .word 31
    .quad boot_descriptors

.section .boot.bss, "aw", @nobits
.align 4096
.global boot_root_table
boot_root_table:        .skip 4096
boot_low_table:         .skip 4096
boot_image_table:       .skip 4096
boot_page_directories:  .skip 4 * 4096
boot_stack:             .skip 16384
boot_stack_top:

.text
