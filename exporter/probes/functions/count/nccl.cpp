#include "exporter/probes/functions/count/nccl.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <utility>

namespace gpusnoop::probes {

namespace {

using Kind = NcclFunction::Kind;

// Over this limit of a process's communicators, the ranks of further ones are unknown.
constexpr std::size_t max_communicators = 4'096;

// ncclUniqueId, 128 bytes by value, takes no register on x86_64; on arm64 its address takes one.
#if defined(__x86_64__)
constexpr std::uint8_t rank_after_id = 3;
#else
constexpr std::uint8_t rank_after_id = 4;
#endif

constexpr NcclFunction reduces(std::uint8_t communicator) {
    return {.count = 3, .datatype = 4, .op = 5, .communicator = communicator};
}

constexpr NcclFunction moves(std::uint8_t count, std::uint8_t communicator) {
    return {.count = count,
            .datatype = static_cast<std::uint8_t>(count + 1),
            .communicator = communicator};
}

constexpr NcclFunction makes(std::uint8_t rank) {
    return {.kind = Kind::new_communicator, .communicator = 1, .nranks = 2, .rank = rank};
}

constexpr NcclFunction ends = {.kind = Kind::end_of_communicator, .communicator = 1};

constexpr std::pair<std::string_view, NcclFunction> functions[] = {
    {"ncclAllReduce", reduces(6)},
    {"ncclReduceScatter", reduces(6)},
    {"ncclReduce", reduces(7)},
    {"ncclBroadcast", moves(3, 6)},
    {"ncclAllGather", moves(3, 5)},
    {"ncclAlltoAll", moves(3, 5)},
    {"ncclGather", moves(3, 6)},
    {"ncclScatter", moves(3, 6)},
    {"ncclSend", moves(2, 5)},
    {"ncclRecv", moves(2, 5)},
    {"ncclCommInitRank", makes(rank_after_id)},
    {"ncclCommInitRankConfig", makes(rank_after_id)},
    {"ncclCommInitRankScalable", makes(3)},
    {"ncclCommDestroy", ends},
    {"ncclCommAbort", ends},
};

// ncclDataType_t, by number.
struct Datatype {
    std::string_view name;
    std::uint64_t bytes;
};
constexpr Datatype datatypes[] = {{"int8", 1},     {"uint8", 1},      {"int32", 4},
                                  {"uint32", 4},   {"int64", 8},      {"uint64", 8},
                                  {"float16", 2},  {"float32", 4},    {"float64", 8},
                                  {"bfloat16", 2}, {"float8e4m3", 1}, {"float8e5m2", 1}};

// ncclRedOp_t, by number; higher numbers are defined by programs.
constexpr std::string_view ops[] = {"sum", "prod", "max", "min", "avg"};

std::uint64_t argument(const func_arguments_record &arguments, std::uint8_t position) {
    return position == 0 ? 0 : arguments.argument[position - 1];
}

// An int or enum: the rest of the register is undefined.
std::uint32_t number(const func_arguments_record &arguments, std::uint8_t position) {
    return static_cast<std::uint32_t>(argument(arguments, position));
}

}  // namespace

std::optional<NcclFunction> nccl_function(std::string_view symbol) {
    if (symbol.starts_with("pnccl")) {
        symbol.remove_prefix(1);
    }
    const auto *const found =
        std::ranges::find(functions, symbol, &std::pair<std::string_view, NcclFunction>::first);
    return found == std::end(functions) ? std::nullopt : std::optional(found->second);
}

void NcclCommunicators::make(const NcclFunction &function, const func_arguments_record &call) {
    if (call.has_pointed == 0) {
        return;
    }
    const Member member{.number = ++made_,
                        .rank = number(call, function.rank),
                        .nranks = number(call, function.nranks),
                        .made_ns = call.call.head.ended_ns};
    members_.erase(call.pointed);  // another one may have had the handle before
    if (member.rank < member.nranks && members_.size() < max_communicators) {
        members_.emplace(call.pointed, member);
    }
}

// Another thread may have got the handle before this call returned.
void NcclCommunicators::end(const NcclFunction &function, const func_arguments_record &call) {
    const auto member = members_.find(argument(call, function.communicator));
    const func_call_record &of = call.call;
    if (member != members_.end() && member->second.made_ns + of.duration_ns < of.head.ended_ns) {
        members_.erase(member);
    }
}

std::optional<NcclPlace> NcclCommunicators::place(const NcclFunction &function,
                                                  std::span<const __u64> argument) const {
    if (function.kind != Kind::communication || function.communicator == 0 ||
        function.communicator > argument.size()) {
        return std::nullopt;
    }
    const auto member = members_.find(argument[function.communicator - 1U]);
    if (member == members_.end()) {
        return std::nullopt;
    }
    const Member &of = member->second;
    return NcclPlace{.communicator = of.number,
                     .rank = of.rank,
                     .nranks = of.nranks,
                     .sequence = of.operations + 1};
}

std::optional<NcclCount> NcclCommunicators::take(const NcclFunction &function,
                                                 const func_arguments_record &call) {
    if (function.kind == Kind::new_communicator) {
        make(function, call);
        return std::nullopt;
    }
    if (function.kind == Kind::end_of_communicator) {
        end(function, call);
        return std::nullopt;
    }
    NcclCount count{
        .operation = {.datatype = "unknown", .op = "", .rank = "unknown", .nranks = "unknown"},
        .bytes = std::nullopt};
    const auto member = members_.find(argument(call, function.communicator));
    if (member != members_.end()) {
        member->second.operations++;
        count.operation.rank = std::to_string(member->second.rank);
        count.operation.nranks = std::to_string(member->second.nranks);
    }
    if (function.op != 0) {
        const std::uint32_t op = number(call, function.op);
        count.operation.op = op < std::size(ops) ? ops[op] : "custom";
    }
    if (const std::uint32_t type = number(call, function.datatype); type < std::size(datatypes)) {
        const std::uint64_t elements = argument(call, function.count);
        count.operation.datatype = datatypes[type].name;
        // The limit that a counter of the page shows exactly: a larger count is garbage.
        constexpr std::uint64_t most = std::uint64_t{1} << 53;
        if (elements <= most / datatypes[type].bytes) {
            count.bytes = elements * datatypes[type].bytes;
        }
    }
    return count;
}

}  // namespace gpusnoop::probes
