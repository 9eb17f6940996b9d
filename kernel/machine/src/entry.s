# Every way from user mode into the kernel and back (exokernel-sosp95 §5.2 to §5.5; DESIGN.md §2 "Traps", §4).
#
# Rules that hold here:
# - interrupts are off from entry to exit, and GS is the kernel's between the two swapgs;
# - the hot paths (null call, exception, reflection) touch only this CPU's EntryState, the current Context, and its
#   private pages through the direct map: they never take the lock and never call Rust;
# - RSP may point into a Context or a private page for a few instructions: NMI, double fault and machine check have
#   stacks of their own, and nothing else can interrupt;
# - an upcall changes RIP, RSP, PKRU and the flags, and no other register.

.code64
.section .text

# ---- SYSCALL -------------------------------------------------------------------------------------------------------

.global chitin_syscall_entry
.balign 64
chitin_syscall_entry:
    swapgs
    mov gs:[{USER_RSP}], rsp
    mov rsp, gs:[{PRIVATE}]
    # A synchronous transfer, of an environment that lets them through from anywhere: the sign of both words.
    test [rsp + {UNGATED}], rax
    js chitin_transfer_synchronous
    cmp qword ptr [rsp + {GATE_END}], 0
    jne 2f
1:  cmp rax, {PAGE_MAP}
    je chitin_map_few
    ja 4f
    test eax, eax
    jz 3f
chitin_system_call_in_rust:
    mov rsp, gs:[{KERNEL_STACK}]
    push qword ptr gs:[{USER_RSP}]
    push r11
    push rcx
    push rax
    push r9
    push r8
    push r10
    push rdx
    push rsi
    push rdi
    mov gs:[{ENTRY_CAUSE}], rax
    # What no row of the table is goes where the table ends.
    mov ecx, {CALLS}
    cmp rax, rcx
    cmovb ecx, eax
    # The lower halves of two stamps tell how long an entry took, up to seconds.
    rdtsc
    mov gs:[{ENTRY_STAMP}], eax
    mov rdi, rsp
    call [rcx * 8 + chitin_system_calls]
    rdtsc
    sub eax, gs:[{ENTRY_STAMP}]
    cmp eax, gs:[{LONGEST_ENTRY}]
    ja 5f
6:  pop rdi
    pop rsi
    pop rdx
    pop r10
    pop r8
    pop r9
    pop rax
    pop rcx
    pop r11
    pop rsp
    swapgs
    sysretq
5:  mov edi, eax
    call chitin_note_longest_entry
    jmp 6b
    # The gate: the instruction must lie in the declared range, and the declared PKRU must hold.
2:  sub rcx, 2
    cmp rcx, [rsp + {GATE_START}]
    lea rcx, [rcx + 2]
    jb chitin_reflect
    cmp rcx, [rsp + {GATE_END}]
    ja chitin_reflect
    cmp qword ptr [rsp + {GATE_PKRU_CHECKED}], 0
    je 1b
    mov rsp, gs:[{CURRENT}]
    cmp qword ptr [rsp + {KEYS_ON}], 0
    mov rsp, gs:[{PRIVATE}]
    je 1b
    mov gs:[{SCRATCH}], rax
    mov gs:[{SCRATCH} + 8], rcx
    mov gs:[{SCRATCH} + 16], rdx
    xor ecx, ecx
    rdpkru
    cmp eax, [rsp + {GATE_PKRU}]
    mov rax, gs:[{SCRATCH}]
    mov rcx, gs:[{SCRATCH} + 8]
    mov rdx, gs:[{SCRATCH} + 16]
    je 1b
    jmp chitin_reflect
3:  # The null call.
    mov rsp, gs:[{USER_RSP}]
    xor edx, edx
    swapgs
    sysretq
    # No number of a call is as large as what asks for a transfer.
4:  cmp rax, {CALLS}
    jb chitin_system_call_in_rust
    test rax, rax
    js chitin_transfer_synchronous
    bt rax, {ASYNCHRONOUS_BIT}
    jc chitin_transfer_asynchronous
    jmp chitin_system_call_in_rust

# ---- Protected control transfer ------------------------------------------------------------------------------------

# The fast way: the callee free and ready; caller and callee alike in their vector units, neither with protection keys, the
# callee waiting for nothing and whole in RIP, RSP and flags (all that is one comparison, which holds once it is claimed). rcx, r11 and rsp are all that is
# used; every other register passes, FS base too, and GS base is the callee's private page. Anything else goes on in Rust, with
# the caller's registers as they were but for the flags, which a transfer does not keep.
#
# Who runs on this CPU is said before its address space is loaded, and the caller is let go after that: another CPU may enter
# it then. Its context stays where it is until this CPU has left the kernel.
.macro transfer side, entry
    mov rsp, gs:[{CURRENT}]
    mov [rsp + {RIP}], rcx
    # It lies below what the pointer to a context points to.
    push qword ptr gs:[{USER_RSP}]
    mov rcx, gs:[{CPU_RECORD}]
    mov [rcx + {CPU_ENVIRONMENT}], eax
    movzx r11d, ax
    mov r11, [r11 * 8 + chitin_contexts]
    imul rcx, rax, {CALLEE_SCALE}
    or rcx, gs:[\side]
    lock bts qword ptr [r11 + {CLAIM}], 0
    jc 8f
    cmp [r11 + {CALLEE}], rcx
    jne 7f
    mov gs:[{CURRENT}], r11
    mov rcx, [r11 + {ADDRESS_SPACE}]
    mov cr3, rcx
    mov rcx, [r11 + {CONTEXT_PRIVATE}]
    cmp qword ptr [rcx + {READY}], 0
    je 6f
    # From here on the callee runs.
    mov gs:[{PRIVATE}], rcx
    mov qword ptr [rsp + 8 + {CLAIM}], 0
    mov rsp, [rsp + 8 + {NUMBER}]
    mov [rcx + {CALLER}], rsp
    # An entry outside of the user half becomes one inside: sysretq must not meet it.
    mov rcx, [rcx + \entry]
    and rcx, [rip + chitin_user_half]
    mov r11, [r11 + {AREA_PRIVATE}]
    mov rsp, gs:[{USER_RSP}]
    swapgs
    wrgsbase r11
    mov r11d, {FIRST_FLAGS}
    sysretq
6:  add rsp, 8
    mov gs:[{CURRENT}], rsp
    mov rcx, [rsp + {ADDRESS_SPACE}]
    mov cr3, rcx
    mov qword ptr [r11 + {CLAIM}], 0
    jmp 9f
7:  mov qword ptr [r11 + {CLAIM}], 0
8:  add rsp, 8
9:  mov rcx, [rsp + {NUMBER}]
    mov r11, gs:[{CPU_RECORD}]
    mov [r11 + {CPU_ENVIRONMENT}], ecx
    mov rcx, [rsp + {RIP}]
    mov r11d, {FIRST_FLAGS}
    jmp chitin_system_call_in_rust
.endm

.balign 64
chitin_transfer_synchronous:
    transfer {SYNCHRONOUS_SIDE}, {SYNCHRONOUS_ENTRY}
.balign 64
chitin_transfer_asynchronous:
    transfer {ASYNCHRONOUS_SIDE}, {ASYNCHRONOUS_ENTRY}

# ---- A few rows of page_map ----------------------------------------------------------------------------------------

# Goes on where the call has the key, the root and the environment of what is remembered, and keeps its arguments.
.macro remembered_map
    cmp rsi, [rip + chitin_last_map + {LAST_ROOT}]
    jne chitin_system_call_in_rust
    cmp rdi, [rip + chitin_last_map + {LAST_KEY}]
    jne chitin_system_call_in_rust
    mov rsp, gs:[{CURRENT}]
    cmp rsp, [rip + chitin_last_map + {LAST_CONTEXT}]
    jne chitin_system_call_in_rust
    mov rsp, gs:[{KERNEL_STACK}]
    push r9
    push r8
    push r10
    push rdx
    push rcx
.endm

# Arguments: rdi key, rsi root, rdx address of the rows, r10 how many. For rows that keep their pages or map them where nothing
# was, in tables that are remembered, under the same key and root of the same environment (`map_few.rs`): one comparison for each answer. At anything
# else the whole call goes on in Rust, with the caller's registers as they were; rows that are done stay as they are then.
# One CPU runs: nobody else changes an entry meanwhile.
chitin_map_few:
    lea rsp, [r10 - 1]
    cmp rsp, {FEW}
    jae chitin_map_many
    remembered_map
    # Rows outside of the user half fault below as if they were not mapped: nobody maps the last page of it.
    mov rax, rdx
    shr rax, 47
    jnz chitin_map_few_otherwise
    cmp qword ptr gs:[{SMAP}], 0
    jne 5f
.global chitin_map_few_begin
chitin_map_few_begin:
1:  mov r9, [rdx]
    mov rcx, [rdx + 8]
.global chitin_map_few_end
chitin_map_few_end:
    mov rax, r9
    shr rax, {REGION_BITS}
    mov r8d, eax
    and r8d, {TABLES} - 1
    shl r8d, 5
    add rax, [rip + chitin_last_map + {LAST_GENERATION}]
    cmp rax, [r8 + chitin_last_map + {LAST_TABLES}]
    jne chitin_map_few_otherwise
    # An entry of it is set.
    mov rax, [r8 + chitin_last_map + {LAST_TABLES} + 16]
    inc qword ptr [rax + {PAGE_BLOCK}]
    mov eax, r9d
    shr eax, 12
    and eax, 511
    mov r8, [r8 + chitin_last_map + {LAST_TABLES} + 8]
    lea r8, [r8 + rax * 8]
    # The page must stay, and the entry be present.
    mov rax, [r8]
    xor rax, rcx
    test rax, [rip + chitin_last_map + {LAST_KEPT}]
    jnz chitin_map_few_bind
    test cl, {PRESENT}
    jz chitin_map_few_otherwise
    and eax, ecx
    test al, {WRITE}
    jnz 3f
2:  or rcx, {USER}
    xchg [r8], rcx
    invlpg [r9]
    test cl, {DIRTY}
    jnz 4f
9:  add rdx, 16
    dec r10
    jnz 1b
    cmp qword ptr gs:[{SMAP}], 0
    jne 6f
chitin_map_few_done:
    pop rcx
    pop rax
    pop r10
    pop r8
    pop r9
    mov edx, r10d
    xor eax, eax
    mov rsp, gs:[{USER_RSP}]
    swapgs
    sysretq
    # It becomes writable: by the right that the key gives on an ordinary page of the list.
3:  mov eax, r9d
    and eax, 0xfff
    cmp rax, [rip + chitin_last_map + {LAST_WRITER}]
    jne chitin_map_few_otherwise
    mov rax, {PAGE}
    and rax, rcx
    shr rax, 6
    add rax, [rip + chitin_page_records]
    cmp byte ptr [rax + {PAGE_STATE}], {ORDINARY}
    jne chitin_map_few_otherwise
    mov eax, [rax + {PAGE_ACCESS}]
    cmp eax, [rip + chitin_last_map + {LAST_LIST}]
    je 2b
    jmp chitin_map_few_otherwise
    # A page is mapped where nothing was, by the same right. TLBs hold nothing of it.
chitin_map_few_bind:
    cmp qword ptr [r8], 0
    jne chitin_map_few_otherwise
    test cl, {PRESENT}
    jz chitin_map_few_otherwise
    test rcx, [rip + chitin_last_map + {LAST_REFUSED}]
    jnz chitin_map_few_otherwise
    and r9d, 0xfff
    cmp r9, [rip + chitin_last_map + {LAST_WRITER}]
    jne chitin_map_few_otherwise
    mov rax, {PAGE}
    and rax, rcx
    shr rax, 6
    cmp rax, [rip + chitin_page_records + 8]
    jae chitin_map_few_otherwise
    add rax, [rip + chitin_page_records]
    cmp byte ptr [rax + {PAGE_STATE}], {ORDINARY}
    jne chitin_map_few_otherwise
    mov r9d, [rax + {PAGE_ACCESS}]
    cmp r9d, [rip + chitin_last_map + {LAST_LIST}]
    jne chitin_map_few_otherwise
    # The page is bound now, is in use once more, and will not stay full of zeros.
    mov r9, [rip + chitin_binding_events]
    inc qword ptr [r9]
    mov r9, [r9]
    mov [rax + {PAGE_LAST_USE}], r9
    inc dword ptr [rax + {PAGE_ACCESS} + 4]
    and byte ptr [rax + {PAGE_STATE} + 1], {ZEROED_FLAG} ^ 0xff
    or rcx, {USER}
    mov [r8], rcx
    # This eighth of the table holds an entry.
    mov rax, {OF_DIRECT_MAP}
    and rax, r8
    shr rax, 6
    add rax, [rip + chitin_page_records]
    and r8d, 0xfff
    shr r8d, 9
    add r8d, {EIGHTHS_SHIFT}
    bts dword ptr [rax + {PAGE_STATE}], r8d
    jmp 9b
    # It was written through the old entry.
4:  mov rax, {PAGE}
    and rax, rcx
    shr rax, 6
    add rax, [rip + chitin_page_records]
    or byte ptr [rax + {PAGE_STATE} + 1], {DIRTY_FLAG}
    jmp 9b
5:  stac
    jmp 1b
6:  clac
    jmp chitin_map_few_done
# A row could not be read, or is another one.
.global chitin_map_few_otherwise
chitin_map_few_otherwise:
    cmp qword ptr gs:[{SMAP}], 0
    je 8f
    clac
8:  pop rcx
    pop rdx
    pop r10
    pop r8
    pop r9
    mov eax, {PAGE_MAP}
    jmp chitin_system_call_in_rust

# Many rows, which keep their pages, by the same answers: so many that all translations are dropped at once. rdx is where the
# rows end and r10 the way to there, r8 the table, r11 the address that its first entry translates and above it the key, so
# that one subtraction tells whether a row has the same key and lies in the table.
chitin_map_many:
    lea rsp, [r10 - {MANY}]
    cmp rsp, {MAP_ROWS} - {MANY}
    ja chitin_system_call_in_rust
    remembered_map
    push r11
    push rdi
    push rsi
    push rbp
    push rbx
    mov rax, rdx
    shr rax, 47
    jnz chitin_map_many_otherwise
    shl r10, 4
    add rdx, r10
    neg r10
    # No row lies in the table that begins here.
    mov r11, -1
    mov rdi, [rip + chitin_last_map + {LAST_KEPT}]
    mov rsi, [rip + chitin_page_records]
    mov rbp, {PAGE}
    mov ebx, [rip + chitin_last_map + {LAST_LIST}]
    cmp qword ptr gs:[{SMAP}], 0
    je 1f
    stac
.global chitin_map_many_begin
chitin_map_many_begin:
1:  mov r9, [rdx + r10]
    mov rcx, [rdx + r10 + 8]
.global chitin_map_many_end
chitin_map_many_end:
    sub r9, r11
    ror r9, 12
    cmp r9, 511
    ja 5f
2:  xor rcx, {PRESENT}
    test cl, {PRESENT} | {WRITE}
    jnz 3f
    or rcx, {PRESENT} | {USER}
    mov rax, [r8 + r9 * 8]
    xor rax, rcx
    test rax, rdi
    jnz chitin_map_many_otherwise
    xchg [r8 + r9 * 8], rcx
    test cl, {DIRTY}
    jnz 4f
6:  add r10, 16
    jnz 1b
7:  mov rax, cr3
    mov cr3, rax
    pop rbx
    pop rbp
    pop rsi
    pop rdi
    pop r11
    cmp qword ptr gs:[{SMAP}], 0
    je chitin_map_few_done
    clac
    jmp chitin_map_few_done
    # It is writable: by the right that the key gives on an ordinary page of the list.
3:  test cl, {PRESENT}
    jnz chitin_map_many_otherwise
    or rcx, {PRESENT} | {USER}
    mov rax, [r8 + r9 * 8]
    xor rax, rcx
    test rax, rdi
    jnz chitin_map_many_otherwise
    mov rax, rbp
    and rax, rcx
    shr rax, 6
    cmp byte ptr [rax + rsi + {PAGE_STATE}], {ORDINARY}
    jne chitin_map_many_otherwise
    cmp [rax + rsi + {PAGE_ACCESS}], ebx
    jne chitin_map_many_otherwise
    xchg [r8 + r9 * 8], rcx
    test cl, {DIRTY}
    jnz 4f
    add r10, 16
    jnz 1b
    jmp 7b
    # It was written through the old entry.
4:  mov rax, rbp
    and rax, rcx
    shr rax, 6
    or byte ptr [rax + rsi + {PAGE_STATE} + 1], {DIRTY_FLAG}
    jmp 6b
    # Another table, or another key.
5:  rol r9, 12
    add r9, r11
    mov eax, r9d
    and eax, 0xfff
    cmp rax, [rip + chitin_last_map + {LAST_WRITER}]
    jne chitin_map_many_otherwise
    mov r11, r9
    shr r11, {REGION_BITS}
    mov r8d, r11d
    and r8d, {TABLES} - 1
    shl r8d, 5
    add r11, [rip + chitin_last_map + {LAST_GENERATION}]
    cmp r11, [r8 + chitin_last_map + {LAST_TABLES}]
    jne chitin_map_many_otherwise
    # The generation is above all bits of an address.
    shl r11, 64 - {GENERATION_SHIFT}
    shr r11, 64 - {GENERATION_SHIFT} - {REGION_BITS}
    add r11, rax
    # Entries of it are set.
    mov rax, [r8 + chitin_last_map + {LAST_TABLES} + 16]
    inc qword ptr [rax + {PAGE_BLOCK}]
    mov r8, [r8 + chitin_last_map + {LAST_TABLES} + 8]
    sub r9, r11
    shr r9, 12
    jmp 2b
# A row could not be read, or is another one.
.global chitin_map_many_otherwise
chitin_map_many_otherwise:
    mov rax, cr3
    mov cr3, rax
    pop rbx
    pop rbp
    pop rsi
    pop rdi
    pop r11
    jmp chitin_map_few_otherwise

# ---- Upcalls for exceptions and reflected calls --------------------------------------------------------------------

# Stack on entry: error, RIP, CS, RFLAGS, RSP, SS; GS is the kernel's. Leaves through iretq, or with the kind pushed and
# the stack as on entry to chitin_undeliverable. SHORT_STACK is 0 where protection keys are on: no frame fits there,
# and the rule for them costs other programs nothing.
.macro deliver kind, entry, address
    push rax
    push rcx
    push rdx
    mov rax, gs:[{CURRENT}]
    mov rdx, [rsp + 56]
    sub rdx, [rax + {STACK_BASE}]
    cmp rdx, [rax + {SHORT_STACK}]
    cmova rdx, [rax + {SHORT_STACK}]
    sub rdx, {FRAME_BYTES}
    jb 8f
5:  and rdx, -{FRAME_ALIGNMENT}
    mov ecx, edx
    shr ecx, 12
    mov byte ptr [rax + {WRITTEN} + rcx], 1
    mov rcx, [rax + {STACK_ALIAS} + rcx * 8]
    add rcx, rdx
    add rdx, [rax + {STACK_BASE}]
    mov rax, gs:[{PRIVATE}]
    mov rax, [rax + \entry]
    test rax, rax
    jz 9f
    bt rax, 47
    jc 9f
    push qword ptr [rsp + 32]
    pop qword ptr [rcx + {FRAME_RIP}]
    push qword ptr [rsp + 56]
    pop qword ptr [rcx + {FRAME_RSP}]
    mov [rsp + 32], rax
    mov [rsp + 56], rdx
    push qword ptr [rsp + 48]
    pop qword ptr [rcx + {FRAME_RFLAGS}]
    and dword ptr [rsp + 48], {KEPT_FLAGS}
    mov rax, [rsp + 24]
    mov [rcx + {FRAME_ERROR}], rax
    mov qword ptr [rcx + {FRAME_KIND}], \kind
    .if \address
    mov rax, cr2
    mov [rcx + {FRAME_DETAIL}], rax
    .else
    mov qword ptr [rcx + {FRAME_DETAIL}], 0
    .endif
    mov qword ptr [rcx + {FRAME_CS}], {USER_CODE}
    mov qword ptr [rcx + {FRAME_SS}], {USER_DATA}
    mov rax, gs:[{CURRENT}]
    cmp qword ptr [rax + {KEYS_ON}], 0
    jne 7f
    mov qword ptr [rcx + {FRAME_PKRU}], 0
6:  pop rdx
    pop rcx
    pop rax
    add rsp, 8
    swapgs
    iretq
7:  push rcx
    xor ecx, ecx
    rdpkru
    pop rcx
    mov [rcx + {FRAME_PKRU}], rax
    mov rcx, gs:[{PRIVATE}]
    mov eax, [rcx + {UPCALL_PKRU}]
    xor ecx, ecx
    wrpkru
    jmp 6b
8:  call chitin_frame_under_keys
    jae 5b
9:  pop rdx
    pop rcx
    pop rax
    push \kind
    jmp chitin_undeliverable
.endm

# The offset of a frame in the upcall stack, in rdx, where protection keys are on; the carry flag, where it does not
# fit. Code under another PKRU than that of upcalls may set RSP as it likes: its frame lies at the top. rax is the
# current context, and stays so. rcx is lost.
chitin_frame_under_keys:
    cmp qword ptr [rax + {KEYS_ON}], 0
    je 2f
    xor ecx, ecx
    rdpkru
    mov rcx, gs:[{PRIVATE}]
    cmp eax, [rcx + {UPCALL_PKRU}]
    mov rax, gs:[{CURRENT}]
    mov rdx, [rax + {STACK_BYTES}]
    jne 1f
    mov rcx, [rsp + 64]
    sub rcx, [rax + {STACK_BASE}]
    cmp rcx, rdx
    cmovb rdx, rcx
1:  sub rdx, {FRAME_BYTES}
    ret
2:  stc
    ret

.macro exception vector, has_error
.balign 16
chitin_vector_\vector:
    .if \has_error == 0
    push 0
    .endif
    test byte ptr [rsp + 16], 3
    # Not a number: `deliver` has numbers of its own.
    jz chitin_vector_\vector\()_in_kernel
    swapgs
    .if \vector == 14
    test byte ptr [rsp], 4
    jz chitin_implicit_fault
    deliver \vector, {EXCEPTION_ENTRY}, 1
    .else
    deliver \vector, {EXCEPTION_ENTRY}, 0
    .endif
chitin_vector_\vector\()_in_kernel:
    push \vector
    jmp chitin_kernel_trap
.endm

.balign 16
chitin_reflect:
    mov rsp, gs:[{KERNEL_STACK}]
    push {USER_DATA}
    push qword ptr gs:[{USER_RSP}]
    push r11
    push {USER_CODE}
    push rcx
    push 0
    deliver {REFLECTION}, {REFLECTION_ENTRY}, 0

exception 0, 0
exception 1, 0
exception 2, 0
exception 3, 0
exception 4, 0
exception 5, 0
exception 6, 0
exception 7, 0
exception 8, 1
exception 9, 0
exception 10, 1
exception 11, 1
exception 12, 1
exception 13, 1
exception 14, 1
exception 15, 0
exception 16, 0
exception 17, 1
exception 18, 0
exception 19, 0
exception 20, 0
exception 21, 1
exception 22, 0
exception 23, 0
exception 24, 0
exception 25, 0
exception 26, 0
exception 27, 0
exception 28, 0
exception 29, 1
exception 30, 1
exception 31, 0

# ---- The slow ways: whole registers, and Rust ----------------------------------------------------------------------

.macro push_registers
    push r15
    push r14
    push r13
    push r12
    push r11
    push r10
    push r9
    push r8
    push rbp
    push rdi
    push rsi
    push rdx
    push rcx
    push rbx
    push rax
    # The flags of the program stay its own: Rust wants the direction flag clear, and SMAP the alignment flag.
    push 2
    popfq
.endm

.macro pop_registers
    pop rax
    pop rbx
    pop rcx
    pop rdx
    pop rsi
    pop rdi
    pop rbp
    pop r8
    pop r9
    pop r10
    pop r11
    pop r12
    pop r13
    pop r14
    pop r15
.endm

# An upcall that does not fit, or whose entry is not in the user half: the environment dies.
chitin_undeliverable:
    push_registers
    mov rdi, rsp
    call chitin_upcall_failed
    ud2

# An exception in the kernel: inside a user copy or an iretq it is the user's, anywhere else a panic.
chitin_kernel_trap:
    push_registers
    mov rdi, rsp
    mov rbx, rsp
    and rsp, -16
    call chitin_kernel_fault
    mov rsp, rbx
    pop_registers
    add rsp, 16
    iretq

# A page fault from user mode that claims to be the kernel's: see user_return.rs.
chitin_implicit_fault:
    push 14
    push_registers
    mov rdi, rsp
    call chitin_user_return
    pop_registers
    add rsp, 16
    swapgs
    iretq

# Device interrupts, 32 to 255.
.altmacro
.macro interrupt vector
.balign 16
chitin_vector_\vector:
    push 0
    push \vector
    jmp chitin_interrupt_common
.endm
.set vector, 32
.rept 224
    interrupt %vector
    .set vector, vector + 1
.endr
.noaltmacro

chitin_interrupt_common:
    test byte ptr [rsp + 24], 3
    jz 1f
    swapgs
    push_registers
    mov rdi, rsp
    call chitin_interrupt
    pop_registers
    add rsp, 16
    swapgs
    iretq
1:  push_registers
    mov rdi, rsp
    mov rbx, rsp
    and rsp, -16
    call chitin_interrupt_while_idle
    mov rsp, rbx
    pop_registers
    add rsp, 16
    # One interrupt ends a halt or a breath: others that wait come in the next one.
    and dword ptr [rsp + 16], {INTERRUPTS_OFF}
    iretq

# ---- Entering a context --------------------------------------------------------------------------------------------

# rdi: handle of a Context that was switched out whole.
.global chitin_enter_whole
chitin_enter_whole:
    mov rsp, gs:[{KERNEL_STACK}]
    push {USER_DATA}
    push qword ptr [rdi + {RSP}]
    push qword ptr [rdi + {RFLAGS}]
    mov qword ptr [rdi + {RFLAGS}], {FIRST_FLAGS}
    push {USER_CODE}
    push qword ptr [rdi + {RIP}]
    push 0
    push 0
    lea rsi, [rdi + {REGISTERS}]
    sub rsp, 120
    mov rdi, rsp
    mov ecx, 15
    rep movsq
    pop_registers
    add rsp, 16
    swapgs
    iretq

# Waits for an interrupt with an empty kernel stack, then goes on in Rust. rdi: function.
.global chitin_halt
chitin_halt:
    mov rsp, gs:[{KERNEL_STACK}]
    xor ebp, ebp
    push rdi
    push rdi
    sti
    hlt
    cli
    pop rdi
    pop rax
    call rdi
    ud2

# Lets interrupts in for one instruction. rdi: function.
.global chitin_breathe
chitin_breathe:
    mov rsp, gs:[{KERNEL_STACK}]
    xor ebp, ebp
    push rdi
    push rdi
    sti
    nop
    cli
    pop rdi
    pop rax
    call rdi
    ud2

# ---- Copies to and from the user's memory ----------------------------------------------------------------------------

# rdi: to, rsi: from: 16 bytes. Returns 0, or 1 after a fault.
.global chitin_copy_pair
chitin_copy_pair:
    cmp qword ptr gs:[{SMAP}], 0
    je chitin_copy_pair_begin
    stac
.global chitin_copy_pair_begin
chitin_copy_pair_begin:
    mov rcx, [rsi]
    mov rdx, [rsi + 8]
.global chitin_copy_pair_end
chitin_copy_pair_end:
    mov [rdi], rcx
    mov [rdi + 8], rdx
    xor eax, eax
    cmp qword ptr gs:[{SMAP}], 0
    je 1f
    clac
1:  ret

# rdi: to, rsi: from, rdx: bytes. Returns 0, or 1 after a fault.
.global chitin_copy
chitin_copy:
    cmp qword ptr gs:[{SMAP}], 0
    je 1f
    stac
1:  mov rcx, rdx
    shr rcx, 3
.global chitin_copy_begin
chitin_copy_begin:
    rep movsq
    mov ecx, edx
    and ecx, 7
    rep movsb
.global chitin_copy_end
chitin_copy_end:
    xor eax, eax
2:  cmp qword ptr gs:[{SMAP}], 0
    je 3f
    clac
3:  ret
.global chitin_copy_fixup
chitin_copy_fixup:
    mov eax, 1
    jmp 2b

.section .rodata
# Bits of an address in the user half.
.balign 8
chitin_user_half:
    .quad (1 << 47) - 1
.global chitin_vectors
.balign 8
chitin_vectors:
.altmacro
.macro vector_address vector
    .quad chitin_vector_\vector
.endm
.set vector, 0
.rept 256
    vector_address %vector
    .set vector, vector + 1
.endr
.noaltmacro
