// Times between events, by either API.

#pragma once

#include "workload/everything.h"

namespace demo {

// The functions of one API.
struct EventFunctions {
    Named<standin::Event, standin::Stream> record;
    Named<float *, standin::Event, standin::Event> elapsed;
};

// What it gives is exact in microseconds: a multiple of a quarter of a millisecond.
inline void read_elapsed(Everything &all, const EventFunctions &functions, standin::Event start,
                         standin::Event end) {
    float milliseconds = 0;
    if (all.make(functions.record, start, nullptr) == standin::kSuccess &&
        all.make(functions.record, end, nullptr) == standin::kSuccess &&
        all.make(functions.elapsed, &milliseconds, start, end) == standin::kSuccess) {
        all.note_elapsed(milliseconds);
    }
}

}  // namespace demo
