// What graphs hold: the kernels, copies and memsets of one launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <tsl/robin_map.h>

#include "bpf/cuda/cuda.h"
#include "exporter/probes/cuda/launches/launch_shape.h"
#include "exporter/probes/frame/processes/user_room.h"

namespace gpusnoop::probes {

class GraphContent;

// What one captured call or one node does.
struct GraphWork {
    cuda_node does = CUDA_NODE_NOTHING;
    LaunchShape launch;  // its device is that of a copy or a memset, too
    std::size_t copy_kind = 0;
    std::uint64_t bytes = 0;
    std::shared_ptr<const GraphContent> child;  // of CUDA_NODE_GRAPH

    bool operator==(const GraphWork &) const = default;
};

// Entries that all contents of a process have together: a program cannot fill our memory.
class EntryBudget {
public:
    // What each takes in `share`, with its place in the tables, and a content without entries.
    static constexpr std::size_t bytes_of_entry = 128;
    static constexpr std::size_t bytes_of_content = 512;

    explicit EntryBudget(std::size_t most) : most_(most) {}
    // Its entries take room of the user's, too. To be called before there are any.
    void limit_by(UserShare share) { share_ = std::move(share); }
    [[nodiscard]] bool is_limited() const { return share_.is_limited(); }

    [[nodiscard]] bool has_room_for(std::size_t more) const {
        return used_ + more <= most_ && share_.has_room_for(more * bytes_of_entry);
    }
    void take(std::size_t entries) {
        used_ += entries;
        share();
    }
    void give_back(std::size_t entries) {
        used_ -= entries;
        share();
    }
    void note_contents(std::ptrdiff_t more) {
        contents_ += static_cast<std::size_t>(more);
        share();
    }
    [[nodiscard]] std::size_t used() const { return used_; }

private:
    void share() {
        const std::size_t shared = used_ * bytes_of_entry + contents_ * bytes_of_content;
        if (shared < shared_) {
            share_.give_back(shared_ - shared);
            shared_ = shared;
        } else if (share_.take(shared - shared_)) {
            shared_ = shared;
        }
    }

    std::size_t most_;
    std::size_t used_ = 0;
    std::size_t contents_ = 0;
    std::size_t shared_ = 0;  // bytes
    UserShare share_;
};

// Of a capture, a graph or an executable graph. It is known as a whole or not at all: what does not
// fit into the budget makes it unknown.
class GraphContent {
public:
    // The budget must outlive it.
    explicit GraphContent(EntryBudget &budget) : budget_(&budget) { budget_->note_contents(1); }
    ~GraphContent() {
        budget_->give_back(size());
        budget_->note_contents(-1);
    }
    GraphContent(const GraphContent &other);
    GraphContent &operator=(const GraphContent &) = delete;

    [[nodiscard]] bool is_known() const { return is_known_; }
    void forget();

    // The same work in another graph: its nodes have other handles.
    [[nodiscard]] std::shared_ptr<GraphContent> clone() const;

    // Work without a node that a program can name, or that we can tell from others.
    void add(const GraphWork &work);
    // All work of another one, without its nodes.
    void add(const GraphContent &other);

    void add_node(std::uint64_t node, GraphWork work);
    [[nodiscard]] bool has_node(std::uint64_t node) const { return nodes_.contains(node); }
    // Does it have work whose nodes are not known?
    [[nodiscard]] bool has_unnamed() const { return has_unnamed_; }
    // Of a node that it has. If it is not known which work is the node's, the content is unknown
    // from then on.
    void set_node(std::uint64_t node, GraphWork work);
    void enable_node(std::uint64_t node, bool is_enabled);
    // The same of a node that it does not know: it may also be disabled after an update.
    void enable_unnamed(bool is_enabled);
    void remove_node(std::uint64_t node);
    [[nodiscard]] const auto &nodes() const { return nodes_; }
    // Does from now on what the other does, with its own nodes: CUDA pairs the nodes of two graphs
    // of the same shape. Disabled nodes stay disabled. If it matters which of the other's nodes
    // these are, and is not known, the content is unknown.
    void update(const GraphContent &other);

    struct Transfers {
        std::uint64_t calls = 0;
        std::uint64_t bytes = 0;
    };
    using Copied = std::pair<std::int32_t, std::size_t>;  // device, kind
    [[nodiscard]] const auto &launches() const { return launches_; }
    [[nodiscard]] const std::map<Copied, Transfers> &copies() const { return copies_; }
    [[nodiscard]] const std::map<std::int32_t, Transfers> &sets() const { return sets_; }

private:
    struct Node {
        GraphWork work;
        bool is_enabled = true;
        std::uint64_t order = 0;  // in which they were added
    };
    using NodePtr = std::pair<std::uint64_t, const Node *>;

    [[nodiscard]] std::size_t size() const {
        return launches_.size() + copies_.size() + sets_.size() + nodes_.size();
    }
    // Adds to the sums, or takes from them.
    enum class Sign : std::uint8_t { plus, minus };
    void count(const GraphWork &work, Sign sign);
    void count(const GraphContent &other, Sign sign);
    [[nodiscard]] std::vector<NodePtr> in_order() const;
    [[nodiscard]] bool has_disabled() const;
    [[nodiscard]] bool pairs_with(const GraphContent &other) const;
    void put_node(std::uint64_t handle, Node node);
    void replace_node(std::uint64_t handle, GraphWork work);
    void drop_node(std::uint64_t handle);
    template <typename Change>
    void change(std::size_t entries, Change how);

    EntryBudget *budget_;
    bool is_known_ = true;
    bool has_unnamed_ = false;
    bool hides_disabled_ = false;  // some work is disabled, and it is not known which
    bool swaps_nodes_ = false;     // the work of a node may be that of another node of its type
    std::uint64_t added_ = 0;      // nodes
    tsl::robin_map<LaunchShape, std::uint64_t, LaunchShape::Hash> launches_;
    std::map<Copied, Transfers> copies_;
    std::map<std::int32_t, Transfers> sets_;
    tsl::robin_map<std::uint64_t, Node> nodes_;
};

}  // namespace gpusnoop::probes
