// Decodes the arguments of NCCL's functions, by NVIDIA's nccl.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "bpf/functions.h"
#include "exporter/probes/frame/open_calls.h"

namespace gpusnoop::probes {

// The positions of a function's arguments, from 1 on; 0: it has no such argument.
struct NcclFunction {
    enum class Kind : std::uint8_t { communication, new_communicator, end_of_communicator };
    Kind kind = Kind::communication;
    std::uint8_t count = 0;  // of elements
    std::uint8_t datatype = 0;
    std::uint8_t op = 0;
    std::uint8_t communicator = 0;
    std::uint8_t nranks = 0;
    std::uint8_t rank = 0;
    bool operator==(const NcclFunction &) const = default;
};

// By its symbol, or by the symbol for profilers (pncclAllReduce). Nothing for functions that do not
// communicate, and for ncclBcast, which calls ncclBroadcast.
[[nodiscard]] std::optional<NcclFunction> nccl_function(std::string_view symbol);

// Values of labels.
struct NcclOperation {
    std::string datatype;  // "float32"; "unknown"
    std::string op;        // "sum"; "custom"; empty: the function reduces nothing
    std::string rank;      // "unknown" if its creation was not seen, or was a split
    std::string nranks;
    auto operator<=>(const NcclOperation &) const = default;
};

struct NcclCount {
    NcclOperation operation;
    // The number of elements times their size, from the call's arguments. Nothing for an unknown
    // type.
    std::optional<std::uint64_t> bytes;
};

// The communicators of one process.
class NcclCommunicators {
public:
    // Reads a successful call. Nothing if it does not communicate.
    std::optional<NcclCount> take(const NcclFunction &function, const func_arguments_record &call);

    // The place of a call in flight; nothing if it does not communicate, or if the creation of its
    // communicator was not seen. `argument` are as in func_arguments_record.
    [[nodiscard]] std::optional<NcclPlace> place(const NcclFunction &function,
                                                 std::span<const __u64> argument) const;

private:
    struct Member {
        std::uint64_t number = 0;  // of the process's communicators
        std::uint32_t rank = 0;
        std::uint32_t nranks = 0;
        std::uint64_t made_ns = 0;
        std::uint64_t operations = 0;  // that have returned
    };
    void make(const NcclFunction &function, const func_arguments_record &call);
    void end(const NcclFunction &function, const func_arguments_record &call);

    std::unordered_map<std::uint64_t, Member> members_;  // by handle
    std::uint64_t made_ = 0;
};

}  // namespace gpusnoop::probes
