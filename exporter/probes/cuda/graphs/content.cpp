#include "exporter/probes/cuda/graphs/content.h"

#include <algorithm>

namespace gpusnoop::probes {

namespace {

// The most entries that a work or a node can add.
std::size_t entries_of(const GraphWork &work) {
    return work.child ? work.child->launches().size() + work.child->copies().size() +
                            work.child->sets().size() + 1
                      : 2;
}

template <typename Map, typename Key>
void add_transfers(Map &map, const Key &key, const GraphContent::Transfers &more, bool is_minus) {
    GraphContent::Transfers &sum = map[key];
    sum.calls = is_minus ? sum.calls - more.calls : sum.calls + more.calls;
    sum.bytes = is_minus ? sum.bytes - more.bytes : sum.bytes + more.bytes;
    if (sum.calls == 0) {
        map.erase(key);
    }
}

}  // namespace

GraphContent::GraphContent(const GraphContent &other) : budget_(other.budget_) {
    budget_->note_contents(1);
    if (!other.is_known_ || !budget_->has_room_for(other.size())) {
        is_known_ = false;
        hides_disabled_ = other.has_disabled();
        return;
    }
    has_unnamed_ = other.has_unnamed_;
    launches_ = other.launches_;
    copies_ = other.copies_;
    sets_ = other.sets_;
    nodes_ = other.nodes_;
    swaps_nodes_ = other.swaps_nodes_;
    budget_->take(size());
}

std::shared_ptr<GraphContent> GraphContent::clone() const {
    auto copy = std::make_shared<GraphContent>(*budget_);
    copy->add(*this);
    return copy;
}

void GraphContent::forget() {
    hides_disabled_ = has_disabled();
    budget_->give_back(size());
    is_known_ = false;
    launches_ = {};
    copies_ = {};
    sets_ = {};
    nodes_ = {};
}

// Nothing is known of more than the budget has room for.
template <typename Change>
void GraphContent::change(std::size_t entries, Change how) {
    if (!is_known_) {
        return;
    }
    if (!budget_->has_room_for(entries)) {
        return forget();
    }
    const std::size_t before = size();
    how();
    budget_->take(size() - before);  // a negative difference wraps around, and back
}

void GraphContent::count(const GraphWork &work, Sign sign) {
    const bool is_minus = sign == Sign::minus;
    switch (work.does) {
        case CUDA_NODE_LAUNCH: {
            std::uint64_t &sum = launches_[work.launch];
            sum = is_minus ? sum - 1 : sum + 1;
            if (sum == 0) {
                launches_.erase(work.launch);
            }
            break;
        }
        case CUDA_NODE_COPY:
            add_transfers(copies_, Copied{work.launch.device, work.copy_kind}, {1, work.bytes},
                          is_minus);
            break;
        case CUDA_NODE_SET:
            add_transfers(sets_, work.launch.device, {1, work.bytes}, is_minus);
            break;
        case CUDA_NODE_GRAPH:
            if (work.child) {
                count(*work.child, sign);
            }
            break;
        case CUDA_NODE_ALLOCATE:
        case CUDA_NODE_FREE:
        case CUDA_NODE_NOTHING:
        case CUDA_NODE_UNKNOWN:
            break;
    }
}

void GraphContent::count(const GraphContent &other, Sign sign) {
    const bool is_minus = sign == Sign::minus;
    for (const auto &[shape, launches] : other.launches_) {
        std::uint64_t &sum = launches_[shape];
        sum = is_minus ? sum - launches : sum + launches;
        if (sum == 0) {
            launches_.erase(shape);
        }
    }
    for (const auto &[copied, transfers] : other.copies_) {
        add_transfers(copies_, copied, transfers, is_minus);
    }
    for (const auto &[device, transfers] : other.sets_) {
        add_transfers(sets_, device, transfers, is_minus);
    }
}

// A graph of which nothing is known, and work that only the GPU decides on, make it unknown.
void GraphContent::add(const GraphWork &work) {
    if (work.does == CUDA_NODE_UNKNOWN ||
        (work.does == CUDA_NODE_GRAPH && (!work.child || !work.child->is_known()))) {
        return forget();
    }
    change(entries_of(work), [&] { count(work, Sign::plus); });
    has_unnamed_ = true;
}

void GraphContent::add(const GraphContent &other) {
    if (!other.is_known_) {
        return forget();
    }
    change(other.size(), [&] { count(other, Sign::plus); });
    has_unnamed_ = true;
}

void GraphContent::add_node(std::uint64_t node, GraphWork work) {
    drop_node(node);
    put_node(node, {std::move(work), true, added_++});
}

void GraphContent::put_node(std::uint64_t handle, Node node) {
    const bool had_unnamed = has_unnamed_;
    if (node.is_enabled) {
        add(node.work);
    }
    has_unnamed_ = had_unnamed;
    hides_disabled_ = hides_disabled_ || (!is_known_ && !node.is_enabled);
    change(1, [&] { nodes_.insert_or_assign(handle, std::move(node)); });
}

void GraphContent::remove_node(std::uint64_t node) {
    if (swaps_nodes_ && has_node(node)) {
        return forget();
    }
    drop_node(node);
}

void GraphContent::drop_node(std::uint64_t node) {
    change(0, [&] {
        const auto found = nodes_.find(node);
        if (found == nodes_.end()) {
            return;
        }
        if (found->second.is_enabled) {
            count(found->second.work, Sign::minus);
        }
        nodes_.erase(found);
    });
}

void GraphContent::set_node(std::uint64_t node, GraphWork work) {
    if (swaps_nodes_ && has_node(node)) {
        return forget();
    }
    replace_node(node, std::move(work));
}

void GraphContent::replace_node(std::uint64_t node, GraphWork work) {
    const auto found = nodes_.find(node);
    if (found != nodes_.end()) {
        Node changed = found->second;
        changed.work = std::move(work);
        drop_node(node);
        put_node(node, std::move(changed));
    }
}

void GraphContent::enable_node(std::uint64_t node, bool is_enabled) {
    const auto found = nodes_.find(node);
    if (found == nodes_.end() || found->second.is_enabled == is_enabled) {
        return;
    }
    if (swaps_nodes_) {
        return enable_unnamed(is_enabled);
    }
    const GraphWork work = found->second.work;
    found.value().is_enabled = is_enabled;
    change(entries_of(work), [&] { count(work, is_enabled ? Sign::plus : Sign::minus); });
}

void GraphContent::enable_unnamed(bool is_enabled) {
    forget();
    hides_disabled_ = hides_disabled_ || !is_enabled;
}

std::vector<GraphContent::NodePtr> GraphContent::in_order() const {
    std::vector<NodePtr> nodes;
    for (const auto &[handle, node] : nodes_) {
        nodes.emplace_back(handle, &node);
    }
    std::ranges::sort(nodes, {}, [](const NodePtr &node) { return node.second->order; });
    return nodes;
}

bool GraphContent::has_disabled() const {
    return hides_disabled_ ||
           std::ranges::any_of(nodes_, [](const auto &node) { return !node.second.is_enabled; });
}

// CUDA pairs nodes by their edges, which are not known here. Nodes of the same graph pair with
// themselves. Those of other graphs are paired in the order in which they were added, unless it
// then depends on the order what a disabled node does.
bool GraphContent::pairs_with(const GraphContent &other) const {
    const auto handle = [](const NodePtr &node) { return node.first; };
    const auto does = [](const NodePtr &node) { return node.second->work.does; };
    if (!is_known_ || !other.is_known_ || has_unnamed_ || other.has_unnamed_) {
        return false;
    }
    const std::vector<NodePtr> own = in_order();
    const std::vector<NodePtr> others = other.in_order();
    if (!std::ranges::equal(own, others, {}, does, does)) {
        return false;
    }
    std::map<cuda_node, bool> enabled;
    return std::ranges::equal(own, others, {}, handle, handle) ||
           std::ranges::all_of(own, [&](const NodePtr &node) {
               const bool is_enabled = node.second->is_enabled;
               return enabled.try_emplace(does(node), is_enabled).first->second == is_enabled;
           });
}

void GraphContent::update(const GraphContent &other) {
    if (pairs_with(other)) {
        const std::vector<NodePtr> own = in_order();
        const std::vector<NodePtr> others = other.in_order();
        std::vector<std::pair<std::uint64_t, GraphWork>> works;
        std::map<cuda_node, GraphWork> first_of_type;
        bool is_same_graph = true;
        bool has_different_works = false;
        for (std::size_t i = 0; i < own.size(); i++) {
            const GraphWork &work = others[i].second->work;
            works.emplace_back(own[i].first, work);
            is_same_graph = is_same_graph && own[i].first == others[i].first;
            has_different_works = has_different_works ||
                                  first_of_type.try_emplace(work.does, work).first->second != work;
        }
        for (auto &[node, work] : works) {
            replace_node(node, std::move(work));
        }
        swaps_nodes_ = !is_same_graph && has_different_works;
        return;
    }
    swaps_nodes_ = false;
    forget();
    if (!hides_disabled_ && other.is_known_) {
        is_known_ = true;
        add(other);
    }
}

}  // namespace gpusnoop::probes
