/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Which bucket of a histogram a duration is in. */
#ifndef GPUSNOOP_BUCKET_BPF_H
#define GPUSNOOP_BUCKET_BPF_H

/* Defines name(nanoseconds). `bounds` are the upper ones, inclusive, in braces; there is one bucket
 * more than bounds, for what is longer. */
/* clang-format off */
#define BUCKET_FUNCTION(name, buckets, bounds)                                                     \
	static __always_inline __u32 name(__u64 nanoseconds)                                       \
	{                                                                                          \
		const __u64 upper[] = bounds;                                                      \
                                                                                                   \
		_Pragma("unroll")                                                                  \
		for (int i = 0; i < (buckets) - 1; i++)                                            \
			if (nanoseconds <= upper[i])                                               \
				return i;                                                          \
		return (buckets) - 1;                                                              \
	}
/* clang-format on */

#endif
