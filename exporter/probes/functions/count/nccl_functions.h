// NCCL's functions and their arguments, by NVIDIA's nccl.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gpusnoop::probes {

// The positions of a function's arguments, from 1 on; 0: it has no such argument.
struct NcclFunction {
    enum class Kind : std::uint8_t {
        collective,
        point_to_point,
        // Of communicators.
        init_rank,
        init_all,
        split,
        shrink,
        user_rank,
        ranks,
        end,
    };
    Kind kind = Kind::collective;
    std::uint8_t count = 0;  // of elements
    std::uint8_t datatype = 0;
    std::uint8_t op = 0;
    std::uint8_t communicator = 0;
    std::uint8_t nranks = 0;
    std::uint8_t rank = 0;
    std::uint8_t pointer = 1;  // to what the call writes
    // An ncclUniqueId is passed by value; else init_rank gets a pointer to it.
    bool id_by_value = false;

    [[nodiscard]] bool communicates() const {
        return kind == Kind::collective || kind == Kind::point_to_point;
    }
    bool operator==(const NcclFunction &) const = default;
};

// By its symbol, or by the symbol for profilers (pncclAllReduce). Nothing for functions that are
// not about communicators, and for ncclBcast, which calls ncclBroadcast.
[[nodiscard]] std::optional<NcclFunction> nccl_function(std::string_view symbol);

// The function's part of the attach cookie, and of its options in the kernel
// (bpf/functions/functions.h).
[[nodiscard]] std::uint64_t cookie_flags(const NcclFunction &function);
[[nodiscard]] std::uint32_t option_flags(const NcclFunction &function);

// ncclDataType_t, by number; nothing for an unknown one.
struct NcclDatatype {
    std::string_view name;
    std::uint64_t bytes;
};
[[nodiscard]] const NcclDatatype *nccl_datatype(std::uint32_t number);

// ncclRedOp_t, by number. Higher numbers are defined by programs: "custom".
[[nodiscard]] std::string_view nccl_op(std::uint32_t number);

}  // namespace gpusnoop::probes
