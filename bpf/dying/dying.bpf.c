// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Where in Python's code a thread is when a signal is about to end it inside of a CUDA call. Its
 * memory goes at once, so the names are copied here: nobody could read them afterwards. A process
 * that ends by itself sends such a signal to its other threads. The same when a call has failed:
 * the programs at its end tail-call one of these. The calls are in the map of the probe `cuda`. */
#define PROBE dying

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/cuda/threads.bpf.h"
#include "bpf/dying/dying.h"
#include "bpf/lib/maps.bpf.h"
#include "bpf/lib/open_calls.bpf.h"

#define PYTHON_MAX_FRAMES DYING_FRAMES
#define FRAME_MASK	  (DYING_FRAMES - 1)

struct dying_frame {
	__u64 code;
	__s64 instruction;
};

struct scratch {
	struct python_walk python;
	struct dying_interpreter interpreter;
	struct dying_frame frame[DYING_FRAMES];
	__u64 call_started_ns;
	__u64 has_failed;
	__u64 object; /* that is copied */
	__u64 words[5];
};

ON_DEMAND_MAP(dying_pythons, PYTHON_MAX_PROCESSES, __u32, struct dying_interpreter);

THREAD_MAP(dying_walks, struct scratch);

RING_MAP(dying_frames, 1 << 20);

/* Adds the frame that was read to the scratch's. */
static __always_inline void add_frame(struct scratch *scratch, __u32 frames)
{
	const struct python_layout *layout = &scratch->python.layout;
	const __u8 *bytes = (const __u8 *)scratch->python.bytes;
	struct dying_frame *frame = &scratch->frame[frames & FRAME_MASK];
	__u64 place;

	if (layout->owner_shim && bytes[layout->frame_owner & 0x7f] >= layout->owner_shim)
		return;
	frame->code = *(__u64 *)&bytes[layout->frame_code & 0x78] & ~PYTHON_TAGS;
	place = *(__u64 *)&bytes[scratch->interpreter.frame_instruction & 0x78];
	frame->instruction =
	    (__s64)(place - frame->code - scratch->interpreter.code_instructions) >> 1;
	scratch->python.frames = frames + 1;
}

#include "bpf/lib/python/walk.bpf.h"

/* The object whose address the code object has at `offset`, and the first of its words, which all
 * kinds of objects have. */
static __always_inline bool find_object(struct scratch *scratch, __u64 code, __u32 offset)
{
	return !bpf_probe_read_user(&scratch->object, sizeof(__u64), (void *)(code + offset)) &&
	       !bpf_probe_read_user(scratch->words, sizeof(scratch->words),
				    (void *)scratch->object);
}

/* How many bytes a string object has, as python_text() of the exporter reads it. 0: there is no
 * room: a part of a path would look like another file. */
static __always_inline __u32 text_object_bytes(const struct scratch *scratch)
{
	__u64 length = scratch->words[2];
	__u32 state = scratch->words[4];
	__u32 width = state >> 2 & 7;
	__u64 bytes =
	    (state & 0x40 ? scratch->interpreter.ascii_text : scratch->interpreter.unicode_text) +
	    (length < DYING_TEXT_BYTES ? length * width : DYING_TEXT_BYTES);

	return bytes < DYING_TEXT_BYTES ? bytes : 0;
}

static __always_inline __u32 table_object_bytes(const struct scratch *scratch)
{
	__u64 length = scratch->words[2]; /* the bytes begin behind the fourth word */

	return length < DYING_TABLE_BYTES - 32 ? length + 32 : DYING_TABLE_BYTES - 1;
}

#define COPY_OBJECT(record, member, offset, bytes_of)                                              \
	do {                                                                                       \
		__u32 bytes_ = 0;                                                                  \
		if (find_object(scratch, code, scratch->interpreter.offset)) {                     \
			bytes_ = bytes_of(scratch) & (sizeof((record)->member) - 1);               \
			barrier_var(bytes_);                                                       \
			bytes_ &= sizeof((record)->member) - 1;                                    \
			if (bpf_probe_read_user((record)->member, bytes_,                          \
						(void *)scratch->object))                          \
				bytes_ = 0;                                                        \
		}                                                                                  \
		(record)->member##_bytes = bytes_;                                                 \
	} while (0)

static __always_inline bool send_frame(struct scratch *scratch, struct task_struct *task,
				       __u32 index)
{
	struct dying_frame_record *record;
	__u64 code = scratch->frame[index & FRAME_MASK].code;

	record = bpf_ringbuf_reserve(&dying_frames, sizeof(*record), 0);
	if (!record)
		return false;
	record->call_started_ns = scratch->call_started_ns;
	record->tgid = task->tgid;
	record->tid = task->pid;
	record->index = index;
	record->first_line = 0;
	record->instruction = scratch->frame[index & FRAME_MASK].instruction;
	record->has_failed = scratch->has_failed;
	bpf_probe_read_user(&record->first_line, sizeof(record->first_line),
			    (void *)(code + scratch->interpreter.first_line));
	COPY_OBJECT(record, file, file_name, text_object_bytes);
	COPY_OBJECT(record, function, qualified_name, text_object_bytes);
	COPY_OBJECT(record, table, line_table, table_object_bytes);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return true;
}

static __always_inline void send_python(struct scratch *scratch, struct task_struct *task)
{
	read_own_id(&scratch);
	find_thread(&scratch);
	if (!scratch->python.thread.state)
		return;
	walk_frames(&scratch);
	for (__u32 i = 0; i < DYING_FRAMES; i++) {
		FORGET_ADDRESSES(&scratch);
		if (i >= scratch->python.frames || !send_frame(scratch, task, i))
			break;
	}
}

/* As last_call_of() in bpf/cuda/ says of a thread that has ended. */
static __always_inline bool is_in_call(struct task_struct *task, const struct thread *thread)
{
	const struct call *call = &thread->open.call[0];

	return thread->open.depth && call->started_ns &&
	       is_inside(task, call->sp, READ_REGISTER(CALL_SP(user_registers(task))));
}

static __always_inline void send_call(struct task_struct *task, const struct thread *thread,
				      bool has_failed)
{
	struct dying_interpreter *interpreter;
	struct scratch *scratch;
	__u32 tgid = task->tgid;

	interpreter = bpf_map_lookup_elem(&dying_pythons, &tgid);
	if (!interpreter)
		return;
	scratch = bpf_task_storage_get(&dying_walks, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!scratch)
		return;
	scratch->interpreter = *interpreter;
	scratch->python.layout = interpreter->frames;
	scratch->call_started_ns = thread->open.call[0].started_ns;
	scratch->has_failed = has_failed;
	send_python(scratch, task);
}

static __always_inline void on_signal(struct k_sigaction *action)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread;

	if (BPF_CORE_READ(action, sa.sa_handler)) /* the program goes on in it */
		return;
	thread = bpf_task_storage_get(&cuda_threads, task, NULL, 0);
	if (thread && is_in_call(task, thread))
		send_call(task, thread, false);
}

/* Of threads that end with their process, too. */
SEC("tp_btf/signal_deliver")
int BPF_PROG(dying_signal, int signal, struct kernel_siginfo *info, struct k_sigaction *action)
{
	tracepoint_guard_begin();
	on_signal(action);
	tracepoint_guard_end();
	return 0;
}

/* The call stays in the thread's state when it has returned. */
static __always_inline void on_failed(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = bpf_task_storage_get(&cuda_threads, task, NULL, 0);

	if (thread)
		send_call(task, thread, true);
}

SEC("uprobe")
int dying_return(struct pt_regs *regs)
{
	guard_begin();
	on_failed();
	guard_end();
	return 0;
}

SEC("uprobe")
int dying_exit(struct pt_regs *regs)
{
	guard_begin();
	on_failed();
	guard_end();
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
