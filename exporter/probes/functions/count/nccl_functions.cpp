#include "exporter/probes/functions/count/nccl_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <vector>

#include "bpf/functions/functions.h"

namespace gpusnoop::probes {

namespace {

using Kind = NcclFunction::Kind;

// ncclUniqueId, 128 bytes by value, takes no register on x86_64; on arm64 its address takes one.
#if defined(__x86_64__)
constexpr std::uint8_t rank_after_id = 3;
#else
constexpr std::uint8_t rank_after_id = 4;
#endif

constexpr NcclFunction reduces(std::uint8_t communicator) {
    return {.count = 3, .datatype = 4, .op = 5, .communicator = communicator};
}

constexpr NcclFunction moves(std::uint8_t count, std::uint8_t communicator,
                             Kind kind = Kind::collective) {
    return {.kind = kind,
            .count = count,
            .datatype = static_cast<std::uint8_t>(count + 1),
            .communicator = communicator};
}

constexpr NcclFunction makes(std::uint8_t rank, bool id_by_value) {
    return {.kind = Kind::init_rank, .nranks = 2, .rank = rank, .id_by_value = id_by_value};
}

constexpr NcclFunction with(Kind kind, std::uint8_t pointer) {
    return {.kind = kind, .communicator = 1, .pointer = pointer};
}

constexpr std::pair<std::string_view, NcclFunction> functions[] = {
    {"ncclAllReduce", reduces(6)},
    {"ncclReduceScatter", reduces(6)},
    {"ncclReduce", reduces(7)},
    {"ncclBroadcast", moves(3, 6)},
    {"ncclAllGather", moves(3, 5)},
    {"ncclAlltoAll", moves(3, 5)},
    {"ncclGather", moves(3, 6)},
    {"ncclScatter", moves(3, 6)},
    {"ncclSend", moves(2, 5, Kind::point_to_point)},
    {"ncclRecv", moves(2, 5, Kind::point_to_point)},
    {"ncclCommInitRank", makes(rank_after_id, true)},
    {"ncclCommInitRankConfig", makes(rank_after_id, true)},
    {"ncclCommInitRankScalable", makes(3, false)},
    {"ncclCommInitAll", {.kind = Kind::init_all, .nranks = 2}},
    {"ncclCommSplit", with(Kind::split, 4)},
    {"ncclCommShrink", with(Kind::shrink, 4)},
    {"ncclCommUserRank", with(Kind::user_rank, 2)},
    {"ncclCommCount", with(Kind::ranks, 2)},
    {"ncclCommDestroy", with(Kind::end, 1)},
    {"ncclCommAbort", with(Kind::end, 1)},
};

constexpr NcclDatatype datatypes[] = {{"int8", 1},     {"uint8", 1},      {"int32", 4},
                                      {"uint32", 4},   {"int64", 8},      {"uint64", 8},
                                      {"float16", 2},  {"float32", 4},    {"float64", 8},
                                      {"bfloat16", 2}, {"float8e4m3", 1}, {"float8e5m2", 1}};

constexpr std::string_view ops[] = {"sum", "prod", "max", "min", "avg"};

}  // namespace

std::optional<NcclFunction> nccl_function(std::string_view symbol) {
    if (symbol.starts_with("pnccl")) {
        symbol.remove_prefix(1);
    }
    const auto *const found =
        std::ranges::find(functions, symbol, &std::pair<std::string_view, NcclFunction>::first);
    return found == std::end(functions) ? std::nullopt : std::optional(found->second);
}

std::uint64_t cookie_flags(const NcclFunction &function) {
    switch (function.kind) {
        case Kind::init_rank:
            return function.id_by_value ? FUNC_ID_BY_VALUE : FUNC_ID_POINTED;
        case Kind::split:
            return FUNC_SPLITS;
        default:
            return function.communicator == 7 ? FUNC_SEVENTH : 0;
    }
}

std::uint32_t option_flags(const NcclFunction &function) {
    switch (function.kind) {
        case Kind::init_rank:
        case Kind::split:
            return FUNC_SENDS_ARGUMENTS | FUNC_WRITES_LATER;
        case Kind::init_all:
            return FUNC_SENDS_ARGUMENTS | FUNC_SENDS_WORDS;
        case Kind::shrink:
            return FUNC_SENDS_ARGUMENTS | FUNC_SENDS_INTS | FUNC_WRITES_LATER;
        default:
            return FUNC_SENDS_ARGUMENTS;
    }
}

const NcclDatatype *nccl_datatype(std::uint32_t number) {
    return number < std::size(datatypes) ? &datatypes[number] : nullptr;
}

std::string_view nccl_op(std::uint32_t number) {
    return number < std::size(ops) ? ops[number] : "custom";
}

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
