/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The functions of the CUDA probe: the meaning of each, and where its arguments are. To trace one
 * more, add its line. */
#ifndef GPUSNOOP_CUDA_FUNCTIONS_H
#define GPUSNOOP_CUDA_FUNCTIONS_H

#include "bpf/cuda/cuda.h"
#include "bpf/host_time/host_time.h"

/* The operation of a function decides how its arguments are read, and its class decides how its
 * record is sent. Positions count from 1, in the order of the C declaration; each operation's line
 * names the positions that it needs. */
#define CUDA_OPERATIONS(OPERATION)                                                                 \
	OPERATION(ALLOCATE,                                                                        \
		  MEMORY) /* ADDRESS to put the address, or SOURCE: it; BYTES [x COUNT] */         \
	OPERATION(ALLOCATE_PITCHED, MEMORY) /* the same; BYTES: pointer to the chosen pitch */     \
	OPERATION(ALLOCATE_3D, MEMORY)	    /* ADDRESS: cudaPitchedPtr *, cudaExtent by value */   \
	OPERATION(ALLOCATE_AT, MEMORY)	    /* as ALLOCATE, SOURCE: properties with a location */  \
	OPERATION(ALLOCATE_FROM_POOL, MEMORY) /* as ALLOCATE, SOURCE: pool */                      \
	OPERATION(FREE, MEMORY)		      /* ADDRESS */                                        \
	OPERATION(MAP, MEMORY)		      /* ADDRESS, BYTES, SOURCE: the handle */             \
	OPERATION(UNMAP, MEMORY)	      /* ADDRESS, BYTES */                                 \
	OPERATION(HANDLE, MEMORY)	/* ADDRESS to put one more reference to a memory handle */ \
	OPERATION(RESET, MEMORY)	/* of the current device */                                \
	OPERATION(RESET_DEVICE, MEMORY) /* ADDRESS: device */                                      \
	OPERATION(DESTROY_CONTEXT, MEMORY) /* ADDRESS: context */                                  \
	OPERATION(COPY, CALL)	 /* ADDRESS to, SOURCE: from, BYTES [x COUNT], KIND or variant */  \
				 /* or a batch: enum cuda_batch */                                 \
	OPERATION(COPY_3D, CALL) /* ADDRESS: cudaMemcpy3DParms * */                                \
	OPERATION(COPY_3D_PEER, CALL)	/* ADDRESS: cudaMemcpy3DPeerParms * */                     \
	OPERATION(COPY_DRIVER_2D, CALL) /* ADDRESS: CUDA_MEMCPY2D * */                             \
	OPERATION(COPY_DRIVER_3D, CALL) /* ADDRESS: CUDA_MEMCPY3D * */                             \
	OPERATION(SET, CALL)		/* memset: ADDRESS, (BYTES [x COUNT]) << variant */        \
	OPERATION(SET_3D, CALL)		/* cudaPitchedPtr by value, cudaExtent by value */         \
	OPERATION(LAUNCH, CALL) /* ADDRESS: kernel; two dim3 from 2 on, 7: shared, 8: stream */    \
	OPERATION(LAUNCH_CONFIG, CALL) /* ADDRESS: kernel, SOURCE: configuration */                \
	OPERATION(LAUNCH_DRIVER,                                                                   \
		  CALL)		      /* ADDRESS: kernel; sizes from 2 on, 8: shared, 9: stream */ \
	OPERATION(LAUNCH_GRAPH, CALL) /* ADDRESS: executable graph, STREAM */                      \
	OPERATION(WAIT_STREAM, CALL)  /* STREAM */                                                 \
	OPERATION(SYNC_EVENT, STATE)  /* nothing is sent of it */                                  \
	OPERATION(WAIT_DEVICE, CALL)                                                               \
	OPERATION(USE_DEVICE, STATE)   /* ADDRESS: ordinal */                                      \
	OPERATION(USE_CONTEXT, STATE)  /* ADDRESS: context */                                      \
	OPERATION(PUSH_CONTEXT, STATE) /* ADDRESS: context */                                      \
	OPERATION(POP_CONTEXT, STATE)                                                              \
	OPERATION(CREATE_CONTEXT,                                                                  \
		  STATE) /* ADDRESS to put it, SOURCE: device. It becomes current. */              \
	OPERATION(PRIMARY_CONTEXT, STATE) /* ADDRESS to put it, SOURCE: device */                  \
	OPERATION(GET_POOL,                                                                        \
		  STATE) /* ADDRESS to put a pool, SOURCE: where it is: enum cuda_pool */          \
	OPERATION(DESTROY_POOL, STATE) /* ADDRESS: pool */                                         \
	OPERATION(MAKE_STREAM, STATE)  /* ADDRESS to put a stream: enum cuda_stream */             \
	OPERATION(GET_KERNEL, STATE)   /* ADDRESS to put a handle, SOURCE: what it stands for */   \
	OPERATION(GET_FUNCTION, STATE) /* ADDRESS to put a handle, SOURCE: the kernel's name */    \
	OPERATION(REGISTER, STATE)     /* 2: host function, 4: the kernel's name */                \
	OPERATION(UNLOAD, STATE)       /* of kernels: their handles may be given again */          \
	OPERATION(ELAPSED, CALL)       /* ADDRESS to put a float: milliseconds */                  \
	OPERATION(FREE_MEMORY, CALL) /* ADDRESS to put the free bytes, SOURCE: and all of them */  \
	OPERATION(LOAD, STATE)	     /* of kernels: it can fail for lack of memory */              \
	OPERATION(BEGIN_CAPTURE, GRAPH)	 /* STREAM, ADDRESS: the graph to capture into */          \
	OPERATION(END_CAPTURE, GRAPH)	 /* STREAM, ADDRESS to put a graph */                      \
	OPERATION(RECORD_EVENT, EVENT)	 /* ADDRESS: event, STREAM, BYTES: flags */                \
	OPERATION(WAIT_EVENT, EVENT)	 /* the same */                                            \
	OPERATION(DESTROY_STREAM, EVENT) /* STREAM */                                              \
	OPERATION(CREATE_GRAPH, GRAPH)	 /* ADDRESS to put a graph */                              \
	OPERATION(CLONE_GRAPH, GRAPH)	 /* ADDRESS to put a graph, SOURCE: graph */               \
	OPERATION(DESTROY_GRAPH, GRAPH)	 /* ADDRESS: graph */                                      \
	OPERATION(INSTANTIATE, GRAPH)	 /* ADDRESS to put an executable graph, SOURCE: graph */   \
	OPERATION(UPDATE_EXECUTABLE, GRAPH)  /* ADDRESS: executable graph, SOURCE: graph */        \
	OPERATION(DESTROY_EXECUTABLE, GRAPH) /* ADDRESS: executable graph */                       \
	OPERATION(ADD_NODE, GRAPH) /* ADDRESS: graph, SOURCE to put a node, its parameters */      \
	OPERATION(SET_NODE, GRAPH) /* SOURCE: node, its parameters */                              \
	OPERATION(SET_EXECUTABLE_NODE, GRAPH) /* ADDRESS, SOURCE: node, its parameters */          \
	OPERATION(ENABLE_NODE, GRAPH)	      /* ADDRESS, SOURCE: node, KIND: is it enabled? */    \
	OPERATION(DESTROY_NODE, GRAPH)	      /* SOURCE: node */                                   \
	OPERATION(GET_CHILD, GRAPH)	      /* SOURCE: node whose graph the program gets */      \
	OPERATION(SUBSCRIBE, PROFILER)                                                             \
	OPERATION(UNSUBSCRIBE, PROFILER)                                                           \
	OPERATION(ENABLE_ACTIVITY, PROFILER)  /* ADDRESS: the kind of activity */                  \
	OPERATION(DISABLE_ACTIVITY, PROFILER) /* ADDRESS: the kind of activity */                  \
	OPERATION(FINALIZE_PROFILER, PROFILER)

/* MEMORY: records go to the ring of allocations and are never throttled. CALL: records go to the
 * ring of calls, in which each process has a budget. A failed STATE or PROFILER goes there, too.
 * PROFILER: a call of CUPTI, which may be inside another call: cuda/profilers.bpf.h. GRAPH: as
 * MEMORY: what a graph holds must not be lost. EVENT: a call only while a stream captures, and
 * never a record: cuda/graphs/graphs.bpf.h. */
enum cuda_operation_class {
	CUDA_CLASS_MEMORY,
	CUDA_CLASS_CALL,
	CUDA_CLASS_STATE,
	CUDA_CLASS_GRAPH,
	CUDA_CLASS_EVENT,
	CUDA_CLASS_PROFILER
};

/* The variant of COPY, besides enum cuda_copy_kind: COUNT copies, all of the kind Default. */
enum cuda_batch {
	CUDA_BATCH = 5,	   /* ADDRESS, SOURCE, BYTES: arrays of destinations, sources and sizes */
	CUDA_BATCH_3D = 6, /* ADDRESS: array of cudaMemcpy3DBatchOp */
	/* Besides one of them: the function is of CUDA 12, with an argument `failIdx` before the
	 * stream. The runtime's function has the same name in both versions; it is of CUDA 12 if
	 * the driver's that it calls is. */
	CUDA_BATCH_FAIL_INDEX = 8,
};
#define CUDA_IS_BATCH(cookie) (CUDA_COOKIE_VARIANT(cookie) >= CUDA_BATCH) /* of COPY */

/* The variant of GET_POOL: what SOURCE is. */
enum cuda_pool {
	CUDA_POOL_OF_DEVICE,	 /* the number of a device */
	CUDA_POOL_OF_LOCATION,	 /* a location */
	CUDA_POOL_OF_PROPERTIES, /* properties with a location */
};

/* The variant of MAKE_STREAM: which device the stream is on. */
enum cuda_stream {
	CUDA_STREAM_OF_THREAD,	/* the current one */
	CUDA_STREAM_OF_CONTEXT, /* of a green context that the call names, which is not known */
};

/* The variant of an operation on a node: how its parameters are given, at BYTES. */
enum cuda_node_parameters {
	CUDA_NODE_OF_KERNEL,  /* cudaKernelNodeParams *, CUDA_KERNEL_NODE_PARAMS * */
	CUDA_NODE_OF_COPY,    /* cudaMemcpy3DParms *, CUDA_MEMCPY3D * */
	CUDA_NODE_OF_COPY_1D, /* destination; then source and bytes; KIND */
	CUDA_NODE_OF_SET,     /* cudaMemsetParams *, CUDA_MEMSET_NODE_PARAMS * */
	CUDA_NODE_OF_CHILD,   /* a graph */
	CUDA_NODE_OF_ANY,     /* cudaGraphNodeParams *, CUgraphNodeParams * */
	/* No variant, but what those can turn out to be: */
	CUDA_NODE_OF_NOTHING, /* that is counted */
	CUDA_NODE_OF_CONDITION,
};

/* Where an argument is, as four bits of the attach cookie; 0: no argument. Arguments beyond the
 * registers are read only when a position says so: ON_STACK says it for an operation whose
 * positions are fixed. Where structures are passed by value, positions are those of x86_64
 * (structures.bpf.h). */
#define ADDRESS(position) ((position) * (1ULL << 32))
#define SOURCE(position)  ((position) * (1ULL << 36))
#define BYTES(position)	  ((position) * (1ULL << 40))
#define COUNT(position)	  ((position) * (1ULL << 44))
#define STREAM(position)  ((position) * (1ULL << 48))
#define KIND(position)	  ((position) * (1ULL << 52))
#define ASYNC		  (1ULL << 56)
#define ON_STACK	  (1ULL << 57)
/* The default stream is the thread's own, as for all symbols that end in _ptsz or _ptds. */
#define CUDA_PER_THREAD (1ULL << 58)
/* Set when attaching: the end is seen at the instructions that leave the function, not by a return
 * probe. */
#define CUDA_EXITS     (1ULL << 59)
#define CUDA_OF_DRIVER (1ULL << 60)
/* Set when attaching to launches at their entry only (cuda/counted_launches/); the second, if
 * the link is of one process. */
#define CUDA_AT_ENTRY (1ULL << 22)
#define CUDA_OF_ONE   (1ULL << 23)

/* The functions of the runtime and the driver: symbol, the name that errors are shown under,
 * operation, variant, positions. The _ptsz and _ptds symbols are what programs call that were
 * compiled with per-thread default streams. */
#include "bpf/cuda/driver_functions.h"
#include "bpf/cuda/runtime_functions.h"

/* Of libcupti, by which profilers attach to the process that they run in. */
#define CUDA_PROFILER_FUNCTIONS(F)                                                                 \
	F(cuptiSubscribe, cuptiSubscribe, SUBSCRIBE, 0, 0)                                         \
	F(cuptiSubscribe_v2, cuptiSubscribe, SUBSCRIBE, 0, 0)                                      \
	F(cuptiUnsubscribe, cuptiUnsubscribe, UNSUBSCRIBE, 0, 0)                                   \
	F(cuptiActivityEnable, cuptiActivityEnable, ENABLE_ACTIVITY, 0, ADDRESS(1))                \
	F(cuptiActivityDisable, cuptiActivityDisable, DISABLE_ACTIVITY, 0, ADDRESS(1))             \
	F(cuptiFinalize, cuptiFinalize, FINALIZE_PROFILER, 0, 0)

enum cuda_operation {
#define OPERATION(name, class) CUDA_##name,
	CUDA_OPERATIONS(OPERATION)
#undef OPERATION
	    CUDA_OPERATION_COUNT
};

/* By a call for it alone: a graph can launch many. */
#define CUDA_LAUNCHES_KERNEL(operation)                                                            \
	((operation) == CUDA_LAUNCH || (operation) == CUDA_LAUNCH_CONFIG ||                        \
	 (operation) == CUDA_LAUNCH_DRIVER)
#define CUDA_IS_LAUNCH(operation)                                                                  \
	(CUDA_LAUNCHES_KERNEL(operation) || (operation) == CUDA_LAUNCH_GRAPH ||                    \
	 (operation) == CUDA_SET || (operation) == CUDA_SET_3D)
#define CUDA_IS_COPY(operation) ((operation) >= CUDA_COPY && (operation) <= CUDA_COPY_DRIVER_3D)
#define CUDA_IS_WAIT(operation)                                                                    \
	((operation) == CUDA_WAIT_STREAM || (operation) == CUDA_SYNC_EVENT ||                      \
	 (operation) == CUDA_WAIT_DEVICE)
#define CUDA_IS_MEMORY(operation) ((operation) <= CUDA_DESTROY_CONTEXT)

/* What a thread does inside of the function. */
#define CUDA_PHASE(operation, positions)                                                           \
	(CUDA_IS_LAUNCH(operation)   ? HOST_launch                                                 \
	 : CUDA_IS_COPY(operation)   ? ((positions) & ASYNC ? HOST_copy : HOST_wait)               \
	 : CUDA_IS_WAIT(operation)   ? HOST_wait                                                   \
	 : CUDA_IS_MEMORY(operation) ? HOST_memory                                                 \
				     : HOST_other)

/* The attach cookie: function, operation, variant, positions, phase. */
#define CUDA_COOKIE(function, operation, variant, positions)                                       \
	((function) + (operation) * (1ULL << 16) + (variant) * (1ULL << 24) + (positions) +        \
	 CUDA_PHASE(operation, positions) * (1ULL << 61))
#define CUDA_COOKIE_FUNCTION(cookie)	((__u16)(cookie))
#define CUDA_COOKIE_OPERATION(cookie)	((__u8)((cookie) >> 16 & 63))
#define CUDA_COOKIE_VARIANT(cookie)	((__u8)((cookie) >> 24))
#define CUDA_COOKIE_PHASE(cookie)	((__u8)((cookie) >> 61)) /* enum host_phase */
#define CUDA_COOKIE_SLOT(cookie, field) (((cookie) >> (field)) & 15)

enum cuda_cookie_field {
	CUDA_ADDRESS = 32,
	CUDA_SOURCE = 36,
	CUDA_BYTES = 40,
	CUDA_COUNT = 44,
	CUDA_STREAM = 48,
	CUDA_KIND = 52,
};

#endif
