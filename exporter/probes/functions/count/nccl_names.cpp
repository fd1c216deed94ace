#include "exporter/probes/functions/count/nccl_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <vector>

namespace gpusnoop::probes {

namespace {

// The oldest splits are forgotten over this limit. Their ranks are known by then.
constexpr std::size_t max_splits = 1'024;
// As many ranks as no node has.
constexpr std::uint32_t max_ranks = 4'096;
constexpr std::int32_t no_color = -1;

}  // namespace

std::string shown(NcclHash hash) {
    return hash == 0 ? "unknown" : fmt::format("{:08x}", hash >> 32);
}

std::string shown(const std::optional<std::uint32_t> &value) {
    return value ? std::to_string(*value) : "unknown";
}

NcclHash nccl_hash(std::string_view bytes) {
    NcclHash hash = 0xcbf29ce484222325;
    for (const char byte : bytes) {
        hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
    }
    return hash;
}

NcclHash split_hash(NcclHash parent, std::uint32_t number, std::int32_t color) {
    return parent == 0 ? 0 : nccl_hash(fmt::format("split {:016x} {} {}", parent, number, color));
}

NcclHash shrink_hash(NcclHash parent, std::uint32_t number,
                     std::span<const std::int32_t> excluded) {
    std::vector<std::int32_t> sorted(excluded.begin(), excluded.end());
    std::ranges::sort(sorted);
    std::string text = fmt::format("shrink {:016x} {}", parent, number);
    for (const std::int32_t rank : sorted) {
        text += fmt::format(" {}", rank);
    }
    return parent == 0 ? 0 : nccl_hash(text);
}

void NcclSplits::begin(Split split, NcclRank parent, std::int32_t color, std::int32_t key) {
    if (split.parent == 0 || parent.rank >= parent.nranks || parent.nranks > max_ranks) {
        return;
    }
    const auto [found, is_new] = splits_.try_emplace(split);
    if (is_new) {
        found->second.at = ++begun_;
        order_.emplace(begun_, split);
        if (order_.size() > max_splits) {
            splits_.erase(order_.begin()->second);
            order_.erase(order_.begin());
        }
    }
    found->second.nranks = parent.nranks;
    found->second.by_rank.insert_or_assign(parent.rank, std::pair(color, key));
}

std::optional<NcclRank> NcclSplits::rank(Split split, std::uint32_t parent_rank) const {
    const auto found = splits_.find(split);
    if (found == splits_.end() || found->second.by_rank.size() != found->second.nranks) {
        return std::nullopt;
    }
    const auto &by_rank = found->second.by_rank;
    const auto own = by_rank.find(parent_rank);
    if (own == by_rank.end() || own->second.first == no_color) {
        return std::nullopt;
    }
    NcclRank place;
    for (const auto &[rank, asked] : by_rank) {
        const auto &[color, key] = asked;
        if (color == own->second.first) {
            place.nranks++;
            place.rank +=
                std::tuple(key, rank) < std::tuple(own->second.second, parent_rank) ? 1 : 0;
        }
    }
    return place;
}

}  // namespace gpusnoop::probes
