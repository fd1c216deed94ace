// Stream capture, as the CUDA programming guide has it ("CUDA Graphs", "Creating a Graph Using
// Stream Capture") and the comments of cuStreamBeginCapture, cuStreamEndCapture and
// cuThreadExchangeStreamCaptureMode in cuda.h.

#pragma once

#include "driver/call.h"
#include "driver/graph_book.h"

#include <optional>

namespace standin {

// Whether there is any capture, or an event of one: else there is nothing to look for.
bool captures_exist();

// What a call does to a stream: which one it means is also a matter of the function.
struct OnStream {
    truth::Function function;
    Stream stream;
};

// Nothing: the stream does not capture, and the call does what it is for. Else the call's result:
// its work became a node, or it may not be. Work of a call that does not count becomes no node.
std::optional<int> capture_work(const Call &open, Stream stream, Work work);
std::optional<int> capture_graph(const Call &open, Stream stream, GraphExec executable);
std::optional<int> capture_allocation(const Call &open, Stream stream, std::size_t bytes,
                                      std::uint64_t context, DevicePointer *address);
std::optional<int> capture_free(const Call &open, Stream stream, DevicePointer address);

template <typename MakeWork>
std::optional<int> captured(const Call &open, Stream stream, MakeWork &&make_work) {
    return captures_exist() ? capture_work(open, stream, make_work()) : std::nullopt;
}

// Why a call may not be made now, or kSuccess. But for a batch,
// such a call invalidates the captures that forbid it.
int forbidden_as_unsafe();                   // allocations and frees at once, say
int forbidden_to_wait(const OnStream &on);   // for this stream, or to ask for its state
int forbidden_in_batch(const OnStream &on);  // no capture can hold copies that are batched; goes on
int forbidden_to_wait_for_context(std::uint64_t context);
int forbidden_to_wait(Event event);

// What the functions of the interface do. They return error codes.
int begin_capture(const OnStream &on, int mode, std::uint64_t context);
int begin_capture(const OnStream &on, int mode, std::uint64_t context, Graph into,
                  const GraphNode *dependencies, std::size_t count);
int end_capture(const OnStream &on, Graph *graph);
int exchange_mode(int *mode);

struct CaptureInfo {
    int status = kNotCapturing;
    std::uint64_t id = 0;
    Graph graph = nullptr;
    const GraphNode *dependencies = nullptr;  // until the stream's next call
    std::size_t count = 0;
};
int capture_info(const OnStream &on, CaptureInfo &info);

// Nothing when it is an ordinary record, or wait, to be done.
std::optional<int> capture_record(const OnStream &on, Event event, bool external);
std::optional<int> capture_wait(const OnStream &on, Event event, bool external);
void forget_event(Event event);
// The captures that it was part of are invalid, and over if they began in it.
void forget_stream(Stream stream);
// With the lock of the book held.
bool is_being_captured(const GraphContent &graph);

}  // namespace standin
