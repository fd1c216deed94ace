// Events. The stand-in's GPU is done with an event when it is recorded. Its clock goes on by a
// quarter of a millisecond with each, so that times between events are exact.

#include "driver/capture.h"
#include "driver/cuda.h"
#include "driver/shapes.h"
#include "driver/truth_writer.h"

#include <atomic>
#include <cstdint>

namespace standin {
namespace {

using truth::Function;

constexpr float kMillisecondsPerTick = 0.25F;

struct EventObject {
    std::atomic<std::int64_t> recorded_at = 0;  // in ticks; 0: not yet
    std::atomic<bool> is_fixed = false;         // standin_set_elapsed
    std::atomic<float> fixed = 0;
};

std::atomic<std::int64_t> g_clock = 1;

EventObject *object(Event event) {
    return static_cast<EventObject *>(event);
}

int create(Event *event) {
    if (event == nullptr) {
        return kInvalidValue;
    }
    *event = new EventObject;
    return kSuccess;
}

int destroy(Event event) {
    if (event == nullptr) {
        return kInvalidResourceHandle;
    }
    forget_event(event);
    delete object(event);
    return kSuccess;
}

int record(const OnStream &on, Event event, unsigned flags) {
    if (event == nullptr) {
        return kInvalidResourceHandle;
    }
    if (flags > kExternalEvent) {
        return kInvalidValue;
    }
    const auto result = capture_record(on, event, flags == kExternalEvent);
    return result ? *result : record_event(event);
}

int record_call(Function self, Event event, Stream stream, unsigned flags = 0) {
    return call(self, [&](const Call &) { return record({self, stream}, event, flags); });
}

// Without a capture there is nothing to wait for.
int wait_call(Function self, Stream stream, Event event, unsigned flags) {
    return call(self, [&](const Call &) -> int {
        if (event == nullptr) {
            return kInvalidResourceHandle;
        }
        if (flags > kExternalEvent) {
            return kInvalidValue;
        }
        return capture_wait({self, stream}, event, flags == kExternalEvent).value_or(kSuccess);
    });
}

// To know whether an event has come is also unsafe while there are captures.
int state_of(Event event) {
    if (event == nullptr) {
        return kInvalidResourceHandle;
    }
    const int error = forbidden_to_wait(event);
    return error == kSuccess ? forbidden_as_unsafe() : error;
}

int synchronize(const Call &open, Event event) {
    const int error = state_of(event);
    if (error == kSuccess) {
        run_hook(open);
    }
    return error;
}

int elapsed(const Call &open, float *milliseconds, Event start, Event end) {
    if (milliseconds == nullptr) {
        return kInvalidValue;
    }
    if (start == nullptr || end == nullptr) {
        return kInvalidResourceHandle;
    }
    for (const Event event : {start, end}) {
        if (const int error = forbidden_to_wait(event); error != kSuccess) {
            return error;
        }
    }
    const std::int64_t from = object(start)->recorded_at;
    const std::int64_t to = object(end)->recorded_at;
    if (from == 0 || to == 0) {
        return kInvalidResourceHandle;
    }
    const float value = object(end)->is_fixed
                            ? object(end)->fixed.load()
                            : static_cast<float>(to - from) * kMillisecondsPerTick;
    *milliseconds = value;
    if (counts(open)) {
        count_elapsed(value);
    }
    run_hook(open);
    return kSuccess;
}

}  // namespace

int record_event(Event event) {
    object(event)->recorded_at = g_clock.fetch_add(1);
    return kSuccess;
}

}  // namespace standin

using namespace standin;

extern "C" {

STANDIN_DEFINE(cuEventCreate, (Event * event, unsigned /*flags*/),
               call(self, [&](const Call &) { return create(event); }))
STANDIN_DEFINE(cuEventDestroy_v2, (Event event),
               call(self, [&](const Call &) { return destroy(event); }))
STANDIN_DEFINE_BOTH(cuEventRecord, _ptsz, (Event event, Stream stream),
                    record_call(self, event, stream))
STANDIN_DEFINE_BOTH(cuEventRecordWithFlags, _ptsz, (Event event, Stream stream, unsigned flags),
                    record_call(self, event, stream, flags))
STANDIN_DEFINE_BOTH(cuStreamWaitEvent, _ptsz, (Stream stream, Event event, unsigned flags),
                    wait_call(self, stream, event, flags))
STANDIN_DEFINE(cuEventSynchronize, (Event event),
               call(self, [&](const Call &open) { return synchronize(open, event); }))
STANDIN_DEFINE(cuEventQuery, (Event event),
               call(self, [&](const Call &) { return state_of(event); }))
STANDIN_DEFINE(cuEventElapsedTime, (float *milliseconds, Event start, Event end),
               call(self,
                    [&](const Call &open) { return elapsed(open, milliseconds, start, end); }))
STANDIN_DEFINE(cuEventElapsedTime_v2, (float *milliseconds, Event start, Event end),
               call(self,
                    [&](const Call &open) { return elapsed(open, milliseconds, start, end); }))

STANDIN_EXPORT void standin_set_elapsed(Event end, float milliseconds) {
    object(end)->fixed = milliseconds;
    object(end)->is_fixed = true;
}

}  // extern "C"
