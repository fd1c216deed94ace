// Captures and graphs, as either API has them: what the two have in common, and what each brings.

#pragma once

#include "workload/everything.h"
#include "workload/known_arguments.h"

#include <array>
#include <functional>
#include <vector>

namespace demo {

// What is captured, or becomes a node. `step` is the account of it.
struct KernelWork {
    void *function = nullptr;  // the API's own handle of the kernel; there may be none to be had
    GraphStep step;
    KnownArguments arguments{};
};
struct CopyWork {
    Ends of;
    GraphStep step;
};
struct SetWork {
    void *to = nullptr;
    GraphStep step;
};

// Where a node comes into a graph.
struct Place {
    standin::Graph graph;
    const std::vector<standin::GraphNode> &after;
};

// What can be done with one kind of work, in every way there is.
template <typename Work>
struct NodeWays {
    std::vector<std::function<int(standin::GraphNode *, const Place &, Work &)>> add;
    std::vector<std::function<int(standin::GraphNode, Work &)>> change;
    std::vector<std::function<int(standin::GraphExec, standin::GraphNode, Work &)>> change_in;
    std::function<int(Work &, standin::Stream)> put;  // into a stream that captures
};

// The functions that have a second one, for threads with default streams of their own.
struct StreamFunctions {
    Named<standin::Stream, int> begin;
    Named<standin::Stream, standin::Graph, const standin::GraphNode *, const standin::EdgeData *,
          std::size_t, int>
        begin_into;
    Named<standin::Stream, standin::Graph *> end;
    Named<standin::Stream, int *> is_capturing;
    Named<standin::Stream, int *, std::uint64_t *, standin::Graph *, const standin::GraphNode **,
          std::size_t *>
        info_v2;
    Named<standin::Stream, int *, std::uint64_t *, standin::Graph *, const standin::GraphNode **,
          const standin::EdgeData **, std::size_t *>
        info_v3;
    Named<standin::Event, standin::Stream> record;
    Named<standin::Event, standin::Stream, unsigned> record_with_flags;
    Named<standin::Stream, standin::Event, unsigned> wait;
    Named<standin::Stream> query;
    Named<standin::Stream, standin::HostFunction, void *> host;
    Named<standin::GraphExec, standin::Stream> upload;
    Named<standin::GraphExec, standin::Stream> launch;
    Named<standin::GraphExec *, standin::Graph, standin::InstantiateParameters *> instantiate;
};

template <typename... Last>
using AddNode =
    Named<standin::GraphNode *, standin::Graph, const standin::GraphNode *, std::size_t, Last...>;

struct GraphFunctions {
    std::array<StreamFunctions, 2> of_stream;
    Named<int *> exchange_mode;
    Named<standin::Event> query;
    Named<standin::Event> synchronize;
    Named<standin::Graph *, unsigned> create;
    Named<standin::Graph> destroy;
    Named<standin::Graph *, standin::Graph> clone;
    AddNode<const standin::HostNode *> add_host;
    AddNode<standin::Graph> add_child;
    AddNode<> add_empty;
    AddNode<standin::Event> add_record;
    AddNode<standin::Event> add_wait;
    AddNode<standin::AllocateNode *> add_allocation;
    Named<standin::GraphNode> destroy_node;
    Named<standin::Graph, standin::GraphNode *, std::size_t *> nodes;
    Named<standin::GraphNode *, standin::GraphNode, standin::Graph> find_in_clone;
    Named<standin::GraphNode, int *> type;
    Named<standin::GraphNode, standin::Graph *> child;
    Named<standin::GraphExec> destroy_executable;
    Named<standin::GraphExec, standin::GraphNode, standin::Graph> change_child_in;
    Named<standin::GraphExec, standin::GraphNode, unsigned> enable;
    Named<standin::GraphExec, standin::GraphNode, unsigned *> is_enabled;
};

// One thread's, by one API. Gone with the actions.
struct GraphApi {
    GraphFunctions functions;
    // To begin with: creates what follows.
    std::function<void(GraphApi &)> open{};
    standin::Stream stream = nullptr;  // these do not wait for the legacy stream
    standin::Stream other = nullptr;
    standin::Event event = nullptr;
    standin::Event other_event = nullptr;

    std::function<void(KernelWork &)> find_kernel{};
    NodeWays<KernelWork> kernels{};
    NodeWays<CopyWork> copies{};
    NodeWays<SetWork> sets{};
    std::function<int(void **, std::size_t, standin::Stream)> allocate{};
    std::function<int(void *, standin::Stream)> free{};
    std::function<int(standin::GraphNode *, const Place &, standin::DevicePointer)> add_free{};
    // Besides those of `of_stream`.
    std::vector<std::function<int(standin::GraphExec *, standin::Graph)>> instantiate{};
    std::vector<std::function<int(standin::GraphExec, standin::Graph)>> update{};
    std::function<int(standin::Stream)> own_info{};  // a function of this API only
};

// Random work; its memory is there, so that nothing has to be allocated while a stream captures.
void fill(Everything &all, const GraphApi &api, KernelWork &work);
void fill(Everything &all, const GraphApi &api, CopyWork &work);
void fill(Everything &all, const GraphApi &api, SetWork &work);

// Calls until it succeeds, or has failed too often to do so.
template <typename Call>
int insist(Call &&call) {
    int error = standin::kUnknown;
    for (int attempt = 0; attempt < 10 && error == standin::kUnknown; ++attempt) {
        error = call();
    }
    return error;
}

standin::GraphExec instantiate(Everything &all, const GraphApi &api, standin::Graph graph);
void launch(Everything &all, const GraphApi &api, standin::GraphExec executable,
            const std::vector<GraphStep> &steps);
void destroy(Everything &all, const GraphApi &api, standin::GraphExec executable);
void capture(Everything &all, const GraphApi &api);
void make_graph(Everything &all, const GraphApi &api);

void add_graph_actions(Everything &all, GraphApi api);

}  // namespace demo
