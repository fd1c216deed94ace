// Graphs, their nodes and executable graphs, as the driver keeps them. All of it is under the one
// lock of the book, and so are the captures (capture.h), whose nodes these are.

#pragma once

#include "driver/core.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace standin {

struct GraphContent;

// Memory that a graph allocates. It is in no truth.
class GraphMemory {
public:
    explicit GraphMemory(std::size_t bytes, std::uint64_t context);
    ~GraphMemory();
    GraphMemory(const GraphMemory &) = delete;
    GraphMemory &operator=(const GraphMemory &) = delete;
    void *start() const { return start_; }

private:
    std::uint64_t id_;
    void *start_;
};

// What a node does. Which members count is a matter of the type.
struct Work {
    NodeType type = kEmptyNode;
    std::string kernel;  // mangled
    Dim3 grid;
    Dim3 block;
    truth::CopyKind direction = truth::CopyKind::h2h;
    std::uint64_t bytes = 0;
    bool is_flat = true;  // one row: what CUDA lets change in an executable graph
    HostFunction function = nullptr;
    void *argument = nullptr;
    Event event = nullptr;
    std::shared_ptr<GraphContent> child;
    std::shared_ptr<GraphMemory> memory;
};

struct NodeObject {
    std::uint64_t id;      // never used again, unlike its address, which is the handle
    std::uint64_t origin;  // the node that it is a copy of, or 0
    Work work;
    bool enabled = true;
    std::vector<NodeObject *> dependencies;  // in the same graph
};

// Its address is the handle of a graph, or of an executable graph. Made and ended with the lock
// held.
struct GraphContent {
    explicit GraphContent(bool executable);
    ~GraphContent();
    GraphContent(const GraphContent &) = delete;
    GraphContent &operator=(const GraphContent &) = delete;

    const bool is_executable;
    std::vector<std::unique_ptr<NodeObject>> nodes;  // in the order of their creation
};

using Content = std::shared_ptr<GraphContent>;

// Holds the lock of the book.
std::unique_lock<std::mutex> lock_graphs();

// With the lock held.
Graph add_graph();  // a new one, and empty
// The program has this handle from now on, until it is forgotten; what is in it may live on.
void *own(Content content);
void forget(void *handle);
GraphContent *graph_of(Graph handle);  // also one inside a node; nullptr when there is none
// Nothing for a graph inside a node.
Content owned_graph(Graph handle);
GraphContent *executable_of(GraphExec handle);
NodeObject *node_of(GraphNode handle, GraphContent **of = nullptr);
NodeObject *append(GraphContent &to, Work work, std::vector<NodeObject *> dependencies,
                   std::uint64_t origin = 0);
// Nothing in the graph depends on the node any more.
void remove(GraphContent &from, NodeObject *node);
// False when one of them is no node of this graph.
bool nodes_of(const GraphContent &graph, const GraphNode *handles, std::size_t count,
              std::vector<NodeObject *> &nodes);
// Independent of the original.
Content copy_of(const GraphContent &graph, bool executable);
bool has_memory(const GraphContent &graph);
// What a node of some graph allocates at this address.
std::shared_ptr<GraphMemory> graph_memory_at(DevicePointer address);

// For forks.
void lock_graphs_for_fork();
void unlock_graphs_after_fork();

}  // namespace standin
