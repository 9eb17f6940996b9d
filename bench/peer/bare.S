/*
 * The least program that can be started: it ends, and does nothing else. It is linked without the C library, so that
 * nothing is measured but what the system does.
 */
	.globl	_start
	.section .note.GNU-stack,"",@progbits
	.text
_start:
	mov	$231, %eax	/* exit_group(0) */
	xor	%edi, %edi
	syscall
