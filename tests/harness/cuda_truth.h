// Compares the page with the stand-in libraries' own counts.
#pragma once

#include <string>
#include <vector>

#include "tests/harness/exporter.h"
#include "tests/harness/page.h"
#include "truth_reader.h"

namespace harness {

// The value of the label gpu for each of a process's devices. If it is empty, the label is not
// compared: every number is the sum over all devices.
using GpuLabels = std::vector<std::string>;

// How the exporter sees launches: those that are counted where they enter the driver have no
// duration, and failed ones are not known to have failed.
enum class Launches { to_their_end, counted };

// Checks every counter of the CUDA families for the processes of this comm: allocations and frees
// by kind of memory, copies by kind and mode, memsets, launches by kernel and shape, graph
// launches, errors by function and name.
void check_counters(const Page &page, const truth::TruthSnapshot &truth, const std::string &comm,
                    const GpuLabels &gpus = {}, Launches seen = Launches::to_their_end);
// The same for the processes that have these labels.
void check_counters_of(const Page &page, const truth::TruthSnapshot &truth, const Labels &of,
                       Launches seen = Launches::to_their_end);

// The memory that the page must show as outstanding, for one running process.
void check_outstanding(const Page &page, const truth::TruthSnapshot &truth,
                       const GpuLabels &gpus = {});

// Runs of programs that the kernel left out: see may_skip_tracepoint_programs().
double left_out_programs(const Page &page);

// By any probe, but for such runs where the kernel may leave some out.
void check_nothing_lost(const Page &page);

// entries = events + in flight + stale + lost, with nothing in flight (waited for) and nothing
// lost.
void check_account_at_rest(const Exporter &exporter);

}  // namespace harness
