/* libodd.so.1: functions with instructions that the kernel allows no probe on, among others. */
	.text

	.macro function name
	.globl \name
	.type \name, @function
	.p2align 4
\name:
	.endm

	.macro end name
	.size \name, . - \name
	.endm

/* Adds one to a number in memory: the first instruction has the prefix `lock`. */
	function odd_locked
	lock incq (%rdi)
	movq (%rdi), %rax
	ret
	end odd_locked

/* Never called: only the kernel may run it. */
	function odd_halt
	hlt
	ret
	end odd_halt

	function odd_plain
	leaq 1(%rdi), %rax
	ret
	end odd_plain

	function odd_other
	leaq 2(%rdi), %rax
	ret
	end odd_other

/* odd::plain(long) */
	function _ZN3odd5plainEl
.Lplain:
	leaq 3(%rdi), %rax
	ret
	end _ZN3odd5plainEl

/* odd::jump(long): leaves to odd::plain by a jump with a prefix for the segment DS, which means
 * nothing. */
	function _ZN3odd4jumpEl
	nop
	.byte 0x3e
	jmp .Lplain
	end _ZN3odd4jumpEl

	.section .note.GNU-stack, "", @progbits
