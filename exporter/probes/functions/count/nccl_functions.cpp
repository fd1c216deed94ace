#include "exporter/probes/functions/count/nccl_functions.h"

#include <algorithm>
#include <iterator>
#include <utility>

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

}  // namespace gpusnoop::probes
