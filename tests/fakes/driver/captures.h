// The captures in progress and what they have recorded, under the lock of the book. capture*.cpp do
// with them what capture.h declares.

#pragma once

#include "driver/capture.h"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace standin {

using Nodes = std::vector<NodeObject *>;

// A thread's default stream is another one in each thread.
using StreamKey = std::pair<std::uint64_t, Stream>;

struct Capture {
    std::uint64_t id = 0;
    int mode = kCaptureGlobal;
    std::uint64_t thread = 0;
    std::uint64_t context = 0;
    StreamKey origin;
    Graph handle = nullptr;
    Content graph;
    bool into_existing = false;
    bool invalid = false;
    std::map<StreamKey, Nodes> streams;  // and what comes next in each depends on
    Nodes added;
};

struct CapturedEvent {
    std::uint64_t capture;
    Nodes nodes;
};

struct Captures {
    std::map<std::uint64_t, Capture> by_id;
    std::map<StreamKey, std::uint64_t> of_stream;
    std::map<Event, CapturedEvent> events;
    std::uint64_t ids = 0;
};

Captures &captures();
// After each change of the captures, or of their events.
void count_watched();
// A number for each thread.
std::uint64_t this_thread();

StreamKey key_of(const OnStream &on);
bool is_legacy(const StreamKey &key);
Capture *capture_of(const StreamKey &key);  // nullptr: the stream does not capture

// Returns the error.
int invalidate(Capture &capture, int error);
// Work in the legacy stream would come after that of all blocking streams of its context.
int forbidden_in_legacy(std::uint64_t context);
// The capture is over; the second one ends its graph, too.
void drop(Capture &capture);
void discard(Capture &capture);
// The stream is part of the capture from now on; what comes next in it depends on these nodes.
void join(Capture &capture, const StreamKey &key, const Nodes &nodes);
NodeObject *add(Capture &capture, const StreamKey &key, Work work);

}  // namespace standin
