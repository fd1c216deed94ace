/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The names of programs and maps, as `bpftool prog` and `bpftool map` show them: the probe's name
 * and what the program or map is, such as cuda_session. They have 15 characters at most, as the
 * kernel keeps no more. A program's file defines PROBE, the probe's name, and names its own
 * programs and maps in full; the headers here name those that several probes have. */
#ifndef GPUSNOOP_NAMES_BPF_H
#define GPUSNOOP_NAMES_BPF_H

#ifndef PROBE
#error "define PROBE, the probe's name, before the first include"
#endif

#define NAMED(part)	      NAMED_BY(PROBE, part)
#define NAMED_BY(probe, part) NAMED_AS(probe, part)
#define NAMED_AS(probe, part) probe##_##part

/* BPF_PROG for a name of the above. */
#define NAMED_PROG(part, args...)    NAMED_PROG_AS(NAMED(part), args)
#define NAMED_PROG_AS(name, args...) BPF_PROG(name, args)

#endif
