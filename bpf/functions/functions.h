/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The `functions` probe's contract: calls of functions that users name. */
#ifndef GPUSNOOP_FUNC_H
#define GPUSNOOP_FUNC_H

#include "bpf/lib/open_call.h"
#include "bpf/lib/processes/process.h"

/* The attach cookie: the function's number, and how its calls are followed. */
#define FUNC_NUMBER(cookie) ((__u32)(cookie))
#define FUNC_ENTRY_ONLY	    (1ULL << 32) /* counted at the entry; the rest is not known */
#define FUNC_EXITS	    (1ULL << 33) /* its end is seen at its exits, not by a return probe */
#define FUNC_JUMPS_TO_ENTRY (1ULL << 34) /* it begins again inside one call */
#define FUNC_AT_TAIL_CALL   (1ULL << 35) /* at an exit: another function returns for it */
#define FUNC_SEVENTH	    (1ULL << 36) /* its seventh argument is wanted, too */
/* Instead of the seventh argument: the hash of the ncclUniqueId that it gets by value, or that its
 * fifth argument points to. */
#define FUNC_ID_BY_VALUE (1ULL << 37)
#define FUNC_ID_POINTED	 (1ULL << 38)
#define FUNC_HAS_SEVENTH (FUNC_SEVENTH | FUNC_ID_BY_VALUE | FUNC_ID_POINTED)
#define FUNC_SPLITS	 (1ULL << 39) /* it is ncclCommSplit: sends a record when it begins */
/* No function: what is between two marks in the code, which may lie in different functions. */
#define FUNC_MARKED (1ULL << 40)
#define FUNC_BEGINS (1ULL << 41) /* at a mark: where it begins */
/* Instead of where its return address lies: above every stack, and another for each number. */
#define FUNC_MARKED_SP(cookie) (0xfffffffeULL << 32 | FUNC_NUMBER(cookie))

/* Functions with numbers below this can be muted in the kernel. */
#define FUNC_MUTABLE 65536

enum func_record_type {
	FUNC_RECORD_PROCESS, /* a process made its first call */
	FUNC_RECORD_EXIT,    /* it ended, or became another program by exec */
	FUNC_RECORD_ENTRY,   /* of a function that is counted at its entry only */
	FUNC_RECORD_RETURN,
	FUNC_RECORD_TAIL_CALL,	/* as a return, but the result is not known */
	FUNC_RECORD_BEGIN,	/* a call begins whose end will be seen; see send_entries */
	FUNC_RECORD_UNRETURNED, /* a thread ended inside a call */
	FUNC_RECORD_WORDS,	/* memory of the process that a call is about */
};

/* Times are CLOCK_MONOTONIC nanoseconds. A process is (tgid, since_ns), as in cuda.h. */
struct func_record {
	__u64 ended_ns;
	__u64 since_ns;
	__u32 tgid;
	__u32 type; /* enum func_record_type */
};
WIRE_SIZE(struct func_record, 24);

struct func_call_record {
	struct func_record head;
	__u64 duration_ns;
	__u64 result; /* the register: as many of its bits as the function's type has */
	__u32 function;
	__u32 tid;
};
WIRE_SIZE(struct func_call_record, 48);

/* By a function's number: the work for its calls besides counting them. A call whose end is seen
 * sends one of these three records; a longer one begins with the shorter. */
#define FUNC_MAX_FUNCTIONS 65536 /* numbers from there on have only the shortest record */

#define FUNC_SENDS_ARGUMENTS 1U /* each call, func_arguments_record */
/* Before them func_words_record: of the array of as many words as the second argument says, that
 * the first argument points to, or of as many ints as the third says, that the second points to. */
#define FUNC_SENDS_WORDS 2U
#define FUNC_SENDS_INTS	 4U
/* If the word that it points to is 0 then, the word is sent when it has been written. */
#define FUNC_WRITES_LATER  8U
#define FUNC_MAKES_HANDLES (FUNC_SENDS_WORDS | FUNC_SENDS_INTS | FUNC_WRITES_LATER)

struct func_options {
	__u64 slow_ns; /* from this duration on, calls send func_slow_record; 0: never */
	__u32 flags;
	__u32 pointer; /* the position of the argument that `pointed` is of, from 1 on */
};
WIRE_SIZE(struct func_options, 16);

#define FUNC_ARGUMENTS 7

struct func_arguments_record {
	struct func_call_record call;
	/* Integers and pointers as they were at the entry; the seventh with FUNC_SEVENTH, or the
	 * hash of an id, else 0. */
	__u64 argument[FUNC_ARGUMENTS];
	__u64 pointed;	   /* the word that an argument points to, at the end */
	__u32 has_pointed; /* whether it could be read */
	__u32 unused;
};
WIRE_SIZE(struct func_arguments_record, 120);

#define FUNC_WORDS 16

enum func_words {
	FUNC_WORDS_ARRAY,  /* of the thread's call that ends now, whose record follows */
	FUNC_WORDS_AWAITED /* a word that a call before has not written, and that is there now */
};

struct func_words_record {
	struct func_record head;
	__u64 address; /* of the first */
	__u32 tid;
	__u32 kind; /* enum func_words */
	__u64 word[FUNC_WORDS];
};
WIRE_SIZE(struct func_words_record, 40 + 8 * FUNC_WORDS);

#define FUNC_STACK_FRAMES 127 /* what the kernel gives by default (perf_event_max_stack) */
#define FUNC_COMM_BYTES	  16

struct func_slow_record {
	struct func_arguments_record arguments;
	char comm[FUNC_COMM_BYTES]; /* of the thread */
	__u64 code_start;	    /* of the program, as mm->start_code */
	__u64 trampoline; /* where calls with a return probe seem to return to; 0: nowhere yet */
	__u32 frame_count;
	__u32 unused;
	__u64 frames[FUNC_STACK_FRAMES]; /* return addresses, the caller's first */
};
WIRE_SIZE(struct func_slow_record, 120 + 16 + 3 * 8 + 8 * FUNC_STACK_FRAMES);

struct func_unreturned_record {
	struct func_record head;
	struct unreturned_call unreturned;
};
WIRE_SIZE(struct func_unreturned_record, 24 + sizeof(struct unreturned_call));

struct func_process_record {
	struct func_record head;
	struct process_identity identity;
	struct process_details details;
};
WIRE_SIZE(struct func_process_record,
	  24 + sizeof(struct process_identity) + sizeof(struct process_details));

struct func_exit_record {
	struct func_record head;
	__u64 cost_ns; /* as in struct process_entry */
	__u64 run_ns;  /* what its threads have run */
};
WIRE_SIZE(struct func_exit_record, 40);

/* The value of the table of processes. */
struct func_process {
	struct process_entry entry;
	struct call_budget budget;
	__u64 muted_ns; /* of its cost: of functions that were muted */
};
WIRE_SIZE(struct func_process, 48);

#endif
