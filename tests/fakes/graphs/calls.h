// What the scenarios call, of one API. Every call gives the error code that CUDA gave.

#pragma once

#include "cuda_types.h"

#include <cstddef>
#include <memory>

namespace graphs {

using standin::Dim3;
using standin::Event;
using standin::Graph;
using standin::GraphExec;
using standin::GraphNode;
using standin::Stream;

struct Launch {
    unsigned kernel = 0;  // one of kKernels
    Dim3 grid;
    Dim3 block{32, 1, 1};
};
inline constexpr unsigned kKernels = 3;

struct Copy {
    void *to;
    const void *from;
    std::size_t bytes;
    int direction;
};

// Where a node comes into a graph: after this one, or first.
struct Place {
    Graph graph;
    const GraphNode *after = nullptr;
};

class Calls {
public:
    virtual ~Calls() = default;

    virtual int begin_thread() = 0;
    virtual int create_stream(Stream *stream, bool blocking) = 0;
    virtual int destroy_stream(Stream stream) = 0;
    virtual int create_event(Event *event) = 0;
    virtual int destroy_event(Event event) = 0;

    virtual int begin(Stream stream, int mode) = 0;
    virtual int begin_into(Stream stream, Graph graph, int mode) = 0;
    virtual int end(Stream stream, Graph *graph) = 0;
    virtual int status(Stream stream, int *status) = 0;
    virtual int exchange_mode(int *mode) = 0;

    virtual int launch(const Launch &launch, Stream stream) = 0;
    virtual int copy(const Copy &copy, Stream stream) = 0;
    virtual int set(void *to, std::size_t bytes, Stream stream) = 0;
    virtual int allocate(void **memory, std::size_t bytes, Stream stream) = 0;
    virtual int free(void *memory, Stream stream) = 0;
    virtual int host(standin::HostFunction function, void *argument, Stream stream) = 0;
    virtual int record(Event event, Stream stream) = 0;
    virtual int wait(Stream stream, Event event) = 0;

    virtual int allocate_now(void **memory, std::size_t bytes) = 0;
    virtual int free_now(void *memory) = 0;
    virtual int copy_now(const Copy &copy) = 0;
    virtual int synchronize(Stream stream) = 0;
    virtual int synchronize_device() = 0;
    virtual int query(Stream stream) = 0;
    virtual int synchronize_event(Event event) = 0;

    virtual int create_graph(Graph *graph) = 0;
    virtual int destroy_graph(Graph graph) = 0;
    virtual int clone(Graph *copy, Graph graph) = 0;
    virtual int nodes(Graph graph, GraphNode *nodes, std::size_t *count) = 0;
    virtual int destroy_node(GraphNode node) = 0;
    virtual int add(GraphNode *node, const Place &place, const Launch &launch) = 0;
    virtual int add(GraphNode *node, const Place &place, const Copy &copy) = 0;
    virtual int add_set(GraphNode *node, const Place &place, void *to, std::size_t bytes) = 0;
    virtual int add_child(GraphNode *node, const Place &place, Graph child) = 0;
    virtual int add_empty(GraphNode *node, const Place &place) = 0;
    virtual int add_host(GraphNode *node, const Place &place, standin::HostFunction function,
                         void *argument) = 0;
    virtual int add_record(GraphNode *node, const Place &place, Event event) = 0;
    virtual int add_wait(GraphNode *node, const Place &place, Event event) = 0;
    virtual int add_allocation(GraphNode *node, const Place &place, std::size_t bytes,
                               void **memory) = 0;
    virtual int add_free(GraphNode *node, const Place &place, void *memory) = 0;
    // By the function for nodes of any type, in its two versions.
    virtual int add_any(GraphNode *node, const Place &place, const Launch &launch,
                        bool second_version) = 0;
    virtual int change(GraphNode node, const Launch &launch) = 0;
    virtual int change(GraphNode node, const Copy &copy) = 0;
    virtual int change_set(GraphNode node, void *to, std::size_t bytes) = 0;

    // In one of three ways.
    virtual int instantiate(GraphExec *executable, Graph graph, unsigned way) = 0;
    virtual int destroy_executable(GraphExec executable) = 0;
    virtual int update(GraphExec executable, Graph graph, int *result) = 0;
    virtual int change_in(GraphExec executable, GraphNode node, const Launch &launch) = 0;
    virtual int change_in(GraphExec executable, GraphNode node, const Copy &copy) = 0;
    virtual int change_set_in(GraphExec executable, GraphNode node, void *to,
                              std::size_t bytes) = 0;
    virtual int change_child_in(GraphExec executable, GraphNode node, Graph child) = 0;
    virtual int enable(GraphExec executable, GraphNode node, bool enabled) = 0;
    virtual int upload(GraphExec executable, Stream stream) = 0;
    virtual int launch_graph(GraphExec executable, Stream stream) = 0;
};

std::unique_ptr<Calls> runtime_calls();
std::unique_ptr<Calls> driver_calls();

}  // namespace graphs
