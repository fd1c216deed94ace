// The functions probe: calls of the configured functions, in every process.
//
// Selection. When discovery offers a library, the attacher (attacher.h) compares its symbols, and
// those of its debug file (symbols/elf/debug_file.h), with the patterns of the groups
// (select/candidates.h, group.h). For each function, select/selection.h decides how to
// observe the end of a call (select/exit_strategy.h): by a return probe for a C function; by probes
// on its exits for C++ functions and others that a return probe would break; otherwise not at all.
// Exits are found by decoding the function from its first byte to its last (symbols/exits/). The
// entry is probed at the instruction where that costs the least (symbols/exits/entry_probe.h). The
// attach cookie has the function's number and how its calls end (attach/programs.h,
// attach/attached_files.h). A table, which may change, says what calls with that number count for
// (attach/function_ids.h).
//
// Recording. func_enter (bpf/functions/functions.bpf.c) opens a call as cuda_enter does; for a
// function whose end is not observed, it sends the record at once. func_leave runs at a return
// probe; func_leave_at_exit runs before an instruction that may leave the function, which it does
// if the stack pointer is what it was at the entry. Either sends one record
// (bpf/functions/functions.h) with duration and result; nested calls have a record each. A table
// with the functions' thresholds and options decides at the end of the call what else the record
// has. A slow call also has its arguments, kept since the entry, the name of its thread and the
// user stack. These long records have a separate ring, because one of them takes the room of many
// others; if that ring is full, a slow call is sent as any other. Starts and ends of processes have
// a ring of their own too.
//
// Counting. The consumer (consumer.h) drains the rings. count/aggregator.h finds the function by
// its number, adds to its counters and its histogram, and decides whether the result is an error
// (count/errors.h). count/nccl.h tracks the communicators of NCCL, by the arguments of its
// functions and a hash that all nodes share (count/nccl_functions.h). Each
// process also has counts per function (count/snapshot.h), which no budget folds: for
// /api/v1/functions (report/functions_api.h), the report in the log (report/log_report.h) and
// `top`. report/rates.h computes rates and quantiles. Of single calls,
// report/call_details.h keeps the last slow ones, a resolver thread names their stacks
// (report/slow_calls.h), which also makes lines for the sinks. Nothing depends on the
// order of records. Functions with different buckets have a family each, which the page joins
// (metrics/page.h).
//
// A change of the configuration. The discovery thread offers the probe each known file once more,
// and then all mapped files. attach/attach_plan.h compares the attachments of a file with the
// functions wanted now. A function that stays keeps its probe and its number, and the number may
// count for something else. A new function gets a number, and further links attach it. The number
// of a function that is no longer wanted is muted, in the programs and in the table; when nothing
// of a link is wanted any more, the link is closed and its numbers are reused. Only the pipeline
// thread changes the meaning of a number, after all records that were in the ring at the time of
// the request have been counted (FunctionIds::apply, FunctionsAggregator::refresh). So each call
// counts once, under its old or its new meaning.
//
// The limit. Once a second, the governor (limit/governor.h) gets the calls of each function by
// process, and the cost of each process from the kernel. limit/dear_functions.h decides which
// functions cost a process too much. attach/pauses.cpp detaches from these: it attaches the other
// functions of their link under new numbers, muted, and then exchanges which of the two is muted.
// The old link is closed when none of its calls is in flight. A function that is attached to again
// has a link of its own.
#pragma once

#include <memory>

#include "exporter/config/config.h"
#include "exporter/ebpf/features.h"
#include "exporter/probes/frame/probe_kind.h"
#include "exporter/probes/functions/tracing.h"

namespace gpusnoop::probes {

extern const ProbeKind functions_kind;

// For a trace: passes on the calls that `tracing` selects, instead of `config`.
std::unique_ptr<Probe> make_function_tracer(config::Config config, const ebpf::Features &features,
                                            FunctionTracing tracing);

}  // namespace gpusnoop::probes
