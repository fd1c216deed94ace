// The probe `in_flight`: the calls of other probes that have begun and not returned.
//
// The open calls of a thread are in its task storage, which otherwise only the programs of its own
// calls access. bpf/in_flight/ has iterators over all threads, two for each of the probes `cuda`
// and `functions`. One writes the open calls that are older than an age, the other where the
// threads of such calls are: their registers, and the kernel functions that they wait in. An entry
// sets a call's start to 0 first and writes it last, so that a reader on another CPU sees a whole
// call or none. A call is over if the thread's stack pointer is above it.
//
// OpenCallReader (probes/frame/calls/open_call_reader.h) runs the iterators on the pipeline thread,
// when a page, a document or the status page is requested; the aggregators of the two probes name
// the calls. This probe runs after them. It joins their calls (calls.h), and makes the gauges
// and the document (api.h). The worker that writes the document reads the stacks
// (stacks.h): it follows frame pointers from the registers on, in memory that a
// child process reads, and inserts the return addresses of the traced calls, which the kernel has
// in its list of return probes. The resolver of slow calls finds the names, and Python's functions
// come from its own frames (probes/frame/python/stacks.h). What was read is remembered for the log
// (watch.h). When a thread ends
// inside a call that is that old, the BPF program at its exit sends a record of the call.
#pragma once

#include "exporter/probes/frame/probe_kind.h"

namespace gpusnoop::probes {

extern const ProbeKind in_flight_kind;

}  // namespace gpusnoop::probes
