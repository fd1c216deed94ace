/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Copies and memsets. */
#ifndef GPUSNOOP_CUDA_COPIES_BPF_H
#define GPUSNOOP_CUDA_COPIES_BPF_H

#include "bpf/cuda/calls.bpf.h"

static __always_inline void fill_copy(struct cuda_copy_record *record, const struct call *call)
{
	record->destination = argument(call, CUDA_ADDRESS);
	record->source = argument(call, CUDA_SOURCE);
	record->bytes = counted_bytes(call, argument(call, CUDA_BYTES));
	record->stream = argument(call, CUDA_STREAM);
	record->kind = (call->function >> CUDA_KIND) & (CALL_SLOTS - 1)
			   ? argument(call, CUDA_KIND)
			   : CUDA_COOKIE_VARIANT(call->function);
	record->is_async = !!(call->function & ASYNC);
}

static __always_inline void finish_copy(struct thread *thread, const struct call *call)
{
	struct cuda_copy_record *record;

	if (!RESERVE_CALL(thread, call, record, CUDA_RECORD_COPY))
		return;
	fill_copy(record, call);
	SUBMIT_CALL(record);
}

/* Copies that a structure describes, by the layouts of CUDA's driver_types.h (runtime) and cuda.h
 * (driver), in words of 8 bytes. */
enum words_of_3d { /* cudaMemcpy3DParms */
		   WORD_3D_SOURCE_ARRAY = 0,
		   WORD_3D_SOURCE = 4,
		   WORD_3D_DESTINATION_ARRAY = 8,
		   WORD_3D_DESTINATION = 12,
		   WORD_3D_EXTENT = 16,
		   WORD_3D_KIND = 19,
		   WORDS_OF_3D = 20,
};

enum words_of_3d_peer { /* cudaMemcpy3DPeerParms */
			WORD_PEER_SOURCE_ARRAY = 0,
			WORD_PEER_SOURCE = 4,
			WORD_PEER_DESTINATION_ARRAY = 9,
			WORD_PEER_DESTINATION = 13,
			WORD_PEER_EXTENT = 18,
			WORDS_OF_3D_PEER = 21,
};

enum words_of_driver_2d {			   /* CUDA_MEMCPY2D */
			  WORD_2D_SOURCE_TYPE = 2, /* then host address, device address */
			  WORD_2D_DESTINATION_TYPE = 9,
			  WORD_2D_EXTENT = 14,
			  WORDS_OF_DRIVER_2D = 16,
};

enum words_of_driver_3d { /* CUDA_MEMCPY3D */
			  WORD_DRIVER_3D_SOURCE_TYPE = 4,
			  WORD_DRIVER_3D_DESTINATION_TYPE = 15,
			  WORD_DRIVER_3D_EXTENT = 22,
			  WORDS_OF_DRIVER_3D = 25,
};

enum driver_memory_type { /* CUmemorytype */
			  DRIVER_HOST = 1,
			  DRIVER_DEVICE = 2,
			  DRIVER_ARRAY = 3,
			  DRIVER_UNIFIED = 4,
};

static __always_inline __u32 kind_of_types(__u32 destination, __u32 source)
{
	if (destination == DRIVER_UNIFIED || source == DRIVER_UNIFIED)
		return COPY_DEFAULT;
	return (destination == DRIVER_HOST ? 0 : COPY_H2D) | (source == DRIVER_HOST ? 0 : COPY_D2H);
}

static __always_inline void fill_runtime_3d(struct cuda_copy_record *record, const __u64 *extent,
					    bool has_arrays)
{
	/* For an array the width counts elements, whose size only the array knows. */
	record->bytes = has_arrays ? 0 : extent[0] * extent[1] * extent[2];
}

static __always_inline void fill_driver(struct cuda_copy_record *record, const __u64 *destination,
					const __u64 *source)
{
	record->kind = kind_of_types(destination[0], source[0]);
	record->destination =
	    (__u32)destination[0] == DRIVER_HOST ? destination[1] : destination[2];
	record->source = (__u32)source[0] == DRIVER_HOST ? source[1] : source[2];
}

/* Reads the description of a copy, as this operation has it. Nonzero: it could not be read. */
static __always_inline long read_description(struct cuda_copy_record *record, struct thread *thread,
					     __u8 operation, __u64 where)
{
	__u64 *words = thread->words;
	__u32 bytes = operation == CUDA_COPY_3D		 ? WORDS_OF_3D * 8
		      : operation == CUDA_COPY_3D_PEER	 ? WORDS_OF_3D_PEER * 8
		      : operation == CUDA_COPY_DRIVER_2D ? WORDS_OF_DRIVER_2D * 8
							 : WORDS_OF_DRIVER_3D * 8;

	if (bpf_probe_read_user(words, bytes, (const void *)where))
		return -1;
	switch (operation) {
	case CUDA_COPY_3D:
		record->destination = words[WORD_3D_DESTINATION];
		record->source = words[WORD_3D_SOURCE];
		record->kind = words[WORD_3D_KIND];
		fill_runtime_3d(record, &words[WORD_3D_EXTENT],
				words[WORD_3D_SOURCE_ARRAY] || words[WORD_3D_DESTINATION_ARRAY]);
		break;
	case CUDA_COPY_3D_PEER:
		record->destination = words[WORD_PEER_DESTINATION];
		record->source = words[WORD_PEER_SOURCE];
		record->kind = COPY_D2D;
		fill_runtime_3d(record, &words[WORD_PEER_EXTENT],
				words[WORD_PEER_SOURCE_ARRAY] ||
				    words[WORD_PEER_DESTINATION_ARRAY]);
		break;
	case CUDA_COPY_DRIVER_2D:
		fill_driver(record, &words[WORD_2D_DESTINATION_TYPE], &words[WORD_2D_SOURCE_TYPE]);
		record->bytes = words[WORD_2D_EXTENT] * words[WORD_2D_EXTENT + 1];
		break;
	default:
		fill_driver(record, &words[WORD_DRIVER_3D_DESTINATION_TYPE],
			    &words[WORD_DRIVER_3D_SOURCE_TYPE]);
		record->bytes = words[WORD_DRIVER_3D_EXTENT] * words[WORD_DRIVER_3D_EXTENT + 1] *
				words[WORD_DRIVER_3D_EXTENT + 2];
		break;
	}
	return 0;
}

static __always_inline long fill_described_copy(struct cuda_copy_record *record,
						struct thread *thread, const struct call *call)
{
	record->stream = argument(call, CUDA_STREAM);
	record->is_async = !!(call->function & ASYNC);
	return read_description(record, thread, CUDA_COOKIE_OPERATION(call->function),
				argument(call, CUDA_ADDRESS));
}

static __always_inline void finish_described_copy(struct thread *thread, const struct call *call)
{
	struct cuda_copy_record *record;

	if (!RESERVE_CALL(thread, call, record, CUDA_RECORD_COPY))
		return;
	if (fill_described_copy(record, thread, call)) {
		DISCARD_CALL(record);
		return;
	}
	SUBMIT_CALL(record);
}

static __always_inline void fill_set(struct cuda_copy_record *record, const struct call *call)
{
	record->destination = argument(call, CUDA_ADDRESS);
	record->source = 0;
	record->bytes = CUDA_COOKIE_OPERATION(call->function) == CUDA_SET_3D
			    ? call->argument[11] * call->argument[12] * call->argument[13]
			    : counted_bytes(call, argument(call, CUDA_BYTES))
				  << (CUDA_COOKIE_VARIANT(call->function) & 3);
	record->stream = argument(call, CUDA_STREAM);
	record->kind = 0;
	record->is_async = !!(call->function & ASYNC);
}

static __always_inline void finish_set(struct thread *thread, const struct call *call)
{
	struct cuda_copy_record *record;

	if (!RESERVE_CALL(thread, call, record, CUDA_RECORD_SET))
		return;
	fill_set(record, call);
	SUBMIT_CALL(record);
}

#endif
