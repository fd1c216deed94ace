// The page against the stand-in libraries' own count.
#pragma once

#include "tests/harness/exporter.h"
#include "tests/harness/page.h"
#include "truth_reader.h"

namespace harness {

// Checks every counter of the CUDA families for the processes of this comm: allocations, frees,
// copies by kind and mode, launches by kernel and shape, errors by function and name.
void check_counters(const Page &page, const truth::TruthSnapshot &truth, const std::string &comm);

// What of the truth the page must show as outstanding, for one running process.
void check_outstanding(const Page &page, const truth::TruthSnapshot &truth);

// entries = events + in flight + stale + lost, with nothing in flight (waited for) and nothing
// lost.
void check_account_at_rest(const Exporter &exporter);

}  // namespace harness
