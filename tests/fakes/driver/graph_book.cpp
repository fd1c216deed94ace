#include "driver/graph_book.h"

#include "driver/memory.h"

#include <algorithm>
#include <map>
#include <set>

namespace standin {
namespace {

// Never destroyed: programs make calls while they exit.
struct Book {
    std::mutex mutex;
    std::map<void *, Content> owned;  // graphs and executable graphs that programs have handles of
    std::set<GraphContent *> contents;
    std::map<NodeObject *, GraphContent *> nodes;
    std::map<void *, std::weak_ptr<GraphMemory>> memory;
    std::uint64_t ids = 0;
};

Book &book() {
    static Book &instance = *new Book;
    return instance;
}

GraphContent *content_of(void *handle, bool executable) {
    auto *content = static_cast<GraphContent *>(handle);
    return book().contents.contains(content) && content->is_executable == executable ? content
                                                                                     : nullptr;
}

}  // namespace

GraphMemory::GraphMemory(std::size_t bytes, std::uint64_t context)
    : id_(++book().ids),
      start_(allocate({bytes, truth::MemoryKind::async, 0, context, false, 0, id_})) {}

GraphMemory::~GraphMemory() {
    release_graph_memory(start_, id_);
    // Unless another graph has had the address since.
    const auto found = book().memory.find(start_);
    if (found != book().memory.end() && found->second.expired()) {
        book().memory.erase(found);
    }
}

GraphContent::GraphContent(bool executable) : is_executable(executable) {
    book().contents.insert(this);
}

GraphContent::~GraphContent() {
    for (const auto &node : nodes) {
        book().nodes.erase(node.get());
    }
    book().contents.erase(this);
}

std::unique_lock<std::mutex> lock_graphs() {
    return std::unique_lock(book().mutex);
}

void *own(Content content) {
    void *handle = content.get();
    book().owned[handle] = std::move(content);
    return handle;
}

Graph add_graph() {
    return own(std::make_shared<GraphContent>(false));
}

void forget(void *handle) {
    book().owned.erase(handle);
}

GraphContent *graph_of(Graph handle) {
    return content_of(handle, false);
}

Content owned_graph(Graph handle) {
    const auto found = book().owned.find(handle);
    return found == book().owned.end() ? nullptr : found->second;
}

GraphContent *executable_of(GraphExec handle) {
    return book().owned.contains(handle) ? content_of(handle, true) : nullptr;
}

NodeObject *node_of(GraphNode handle, GraphContent **of) {
    const auto found = book().nodes.find(static_cast<NodeObject *>(handle));
    if (found == book().nodes.end()) {
        return nullptr;
    }
    if (of != nullptr) {
        *of = found->second;
    }
    return found->first;
}

NodeObject *append(GraphContent &to, Work work, std::vector<NodeObject *> dependencies,
                   std::uint64_t origin) {
    if (work.type == kAllocateNode) {
        book().memory[work.memory->start()] = work.memory;
    }
    to.nodes.push_back(std::make_unique<NodeObject>(
        NodeObject{++book().ids, origin, std::move(work), true, std::move(dependencies)}));
    NodeObject *node = to.nodes.back().get();
    book().nodes[node] = &to;
    return node;
}

void remove(GraphContent &from, NodeObject *node) {
    book().nodes.erase(node);
    std::erase_if(from.nodes, [node](const auto &one) { return one.get() == node; });
}

bool nodes_of(const GraphContent &graph, const GraphNode *handles, std::size_t count,
              std::vector<NodeObject *> &nodes) {
    if (count != 0 && handles == nullptr) {
        return false;
    }
    for (std::size_t at = 0; at < count; ++at) {
        GraphContent *of = nullptr;
        NodeObject *node = node_of(handles[at], &of);
        if (node == nullptr || of != &graph) {
            return false;
        }
        nodes.push_back(node);
    }
    return true;
}

Content copy_of(const GraphContent &graph, bool executable) {
    auto copy = std::make_shared<GraphContent>(executable);
    std::map<NodeObject *, NodeObject *> copies;
    for (const auto &node : graph.nodes) {
        Work work = node->work;
        if (work.child != nullptr) {
            work.child = copy_of(*work.child, executable);
        }
        std::vector<NodeObject *> dependencies;
        std::ranges::transform(node->dependencies, std::back_inserter(dependencies),
                               [&copies](NodeObject *one) { return copies[one]; });
        NodeObject *made = append(*copy, std::move(work), std::move(dependencies), node->id);
        made->enabled = node->enabled;
        copies[node.get()] = made;
    }
    return copy;
}

bool has_memory(const GraphContent &graph) {
    return std::ranges::any_of(graph.nodes, [](const auto &node) {
        return node->work.type == kAllocateNode || node->work.type == kFreeNode ||
               (node->work.child != nullptr && has_memory(*node->work.child));
    });
}

std::shared_ptr<GraphMemory> graph_memory_at(DevicePointer address) {
    const auto found = book().memory.find(reinterpret_cast<void *>(address));
    return found == book().memory.end() ? nullptr : found->second.lock();
}

void lock_graphs_for_fork() {
    book().mutex.lock();
}

void unlock_graphs_after_fork() {
    book().mutex.unlock();
}

}  // namespace standin
